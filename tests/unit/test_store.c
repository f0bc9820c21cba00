/* The store against a model in memory: what was committed is what is read back, whatever fails in
 * between. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fault_vfs.h"
#include "tests/unit/store_model.h"

START_TEST(test_round_trip)
{
	struct model m = model_new();
	struct change c;
	struct store *s;

	model_remove();
	s = model_open();
	for (int i = 0; i < 150; i++) {
		model_step(&m, &c);
		model_commit_ok(s, &c.txn);
		if (model_random(8))
			continue;
		store_close(s);
		ck_assert_msg(model_is_stored(&m), "seed %u, step %d", model_seed, i);
		s = model_open();
	}
	store_close(s);
	model_free(&m);
}
END_TEST

static void check_generation(struct store *s, uint64_t generation)
{
	struct persist_state state;

	model_load(s, &state);
	ck_assert_uint_eq(state.generation, generation);
	persist_state_free(&state);
}

/* Each I/O call of a commit fails in turn: the commit is undone, now and on the disk, and the next
 * one works. */
START_TEST(test_faults)
{
	static const struct {
		int rc, code;
	} kinds[] = {
		{SQLITE_FULL, -ENOSPC},
		{SQLITE_IOERR_WRITE, -EIO},
		{SQLITE_IOERR_FSYNC, -EIO},
		{SQLITE_READONLY, -EROFS},
	};
	struct model m = model_make_stored();
	int after = (int)model_random(2), n_failed = 0, n_passed = 0;

	while (n_passed < 10) {
		uint64_t generation = m.generation;
		struct error err = {""};
		struct store *s = model_open();
		struct change c;
		size_t kind = model_random(ARRAY_LEN(kinds));
		int rc;

		model_step(&m, &c);
		fault_vfs_arm(after, kinds[kind].rc, model_random(2));
		rc = model_commit(s, &c.txn, &err);
		if (!fault_vfs_disarm()) { /* past its last call */
			ck_assert_int_eq(rc, 1);
			n_passed++;
			after = 0;
		} else if (rc < 0) {
			ck_assert_int_eq(rc, kinds[kind].code);
			ck_assert_msg(strstr(err.message, model_path) != NULL, "%s", err.message);
			n_failed++;
			after += 1 + (int)model_random(3);
			if (model_random(2)) {
				store_close(s);
				s = model_open();
			}
			check_generation(s, generation);
			model_commit_ok(s, &c.txn);
		}
		store_close(s);
		ck_assert_msg(model_is_stored(&m), "seed %u, after %d", model_seed, after);
	}
	ck_assert_int_gt(n_failed, 20);
	model_free(&m);
}
END_TEST

START_TEST(test_rolled_back_whole)
{
	struct model m = model_make_stored();
	struct store *s = model_open();
	struct error err = {""};
	struct persist_state state;
	struct change c = {.txn = {.generation = 99,
				   .next_dip_uid = m.next_dip_uid + 9,
				   .next_vip_uid = m.next_vip_uid + 9}};
	struct persist_vip extra[2];

	/* Two new VIPs with one match: the second cannot be written. */
	struct model other = model_new();
	other.next_vip_uid = m.next_vip_uid;
	model_vip_make(&other, 0);
	model_vip_make(&other, 1);
	for (int i = 0; i < 2; i++) {
		extra[i] = other.vips[i];
		extra[i].slot = (uint16_t)(4000 + i);
		extra[i].conf.match = other.vips[0].conf.match;
		snprintf(extra[i].conf.id, ID_LEN, "extra-%d", i);
		c.put[i] = &extra[i];
	}
	c.txn.put = c.put;
	c.txn.n_put = 2;
	ck_assert_int_eq(model_commit(s, &c.txn, &err), -EIO);
	ck_assert_msg(strstr(err.message, "UNIQUE") != NULL, "%s", err.message);
	store_close(s);
	ck_assert(model_is_stored(&m));

	s = model_open();
	c.txn.n_put = 1;
	model_commit_ok(s, &c.txn);
	model_load(s, &state);
	ck_assert_uint_eq(state.generation, 99);
	persist_state_free(&state);
	store_close(s);
	model_free(&other);
	model_free(&m);
}
END_TEST

