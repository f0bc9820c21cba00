/* The state file after a kill between any two stores. A child does the work of worker and control
 * over the real files, one store at a time; each state that slots and rings go through is
 * then taken over by a new process, which must know what the old one knew, to the last record that
 * was in a ring.
 *
 * What it must know comes from a run of the same script in which nothing is killed and the records
 * are applied one by one: after a kill with r records in the rings, exactly what that run knew
 * after r. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "control/flows.h"
#include "control/internal.h"
#include "control/state_file.h"
#include "tests/unit/prng.h"
#include "tests/unit/store_trace.h"
#include "tests/unit/world_script.h"

enum { CAPACITY = 64, RECORDS = 160, NOTES_MAX = 256 };

static struct world *w;

/* --- the run without a kill ----------------------------------------------------------------- */

/* What is known after so many records. */
struct note {
	uint64_t n_records;
	struct flow_slot slots[CAPACITY];
};

struct notes {
	unsigned n;
	struct note list[NOTES_MAX];
	uint8_t home[SCRIPT_FLOWS_MAX]; /* where each flow's last packet went */
};

static struct notes *notes; /* shared with the child that makes them */

static uint64_t ring_sum(bool tails)
{
	uint64_t sum = 0;

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		const struct learn_ring *r = state_file_ring(w->state, 0, i);
		sum += atomic_load(tails ? &r->tail : &r->head);
	}
	return sum;
}

static void note_take(void)
{
	struct note *n = &notes->list[notes->n++];

	if (notes->n > NOTES_MAX)
		_exit(1);
	n->n_records = ring_sum(true);
	memcpy(n->slots, state_file_slots(w->state), sizeof(n->slots));
}

