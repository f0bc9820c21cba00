/* Prefixes and ranges of ports: steer, by BPF_PROG_TEST_RUN, takes a packet if and only if the
 * snapshot of the same VIPs names one for it, which is the naive oracle's. VIPs come and go
 * meanwhile. Needs root. No socket is bound, so what steer takes it drops. */
#include <bpf/bpf.h>
#include <check.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "frames.h"
#include "io/steer.h"
#include "netns.h"
#include "random_vips.h"
#include "tests/unit/icmp_frames.h"

#define N_VIPS 60

static struct steer *steer;
static struct vip_match vips[N_VIPS];
static bool present[N_VIPS];

static void setup(void)
{
	static const uint8_t lb_mac[6] = {2, 0, 0, 0, 0, 2}; /* where frames_build sends to */
	struct error err = {""};
	int ifindex;

	netns_enter(netns_new());
	ifindex = (int)if_nametoindex("lo");
	ck_assert_msg(steer_open(1, &ifindex, 1792, false, &steer, &err) == 0, "%s", err.message);
	ck_assert(steer_set_mac(steer, 0, lb_mac));
	memset(present, 0, sizeof(present));
}

static void teardown(void)
{
	steer_close(steer);
	steer = NULL;
}

static uint8_t frame[FRAMES_MAX];

static bool frame_is_taken(uint32_t len)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = len, .repeat = 1);

	ck_assert_int_eq(bpf_prog_test_run_opts(steer_program_fd(steer, 0), &o), 0);
	ck_assert(o.retval == XDP_DROP || o.retval == XDP_PASS);
	return o.retval == XDP_DROP;
}

static bool taken(const struct frames_spec *s)
{
	return frame_is_taken(frames_build(frame, s));
}

/* A router's error about what the VIP's end of the packet's flow has sent. */
static bool error_is_taken(const struct frames_spec *f)
{
	bool v4 = ip_addr_is_v4(&f->dst);
	struct icmp_spec s = {.type = v4 ? 3 : 2, .code = v4 ? 4 : 0, .rest = 1280};

	s.outer.src = frames_ip(v4 ? "192.0.2.1" : "2001:db8:77::1");
	s.outer.dst = f->dst;
	s.quoted = (struct frames_spec){.src = f->dst,
					.dst = f->src,
					.sport = f->dport,
					.dport = f->sport,
					.proto = f->proto};
	return frame_is_taken(icmp_frames_build(frame, &s));
}

static bool echo_is_taken(const struct frames_spec *f)
{
	struct icmp_spec s = {
		.type = ip_addr_is_v4(&f->dst) ? 8 : 128, .no_quote = true, .quoted_len = 8};

	s.outer.src = f->src;
	s.outer.dst = f->dst;
	return frame_is_taken(icmp_frames_build(frame, &s));
}

static void set(unsigned i, bool there)
{
	struct error err = {""};
	int rc =
		there ? steer_add_vip(steer, &vips[i], &err) : steer_del_vip(steer, &vips[i], &err);

	ck_assert_msg(rc == 0, "%s", err.message);
	present[i] = there;
}

static struct snapshot *make_snapshot(void)
{
	struct snapshot *s = snapshot_new(1, 0);

	for (uint16_t i = 0; i < N_VIPS; i++) {
		struct vip_view *v = present[i] ? vip_view_new(0, 0) : NULL;
		if (!v)
			continue;
		v->slot = i;
		v->match = vips[i];
		ck_assert_int_eq(snapshot_add_vip(s, v), 0);
		vip_view_unref(v);
	}
	return s;
}

static int naive(const struct frames_spec *f)
{
	int best = -1;

	for (int i = 0; i < N_VIPS; i++)
		if (present[i] && random_vips_take(&vips[i], &f->dst, f->dport, f->proto) &&
		    (best < 0 || random_vips_rank(&vips[i]) > random_vips_rank(&vips[best])))
			best = i;
	return best;
}

/* Some VIP has the address: it answers pings there, whatever its ports. */
static bool naive_address(const struct frames_spec *f)
{
	bool has = false;

	for (int i = 0; i < N_VIPS; i++) {
		struct vip_match all = {.address = vips[i].address, .host_bits = vips[i].host_bits};
		has |= present[i] && random_vips_take(&all, &f->dst, 1, IPPROTO_TCP);
	}
	return has;
}

/* No two alike: which of them is there could not be told. */
static void draw_vips(struct prng *rng)
{
	for (unsigned i = 0; i < N_VIPS; i++) {
		bool again = true;
		while (again) {
			vips[i] = random_vips_match(rng);
			again = false;
			for (unsigned k = 0; k < i; k++)
				again |= vip_match_equal(&vips[i], &vips[k]);
		}
	}
}

static struct frames_spec random_packet(struct prng *rng)
{
	const struct vip_match *m = &vips[prng_below(rng, N_VIPS)];
	const uint16_t edges[] = {m->port, m->port_end};
	bool v4 = prng_below(rng, 2);
	struct frames_spec f = {.dst = random_vips_dst(rng, v4),
				.sport = 4000,
				.dport = (uint16_t)prng_below(rng, 70),
				.proto = prng_below(rng, 2) ? IPPROTO_TCP : IPPROTO_UDP};

