/* The ring of events against a plain list; and what control tells of itself. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/internal.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define RING 4096u

static uint64_t now_ns;

static uint64_t fake_ns(void)
{
	return now_ns;
}

static int64_t fake_wall_s(void)
{
	return 1700000000;
}

static void use_fake_clock(void)
{
	now_ns = 1000000000000u;
	clock_set_source(fake_ns, fake_wall_s);
}

static void emit(struct events *e, enum event_kind kind, const char *vip, const char *dip,
		 uint64_t value)
{
	events_emit(e,
		    &(struct event_note){
			    .kind = kind, .vip = vip, .dip = dip, .values = {{"n", value}}},
		    "number %llu", (unsigned long long)value);
}

static struct control_event read_one(struct events *e, uint64_t after)
{
	struct control_event event;
	uint64_t lost;

	ck_assert_uint_eq(events_read(e, after, &event, 1, &lost), 1);
	ck_assert_uint_eq(lost, 0);
	return event;
}

START_TEST(an_event_is_read_as_it_was_written)
{
	struct events *e = events_new("0123456789abcdef");
	struct control_event out[3];
	uint64_t lost = 7;

	use_fake_clock();
	ck_assert_str_eq(events_boot(e), "0123456789abcdef");
	ck_assert_uint_eq(events_last(e), 0);
	ck_assert_uint_eq(events_read(e, 0, out, 3, &lost), 0);
	ck_assert_uint_eq(lost, 0);
	events_emit(e,
		    &(struct event_note){.kind = EVENT_change,
					 .vip = "web",
					 .dip = "b1",
					 .generation = 42,
					 .values = {{"a", 1}, {"b", 2}}},
		    "%s of %d", "three", 4);
	events_emit(e, &(struct event_note){.kind = EVENT_warning}, "%s", "");
	ck_assert_uint_eq(events_read(e, 0, out, 3, &lost), 2);
	ck_assert_uint_eq(out[0].id, 1);
	ck_assert_int_eq(out[0].kind, EVENT_change);
	ck_assert_int_eq(out[0].wall_ms, 1700000000000);
	ck_assert_uint_eq(out[0].generation, 42);
	ck_assert_uint_eq(out[0].count, 1);
	ck_assert_str_eq(out[0].vip, "web");
	ck_assert_str_eq(out[0].dip, "b1");
	ck_assert_str_eq(out[0].text, "three of 4");
	ck_assert_str_eq(out[0].values[1].name, "b");
	ck_assert_uint_eq(out[0].values[1].value, 2);
	ck_assert_ptr_null(out[0].values[2].name);
	ck_assert_uint_eq(out[1].generation, 42); /* that of the one before */
	ck_assert_str_eq(out[1].vip, "");
	ck_assert_uint_eq(events_read(e, 2, out, 3, &lost), 0);
	ck_assert_uint_eq(events_read(e, 99, out, 3, &lost), 0); /* of no event yet */
	ck_assert_uint_eq(lost, 0);
	events_free(e);
	events_free(NULL);
}
END_TEST

/* Readers at random places, who read at random moments, see what a list of all says. */
START_TEST(readers_see_what_is_left)
{
	struct prng p = prng_new("readers_see_what_is_left");
	struct events *e = events_new("x");
	uint64_t cursor[4] = {0}, missed[4] = {0}, seen[4] = {0}, n = 0;
	struct control_event out[100];

	use_fake_clock();
	for (unsigned round = 0; round < 2000; round++) {
		for (uint32_t k = prng_below(&p, 40); k; k--)
			emit(e, EVENT_change, "web", NULL, ++n);
		unsigned r = prng_below(&p, prng_below(&p, 8) ? 3 : 4); /* the last one is slow */
		uint64_t lost;
		unsigned got = events_read(e, cursor[r], out, 1 + prng_below(&p, 100), &lost);
		ck_assert_uint_eq(lost, n - cursor[r] > RING ? n - RING - cursor[r] : 0);
		for (unsigned i = 0; i < got; i++) {
			ck_assert_uint_eq(out[i].id, cursor[r] + lost + 1 + i);
			ck_assert_uint_eq(out[i].values[0].value, out[i].id);
		}
		missed[r] += lost;
		seen[r] += got;
		cursor[r] += lost + got;
		ck_assert_uint_eq(missed[r] + seen[r], cursor[r]);
	}
	ck_assert_uint_gt(missed[0] + missed[1] + missed[2] + missed[3], 0);
	ck_assert_uint_eq(events_last(e), n);
	events_free(e);
}
END_TEST

