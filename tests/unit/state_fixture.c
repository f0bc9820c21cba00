#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/state_fixture.h"

char state_dir[64];
static char base[] = "/dev/shm/concury-state-XXXXXX";

static const uint32_t ring_sizes[N_LEARN_RINGS] = {STATE_OPENING_RECORDS, STATE_DATAGRAM_RECORDS,
						   STATE_REFRESH_RECORDS};

struct state_file_config state_config(uint64_t n_flows, unsigned n_workers)
{
	return (struct state_file_config){.dir = state_dir,
					  .n_flows = n_flows,
					  .n_workers = n_workers,
					  .database_id = {1, 2, 3}};
}

struct state_file *state_open_with(const struct state_file_config *c)
{
	struct state_file *f = NULL;
	struct error err = {""};
	int rc = state_file_open(c, &f, &err);

	ck_assert_msg(rc == 0, "%d %s", rc, err.message);
	return f;
}

struct state_file *state_open(uint64_t n_flows, unsigned n_workers)
{
	struct state_file_config c = state_config(n_flows, n_workers);

	return state_open_with(&c);
}

void state_check_refused(const struct state_file_config *c, int code, const char *word)
{
	struct state_file *f = NULL;
	struct error err = {""};
	int rc = state_file_open(c, &f, &err);

	ck_assert_msg(rc == code, "%d, not %d (%s)", rc, code, err.message);
	ck_assert_ptr_null(f);
	ck_assert_msg(strstr(err.message, word) != NULL, "%s", err.message);
}

void state_sh(const char *command)
{
	ck_assert_msg(system(command) == 0, "%s", command);
}

void state_wipe(void)
{
	state_sh("rm -rf $D");
}

/* What a byte of the slots or of a ring's records is after fill(). */
static uint8_t pattern(size_t i, unsigned salt)
{
	return (uint8_t)(i * 2654435761u >> 13 ^ salt);
}

void state_fill(struct state_file *f)
{
	uint8_t *slots = (uint8_t *)state_file_slots(f);

	for (size_t i = 0; i < state_file_n_flows(f) * FLOW_SLOT_BYTES; i++)
		slots[i] = pattern(i, 0);
	for (unsigned w = 0; w < state_file_n_workers(f); w++)
		for (unsigned r = 0; r < N_LEARN_RINGS; r++) {
			struct learn_ring *ring = state_file_ring(f, w, (enum learn_ring_id)r);

			for (size_t i = 0; i < 100 * sizeof(ring->records[0]); i++)
				((uint8_t *)ring->records)[i] = pattern(i, w * 3 + r + 1);
			ring->tail = 1000 + w;
			ring->head = 1100 + r;
		}
}

bool state_slots_kept(struct state_file *f, uint64_t n)
{
	const uint8_t *slots = (const uint8_t *)state_file_slots(f);

	for (size_t i = 0; i < n * FLOW_SLOT_BYTES; i++)
		if (slots[i] != pattern(i, 0))
			return false;
	return true;
}

static bool zero(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)p)[i])
			return false;
	return true;
}

bool state_slots_zero(struct state_file *f, uint64_t from)
{
	const uint8_t *slots = (const uint8_t *)state_file_slots(f);

	return zero(slots + from * FLOW_SLOT_BYTES,
		    (state_file_n_flows(f) - from) * FLOW_SLOT_BYTES);
}

bool state_ring_kept(struct state_file *f, unsigned w, unsigned r)
{
	struct learn_ring *ring = state_file_ring(f, w, (enum learn_ring_id)r);

	for (size_t i = 0; i < 100 * sizeof(ring->records[0]); i++)
		if (((uint8_t *)ring->records)[i] != pattern(i, w * 3 + r + 1))
			return false;
	return ring->n == ring_sizes[r] && ring->tail == 1000 + w && ring->head == 1100 + r;
}

bool state_ring_new(struct state_file *f, unsigned w, unsigned r)
{
	struct learn_ring *ring = state_file_ring(f, w, (enum learn_ring_id)r);

	return ring->n == ring_sizes[r] && !ring->head && !ring->tail && !ring->cached_tail &&
	       zero(ring->records, ring->n * sizeof(ring->records[0]));
}

/* All rings of workers [from, to) are kept, or all are new. */
bool state_rings_are(struct state_file *f, unsigned from, unsigned to,
		     bool (*what)(struct state_file *, unsigned, unsigned))
{
	for (unsigned w = from; w < to; w++)
		for (unsigned r = 0; r < N_LEARN_RINGS; r++)
			if (!what(f, w, r))
				return false;
	return true;
}

/* A directory as a process left it that had 2 workers and filled everything. */
void state_leave_filled(void)
{
	struct state_file *f;

	state_wipe();
	f = state_open(STATE_TEST_FLOWS, 2);
	state_fill(f);
	state_file_close(f);
}

int state_run(Suite *suite)
{
	const char *given = getenv("SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
	SRunner *runner = srunner_create(suite);
	int failed;

	printf("seed %u (SEED=%u repeats it)\n", seed, seed);
	srand(seed);
	log_set_level(LOG_ERROR);
	if (!mkdtemp(base))
		return EXIT_FAILURE;
	snprintf(state_dir, sizeof(state_dir), "%s/state", base);
	setenv("D", state_dir, 1);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	if (system("rm -rf $D") != 0 || rmdir(base) != 0)
		failed++;
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
