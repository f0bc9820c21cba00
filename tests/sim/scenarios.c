/* Every sequence that broke an earlier wording of the promise, by name: it holds, and with its rule
 * switched off it does not. Each is a process of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/sim/sandbox.h"
#include "tests/sim/scene.h"
#include "tests/unit/prng.h"

static const char *const fault_texts[] = {
#define FAULT_TEXT(name, text) text,
	FAULTS(FAULT_TEXT)
#undef FAULT_TEXT
};

static const struct scenario {
	unsigned number;
	const char *name;
	void (*run)(void);
	enum fault fault;
} scenarios[] = {
#define SCENARIO_ENTRY(number, name, fault) {number, #name, scenario_##name, FAULT_##fault},
	SCENARIOS(SCENARIO_ENTRY)
#undef SCENARIO_ENTRY
};

static struct prng entropy;

static void fill(void *buf, size_t n)
{
	for (uint8_t *p = buf; n > 0; n--)
		*p++ = (uint8_t)prng_u64(&entropy);
}

void fault_note_forgotten(const void *flow_slot)
{
	(void)flow_slot;
}

/* True if it holds. */
static bool play(const struct scenario *s, bool broken)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		const char *seed = getenv("TEST_SEED"); /* another one than always */
		entropy.state = seed ? strtoull(seed, NULL, 0) : 1;
		entropy_set_source(fill);
		sandbox_enter();
		fault_on[s->fault] = broken;
		s->run();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (!WIFEXITED(status))
		printf("  ended by signal %d\n", WTERMSIG(status));
	/* With the rule broken it must fail by what is seen, not by an assertion. */
	return WIFEXITED(status) ? WEXITSTATUS(status) == 0 : broken;
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	bool good = true;

	log_set_level(LOG_ERROR);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
		const struct scenario *s = &scenarios[i];
		if (only && strcmp(only, s->name) != 0)
			continue;
		bool holds = play(s, false);
		bool found = !play(s, true);
		printf("%s - scenario %u, %s\n", holds ? "ok" : "not ok", s->number, s->name);
		printf("%s - scenario %u fails without its rule (%s)\n", found ? "ok" : "not ok",
		       s->number, fault_texts[s->fault]);
		good &= holds && found;
	}
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
