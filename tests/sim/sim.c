/* The simulation's program.
 *
 *   sim                                       200 runs without a violation, then each of the faults
 *                                             that must be found in as many
 *   sim --seeds N [--first S] [--packets P]   N runs of P packets each; prints what it did
 *   sim --hunt FAULT --seeds N                the same with a rule switched off: one run must fail
 *   sim --seed S [--until STEP] [--trace]     one run again, to a step
 *   sim --soak                                runs until stopped
 *
 * Each run is a process of its own, two at a time: one that ends in an assertion fails like any
 * other. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "tests/sim/backends.h"
#include "tests/sim/sandbox.h"

#define PARALLEL 2

struct options {
	uint64_t first, seeds, packets, until;
	bool one, trace, soak, all;
	int hunt; /* a fault, or -1 */
};

/* What a run did, in memory that it shares with its parent. */
struct outcome {
	bool used;
	pid_t pid;
	uint64_t seed, packets, steps, checks, held, moved, dropped;
	uint64_t drops[N_DROP_REASONS];
	unsigned reports, ended, spared, agreements, open_agreed, transactions;
	uint64_t by_id, strays;
	uint64_t verdicts, switches, overrides, health_checks, dcode_checks;
	unsigned publishes, kills, reboots, answered, refused;
	char fault[256];
};

static const char *const fault_names[] = {
#define FAULT_NAME(name, text) #name,
	FAULTS(FAULT_NAME)
#undef FAULT_NAME
};

static void run(const struct options *o, uint64_t seed, struct outcome *out)
{
	struct sim *s = sim_new(seed);
	bool good = true;

	if (o->hunt >= 0)
		fault_on[o->hunt] = true;
	s->trace = o->trace;
	while (good && s->n_packets < o->packets && (!o->until || s->step < o->until))
		good = sim_step(s);
	if (good && !o->until)
		sim_end(s);
	if (s->fault[0] && o->one) {
		sim_print_events(s);
		sim_explain(s);
		printf("seed %lu step %lu: %s\n", (unsigned long)seed, (unsigned long)s->step,
		       s->fault);
	}
	*out = (struct outcome){.used = true,
				.pid = out->pid,
				.seed = seed,
				.packets = s->n_packets,
				.steps = s->step,
				.checks = s->model->n_checks,
				.held = s->model->n_held,
				.moved = s->model->n_moved,
				.dropped = s->n_dropped,
				.publishes = s->n_publishes,
				.kills = s->n_kills,
				.reboots = s->n_reboots,
				.answered = s->n_answered,
				.refused = s->n_refused};
	memcpy(out->fault, s->fault, sizeof(out->fault));
	out->reports = s->backends->n_all_reports;
	out->ended = s->backends->n_ended;
	out->agreements = s->n_agreements;
	out->open_agreed = s->n_open_agreed;
	out->transactions = (unsigned)s->n_transactions;
	out->spared = s->backends->n_spared;
	out->by_id = s->n_by_id;
	out->strays = s->n_strays;
	out->verdicts = s->n_verdicts;
	out->switches = s->n_switches;
	out->overrides = s->n_overrides;
	out->health_checks = s->n_health_checks;
	out->dcode_checks = s->n_dcode_checks;
	memcpy(out->drops, s->n_drops, sizeof(out->drops));
	sim_free(s);
}

static void start(const struct options *o, uint64_t seed, struct outcome *out)
{
	fflush(stdout);
	*out = (struct outcome){.used = true, .seed = seed};
	pid_t pid = fork();
	if (pid == 0) {
		if (o->hunt >= 0 && !freopen("/dev/null", "w", stderr))
			_exit(2); /* what it says while a rule is broken is of no interest */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sandbox_enter();
		run(o, seed, out);
		_exit(out->fault[0] ? 1 : 0);
	}
	out->pid = pid;
}

/* Wait for any run; NULL when there is none. */
static struct outcome *reap(struct outcome *outs)
{
	int status;
	pid_t pid = wait(&status);

	for (unsigned i = 0; pid > 0 && i < PARALLEL; i++) {
		struct outcome *o = &outs[i];
		if (!o->used || o->pid != pid)
			continue;
		if (!WIFEXITED(status))
			snprintf(o->fault, sizeof(o->fault), "ended by signal %d",
				 WTERMSIG(status));
		return o;
	}
	return NULL;
}

