/* The audit: it finds what is misplaced and nothing else, while flows come and go and the pool
 * changes under it. Counters that say _total never fall. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/internal.h"
#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;

static void start(uint64_t n_flows, unsigned n_dips)
{
	w = world_new(1, n_flows);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void open_flows(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		ck_assert_uint_ne(world_tcp(w, 0, i, FRAMES_SYN, 0), 0);
		world_tcp(w, 0, i, FRAMES_ACK, 0);
		if (i % 1000 == 0)
			control_step(w->control);
	}
	world_settle(w);
}

static struct audit audit(void)
{
	struct audit a;

	control_audit_async(w->control, &a);
	for (int i = 0; i < 1000 && !a.done; i++)
		control_step(w->control);
	ck_assert(a.done && !a.refused);
	return a;
}

START_TEST(every_flow_is_looked_at)
{
	start(65536, 4);
	struct audit a = audit();
	ck_assert_uint_eq(a.flows_checked, 0);
	open_flows(0, 40000); /* more than a chunk, and no multiple of a burst */
	world_set_weight(w, "web", 1, 0);
	a = audit();
	ck_assert_uint_eq(a.flows_checked, 40000);
	ck_assert_uint_eq(a.flows_misplaced, 0);
	ck_assert_uint_eq(a.flows_of_down_dips, 0);
	ck_assert_uint_eq(a.generation, world_consistency(w).generation);
	ck_assert_uint_eq(world_consistency(w).audits_total, 2);
	world_free(w);
}
END_TEST

START_TEST(flows_of_a_dip_that_is_down_count_apart)
{
	start(65536, 4);
	open_flows(0, 5000);
	uint64_t on_2 = world_dip_flows(w, "web", 2);
	world_set_admin(w, "web", 2, ADMIN_DOWN);
	struct audit a = audit();
	ck_assert_uint_eq(a.flows_of_down_dips, on_2);
	ck_assert_uint_eq(a.flows_checked, 5000 - on_2);
	ck_assert_uint_eq(a.flows_misplaced, 0);
	world_set_admin(w, "web", 2, ADMIN_UP);
	a = audit();
	ck_assert_uint_eq(a.flows_checked, 5000);
	ck_assert_uint_eq(a.flows_misplaced, 0);
	world_free(w);
}
END_TEST

/* Flows are put on a DIP in the flow table to which no packet of theirs goes. */
START_TEST(what_is_misplaced_is_found)
{
	start(65536, 2);
	open_flows(0, 20000);
	struct flow_table *t = &w->control->flows;
	for (uint32_t slot = 7; slot < 20000; slot += 1000) {
		struct flow_meta m = flow_meta_get(&t->slots[slot]);
		m.dip = m.dip == 1 ? 2 : 1;
		flow_table_update(t, slot, m);
	}
	struct audit a = audit();
	ck_assert_uint_eq(a.flows_checked, 20000);
	ck_assert_uint_eq(a.flows_misplaced, 20);
	ck_assert_uint_eq(world_consistency(w).violations_total, 20);
	/* A plan believes the flow table, and puts them where it says. */
	world_set_weight(w, "web", 1, 11);
	ck_assert_uint_eq(audit().flows_misplaced, 0);
	world_free(w);
}
END_TEST

static void open_during_commit(struct world *world)
{
	world->on_submit = NULL;
	for (uint32_t i = 0; i < 300; i++)
		world_tcp(world, 0, i, FRAMES_SYN, 0);
}

/* A flow that only the exact table holds is right by its full key alone. */
START_TEST(exact_entries_are_asked_for)
{
	start(65536, 2);
	w->on_submit = open_during_commit;
	world_set_weight(w, "web", 1, 0);
	struct consistency c = world_consistency(w);
	ck_assert_uint_gt(c.flows_late_total, 50);
	ck_assert_uint_eq(c.flows_exact, c.flows_late_total);
	struct audit *a = &(struct audit){0};
	control_audit_async(w->control, a);
	while (!control_run_audit(w->control) || !a->done) /* not a step: it would fold them */
		;
	ck_assert_uint_eq(world_consistency(w).flows_exact, c.flows_exact);
	ck_assert_uint_eq(a->flows_checked, 300);
	ck_assert_uint_eq(a->flows_misplaced, 0);
	world_free(w);
}
END_TEST