	if (prng_below(rng, 2)) {
		f.dst = m->address;
		f.dport = (uint16_t)(edges[prng_below(rng, 2)] + prng_below(rng, 3) - 1);
	}
	f.src = frames_ip(ip_addr_is_v4(&f.dst) ? "10.9.0.1" : "2001:db8::9");
	return f;
}

START_TEST(steer_takes_what_the_snapshot_knows)
{
	struct prng rng = prng_new("steer_wide");
	unsigned n_taken = 0, n_passed = 0;

	draw_vips(&rng);
	for (int t = 0; t < 90; t++) {
		for (unsigned n = prng_below(&rng, 12); n > 0; n--) {
			unsigned i = prng_below(&rng, N_VIPS);
			set(i, prng_below(&rng, t / 18 % 2 ? 6 : 2) == 0);
		}
		struct snapshot *s = make_snapshot();
		for (int k = 0; k < 120; k++) {
			struct frames_spec f = random_packet(&rng);
			const struct vip_view *v = snapshot_match(s, &f.dst, f.dport, f.proto);
			int want = naive(&f);
			ck_assert_int_eq(v ? v->slot : -1, want);
			ck_assert_int_eq(taken(&f), want >= 0);
			ck_assert_int_eq(error_is_taken(&f), want >= 0);
			ck_assert_int_eq(echo_is_taken(&f), naive_address(&f));
			n_taken += want >= 0;
			n_passed += want < 0;
		}
		snapshot_free(s);
	}
	for (unsigned i = 0; i < N_VIPS; i++) /* nothing is left behind */
		set(i, false);
	for (int k = 0; k < 500; k++) {
		struct frames_spec f = random_packet(&rng);
		ck_assert(!taken(&f));
	}
	ck_assert_uint_gt(n_taken, 500); /* as the VIPs fall, mostly some thousands */
	ck_assert_uint_gt(n_passed, 500);
}
END_TEST

/* Whatever comes and goes beside it, a VIP's packets are taken at every step. */
START_TEST(a_vip_never_misses_beside_others)
{
	struct prng rng = prng_new("steer_beside");

	draw_vips(&rng);
	vips[0] = (struct vip_match){
		.address = frames_ip("10.9.0.0"), .host_bits = 8, .port = 10, .port_end = 40};
	set(0, true);
	for (int t = 0; t < 1500; t++) {
		struct frames_spec f = {.src = frames_ip("10.9.0.1"),
					.dst = frames_ip("10.9.0.0"),
					.dport = (uint16_t)(10 + prng_below(&rng, 31)),
					.proto = IPPROTO_TCP};
		f.dst.b[15] = (uint8_t)prng_below(&rng, 256);
		unsigned i = 1 + prng_below(&rng, N_VIPS - 1);
		set(i, !present[i] || prng_below(&rng, 10) == 0); /* also what is there already */
		ck_assert(taken(&f));
	}
}
END_TEST

/* What is no whole packet is ours if the address is, of any prefix. */
START_TEST(fragments_of_a_prefix_are_taken)
{
	struct frames_spec f = {.src = frames_ip("10.9.0.1"),
				.dst = frames_ip("10.9.7.200"),
				.proto = IPPROTO_UDP,
				.v4_frag = 0x2001};

	vips[0] = (struct vip_match){
		.address = frames_ip("10.9.7.0"), .host_bits = 8, .port = 53, .protocol = VIP_UDP};
	ck_assert(!taken(&f));
	set(0, true);
	ck_assert(taken(&f));
	f.dst = frames_ip("10.9.8.200");
	ck_assert(!taken(&f));
}
END_TEST

/* As many as there are slots, each of as many blocks as a range can have; one more prefix is
 * refused with nothing changed. */
START_TEST(full_maps)
{
	struct error err = {""};
	struct vip_match m = {
		.address = frames_ip("10.1.0.0"), .host_bits = 4, .port = 1, .port_end = 65534};
	struct frames_spec f = {.src = frames_ip("10.9.0.1"), .dport = 80, .proto = IPPROTO_TCP};

	for (int i = 0; i < VIPS_MAX; i++) {
		m.address.b[13] = (uint8_t)(i >> 8);
		m.address.b[14] = (uint8_t)i;
		ck_assert_msg(steer_add_vip(steer, &m, &err) == 0, "%d: %s", i, err.message);
	}
	f.dst = m.address;
	ck_assert(taken(&f));
	struct vip_match more = m;
	more.address = frames_ip("10.2.0.0");
	more.address.b[13] = 200;
	more.port = 80;
	more.port_end = 0;
	ck_assert_int_eq(steer_add_vip(steer, &more, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.message, "cannot add a VIP"));
	f.dst = more.address;
	ck_assert(!taken(&f));
	ck_assert_int_eq(steer_del_vip(steer, &m, &err), 0);
	ck_assert_int_eq(steer_add_vip(steer, &more, &err), 0);
	ck_assert(taken(&f));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("steer_wide");
	TCase *t = tcase_create("test_run");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, steer_takes_what_the_snapshot_knows);
	tcase_add_test(t, a_vip_never_misses_beside_others);
	tcase_add_test(t, fragments_of_a_prefix_are_taken);
	tcase_add_test(t, full_maps);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
