/* What the watch says of VIPs; of interfaces, and of ways to DIPs, the end-to-end tests tell. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/own_addresses.h"
#include "control/watch.h"
#include "tests/unit/world.h"

static struct world *w;
static struct watch *watch;
static struct warnings now;

static void set_up(void)
{
	w = world_new(1, 1024);
	ck_assert_int_eq(watch_new(NULL, w->control, &watch), 0);
}

static void tear_down(void)
{
	warnings_free(&now);
	watch_free(watch);
	world_free(w);
}

static void look(void)
{
	warnings_free(&now);
	watch_look(watch, &now);
	ck_assert(now.serving);
	ck_assert(watch_serving(watch));
}

/* How many sentences have both in them. */
static unsigned count(const char *a, const char *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < now.n; i++)
		n += strstr(now.list[i], a) && strstr(now.list[i], b);
	return n;
}

START_TEST(vips)
{
	char detached[16];

	look();
	ck_assert_uint_eq(now.n, 0);
	ck_assert_str_eq(watch_detached(watch, detached, sizeof(detached)), "");
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	look();
	ck_assert_uint_eq(count("VIP web", "has no DIP"), 1);
	ck_assert_uint_eq(count("VIP web", "ip address add " WORLD_VIP_ADDRESS "/32 dev IF"), 1);
	ck_assert_uint_eq(now.n, 2);
	world_put_dip(w, "web", 1, 10, CONTROL_CREATED);
	look();
	ck_assert_uint_eq(now.n, 1);
	world_set_weight(w, "web", 1, 0);
	look();
	ck_assert_uint_eq(count("VIP web", "none of its DIPs"), 1);
	world_put_dip(w, "web", 2, 10, CONTROL_CREATED);
	look();
	ck_assert_uint_eq(count("VIP web", "none of its DIPs"), 0);
	world_set_admin(w, "web", 2, ADMIN_DOWN);
	look();
	ck_assert_uint_eq(count("VIP web", "none of its DIPs"), 1);
	world_set_weight(w, "web", 1, 1);
	look();
	ck_assert_uint_eq(now.n, 1);
}
END_TEST

/* Sentences beyond the most that are shown are counted, and none is written beyond the list. */
START_TEST(many)
{
	enum { N = WARNINGS_MAX / 2 + 20 };

	for (unsigned i = 0; i < N; i++) {
		struct control_request r = {.op = OP_VIP_PUT};
		snprintf(r.vip, sizeof(r.vip), "v%u", i);
		r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
		vip_conf_defaults(&r.vip_edit.conf);
		ck_assert_int_eq(ip_addr_parse("2001:db8::77", &r.vip_edit.conf.match.address), 0);
		r.vip_edit.conf.match.port = (uint16_t)(i + 1);
		world_request(w, &r);
		ck_assert_int_eq(r.status, CONTROL_CREATED);
	}
	look();
	ck_assert_uint_eq(now.n, WARNINGS_MAX);
	ck_assert_uint_eq(now.n + now.n_more, 2 * N);
	ck_assert_uint_gt(count("ip -6 address add 2001:db8::77/128 dev IF nodad", "discovery"), 0);
}
END_TEST

START_TEST(own_addresses)
{
	struct own_addresses own;
	struct ip_addr a;

	ck_assert_int_eq(own_addresses_read(&own), 0);
	ck_assert_int_eq(ip_addr_parse("127.0.0.1", &a), 0);
	ck_assert(own_addresses_have(&own, &a));
	ck_assert_int_eq(ip_addr_parse("192.0.2.77", &a), 0);
	ck_assert(!own_addresses_have(&own, &a));
	for (size_t i = 0; i < own.n; i++)
		ck_assert(own_addresses_have(&own, &own.list[i]));
	own_addresses_free(&own);
	ck_assert(!own_addresses_have(&own, &a));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("watch");
	TCase *tc = tcase_create("watch");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, vips);
	tcase_add_test(tc, many);
	tcase_add_test(tc, own_addresses);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