/* What comes too often is held back for a second and added up; nothing is lost in the sum. */
START_TEST(kinds_have_their_share_of_a_second)
{
	struct events *e = events_new("x");
	struct control_event out[64];
	uint64_t lost;

	use_fake_clock();
	for (unsigned i = 0; i < 1000; i++)
		emit(e, EVENT_publish, "web", i < 900 ? "b1" : "b2", i);
	emit(e, EVENT_change, NULL, NULL, 1);
	ck_assert_uint_eq(events_read(e, 0, out, 64, &lost), 5);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(out[i].values[0].value, i);
	now_ns += 999 * 1000000u;
	events_tick(e);
	ck_assert_uint_eq(events_last(e), 5);
	now_ns += 1000000u;
	events_tick(e);
	events_tick(e); /* once */
	ck_assert_uint_eq(events_last(e), 6);
	struct control_event sum = read_one(e, 5);
	ck_assert_int_eq(sum.kind, EVENT_publish);
	ck_assert_uint_eq(sum.count, 996);
	ck_assert_str_eq(sum.vip, "web");
	ck_assert_str_eq(sum.dip, ""); /* of two */
	ck_assert_uint_eq(sum.values[0].value, 999);
	/* The next second begins with the next one; before it comes what was held back. */
	for (unsigned i = 0; i < 6; i++)
		emit(e, EVENT_publish, "web", NULL, i);
	ck_assert_uint_eq(events_last(e), 10);
	now_ns += 2000 * 1000000u;
	emit(e, EVENT_publish, "other", NULL, 77);
	ck_assert_uint_eq(events_last(e), 12);
	ck_assert_uint_eq(read_one(e, 10).count, 2);
	ck_assert_uint_eq(read_one(e, 11).values[0].value, 77);
	events_free(e);
}
END_TEST

struct waiter {
	struct events *events;
	pthread_t thread;
	bool open;
};

static void *wait_for_next(void *arg)
{
	struct waiter *w = arg;

	w->open = events_wait(w->events, 0, 10000);
	return NULL;
}

static void start_waiter(struct waiter *w, struct events *e)
{
	w->events = e;
	ck_assert_int_eq(pthread_create(&w->thread, NULL, wait_for_next, w), 0);
	usleep(20000);
}

START_TEST(waiting_ends)
{
	struct events *e = events_new("x");
	struct waiter w;

	uint64_t start = clock_now_ms();
	ck_assert(events_wait(e, 0, 30)); /* the time-out */
	ck_assert_uint_ge(clock_now_ms() - start, 29);
	start_waiter(&w, e);
	emit(e, EVENT_audit, NULL, NULL, 0);
	pthread_join(w.thread, NULL);
	ck_assert(w.open);
	ck_assert(events_wait(e, 0, 10000)); /* is there already */
	events_free(e);

	e = events_new("x");
	start_waiter(&w, e);
	events_close(e);
	pthread_join(w.thread, NULL);
	ck_assert(!w.open);
	ck_assert(!events_wait(e, 0, 10000));
	ck_assert_uint_lt(clock_now_ms() - start, 9000);
	events_free(e);
}
END_TEST

static void *emit_many(void *arg)
{
	for (unsigned i = 0; i < 20000; i++)
		emit(arg, EVENT_change, "web", NULL, i);
	return NULL;
}

/* Two writers and a reader at once. */
START_TEST(writers_do_not_mix)
{
	struct events *e = events_new("x");
	struct control_event out[64];
	pthread_t writers[2];
	uint64_t cursor = 0, lost;

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&writers[i], NULL, emit_many, e), 0);
	while (cursor < 40000) {
		ck_assert(events_wait(e, cursor, 10000));
		unsigned n = events_read(e, cursor, out, 64, &lost);
		char text[32];
		for (unsigned i = 0; i < n; i++) {
			ck_assert_uint_eq(out[i].id, cursor + lost + i + 1);
			snprintf(text, sizeof(text), "number %llu",
				 (unsigned long long)out[i].values[0].value);
			ck_assert_str_eq(out[i].text, text);
		}
		cursor += lost + n;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	events_free(e);
}
END_TEST

/* --- control's own -------------------------------------------------------------------------------
 */

static struct world *w;
static uint64_t cursor;