/* Between the audit's chunks flows end and open, and the pool changes: what is known all the while
 * is looked at, and nothing is misplaced by the change itself. */
START_TEST(changes_come_in_between)
{
	enum { N = 60000 };
	uint64_t rng = frames_seed();

	start(131072, 4);
	open_flows(0, N);
	for (unsigned round = 0; round < 8; round++) {
		struct flow_table *t = &w->control->flows;
		struct flow_set *f = &w->control->vips[0]->flows;
		uint32_t known = f->n, removed = 0;
		struct audit a;

		control_audit_async(w->control, &a);
		while (!a.done) {
			for (unsigned k = 0; k < 500 && f->n > 1000 && !a.done; k++, removed++)
				flow_table_remove(
					t, flow_set_ref(f, (uint32_t)(frames_random(&rng) % f->n))
						   ->slot);
			for (unsigned k = 0; k < 300; k++)
				world_tcp(w, 0, (uint32_t)(frames_random(&rng) % 10000000),
					  FRAMES_SYN, 0);
			if (frames_random(&rng) % 2)
				world_set_weight(w, "web", 1 + round % 4,
						 (uint32_t)(frames_random(&rng) % 20));
			else
				control_step(w->control);
		}
		ck_assert_uint_eq(a.flows_misplaced, 0);
		ck_assert_uint_ge(a.flows_checked + removed, known);
	}
	ck_assert_uint_eq(audit().flows_checked, world_consistency(w).flows_known);
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}
END_TEST

/* The array becomes shorter than what was left of it: what has ended is not looked at. */
START_TEST(most_flows_end_under_it)
{
	start(131072, 2);
	open_flows(0, 60000);
	struct flow_set *f = &w->control->vips[0]->flows;
	struct audit a;
	control_audit_async(w->control, &a);
	control_step(w->control);
	ck_assert(!a.done);
	while (f->n > 100)
		flow_table_remove(&w->control->flows, flow_set_ref(f, f->n / 2)->slot);
	while (!a.done)
		control_step(w->control);
	ck_assert_uint_eq(a.flows_checked, REF_CHUNK + 100);
	ck_assert_uint_eq(a.flows_misplaced + a.flows_of_down_dips, 0);
	world_free(w);
}
END_TEST

/* Another VIP comes into the slot that the audit stands at. */
START_TEST(a_vip_goes_under_it)
{
	start(131072, 2);
	open_flows(0, 40000);
	struct audit a;
	control_audit_async(w->control, &a);
	control_step(w->control);
	ck_assert(!a.done);
	struct control_request r = {.op = OP_VIP_DELETE, .vip = "web", .force = true};
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
	world_put_vip(w, "new", VIP_TCP, CONTROL_CREATED);
	world_put_dip(w, "new", 1, 1, CONTROL_CREATED);
	open_flows(50000, 50100);
	while (!a.done)
		control_step(w->control);
	ck_assert_uint_lt(a.flows_checked, 40000);
	ck_assert_uint_eq(a.flows_misplaced, 0);
	ck_assert_uint_eq(audit().flows_checked, 100);
	world_free(w);
}
END_TEST

/* --- with control's own thread -------------------------------------------------------------------
 */

static void *ask(void *arg)
{
	struct audit *a = arg;

	a->refused = !control_audit(w->control, a);
	return NULL;
}