static void notes_make(const struct script *s)
{
	int status;

	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(notes, MAP_FAILED);
	pid_t pid = fork();
	if (pid == 0) {
		note_take();
		for (unsigned i = 0; i < s->n_ops; i++) {
			if (s->ops[i].kind == OP_ADVANCE)
				world_advance_ms(s->ops[i].flow);
			else if (s->ops[i].kind != OP_STEP)
				script_packet(w, &s->ops[i], notes->home);
			while (s->ops[i].kind == OP_STEP && control_drain(w->control, 1))
				note_take();
			if (s->ops[i].kind == OP_STEP)
				control_step(w->control);
			note_take();
		}
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* --- what an image may hold ----------------------------------------------------------------- */

static bool slot_used(const struct flow_slot *s)
{
	return flow_meta_get(s).phase != FLOW_FREE;
}

static const struct flow_slot *slot_find(const struct flow_slot *slots,
					 const struct flow_slot *like)
{
	for (unsigned i = 0; i < CAPACITY; i++)
		if (slot_used(&slots[i]) && flow_key_equal(&slots[i].key, &like->key))
			return &slots[i];
	return NULL;
}

static bool meta_equal(const struct flow_slot *x, const struct flow_slot *y)
{
	return atomic_load(&x->meta) == atomic_load(&y->meta);
}

static bool opened_equal(const struct flow_slot *x, const struct flow_slot *y)
{
	return atomic_load(&x->opened_ms) == atomic_load(&y->opened_ms);
}

/* Never torn: each used slot is one that the other run had at some time. The opening time alone may
 * already be the next one. */
static void image_check_slots(unsigned image)
{
	const struct flow_slot *slots = state_file_slots(w->state);

	for (unsigned i = 0; i < CAPACITY; i++) {
		bool meta = false, opened = false;
		if (!slot_used(&slots[i]))
			continue;
		for (unsigned k = 0; k < notes->n; k++) {
			const struct flow_slot *was = slot_find(notes->list[k].slots, &slots[i]);
			bool same = was && was->hash == slots[i].hash &&
				    was->vip_uid == slots[i].vip_uid;
			meta |= same && meta_equal(was, &slots[i]);
			opened |= same && opened_equal(was, &slots[i]);
		}
		ck_assert_msg(meta && opened, "image %u: slot %u is torn", image, i);
		ck_assert_msg(slot_find(slots, &slots[i]) == &slots[i],
			      "image %u: slot %u is there twice", image, i);
	}
}

/* Every record between tail and head is whole, and their numbers are the next ones. */
static void image_check_rings(unsigned image)
{
	uint64_t applied = ring_sum(true), written = ring_sum(false);
	bool seen[RECORDS * N_LEARN_RINGS] = {false};

	for (int i = 0; i < N_LEARN_RINGS; i++) {
		const struct learn_ring *r = state_file_ring(w->state, 0, i);
		for (uint64_t p = atomic_load(&r->tail); p != atomic_load(&r->head); p++) {
			const struct learn_record *rec = &r->records[p & (r->n - 1)];
			const struct vip_runtime *v = w->control->vips[rec->vip_slot];
			ck_assert_msg(rec->seq > applied && rec->seq <= written &&
					      !seen[rec->seq - applied],
				      "image %u: record %lu of %lu to %lu", image, rec->seq,
				      applied, written);
			seen[rec->seq - applied] = true;
			ck_assert_msg(v && rec->vip_uid == v->uid && rec->ring == i &&
					      rec->hash == flow_key_hash(&rec->key, v->seed) &&
					      rec->dip != DIP_NONE && rec->kind &&
					      rec->time_ms != 0 && rec->generation != 0,
				      "image %u: record %lu is torn", image, rec->seq);
		}
	}
}

/* --- the next process ----------------------------------------------------------------------- */

/* A flow after the restart is as in one of the notes with that many records; it may be absent only
 * if it is in one of them. */
static void recovered_check(unsigned image, uint64_t n_records)
{
	const struct flow_slot *slots = state_file_slots(w->state);
	unsigned n_known = 0, n_notes = 0;

	for (unsigned i = 0; i < CAPACITY; i++) {
		bool right = false;
		if (!slot_used(&slots[i]))
			continue;
		n_known++;
		for (unsigned k = 0; k < notes->n; k++) {
			const struct flow_slot *was = slot_find(notes->list[k].slots, &slots[i]);
			right |= was && notes->list[k].n_records == n_records &&
				 meta_equal(was, &slots[i]) && opened_equal(was, &slots[i]);
		}
		ck_assert_msg(right, "image %u: slot %u after the restart", image, i);
	}
	for (unsigned k = 0; k < notes->n; k++) {
		bool all = notes->list[k].n_records == n_records;
		n_notes += all;
		for (unsigned i = 0; all && i < CAPACITY; i++)
			all = !slot_used(&notes->list[k].slots[i]) ||
			      slot_find(slots, &notes->list[k].slots[i]);
		if (all)
			n_notes += NOTES_MAX; /* none of this note's flows is missing */
	}
	ck_assert_msg(n_notes >= NOTES_MAX, "image %u: a flow is missing after the restart", image);
	struct consistency c = world_consistency(w);
	ck_assert_uint_eq(c.flows_known, n_known);
	ck_assert_uint_eq(c.violations_total, 0);
	ck_assert_uint_eq(c.flows_forgotten_total, 0);
	ck_assert_uint_eq(ring_sum(true), n_records);
	ck_assert_uint_eq(ring_sum(false), n_records);
	/* sequence numbers go on: every record so far had one, from 1 */
	ck_assert_uint_eq(w->workers[0]->learn.seq, n_records);
}

/* Known flows stay where they are, whatever happens to the pool now. */
static void recovered_flows_stay(const uint8_t *where, unsigned image)
{
	struct vip_runtime *v = control_find_vip(w->control, "web");

	for (unsigned i = 0; i < v->flows.n; i++) {
		const struct flow_ref *r = flow_set_ref(&v->flows, i);
		const struct flow_key *k = &w->control->flows.slots[r->slot].key;
		uint32_t flow = (uint32_t)(ntohs(k->sport_be) - 1024) |
				(uint32_t)k->src.b[15] << 10 | (uint32_t)k->src.b[14] << 18;
		struct op o = {.kind = k->proto == IPPROTO_UDP ? OP_UDP : OP_TCP,
			       .flow = flow,
			       .flags = PSH_ACK,
			       .payload = 1};
		uint8_t now[SCRIPT_FLOWS_MAX];
		if (!where[flow])
			continue; /* it said nothing in the script */
		script_packet(w, &o, now);
		ck_assert_msg(now[flow] == where[flow], "image %u: flow %u went from %u to %u",
			      image, flow, where[flow], now[flow]);
	}
}

/* The state of the world's disk that a publish changes and a kill does not. */
static uint64_t disk_generation;

static void image_recover(struct store_trace *t, unsigned image)
{
	store_trace_restore(t, image);
	image_check_slots(image);
	image_check_rings(image);
	uint64_t n_records = ring_sum(false);
	w->disk.generation = disk_generation;
	world_restart(w, WORLD_KILL);
	recovered_check(image, n_records);
}

/* --- the cases ------------------------------------------------------------------------------ */

static void start(unsigned n_dips)
{
	w = world_new(1, CAPACITY);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void end(void)
{
	world_free(w);
	if (notes)
		munmap(notes, sizeof(*notes));
	notes = NULL;
}

static void windows_set(struct store_trace *t)
{
	t->windows[0] = (struct store_window){state_file_slots(w->state),
					      CAPACITY * sizeof(struct flow_slot)};
	for (int i = 0; i < N_LEARN_RINGS; i++)
		t->windows[1 + i] = (struct store_window){state_file_ring(w->state, 0, i),
							  learn_ring_bytes(RECORDS)};
	t->n_windows = 1 + N_LEARN_RINGS;
}

/* Run the script store by store and recover from each image. The files are mapped anew by each
 * restart, at whatever address, so the windows are set again. */
static void kill_everywhere(const char *name, const struct op *ops, unsigned n_ops,
			    unsigned least_images)
{
	struct script s = {w, ops, n_ops};
	struct store_trace t = {0};

	disk_generation = w->disk.generation;
	windows_set(&t);
	uint8_t *before = malloc(store_windows_bytes(&t));
	ck_assert_ptr_nonnull(before);
	store_windows_save(&t, before);
	notes_make(&s);
	store_windows_load(&t, before);
	free(before);
	store_trace_run(&t, script_run, &s);
	printf("%s: %u states of the memory\n", name, t.n_images);
	ck_assert_uint_ge(t.n_images, least_images);
	/* every one in the plain build, and each fourth, the last included, where it costs more */
	for (unsigned i = SANITIZED ? (t.n_images - 1) % 4 : 0; i < t.n_images;
	     i += SANITIZED ? 4 : 1) {
		image_recover(&t, i);
		windows_set(&t);
	}
	/* the last image is of the whole script: nothing was moved by kill, restart and changes */
	world_set_weight(w, "web", 1, 0);
	world_put_dip(w, "web", 9, 90, CONTROL_CREATED);
	recovered_flows_stay(notes->home, t.n_images - 1);
	store_trace_free(&t);
}

#define KILL_EVERYWHERE(name, ops, least) kill_everywhere(name, ops, ARRAY_LEN(ops), least)

START_TEST(openings)
{
	static const struct op ops[] = {
		{OP_TCP, 0, FRAMES_SYN, 0}, {OP_TCP, 1, FRAMES_SYN, 0}, {OP_UDP, 2, 0, 0},
		{OP_TCP, 3, FRAMES_ACK, 0}, {OP_TCP, 0, FRAMES_ACK, 0}, {OP_TCP, 4, PSH_ACK, 9},
		{OP_STEP, 0, 0, 0},	    {OP_TCP, 5, FRAMES_SYN, 0}, {OP_UDP, 6, 0, 0},
		{OP_TCP, 1, PSH_ACK, 5},    {OP_STEP, 0, 0, 0},
	};

	start(3);
	/* a record is at least two stores, a new slot four, a change one */
	KILL_EVERYWHERE("openings", ops, 9 * 2 + 7 * 4);
	end();
}
END_TEST

/* A life of every kind, applied in one batch: a kill in it has some of the records applied twice.
 */
START_TEST(lives)
{
	static const struct op ops[] = {
		{OP_TCP, 0, PSH_ACK, 5},
		{OP_TCP, 0, FRAMES_FIN | FRAMES_ACK, 0},
		{OP_TCP, 0, FRAMES_SYN, 0}, /* the tuple is used again */
		{OP_TCP, 1, FRAMES_RST, 0},
		{OP_TCP, 1, FRAMES_ACK, 0},
		{OP_TCP, 2, FRAMES_FIN | FRAMES_ACK, 0},
		{OP_TCP, 2, PSH_ACK, 7},
		{OP_ADVANCE, 3, 0, 0},
		{OP_TCP, 3, FRAMES_SYN, 0}, /* again: a new opening time alone */
		{OP_UDP, 4, 0, 0},
		{OP_TCP, 7, FRAMES_ACK, 0}, /* met in mid-stream... */
		{OP_ADVANCE, 2, 0, 0},
		{OP_TCP, 7, FRAMES_SYN, 0}, /* ... and opened later */
		{OP_STEP, 0, 0, 0},
		{OP_ADVANCE, 6000, 0, 0},
		{OP_TCP, 3, FRAMES_ACK, 0},
		{OP_UDP, 4, 0, 0}, /* heard of twice: proven */
		{OP_STEP, 0, 0, 0},
	};

	start(3);
	for (uint32_t i = 0; i < 4; i++) {
		world_tcp(w, 0, i, FRAMES_SYN, 0);
		world_tcp(w, 0, i, FRAMES_ACK, 0);
	}
	world_udp(w, 0, 4);
	world_settle(w);
	KILL_EVERYWHERE("lives", ops, 13 * 3);
	end();
}
END_TEST

/* Flows of a DIP that is down are found on other DIPs. */
START_TEST(rehomed)
{
	static const struct op ops[] = {
		{OP_TCP, 0, PSH_ACK, 5},    {OP_TCP, 1, PSH_ACK, 5}, {OP_TCP, 2, PSH_ACK, 5},
		{OP_TCP, 3, FRAMES_ACK, 0}, {OP_TCP, 4, PSH_ACK, 5}, {OP_TCP, 5, PSH_ACK, 5},
		{OP_STEP, 0, 0, 0},
	};

	start(3);
	for (uint32_t i = 0; i < 8; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	world_set_admin(w, "web", 2, ADMIN_DOWN);
	KILL_EVERYWHERE("rehomed", ops, 6 * 3);
	end();
}
END_TEST

/* Flows time out, and their slots are taken by others. */
START_TEST(slots_used_again)
{
	static const struct op ops[] = {
		{OP_ADVANCE, 1000000, 0, 0}, /* all that is there has timed out */
		{OP_STEP, 0, 0, 0},	     {OP_TCP, 20, FRAMES_SYN, 0},
		{OP_TCP, 21, FRAMES_SYN, 0}, {OP_UDP, 22, 0, 0},
		{OP_TCP, 3, FRAMES_SYN, 0}, /* the same flow in another slot */
		{OP_STEP, 0, 0, 0},
	};

	start(3);
	for (uint32_t i = 0; i < 12; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	KILL_EVERYWHERE("slots used again", ops, 12 + 4 * 3);
	end();
}
END_TEST

/* Random scripts; the seed repeats one. */
START_TEST(random_scripts)
{
	static const uint8_t flags[] = {FRAMES_SYN, FRAMES_ACK, FRAMES_FIN | FRAMES_ACK, FRAMES_RST,
					PSH_ACK};
	struct prng p = prng_new("random_scripts");
	struct op ops[24];

	start(3);
	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		uint32_t what = prng_below(&p, 10);
		uint8_t f = flags[prng_below(&p, ARRAY_LEN(flags))];
		ops[i] = (struct op){.kind = what < 7	? OP_TCP
					     : what < 8 ? OP_UDP
					     : what < 9 ? OP_STEP
							: OP_ADVANCE,
				     .flow = prng_below(&p, 6) + (what == 7 ? 10 : 0),
				     .flags = f,
				     .payload = f == PSH_ACK};
		if (ops[i].kind == OP_ADVANCE)
			ops[i].flow = prng_below(&p, 7000);
	}
	ops[ARRAY_LEN(ops) - 1] = (struct op){.kind = OP_STEP};
	KILL_EVERYWHERE("random", ops, 16);
	end();
}
END_TEST

/* A full table forgets half-open flows; whatever the kill leaves of that, no established one goes.
 */
START_TEST(a_full_table)
{
	enum { ESTABLISHED = 44, OPENING = 12 };
	struct op ops[OPENING + 1];
	uint8_t where[SCRIPT_FLOWS_MAX];

	start(3);
	for (uint32_t i = 0; i < ESTABLISHED; i++) {
		where[i] = (uint8_t)world_tcp(w, 0, i, FRAMES_SYN, 0);
		world_tcp(w, 0, i, FRAMES_ACK, 0);
	}
	for (uint32_t i = 0; i < 16; i++)
		world_tcp(w, 0, 100 + i, FRAMES_SYN, 0);
	world_settle(w);
	for (uint32_t i = 0; i < OPENING; i++)
		ops[i] = (struct op){OP_TCP, 200 + i, FRAMES_SYN, 0};
	ops[OPENING] = (struct op){.kind = OP_STEP};

	struct script s = {w, ops, OPENING + 1};
	struct store_trace t = {0};
	disk_generation = w->disk.generation;
	windows_set(&t);
	store_trace_run(&t, script_run, &s);
	ck_assert_uint_ge(t.n_images, OPENING * 5);
	for (unsigned i = 0; i < t.n_images; i++) {
		store_trace_restore(&t, i);
		w->disk.generation = disk_generation;
		world_restart(w, WORLD_KILL);
		windows_set(&t);
		struct consistency c = world_consistency(w);
		ck_assert_uint_le(c.flows_known, CAPACITY);
		ck_assert_uint_eq(c.violations_total, 0);
		ck_assert_uint_eq(c.flows_established, ESTABLISHED);
	}
	world_set_weight(w, "web", 1, 0);
	for (uint32_t i = 0; i < ESTABLISHED; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), where[i]);
	store_trace_free(&t);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kill_stores");
	TCase *tc = tcase_create("kill_stores");

	log_set_level(LOG_ERROR);
	tcase_set_timeout(tc, 240);
	tcase_add_test(tc, openings);
	tcase_add_test(tc, lives);
	tcase_add_test(tc, rehomed);
	tcase_add_test(tc, slots_used_again);
	tcase_add_loop_test(tc, random_scripts, 0, SANITIZED ? 2 : 8);
	tcase_add_test(tc, a_full_table);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