/* The next event of the kind, those of other kinds skipped; the test fails if there is none. */
static struct control_event next(enum event_kind kind)
{
	struct control_event event;
	uint64_t lost;

	while (events_read(control_events(w->control), cursor, &event, 1, &lost)) {
		cursor = event.id;
		if (event.kind == kind)
			return event;
	}
	ck_abort_msg("no event %s", event_kind_names[kind]);
	return event;
}

static uint64_t value(const struct control_event *e, const char *name)
{
	for (unsigned i = 0; i < EVENT_VALUES_MAX && e->values[i].name; i++)
		if (!strcmp(e->values[i].name, name))
			return e->values[i].value;
	ck_abort_msg("no value %s", name);
	return 0;
}

/* Some seconds, so that nothing is held back. */
static void let_time_pass(void)
{
	for (unsigned i = 0; i < 30; i++) {
		world_advance_ms(100);
		control_step(w->control);
	}
}

static void start(uint64_t n_flows)
{
	w = world_new(1, n_flows);
	cursor = 0;
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	world_put_dip(w, "web", 1, 10, CONTROL_CREATED);
	world_put_dip(w, "web", 2, 10, CONTROL_CREATED);
	let_time_pass();
}

START_TEST(the_life_of_a_pool_is_told)
{
	start(65536);
	ck_assert_uint_eq(next(EVENT_start).generation, 0);
	struct control_event e = next(EVENT_change);
	ck_assert_str_eq(e.vip, "web");
	ck_assert_str_eq(e.dip, "");
	e = next(EVENT_change);
	ck_assert_str_eq(e.dip, "b1");
	ck_assert_uint_gt(value(&e, "dcodes_moved"), 0);

	cursor = events_last(control_events(w->control));
	world_set_weight(w, "web", 1, 5);
	e = next(EVENT_publish);
	ck_assert_uint_eq(e.generation, world_consistency(w).generation);
	ck_assert_str_eq(e.vip, "web");
	ck_assert_uint_gt(value(&e, "dcodes_moved"), 0);
	ck_assert_uint_eq(value(&e, "flows_moved"), 0);
	e = next(EVENT_change);
	ck_assert_str_eq(e.text, "DIP b1 was patched");
	ck_assert_uint_eq(e.generation, world_consistency(w).generation);

	ck_assert_uint_ne(world_tcp(w, 0, 1, FRAMES_SYN, 0), 0);
	world_settle(w);
	unsigned holder = world_dip_flows(w, "web", 1) ? 1 : 2;
	world_delete_dip(w, "web", holder, false);
	e = next(EVENT_change);
	ck_assert_ptr_nonnull(strstr(e.text, "drains"));
	ck_assert_uint_eq(value(&e, "flows_remaining"), 1);
	world_delete_dip(w, "web", holder, true);
	e = next(EVENT_drain_done);
	ck_assert_str_eq(e.dip, holder == 1 ? "b1" : "b2");
	ck_assert_uint_eq(value(&e, "flows_lost"), 1);

	struct control_request r = {.op = OP_VIP_DELETE, .vip = "web", .force = true};
	world_request(w, &r);
	e = next(EVENT_drain_done);
	ck_assert_str_eq(e.vip, "web");
	ck_assert_str_eq(e.dip, "");
	world_free(w);
}
END_TEST

static struct audit audit(void)
{
	struct audit a;

	control_audit_async(w->control, &a);
	for (int i = 0; i < 1000 && !a.done; i++)
		control_step(w->control);
	ck_assert(a.done);
	return a;
}