/* What could not be read back is not written. */
START_TEST(test_refuses_to_write)
{
	struct model m = model_make_stored(), other = model_new();
	struct store *s = model_open();
	struct change c = {.txn = {.generation = 99, .n_put = 1}};
	struct error err = {""};
	struct persist_vip bad;

	other.next_vip_uid = m.next_vip_uid;
	other.next_dip_uid = m.next_dip_uid;
	model_vip_make(&other, 0);
	while (other.vips[0].n_dips < 2 || other.vips[0].n_pins < 2)
		model_vip_change(&other, &other.vips[0]);
	c.txn.put = c.put;
	c.put[0] = &bad;
	c.txn.next_vip_uid = other.next_vip_uid;
	c.txn.next_dip_uid = other.next_dip_uid;
#define REFUSED(change, undo, word)                                                                \
	do {                                                                                       \
		bad = other.vips[0];                                                               \
		change;                                                                            \
		ck_assert_int_eq(model_commit(s, &c.txn, &err), -EIO);                             \
		ck_assert_msg(strstr(err.message, word) != NULL, "%s", err.message);               \
		undo;                                                                              \
	} while (0)
	uint16_t dcode = other.vips[0].dcodes[7];
	REFUSED(bad.dcodes[7] = 60000, bad.dcodes[7] = dcode, "Dcode names");
	REFUSED(bad.n_dcodes--, , "power of two");
	REFUSED(bad.pins[1].zero[2] = 1, bad.pins[1].zero[2] = 0, "impossible bytes");
	REFUSED(bad.pins[1].exact = 2, bad.pins[1].exact = 0, "impossible bytes");
	REFUSED(bad.slot = VIP_SLOTS, , "slot");
	REFUSED(bad.uid = 0, , "uid");
	REFUSED(bad.uid = c.txn.next_vip_uid, , "counter");
	REFUSED(bad.conf.idle_udp_s = 0, , "idle_timeout_s/udp");
	REFUSED(strcpy(bad.conf.id, "Web"), , "id must be");
	struct persist_dip keep = other.vips[0].dips[1];
	REFUSED(bad.dips[1].index = bad.dips[0].index, bad.dips[1] = keep, "DIP index");
	REFUSED(bad.dips[1].uid = c.txn.next_dip_uid, bad.dips[1] = keep, "counter");
	REFUSED(bad.dips[1].uid = 0, bad.dips[1] = keep, "uid");
	REFUSED(bad.dips[1].conf.weight = 65536, bad.dips[1] = keep, "0 to 65535");
	REFUSED(bad.n_dips = DIPS_PER_VIP_MAX + 1, , "too many");
#undef REFUSED
	store_close(s);
	ck_assert(model_is_stored(&m));
	model_free(&other);
	model_free(&m);
}
END_TEST

START_TEST(test_moved)
{
	struct model m = model_make_stored();
	struct store *s = model_open();
	struct error err = {""};
	struct change c;
	char away[80];

	snprintf(away, sizeof(away), "%s.away", model_path);
	ck_assert_int_eq(rename(model_path, away), 0);
	model_step(&m, &c);
	ck_assert_int_eq(model_commit(s, &c.txn, &err), -EIO);
	ck_assert_msg(strstr(err.message, "moved or removed") != NULL, "%s", err.message);
	ck_assert_int_eq(rename(away, model_path), 0);
	model_commit_ok(s, &c.txn);
	store_close(s);
	ck_assert(model_is_stored(&m));
	model_free(&m);
}
END_TEST

