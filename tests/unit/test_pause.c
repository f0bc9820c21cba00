/* While workers stand still for others they hold no frames: those may be a socket's that is about
 * to go. */
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "io/port_mem.h"
#include "tests/unit/world.h"
#include "worker/worker.h"

static struct world *w;

/* The second fragment of a datagram whose first never comes. */
static void send_later_fragment(void)
{
	const struct frames_spec spec = {.src = frames_ip("192.0.2.9"),
					 .dst = frames_ip(WORLD_VIP_ADDRESS),
					 .sport = 1024,
					 .dport = 80,
					 .proto = IPPROTO_UDP,
					 .payload_len = 1000};
	uint8_t whole[1200], part[1200];

	frames_build(whole, &spec);
	uint32_t len = frames_cut(part, whole, 7, 400, 400);
	ck_assert_int_eq(port_mem_inject(w->ports[0], 0, 0, part, len), 0);
	worker_round(w->workers[0]);
}

static void look(void *arg)
{
	unsigned *n_calls = arg;

	ck_assert_uint_eq(port_mem_n_held(w->ports[0]), 0);
	++*n_calls;
}

START_TEST(no_frames_are_held)
{
	const struct worker_counters *c;
	unsigned n_calls = 0;

	w = world_new(1, 1024);
	c = w->workers[0]->counters;
	world_put_vip(w, "web", VIP_UDP, CONTROL_CREATED);
	world_put_dip(w, "web", 1, 1, CONTROL_CREATED);
	send_later_fragment();
	ck_assert_uint_eq(port_mem_n_held(w->ports[0]), 1);
	control_pause(w->control, look, &n_calls);
	ck_assert_uint_eq(n_calls, 1);
	ck_assert_uint_eq(counter_read(&c->drops[DROP_fragment_timeout]), 1);
	/* and it goes on as before */
	ck_assert_uint_ne(world_udp(w, 0, 1), 0);
	send_later_fragment();
	ck_assert_uint_eq(port_mem_n_held(w->ports[0]), 1);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pause");
	TCase *tc = tcase_create("pause");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, no_frames_are_held);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
