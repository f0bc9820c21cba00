/* The VIP of a packet whose port is not known: against all VIPs, one by one. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "lookup/snapshot.h"
#include "tests/unit/frames.h"
#include "tests/unit/prng.h"

#define N_ADDRESSES 12u
#define N_VIPS_MAX 40u

static uint64_t rng;

static unsigned pick(unsigned n)
{
	return (unsigned)(frames_random(&rng) % n);
}

static struct ip_addr address(unsigned i)
{
	struct ip_addr a = frames_ip(i % 2 ? "2001:db8::" : "192.0.2.0");

	a.b[15] = (uint8_t)i;
	return a;
}

static struct vip_match random_match(void)
{
	struct vip_match m = {.address = address(pick(N_ADDRESSES)),
			      .port = (uint16_t)pick(4),
			      .protocol = (enum vip_protocol)pick(3)};

	if (m.port && pick(4) == 0)
		m.port_end = (uint16_t)(m.port + 1 + pick(3));
	if (pick(16) == 0) {
		m.host_bits = (uint8_t)(1 + pick(3));
		m.address = ip_addr_mask(&m.address, m.host_bits);
	}
	return m;
}

/* A snapshot of random VIPs, of which no two take the same packets. */
static struct snapshot *random_snapshot(unsigned n)
{
	struct snapshot *s = snapshot_new(1, 0);

	ck_assert_ptr_nonnull(s);
	for (unsigned slot = 0; slot < n; slot++) {
		struct vip_view *v = vip_view_new(0, 1);

		ck_assert_ptr_nonnull(v);
		v->slot = (uint16_t)slot;
		v->match = random_match();
		int rc = snapshot_add_vip(s, v);
		ck_assert(rc == 0 || rc == -EEXIST);
		vip_view_unref(v);
	}
	return s;
}

/* How many VIPs take some packet to dst over proto, and one of them. */
static unsigned count(const struct snapshot *s, const struct ip_addr *dst, uint8_t proto,
		      const struct vip_view **one)
{
	unsigned n = 0;

	for (unsigned slot = 0; slot < N_VIPS_MAX; slot++) {
		const struct vip_view *v = s->vips[slot];

		if (!v || !vip_match_has_address(&v->match, dst) ||
		    v->match.protocol == (proto == IPPROTO_TCP ? VIP_UDP : VIP_TCP))
			continue;
		*one = v;
		n++;
	}
	return n;
}

static void check(const struct snapshot *s, const struct ip_addr *dst, uint8_t proto,
		  unsigned *n_known)
{
	const struct vip_view *sole = snapshot_match_sole(s, dst, proto), *one = NULL;
	unsigned n = count(s, dst, proto, &one);

	if (!sole) {
		/* it may be a prefix's, or under one of another protocol */
		bool prefix = false;
		for (unsigned slot = 0; slot < N_VIPS_MAX; slot++)
			prefix |= s->vips[slot] && s->vips[slot]->match.host_bits &&
				  vip_match_has_address(&s->vips[slot]->match, dst);
		ck_assert(n != 1 || prefix);
		return;
	}
	ck_assert(n == 1 && sole == one);
	ck_assert(snapshot_match(s, dst, sole->match.port, proto) == sole);
	for (uint16_t port = 0; port < 10; port++) {
		const struct vip_view *v = snapshot_match(s, dst, port, proto);
		ck_assert(!v || v == sole);
	}
	++*n_known;
}

START_TEST(test_against_all)
{
	unsigned n_known = 0;

	rng = frames_seed();
	for (unsigned i = 0; i < REPEATS(2000); i++) {
		struct snapshot *s = random_snapshot(1 + pick(i % 8 ? 8 : N_VIPS_MAX));

		for (unsigned a = 0; a < N_ADDRESSES; a++) {
			struct ip_addr dst = address(a);

			check(s, &dst, IPPROTO_TCP, &n_known);
			check(s, &dst, IPPROTO_UDP, &n_known);
			ck_assert_ptr_null(snapshot_match_sole(s, &dst, IPPROTO_ICMP));
			ck_assert_ptr_null(snapshot_match_sole(s, &dst, 0));
		}
		snapshot_free(s);
	}
	ck_assert_uint_gt(n_known, REPEATS(2000));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("match_sole");
	TCase *tc = tcase_create("match_sole");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_against_all);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