START_TEST(askers_share_an_audit_and_none_is_left)
{
	enum { ASKERS = 8 };
	struct audit a[ASKERS];
	pthread_t threads[ASKERS];
	struct error err;

	start(65536, 2);
	open_flows(0, 20000);
	clock_set_source(NULL, NULL);
	ck_assert_int_eq(control_start(w->control, &err), 0);
	for (int i = 0; i < ASKERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &a[i]), 0);
	for (int i = 0; i < ASKERS; i++) {
		pthread_join(threads[i], NULL);
		ck_assert(!a[i].refused);
		ck_assert_uint_eq(a[i].flows_misplaced, 0);
	}
	for (int i = 0; i < ASKERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &a[i]), 0);
	control_stop(w->control); /* some are answered, some refused; none waits for ever */
	for (int i = 0; i < ASKERS; i++)
		pthread_join(threads[i], NULL);
	struct audit late;
	ck_assert(!control_audit(w->control, &late));
	world_free(w);
}
END_TEST

/* --- counters ------------------------------------------------------------------------------------
 */

static bool is_total(const char *name)
{
	size_t n = strlen(name);

	return n > 6 && strcmp(name + n - 6, "_total") == 0;
}

static void assert_grown(const struct consistency *was, const struct consistency *is)
{
#define GROWN(name, text)                                                                          \
	ck_assert_msg(!is_total(#name) || is->name >= was->name, #name " fell from %lu to %lu",    \
		      (unsigned long)was->name, (unsigned long)is->name);
	CONSISTENCY_FIELDS(GROWN)
#undef GROWN
#define GROWN(name, text)                                                                          \
	ck_assert_uint_ge(is->name.count, was->name.count);                                        \
	ck_assert_uint_ge(is->name.sum, was->name.sum);
	CONSISTENCY_HISTOGRAMS(GROWN)
#undef GROWN
	ck_assert_uint_eq(is->flows_half_open + is->flows_established + is->flows_closing +
				  is->flows_unproven,
			  is->flows_known);
}

struct traffic {
	uint64_t vip, dips[16];
};

static struct traffic traffic(const bool *exists)
{
	size_t n;
	struct vip_info *v = control_read_vips(w->control, "web", true, &n);
	struct traffic t = {.vip = v->packets};

	for (unsigned i = 0; i < v->n_dips; i++) {
		unsigned d = (unsigned)atoi(v->dips[i].conf.id + 1);
		ck_assert(exists[d] || v->dips[i].deleting);
		t.dips[d] = v->dips[i].packets;
	}
	vip_infos_free(v, n);
	return t;
}

/* One change of the pool: a DIP is added, cut, drained, downed or raised, or another VIP comes or
 * goes. */
static void change(uint64_t *rng, bool *exists, bool *down, bool *other)
{
	unsigned d = 2 + (unsigned)(frames_random(rng) % 12);

	switch (frames_random(rng) % 5) {
	case 0:
		if (*other) {
			struct control_request r = {
				.op = OP_VIP_DELETE, .vip = "other", .force = true};
			world_request(w, &r);
		} else {
			struct control_request r = {.op = OP_VIP_PUT, .vip = "other"};
			vip_conf_defaults(&r.vip_edit.conf);
			r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
			r.vip_edit.conf.match =
				(struct vip_match){.address = frames_ip(WORLD_VIP_ADDRESS),
						   .port = 81,
						   .protocol = VIP_TCP};
			world_request(w, &r);
			world_put_dip(w, "other", 1, 1, CONTROL_CREATED);
		}
		*other = !*other;
		break;
	case 1:
		if (exists[d]) {
			world_delete_dip(w, "web", d, true);
			exists[d] = down[d] = false;
			break;
		}
		/* fall through */
	case 2:
		if (!exists[d]) {
			world_put_dip(w, "web", d, 10, CONTROL_CREATED);
			exists[d] = true;
		}
		break;
	case 3:
		if (exists[d]) {
			down[d] = !down[d];
			world_set_admin(w, "web", d, down[d] ? ADMIN_DOWN : ADMIN_UP);
		}
		break;
	default:
		audit();
	}
}

START_TEST(totals_never_fall)
{
	uint64_t rng = frames_seed(), sent = 0;
	bool exists[16] = {false}, down[16] = {false}, other = false;
	struct consistency was = {0};
	struct traffic before = {0};

	start(1024, 1);
	exists[1] = true;
	for (unsigned step = 0; step < 600; step++) {
		for (unsigned k = 0; k < 40; k++) {
			static const uint8_t kinds[] = {FRAMES_SYN, FRAMES_ACK, PSH_ACK, FRAMES_FIN,
							FRAMES_RST};
			uint32_t i = (uint32_t)(frames_random(&rng) % 20000);
			uint8_t kind = kinds[frames_random(&rng) % 5];
			sent += world_tcp(w, 0, i, kind, kind == PSH_ACK) != 0;
		}
		bool had[16];
		memcpy(had, exists, sizeof(had));
		change(&rng, exists, down, &other);
		world_advance_ms(frames_random(&rng) % 500);
		world_settle(w);
		struct consistency is = world_consistency(w);
		assert_grown(&was, &is);
		was = is;
		struct traffic now = traffic(exists);
		ck_assert_uint_eq(now.vip, sent);
		for (unsigned d = 1; d < 16; d++)
			if (had[d] && exists[d])
				ck_assert_uint_ge(now.dips[d], before.dips[d]);
		before = now;
	}
	ck_assert_uint_gt(was.flows_lost_total, was.flows_rehomed_total);
	ck_assert_uint_gt(was.flows_rehomed_total, 0);
	ck_assert_uint_gt(was.flows_forgotten_total, 0);
	ck_assert_uint_eq(was.publishes_total, was.publish_pause_us.count);
	ck_assert_uint_eq(was.violations_total, 0);
	world_free(w);
}
END_TEST

static uint64_t packets_of(const char *dip, uint64_t *of_vip)
{
	uint64_t packets = UINT64_MAX;
	size_t n;
	struct vip_info *vips = control_read_vips(w->control, "web", true, &n);

	for (unsigned i = 0; i < vips[0].n_dips; i++)
		if (!strcmp(vips[0].dips[i].conf.id, dip))
			packets = vips[0].dips[i].packets;
	*of_vip = vips[0].packets;
	vip_infos_free(vips, n);
	return packets;
}

/* The counters of a DIP's id never fall, nor do those of its VIP, which count each packet once. */
START_TEST(a_dip_made_again_counts_on)
{
	uint64_t was = 0, n = 0, of_vip;

	start(65536, 1);
	for (unsigned round = 1; round <= 30; round++) {
		for (unsigned i = 0; i < round; i++, n++)
			ck_assert_uint_eq(world_tcp(w, 0, i, FRAMES_SYN, 0), 1);
		ck_assert_uint_eq(packets_of("b1", &of_vip), was + round);
		ck_assert_uint_eq(of_vip, n);
		was += round;
		world_delete_dip(w, "web", 1, true);
		ck_assert_uint_eq(packets_of("b1", &of_vip), UINT64_MAX);
		ck_assert_uint_eq(of_vip, n);
		world_put_dip(w, "web", 9, 0, CONTROL_CREATED); /* of another id: from 0 */
		ck_assert_uint_eq(packets_of("b9", &of_vip), 0);
		world_delete_dip(w, "web", 9, true);
		world_put_dip(w, "web", 1, 10, CONTROL_CREATED);
		ck_assert_uint_eq(packets_of("b1", &of_vip), was);
		ck_assert_uint_eq(of_vip, n);
		world_advance_ms(10000);
		world_settle(w);
	}
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("audit");
	TCase *t = tcase_create("audit");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, every_flow_is_looked_at);
	tcase_add_test(t, flows_of_a_dip_that_is_down_count_apart);
	tcase_add_test(t, what_is_misplaced_is_found);
	tcase_add_test(t, exact_entries_are_asked_for);
	tcase_add_test(t, changes_come_in_between);
	tcase_add_test(t, most_flows_end_under_it);
	tcase_add_test(t, a_vip_goes_under_it);
	tcase_add_test(t, askers_share_an_audit_and_none_is_left);
	tcase_add_test(t, totals_never_fall);
	tcase_add_test(t, a_dip_made_again_counts_on);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
