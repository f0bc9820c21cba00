/* Mode nat in control: which ways back there are, in the snapshot and for steer, while DIPs and
 * VIPs come and go; packets there and back; and what is refused. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"
#include "io/port_mem.h"
#include "io/steer_map.h"
#include "tests/unit/world.h"

#define DIP_PORT 8080
#define LINGER_MS 60000u

static struct world *w;

static struct control_request *ask(struct control_request r, enum control_status want)
{
	static struct control_request kept;

	kept = r;
	world_request(w, &kept);
	ck_assert_msg(kept.status == want, "status %d, not %d: %s", kept.status, want, kept.detail);
	return &kept;
}

static void put_vip(const char *id, uint16_t port, enum vip_protocol protocol, enum vip_mode mode,
		    enum control_status want)
{
	struct control_request r = {.op = OP_VIP_PUT};

	snprintf(r.vip, sizeof(r.vip), "%s", id);
	vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL | VIP_M_MODE;
	r.vip_edit.conf.match = (struct vip_match){
		.address = frames_ip(WORLD_VIP_ADDRESS), .port = port, .protocol = protocol};
	r.vip_edit.conf.mode = mode;
	ask(r, want);
}

static struct control_request *put_dip(const char *vip, unsigned last, uint32_t port,
				       enum control_status want)
{
	const uint8_t ip[4] = {10, 9, 0, (uint8_t)last};
	struct control_request r = {.op = OP_DIP_PUT};

	snprintf(r.vip, sizeof(r.vip), "%s", vip);
	snprintf(r.dip, sizeof(r.dip), "b%u", last);
	dip_conf_defaults(&r.dip_edit.conf);
	r.dip_edit.members = DIP_M_ADDRESS | DIP_M_PORT;
	r.dip_edit.conf.address = ip_addr_v4(ip);
	r.dip_edit.conf.port = port;
	return ask(r, want);
}

/* What steer and the snapshot have: the same. */
static const struct back_way *way(unsigned last, uint16_t port, uint8_t proto)
{
	const uint8_t ip[4] = {10, 9, 0, (uint8_t)last};
	struct back_key key = {.address = ip_addr_v4(ip), .port_be = htons(port), .proto = proto};
	struct back_table *t = w->control->snapshot->back;
	const struct back_way *in = t ? back_table_get(t, &key) : NULL;
	bool steered = false;

	for (unsigned i = 0; i < w->n_ways; i++)
		steered |= memcmp(&w->ways[i].key, &key, sizeof(key)) == 0;
	ck_assert(!steered || in);
	return steered ? in : NULL;
}

static void setup(void)
{
	w = world_new(1, 1024);
	put_vip("web", 80, VIP_TCP, VIP_NAT, CONTROL_CREATED);
}

static void teardown(void)
{
	world_free(w);
}

START_TEST(test_comes_and_lingers)
{
	ck_assert_uint_eq(w->n_ways, 0);
	put_dip("web", 1, DIP_PORT, CONTROL_CREATED);
	put_dip("web", 2, 0, CONTROL_CREATED);
	ck_assert_uint_eq(w->n_ways, 2);
	const struct back_way *b = way(1, DIP_PORT, IPPROTO_TCP);
	ck_assert_ptr_nonnull(b);
	ck_assert_uint_eq(b->vip_port_be, htons(80));
	ck_assert_uint_eq(b->ifaces, 1);
	ck_assert_uint_ne(b->counter, BACK_UNCOUNTED);
	ck_assert_ptr_nonnull(way(2, 80, IPPROTO_TCP));

	world_delete_dip(w, "web", 1, true);
	b = way(1, DIP_PORT, IPPROTO_TCP);
	ck_assert_ptr_nonnull(b);
	ck_assert_uint_eq(b->counter, BACK_UNCOUNTED);
	world_advance_ms(LINGER_MS / 2);
	world_set_weight(w, "web", 2, 5); /* a new table */
	ck_assert_ptr_nonnull(way(1, DIP_PORT, IPPROTO_TCP));
	world_advance_ms(LINGER_MS / 2);
	world_settle(w);
	ck_assert_ptr_null(way(1, DIP_PORT, IPPROTO_TCP));
	ck_assert_uint_eq(w->n_ways, 1);
	world_set_weight(w, "web", 2, 6);
	ck_assert_uint_eq(w->control->snapshot->back->n, 1);
}
END_TEST

/* The next one that has the end takes it over at once. */
START_TEST(test_taken_over)
{
	put_dip("web", 1, DIP_PORT, CONTROL_CREATED);
	world_delete_dip(w, "web", 1, true);
	put_vip("other", 443, VIP_TCP, VIP_NAT, CONTROL_CREATED);
	put_dip("other", 1, DIP_PORT, CONTROL_CREATED);
	const struct back_way *b = way(1, DIP_PORT, IPPROTO_TCP);
	ck_assert_ptr_nonnull(b);
	ck_assert_uint_eq(b->vip_port_be, htons(443));
	ck_assert_uint_ne(b->counter, BACK_UNCOUNTED);
	world_advance_ms(2 * LINGER_MS);
	world_settle(w);
	ck_assert_ptr_nonnull(way(1, DIP_PORT, IPPROTO_TCP));
}
END_TEST