/* Commits until it is killed; every generation's state is a function of its number. */
static void crash_child(int report)
{
	struct store *s = model_open();
	struct persist_state state;
	struct persist_vip v = {.uid = 1, .n_dcodes = 1024, .n_pins = 900, .n_dips = 1};
	const struct persist_vip *put[] = {&v};

	model_load(s, &state);
	vip_conf_defaults(&v.conf);
	snprintf(v.conf.id, ID_LEN, "web");
	v.conf.match.address = ip_addr_v4((uint8_t[]){10, 0, 0, 1});
	v.dcodes = calloc(v.n_dcodes, sizeof(v.dcodes[0]));
	v.pins = calloc(v.n_pins, sizeof(v.pins[0]));
	v.dips = calloc(1, sizeof(v.dips[0]));
	dip_conf_defaults(&v.dips[0].conf);
	snprintf(v.dips[0].conf.id, ID_LEN, "b");
	v.dips[0].conf.address = ip_addr_v4((uint8_t[]){10, 0, 0, 2});
	v.dips[0].uid = 1;
	for (uint64_t g = state.generation + 1;; g++) {
		struct persist_txn txn = {.generation = g,
					  .next_dip_uid = 2,
					  .next_vip_uid = 2,
					  .n_put = 1,
					  .put = put};

		v.seed = g;
		v.n_pins = (uint32_t)(g * 7 % 900);
		v.dips[0].index = (uint16_t)(1 + g % DIP_INDEX_MAX);
		for (uint32_t i = 0; i < v.n_pins; i++)
			v.pins[i].dip = v.dips[0].index;
		model_commit_ok(s, &txn);
		if (write(report, &g, sizeof(g)) != (ssize_t)sizeof(g))
			_exit(1);
	}
}

/* Killed at any time: what was reported durable is there, whole. */
START_TEST(test_crash)
{
	uint64_t last = 0;

	model_remove();
	store_close(model_open());
	for (int round = 0; round < 15; round++) {
		struct persist_state state;
		uint64_t g;
		int fds[2];

		ck_assert_int_eq(pipe(fds), 0);
		pid_t pid = fork();
		if (pid == 0)
			crash_child(fds[1]);
		close(fds[1]);
		ck_assert_int_eq(read(fds[0], &g, sizeof(g)), sizeof(g)); /* it is at work */
		last = g;
		usleep(model_random(60000));
		kill(pid, SIGKILL);
		while (read(fds[0], &g, sizeof(g)) == (ssize_t)sizeof(g))
			last = g;
		close(fds[0]);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);

		struct store *s = model_open();
		model_load(s, &state);
		ck_assert_uint_ge(state.generation, last);
		ck_assert_uint_le(state.generation, last + 1);
		ck_assert_uint_eq(state.n_vips, 1);
		ck_assert_uint_eq(state.vips[0].seed, state.generation);
		ck_assert_uint_eq(state.vips[0].n_pins, state.generation * 7 % 900);
		ck_assert_uint_eq(state.vips[0].dips[0].index,
				  1 + state.generation % DIP_INDEX_MAX);
		persist_state_free(&state);
		store_close(s);
	}
}
END_TEST