static void add(struct outcome *sum, const struct outcome *o)
{
	sum->packets += o->packets;
	sum->steps += o->steps;
	sum->checks += o->checks;
	sum->held += o->held;
	sum->moved += o->moved;
	sum->dropped += o->dropped;
	sum->reports += o->reports;
	sum->ended += o->ended;
	sum->agreements += o->agreements;
	sum->open_agreed += o->open_agreed;
	sum->transactions += o->transactions;
	sum->spared += o->spared;
	sum->by_id += o->by_id;
	sum->strays += o->strays;
	sum->verdicts += o->verdicts;
	sum->switches += o->switches;
	sum->overrides += o->overrides;
	sum->health_checks += o->health_checks;
	sum->dcode_checks += o->dcode_checks;
	for (int i = 0; i < N_DROP_REASONS; i++)
		sum->drops[i] += o->drops[i];
	sum->publishes += o->publishes;
	sum->kills += o->kills;
	sum->reboots += o->reboots;
	sum->answered += o->answered;
	sum->refused += o->refused;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void print_sum(const struct outcome *s, uint64_t n, double seconds)
{
	printf("%lu runs, %lu packets, %lu steps in %.1f s: %lu publishes, %lu changes answered "
	       "(%lu refused), %lu kills, %lu reboots\n"
	       "  packets to the same DIP %lu, to another with reason %lu, dropped %lu; flows "
	       "checked at publishes %lu\n",
	       (unsigned long)n, (unsigned long)s->packets, (unsigned long)s->steps, seconds,
	       (unsigned long)s->publishes, (unsigned long)s->answered, (unsigned long)s->refused,
	       (unsigned long)s->kills, (unsigned long)s->reboots, (unsigned long)s->held,
	       (unsigned long)s->moved, (unsigned long)s->dropped, (unsigned long)s->checks);
	printf("  %u reports of agents applied: %u ends, %u of connections that were not to end; "
	       "agents that agreed with control in the end %u, about %u open connections\n",
	       s->reports, s->ended, s->spared, s->agreements, s->open_agreed);
	printf("  %u transactions and dry runs; %lu packets by QUIC connection ID, of %lu of them "
	       "the "
	       "flow elsewhere\n",
	       s->transactions, (unsigned long)s->by_id, (unsigned long)s->strays);
	printf("  %lu changes of verdicts, checks turned on or off %lu times, %lu overrides; VIPs "
	       "whose DIPs were all as they must be %lu, with the Dcodes of a time before %lu\n",
	       (unsigned long)s->verdicts, (unsigned long)s->switches, (unsigned long)s->overrides,
	       (unsigned long)s->health_checks, (unsigned long)s->dcode_checks);
	printf("  drops, each foreseen:");
	for (int i = 0; i < N_DROP_REASONS; i++)
		printf(" %s %lu", drop_reason_name[i], (unsigned long)s->drops[i]);
	printf("\n");
}

/* Runs until all are done, or one has failed. True if one failed. */
static bool run_all(const struct options *o)
{
	struct outcome *outs = mmap(NULL, PARALLEL * sizeof(*outs), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct outcome sum = {0};
	uint64_t next = o->first, n = 0;
	double begin = now_s();
	bool failed = false;

	if (outs == MAP_FAILED)
		return true;
	for (unsigned i = 0; i < PARALLEL && i < o->seeds; i++)
		start(o, next++, &outs[i]);
	for (struct outcome *out; (out = reap(outs)) != NULL;) {
		n++;
		add(&sum, out);
		if (out->fault[0] && o->hunt >= 0 && !failed)
			printf("found with seed %lu: %s\n", (unsigned long)out->seed, out->fault);
		else if (out->fault[0] && o->hunt < 0)
			printf("seed %lu: %s\n  sim --seed %lu shows it again\n",
			       (unsigned long)out->seed, out->fault, (unsigned long)out->seed);
		failed |= out->fault[0] != 0;
		out->used = false;
		if (!failed && (o->soak || next < o->first + o->seeds))
			start(o, next++, out);
		if (o->soak && n % 200 == 0)
			print_sum(&sum, n, now_s() - begin);
	}
	print_sum(&sum, n, now_s() - begin);
	munmap(outs, PARALLEL * sizeof(*outs));
	return failed;
}

static int fault_by_name(const char *name)
{
	for (int i = 0; i < N_FAULTS; i++)
		if (strcmp(fault_names[i], name) == 0)
			return i;
	fprintf(stderr, "no fault is called %s\n", name);
	exit(2);
}

static struct options read_options(int argc, char **argv)
{
	static const struct option known[] = {{"seeds", required_argument, NULL, 'n'},
					      {"first", required_argument, NULL, 'f'},
					      {"packets", required_argument, NULL, 'p'},
					      {"seed", required_argument, NULL, 's'},
					      {"until", required_argument, NULL, 'u'},
					      {"hunt", required_argument, NULL, 'h'},
					      {"trace", no_argument, NULL, 't'},
					      {"soak", no_argument, NULL, 'k'},
					      {NULL, 0, NULL, 0}};
	struct options o = {
		.first = 1, .seeds = 200, .packets = 10500, .hunt = -1, .all = argc == 1};

	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 0) : 0;
		switch (c) {
		case 'n':
			o.seeds = value;
			break;
		case 'f':
			o.first = value;
			break;
		case 'p':
			o.packets = value;
			break;
		case 's':
			o.first = value;
			o.one = true;
			break;
		case 'u':
			o.until = value;
			break;
		case 'h':
			o.hunt = fault_by_name(optarg);
			break;
		case 't':
			o.trace = true;
			break;
		case 'k':
			o.soak = true;
			o.first = (uint64_t)time(NULL);
			break;
		default:
			exit(2);
		}
	}
	return o;
}

static bool run_and_say(const struct options *o)
{
	bool failed = run_all(o);
	bool good = failed == (o->hunt >= 0);

	if (o->hunt >= 0)
		printf("%s - the simulation finds %s\n", good ? "ok" : "not ok",
		       fault_names[o->hunt]);
	else
		printf("%s - no flow moves without a reason\n", good ? "ok" : "not ok");
	return good;
}

int main(int argc, char **argv)
{
	static const enum fault hunts[] = {
		FAULT_skip_ring_drain, FAULT_swap_unparked,	    FAULT_skip_accident_check,
		FAULT_lose_late_flows, FAULT_persist_after_publish, FAULT_heed_below_min_up,
		FAULT_forget_verdicts, FAULT_learn_by_id,	    FAULT_drain_without_ids};
	struct options o = read_options(argc, argv);

	log_set_level(LOG_ERROR);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (o.one) {
		sandbox_enter();
		struct outcome out = {.used = false};
		run(&o, o.first, &out);
		print_sum(&out, 1, 0);
		return out.fault[0] ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	bool good = run_and_say(&o);
	for (unsigned i = 0; o.all && i < sizeof(hunts) / sizeof(hunts[0]); i++) {
		o.hunt = (int)hunts[i];
		good &= run_and_say(&o);
	}
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