/* Flows are put on a DIP in the flow table to which no packet of theirs goes. */
START_TEST(violations_are_told_with_their_number)
{
	enum { N = 3000 };

	start(65536);
	for (uint32_t i = 0; i < N; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	let_time_pass();
	struct flow_table *t = &w->control->flows;
	for (uint32_t slot = 0; slot < N; slot++) {
		struct flow_meta m = flow_meta_get(&t->slots[slot]);
		m.dip = m.dip == 1 ? 2 : 1;
		flow_table_update(t, slot, m);
	}
	cursor = events_last(control_events(w->control));
	ck_assert_uint_eq(audit().flows_misplaced, N);
	let_time_pass();
	struct control_event e = next(EVENT_violation);
	ck_assert_uint_eq(e.count, N);
	ck_assert_uint_eq(value(&e, "violations_total"), N);
	ck_assert_str_eq(e.vip, "web");
	ck_assert_ptr_nonnull(strstr(e.text, "b1"));
	ck_assert_ptr_nonnull(strstr(e.text, "b2"));

	/* By a packet: its flow is said to be on the other DIP. */
	world_advance_ms(6000);
	world_tcp(w, 0, 5, FRAMES_PSH | FRAMES_ACK, 10);
	let_time_pass();
	e = next(EVENT_violation);
	ck_assert_uint_eq(e.count, 1);

	cursor = 0;
	e = next(EVENT_audit);
	ck_assert_uint_eq(value(&e, "flows_checked"), N);
	ck_assert_uint_eq(value(&e, "flows_misplaced"), N);
	world_free(w);
}
END_TEST

START_TEST(overload_is_told)
{
	start(4096);
	cursor = events_last(control_events(w->control));
	for (uint32_t i = 0; i < 8192; i++) {
		world_tcp(w, 0, i, FRAMES_SYN, 0);
		if (i % 1000 == 0)
			control_step(w->control);
	}
	let_time_pass();
	struct control_event e = next(EVENT_overload);
	ck_assert_uint_eq(value(&e, "flows_unlearned_total"), 0);
	ck_assert_uint_gt(value(&e, "flows_forgotten_total"), 0);
	uint64_t told = 0, lost;
	struct control_event event;
	for (cursor = 0; events_read(control_events(w->control), cursor, &event, 1, &lost);
	     cursor = event.id)
		told += event.kind == EVENT_overload ? event.count : 0;
	ck_assert_uint_eq(told, world_consistency(w).flows_forgotten_total);

	const struct learn_ring *r = w->workers[0]->learn.rings[RING_OPENING];
	uint32_t n = 100000;
	while (learn_ring_count(r) < r->n)
		world_tcp(w, 0, n++, FRAMES_SYN, 0);
	world_tcp(w, 0, n, FRAMES_SYN, 0);
	let_time_pass();
	e = next(EVENT_overload);
	ck_assert_uint_eq(value(&e, "flows_unlearned_total"), 1);
	world_free(w);
}
END_TEST

static bool way_to_b2;

static void get_hop(void *ctx, const struct ip_addr *a, struct next_hop *hop, bool *has_route)
{
	(void)ctx;
	*hop = (struct next_hop){.resolved = a->b[15] != 2 || way_to_b2,
				 .ifindex = 1,
				 .mtu = 1500,
				 .n_ports = 1,
				 .ports = {1}};
	*has_route = true;
}

START_TEST(lost_neighbours_are_told_once)
{
	start(65536);
	cursor = 0;
	w->control->conf.next_hops.get = get_hop;
	way_to_b2 = true;
	w->control->hops_changed = true;
	let_time_pass();
	ck_assert_str_eq(next(EVENT_resolved).dip, "b1");
	ck_assert_str_eq(next(EVENT_resolved).dip, "b2");
	for (unsigned i = 0; i < 3; i++) {
		way_to_b2 = false;
		w->control->hops_changed = true;
		let_time_pass();
	}
	struct control_event e = next(EVENT_unresolved);
	ck_assert_str_eq(e.vip, "web");
	ck_assert_str_eq(e.dip, "b2");
	ck_assert_ptr_nonnull(strstr(e.text, "10.9.0.2"));
	way_to_b2 = true;
	w->control->hops_changed = true;
	let_time_pass();
	uint64_t before = cursor;
	ck_assert_str_eq(next(EVENT_resolved).dip, "b2");
	ck_assert_uint_eq(cursor, before + 1); /* nothing in between */
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("events");
	TCase *ring = tcase_create("ring");
	TCase *control = tcase_create("control");

	tcase_add_test(ring, an_event_is_read_as_it_was_written);
	tcase_add_test(ring, readers_see_what_is_left);
	tcase_add_test(ring, kinds_have_their_share_of_a_second);
	tcase_add_test(ring, waiting_ends);
	tcase_add_test(ring, writers_do_not_mix);
	tcase_set_timeout(ring, 60);
	suite_add_tcase(s, ring);
	tcase_add_test(control, the_life_of_a_pool_is_told);
	tcase_add_test(control, violations_are_told_with_their_number);
	tcase_add_test(control, overload_is_told);
	tcase_add_test(control, lost_neighbours_are_told_once);
	tcase_set_timeout(control, 60);
	suite_add_tcase(s, control);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
