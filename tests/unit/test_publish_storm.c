/* Publishes as fast as they go, beside a worker that forwards without a pause, opens 50,000 flows a
 * second and overflows the flow table: real threads, real time. The audit (every record is compared
 * with the flow table) must find nothing. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/priority.h"
#include "tests/bench/endless_port.h"
#include "tests/unit/world.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FLOWS = 2000, CHANGES = 25 };
#else
enum { FLOWS = 20000, CHANGES = 250 };
#endif

static void settle_for(struct world *w, uint64_t ms)
{
	for (uint64_t until = clock_now_ms() + ms; clock_now_ms() < until;)
		control_step(w->control);
}

START_TEST(no_flow_moves_in_a_storm)
{
	struct world *w = world_new(1, FLOWS * 3);
	struct port *mem = w->ports[0];
	uint64_t rng = frames_seed();
	uint64_t max_pinned = 0;

	clock_set_source(NULL, NULL);
	w->workers[0]->port = endless_port_new(FLOWS, 50000, 0x0a090064);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned d = 1; d <= 20; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
	(void)priority_raise(); /* as the control thread has, and the worker */
	ck_assert_int_eq(worker_start(w->workers[0]), 0);
	for (unsigned n = 0; n < CHANGES; n++) {
		unsigned d = 1 + (unsigned)(frames_random(&rng) % 20);
		struct control_request *r = world_set_weight(
			w, "web", d, (uint32_t)(frames_random(&rng) % 20) + (d == 1));
		ck_assert_uint_eq(r->change.flows_moved, 0);
		if (r->change.flows_pinned > max_pinned)
			max_pinned = r->change.flows_pinned;
		settle_for(w, frames_random(&rng) % 8);
	}
	worker_stop(w->workers[0]);
	control_step(w->control);
	struct consistency c = world_consistency(w);
	printf("%lu publishes, %lu flows known, at most %lu pinned, %lu forgotten\n",
	       (unsigned long)c.publishes_total, (unsigned long)c.flows_known,
	       (unsigned long)max_pinned, (unsigned long)c.flows_forgotten_total);
	ck_assert_uint_gt(max_pinned, 0);
	ck_assert_uint_gt(c.flows_forgotten_total, 0);
	ck_assert_uint_eq(c.violations_total, 0);
	ck_assert_uint_eq(endless_port_dropped(w->workers[0]->port), 0);
	endless_port_free(w->workers[0]->port);
	w->workers[0]->port = mem;
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("publish_storm");
	TCase *t = tcase_create("publish_storm");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, no_flow_moves_in_a_storm);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