/* The log is folded into the file when nobody waits, not only at the end. */
START_TEST(test_checkpoint_when_idle)
{
	struct model m = model_make_stored();
	struct store *s = model_open();
	struct change c;
	struct stat before, after;

	do {
		model_step(&m, &c);
		model_commit_ok(s, &c.txn);
	} while (!c.txn.n_put);
	stat(model_path, &before);
	for (int i = 0; i < 100; i++) {
		stat(model_path, &after);
		if (after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
		    after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
			break;
		usleep(100000);
	}
	ck_assert(after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
		  after.st_mtim.tv_nsec != before.st_mtim.tv_nsec);
	model_step(&m, &c);
	model_commit_ok(s, &c.txn);
	store_close(s);
	ck_assert(model_is_stored(&m));
	model_free(&m);
}
END_TEST

static const struct persist_dip *some_dip(const struct persist_state *state, unsigned skip,
					  uint32_t *vip_uid)
{
	for (unsigned i = 0; i < state->n_vips; i++)
		for (unsigned k = 0; k < state->vips[i].n_dips; k++)
			if (skip-- == 0) {
				*vip_uid = state->vips[i].uid;
				return &state->vips[i].dips[k];
			}
	return NULL;
}

/* An agent is kept until it is deleted or its DIP goes, through every other write of its VIP. */
START_TEST(test_agents)
{
	struct model m;
	struct persist_state state;
	struct store *s;
	uint32_t vip_uid[2];
	struct persist_agent a[2] = {{.id = "a0"}, {.id = "a1"}};
	struct error err;

	do { /* until there are two DIPs */
		m = model_make_stored();
		s = model_open();
		model_load(s, &state);
		if (some_dip(&state, 1, &vip_uid[1]))
			break;
		persist_state_free(&state);
		store_close(s);
		model_free(&m);
	} while (true);
	struct persist p = store_persist(s);
	for (unsigned i = 0; i < 2; i++) {
		a[i].dip_uid = some_dip(&state, i, &vip_uid[i])->uid;
		a[i].vip_uid = vip_uid[i];
		memset(a[i].token_hash, 7 + (int)i, sizeof(a[i].token_hash));
		ck_assert_int_eq(p.put_agent(p.ctx, &a[i], &err), 0);
	}
	persist_state_free(&state);

	/* One DIP, one agent; and no agent without DIP. */
	struct persist_agent third = a[0];
	strcpy(third.id, "a2");
	ck_assert_int_eq(p.put_agent(p.ctx, &third, &err), -EIO);
	third.dip_uid = UINT32_MAX;
	ck_assert_int_eq(p.put_agent(p.ctx, &third, &err), -ENOENT);
	a[1].token_hash[3] = 99;
	ck_assert_int_eq(p.put_agent(p.ctx, &a[1], &err), 0);

	for (int i = 0; i < 60; i++) {
		struct change c;
		unsigned n = 0;
		model_step(&m, &c);
		model_commit_ok(s, &c.txn);
		store_close(s);
		s = model_open();
		p = store_persist(s);
		model_load(s, &state);
		for (unsigned k = 0; k < 2; k++) {
			bool lives = false;
			for (unsigned v = 0; v < state.n_vips; v++)
				for (unsigned d = 0; d < state.vips[v].n_dips; d++)
					lives |= state.vips[v].dips[d].uid == a[k].dip_uid;
			if (!lives)
				continue;
			ck_assert_msg(n < state.n_agents, "seed %u, step %d", model_seed, i);
			ck_assert_mem_eq(&state.agents[n++], &a[k], sizeof(a[k]));
		}
		ck_assert_uint_eq(state.n_agents, n);
		persist_state_free(&state);
	}
	ck_assert_int_eq(p.delete_agent(p.ctx, "a0", &err), 0);
	ck_assert_int_eq(p.delete_agent(p.ctx, "a1", &err), 0);
	model_load(s, &state);
	ck_assert_uint_eq(state.n_agents, 0);
	persist_state_free(&state);
	store_close(s);
	model_free(&m);
}
END_TEST

/* Agents that come with a transaction are put if they are missing and their DIP is there; one that
 * is there keeps its token. */
START_TEST(test_agents_come_back)
{
	struct model m;
	struct persist_state state;
	struct store *s;
	struct persist_agent a[2] = {{.id = "a0"},
				     {.id = "a1", .vip_uid = 1, .dip_uid = UINT32_MAX}};
	const struct persist_dip *dip;

	do {
		m = model_make_stored();
		s = model_open();
		model_load(s, &state);
		dip = some_dip(&state, 0, &a[0].vip_uid);
		if (dip)
			break;
		persist_state_free(&state);
		store_close(s);
		model_free(&m);
	} while (true);
	a[0].dip_uid = dip->uid;
	struct persist_txn txn = {.generation = state.generation + 1,
				  .next_dip_uid = state.next_dip_uid,
				  .next_vip_uid = state.next_vip_uid,
				  .n_agents = 2,
				  .agents = a};
	persist_state_free(&state);
	for (uint8_t token = 1; token <= 2; token++, txn.generation++) {
		memset(a[0].token_hash, token, sizeof(a[0].token_hash));
		model_commit_ok(s, &txn);
		model_load(s, &state);
		ck_assert_uint_eq(state.n_agents, 1);
		ck_assert_str_eq(state.agents[0].id, "a0");
		ck_assert_uint_eq(state.agents[0].dip_uid, a[0].dip_uid);
		ck_assert_uint_eq(state.agents[0].token_hash[0], 1);
		persist_state_free(&state);
	}
	store_close(s);
	model_free(&m);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store");
	TCase *tc = tcase_create("store");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_round_trip);
	tcase_add_test(tc, test_faults);
	tcase_add_test(tc, test_rolled_back_whole);
	tcase_add_test(tc, test_refuses_to_write);
	tcase_add_test(tc, test_moved);
	tcase_add_test(tc, test_agents);
	tcase_add_test(tc, test_agents_come_back);
	tcase_add_test(tc, test_crash);
	tcase_add_test(tc, test_checkpoint_when_idle);
	suite_add_tcase(suite, tc);
	return model_run(suite);
}