START_TEST(test_refused)
{
	put_vip("other", 443, VIP_TCP, VIP_NAT, CONTROL_CREATED);
	put_vip("dns", 53, VIP_UDP, VIP_NAT, CONTROL_CREATED);
	put_vip("all", 0, VIP_ANY, VIP_NAT, CONTROL_CREATED);
	put_vip("direct", 81, VIP_TCP, VIP_L2, CONTROL_CREATED);
	put_dip("web", 1, DIP_PORT, CONTROL_CREATED);
	struct control_request *r = put_dip("other", 1, DIP_PORT, CONTROL_CONFLICT);
	ck_assert_str_eq(r->errors.list[0].pointer, "/address");
	ck_assert_str_eq(r->errors.list[0].code, "duplicate");
	ck_assert_ptr_nonnull(strstr(r->errors.list[0].detail, "\"web\""));
	put_dip("all", 1, 0, CONTROL_CONFLICT); /* any port is this one, too */
	put_dip("other", 1, DIP_PORT + 1, CONTROL_CREATED);
	put_dip("dns", 1, DIP_PORT, CONTROL_CREATED); /* the other protocol */
	put_dip("all", 2, 0, CONTROL_CREATED);
	ck_assert_ptr_nonnull(way(2, 0, IPPROTO_TCP));
	ck_assert_ptr_nonnull(way(2, 0, IPPROTO_UDP));
	put_dip("web", 2, 0, CONTROL_CONFLICT);
	put_dip("all", 3, DIP_PORT, CONTROL_INVALID); /* each port stays */
	put_dip("direct", 3, DIP_PORT, CONTROL_INVALID);
	put_dip("direct", 2, 0, CONTROL_CREATED);
	/* as one of mode nat, "direct" would have what "all" has */
	put_vip("direct", 81, VIP_TCP, VIP_NAT, CONTROL_CONFLICT);
	put_dip("web", 1, DIP_PORT + 2, CONTROL_CONFLICT); /* a DIP's port stays */
}
END_TEST

START_TEST(test_there_and_back)
{
	struct frames_spec s = {.src = frames_ip("10.1.0.1"),
				.dst = frames_ip(WORLD_VIP_ADDRESS),
				.sport = 4000,
				.dport = 80,
				.tcp_flags = FRAMES_SYN};
	uint8_t frame[256], out[2048];

	put_dip("web", 7, DIP_PORT, CONTROL_CREATED);
	ck_assert_uint_eq(world_send(w, 0, &s), 7);
	struct frames_spec back = {
		.src = frames_ip("10.9.0.7"), .dst = s.src, .sport = DIP_PORT, .dport = s.sport};
	uint32_t len = frames_build(frame, &back);
	frame[12] = STEER_BACK_TYPE >> 8;
	frame[13] = 0; /* IPv4, by interface 0 */
	ck_assert_int_eq(port_mem_inject(w->ports[0], 0, 0, frame, len), 0);
	ck_assert_uint_eq(worker_round(w->workers[0]), 1);
	ck_assert_uint_eq(port_mem_take(w->ports[0], 0, out, sizeof(out)), len);
	back.src = s.dst;
	back.sport = 80;
	back.ttl = 63;
	frames_build(frame, &back);
	ck_assert_mem_eq(out + 12, frame + 12, len - 12);

	size_t n;
	struct vip_info *v = control_read_vips(w->control, "web", true, &n);
	ck_assert_uint_eq(v->dips[0].return_packets, 1);
	ck_assert_uint_eq(v->dips[0].return_bytes, len);
	ck_assert_uint_eq(v->return_packets, 1);
	vip_infos_free(v, n);
	world_delete_dip(w, "web", 7, true);
	v = control_read_vips(w->control, "web", true, &n);
	ck_assert_uint_eq(v->return_packets, 1);
	vip_infos_free(v, n);
}
END_TEST

START_TEST(test_restart_and_modes)
{
	put_dip("web", 1, DIP_PORT, CONTROL_CREATED);
	world_restart(w, WORLD_KILL);
	ck_assert_ptr_nonnull(way(1, DIP_PORT, IPPROTO_TCP));
	put_dip("web", 2, 0, CONTROL_CREATED);
	/* l2 has no ports of its own */
	put_vip("web", 80, VIP_TCP, VIP_L2, CONTROL_INVALID);
	world_delete_dip(w, "web", 1, true);
	put_vip("web", 80, VIP_TCP, VIP_L2, CONTROL_OK);
	ck_assert_uint_eq(way(2, 80, IPPROTO_TCP)->counter, BACK_UNCOUNTED);
	put_vip("web", 80, VIP_TCP, VIP_NAT, CONTROL_OK);
	ck_assert_uint_ne(way(2, 80, IPPROTO_TCP)->counter, BACK_UNCOUNTED);
}
END_TEST

/* A commit that fails leaves no way behind. */
START_TEST(test_failed_publish)
{
	put_dip("web", 1, DIP_PORT, CONTROL_CREATED);
	w->fail_commit = 28;
	put_dip("web", 2, DIP_PORT, CONTROL_NO_STORAGE);
	w->fail_commit = 0;
	ck_assert_uint_eq(w->n_ways, 1);
	ck_assert_ptr_null(way(2, DIP_PORT, IPPROTO_TCP));
}
END_TEST

START_TEST(test_next_hops)
{
	w->hop_wanted = (struct back_hop){3, frames_ip("10.1.0.254")};
	put_dip("web", 1, DIP_PORT, CONTROL_CREATED);
	world_advance_ms(200);
	world_settle(w);
	ck_assert_int_eq(w->hop_resolved.ifindex, 3);
	struct ip_addr a = frames_ip("10.1.0.254");
	ck_assert(ip_addr_equal(&w->hop_resolved.address, &a));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ways_back");
	TCase *tc = tcase_create("ways_back");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_comes_and_lingers);
	tcase_add_test(tc, test_taken_over);
	tcase_add_test(tc, test_refused);
	tcase_add_test(tc, test_there_and_back);
	tcase_add_test(tc, test_restart_and_modes);
	tcase_add_test(tc, test_failed_publish);
	tcase_add_test(tc, test_next_hops);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
