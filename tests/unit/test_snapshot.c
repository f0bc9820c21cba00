/* Snapshots: which VIP a packet belongs to, and which DIP a flow, against naive oracles; pins,
 * exact flows, equal hashes; ownership and errors. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lookup/othello_map.h"
#include "lookup/snapshot.h"
#include "tests/unit/prng.h"
#include "tests/unit/random_vips.h"
#include "tests/unit/scarce_space.h"

/* --- fixtures ------------------------------------------------------------------------------------
 */

static struct ip_addr address(uint32_t i)
{
	uint32_t be = __builtin_bswap32(0x0a090000 + i);

	return ip_addr_v4(&be);
}

static struct vip_view *view_new(uint16_t slot, uint32_t n_dcodes, uint32_t n_dips)
{
	struct vip_view *v = vip_view_new(n_dcodes, n_dips);

	ck_assert_ptr_nonnull(v);
	v->slot = slot;
	v->match = (struct vip_match){.address = address(slot), .port = 80, .protocol = VIP_TCP};
	for (uint32_t i = 1; i < n_dips; i++)
		vip_view_dips(v)[i].usable = true;
	for (uint32_t c = 0; c < n_dcodes; c++)
		vip_view_homes(v)[c] = (uint16_t)(1 + c % (n_dips - 1));
	return v;
}

static struct flow_key random_key(struct prng *rng, const struct vip_view *v)
{
	struct ip_addr src = address(prng_below(rng, 1 << 20));
	struct flow_key key;

	flow_key_of(v, &src, (uint16_t)prng_u64(rng), 0x5000, IPPROTO_TCP, &key);
	return key;
}

/* --- match ---------------------------------------------------------------------------------------
 */

static const struct vip_view *naive_match(const struct snapshot *s, const struct ip_addr *dst,
					  uint16_t dport, uint8_t proto)
{
	const struct vip_view *best = NULL;

	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return NULL;
	for (unsigned i = 0; i < VIP_SLOTS; i++) {
		const struct vip_view *v = s->vips[i];
		if (v && random_vips_take(&v->match, dst, dport, proto) &&
		    (!best || random_vips_rank(&v->match) > random_vips_rank(&best->match)))
			best = v;
	}
	return best;
}

static struct vip_match random_match(struct prng *rng)
{
	return (struct vip_match){
		.address = address(prng_below(rng, 12)),
		.port = (uint16_t)prng_below(rng, 4),
		.protocol = (enum vip_protocol)prng_below(rng, 3),
	};
}

static bool match_is_in(const struct snapshot *s, const struct vip_match *m)
{
	for (unsigned i = 0; i < VIP_SLOTS; i++) {
		const struct vip_match *n = s->vips[i] ? &s->vips[i]->match : NULL;
		if (n && ip_addr_equal(&n->address, &m->address) && n->port == m->port &&
		    n->protocol == m->protocol && n->host_bits == m->host_bits &&
		    n->port_end == m->port_end)
			return true;
	}
	return false;
}

START_TEST(test_match)
{
	const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP};
	struct prng rng = prng_new("match");

	for (int t = 0; t < 60; t++) {
		struct snapshot *s = snapshot_new(1, 0);
		for (uint32_t n = prng_below(&rng, 100); n > 0; n--) {
			struct vip_view *v = view_new((uint16_t)prng_below(&rng, VIP_SLOTS), 0, 0);
			v->match = random_match(&rng);
			bool refused = s->vips[v->slot] || match_is_in(s, &v->match);
			ck_assert_int_eq(snapshot_add_vip(s, v), refused ? -EEXIST : 0);
			vip_view_unref(v);
		}
		for (int k = 0; k < 300; k++) {
			struct ip_addr dst = address(prng_below(&rng, 13));
			uint16_t dport = (uint16_t)prng_below(&rng, 5);
			uint8_t proto = protos[prng_below(&rng, 3)];
			ck_assert_ptr_eq(snapshot_match(s, &dst, dport, proto),
					 naive_match(s, &dst, dport, proto));
		}
		snapshot_free(s);
	}
}
END_TEST

/* Prefixes and ranges among the others; each lookup also at the VIPs' edges. */
START_TEST(test_match_wide)
{
	struct prng rng = prng_new("match_wide");
	unsigned n_hits = 0, n_over = 0;

	for (int t = 0; t < 150; t++) {
		struct snapshot *s = snapshot_new(1, 0);
		for (uint32_t n = prng_below(&rng, t % 10 ? 60 : 400); n > 0; n--) {
			struct vip_view *v = view_new((uint16_t)prng_below(&rng, VIPS_MAX), 0, 0);
			v->match =
				prng_below(&rng, 3) ? random_vips_match(&rng) : random_match(&rng);
			bool refused = s->vips[v->slot] || match_is_in(s, &v->match);
			ck_assert_int_eq(snapshot_add_vip(s, v), refused ? -EEXIST : 0);
			vip_view_unref(v);
		}
		for (int k = 0; k < 400; k++) {
			struct ip_addr dst = random_vips_dst(&rng, prng_below(&rng, 2));
			uint16_t dport = (uint16_t)prng_below(&rng, k % 4 ? 70 : 65536);
			uint8_t proto = prng_below(&rng, 2) ? IPPROTO_TCP : IPPROTO_UDP;
			const struct vip_view *v = s->vips[prng_below(&rng, VIPS_MAX)];
			for (unsigned i = 0; v == NULL && i < VIPS_MAX && k % 2; i++)
				v = s->vips[i];
			if (v && k % 2) {
				const uint16_t edges[] = {v->match.port, v->match.port_end};
				dst = v->match.address;
				dport = (uint16_t)(edges[prng_below(&rng, 2)] +
						   prng_below(&rng, 3) - 1);
			}
			v = snapshot_match(s, &dst, dport, proto);
			ck_assert_ptr_eq(v, naive_match(s, &dst, dport, proto));
			n_hits += v != NULL;
			n_over += v && v->match.host_bits && v->match.port_end;
		}
		snapshot_free(s);
	}
	ck_assert_uint_gt(n_hits, 10000);
	ck_assert_uint_gt(n_over, 500);
}
END_TEST

/* What control asks of two matches, by all packets of a small world. */
START_TEST(test_match_relations)
{
	struct prng rng = prng_new("match_relations");

	for (int t = 0; t < 3000; t++) {
		struct vip_match x = random_vips_match(&rng), y = random_vips_match(&rng);
		if (prng_below(&rng, 4) == 0)
			y = x;
		bool both = false, same = true;
		for (int k = 0; k < 60; k++) {
			struct ip_addr dst = random_vips_dst(&rng, prng_below(&rng, 2));
			const uint16_t ports[] = {x.port, y.port, x.port_end, y.port_end,
						  (uint16_t)prng_below(&rng, 65536)};
			uint16_t dport = ports[prng_below(&rng, 5)];
			uint8_t proto = prng_below(&rng, 2) ? IPPROTO_TCP : IPPROTO_UDP;
			if (k % 3 == 0)
				dst = prng_below(&rng, 2) ? x.address : y.address;
			bool takes_x = random_vips_take(&x, &dst, dport, proto);
			bool takes_y = random_vips_take(&y, &dst, dport, proto);
			ck_assert_int_eq(vip_match_takes(&x, &dst, dport, proto), takes_x);
			both |= takes_x && takes_y;
			same &= takes_x == takes_y;
		}
		if (both)
			ck_assert(vip_match_overlaps(&x, &y));
		if (vip_match_equal(&x, &y))
			ck_assert(same && vip_match_overlaps(&x, &y));
		ck_assert_int_eq(vip_match_overlaps(&x, &y), vip_match_overlaps(&y, &x));
		if (vip_match_overlaps(&x, &y)) {
			int order = vip_match_order(&x, &y);
			ck_assert_int_eq((order < 0) - (order > 0),
					 (random_vips_rank(&x) > random_vips_rank(&y)) -
						 (random_vips_rank(&x) < random_vips_rank(&y)));
			ck_assert_int_eq(order == 0, vip_match_equal(&x, &y));
		}
	}
}
END_TEST

/* Every port of a range in one block, no other in any. */
START_TEST(test_port_blocks)
{
	static uint8_t in[65536], want[65536];
	struct prng rng = prng_new("port_blocks");

	for (int t = 0; t < 60; t++) {
		struct vip_match m = random_vips_match(&rng);
		struct port_block blocks[PORT_BLOCKS_MAX];
		if (t == 0)
			m.port = 1, m.port_end = 65534; /* the most there can be */
		unsigned n = vip_match_blocks(&m, blocks);
		ck_assert_uint_le(n, PORT_BLOCKS_MAX);
		ck_assert(t || n == PORT_BLOCKS_MAX);
		m.protocol = VIP_ANY;
		for (unsigned p = 0; p < 65536; p++)
			want[p] = random_vips_take(&m, &m.address, (uint16_t)p, IPPROTO_TCP);
		memset(in, 0, sizeof(in));
		for (unsigned i = 0; i < n; i++) {
			unsigned size = 1u << blocks[i].bits;
			ck_assert_uint_eq(blocks[i].first % size, 0);
			for (unsigned p = blocks[i].first; p < blocks[i].first + size; p++)
				in[p] = (uint8_t)(in[p] + 1 +
						  2 * (port_block_first((uint16_t)p,
									blocks[i].bits) !=
						       blocks[i].first));
		}
		ck_assert_mem_eq(in, want, sizeof(in));
	}
}
END_TEST

START_TEST(test_all_slots)
{
	struct snapshot *s = snapshot_new(1, 0);

	for (uint32_t i = 0; i < VIP_SLOTS; i++) {
		struct vip_view *v = view_new((uint16_t)i, 0, 0);
		ck_assert_int_eq(snapshot_add_vip(s, v), 0);
		vip_view_unref(v);
	}
	ck_assert_uint_eq(s->n_vips, VIP_SLOTS);
	for (uint32_t i = 0; i < VIP_SLOTS; i++) {
		struct ip_addr dst = address(i);
		ck_assert_ptr_eq(snapshot_match(s, &dst, 80, IPPROTO_TCP), s->vips[i]);
	}
	snapshot_free(s);
}
END_TEST

/* --- keys and references -------------------------------------------------------------------------
 */

START_TEST(test_affinity)
{
	struct vip_view *v = view_new(0, 0, 0);
	struct ip_addr src = address(5);
	struct flow_key x, y;

	flow_key_of(v, &src, 1, 2, IPPROTO_TCP, &x);
	flow_key_of(v, &src, 1, 3, IPPROTO_TCP, &y);
	ck_assert(!flow_key_equal(&x, &y));
	flow_key_of(v, &src, 1, 2, IPPROTO_UDP, &y);
	ck_assert(!flow_key_equal(&x, &y));
	v->affinity = AFFINITY_CLIENT;
	flow_key_of(v, &src, 1, 2, IPPROTO_TCP, &x);
	flow_key_of(v, &src, 7, 8, IPPROTO_UDP, &y);
	ck_assert(flow_key_equal(&x, &y));
	vip_view_unref(v);
}
END_TEST

/* Of a VIP of several addresses, which one is part of the flow: exactly, as far as 24 bits tell. */
START_TEST(test_destination_in_key)
{
	struct vip_view *v = view_new(0, 0, 0);
	struct prng rng = prng_new("destination");
	struct ip_addr src = address(5);

	v->seed = prng_u64(&rng);
	for (unsigned bits = 1; bits <= 128; bits++) {
		v->dst_bits = (uint8_t)bits;
		for (int t = 0; t < 200; t++) {
			struct ip_addr a = {.b = {0x20}}, b = a;
			struct flow_key x, y;
			for (unsigned i = 0; i < bits; i++)
				a.b[15 - i / 8] |= (uint8_t)(prng_below(&rng, 2) << i % 8);
			b = a;
			unsigned flip = prng_below(&rng, bits);
			b.b[15 - flip / 8] ^= (uint8_t)(1u << flip % 8);
			flow_key_of(v, &src, 1, 2, IPPROTO_TCP, &x);
			y = x;
			flow_key_put_dst(v, &a, &x);
			flow_key_put_dst(v, &b, &y);
			ck_assert(!flow_key_equal(&x, &y)); /* or once in 80,000 runs */
			ck_assert(flow_key_hash(&x, v->seed) != flow_key_hash(&y, v->seed));
			flow_key_put_dst(v, &a, &y);
			ck_assert(flow_key_equal(&x, &y));
		}
	}
	ck_assert_uint_eq(vip_match_dst_bits(&(struct vip_match){.host_bits = 8}, AFFINITY_FLOW),
			  8);
	ck_assert_uint_eq(vip_match_dst_bits(&(struct vip_match){.host_bits = 8}, AFFINITY_CLIENT),
			  0);
	vip_view_unref(v);
}
END_TEST

START_TEST(test_views_are_shared)
{
	struct vip_view *v = view_new(3, 1024, 3);
	struct snapshot *s = snapshot_new(1, 0), *next = snapshot_new(2, 0);

	ck_assert_uint_eq(vip_view_dcode_bytes(v), 2048);
	ck_assert_uint_eq(vip_view_pin_bytes(v), 0);
	ck_assert_int_eq(snapshot_add_vip(s, v), 0);
	ck_assert_int_eq(snapshot_add_vip(next, v), 0);
	ck_assert_uint_eq(v->refs, 3);
	vip_view_unref(v);
	snapshot_free(s);
	ck_assert_uint_eq(v->refs, 1);
	vip_view_ref(v);
	snapshot_free(next);
	ck_assert_uint_eq(v->refs, 1);
	vip_view_unref(v);
	vip_view_unref(NULL);
	snapshot_free(NULL);
}
END_TEST

/* --- lookups -------------------------------------------------------------------------------------
 */

/* Look up n flows of a VIP by bursts of every size and compare with what is expected of each. */
static void check_lookups(const struct snapshot *s, const struct vip_view *v,
			  const struct flow_key *keys, const uint16_t *dips, uint32_t n,
			  struct prng *rng)
{
	struct lookup l[64];

	for (uint32_t done = 0; done < n;) {
		uint32_t burst = 1 + prng_below(rng, 64);
		if (burst > n - done)
			burst = n - done;
		for (uint32_t i = 0; i < burst; i++)
			l[i] = (struct lookup){
				.vip = prng_below(rng, 8) ? v : NULL,
				.key = keys[done + i],
				.dip = 0xbeef,
			};
		uint64_t maybe_pinned = snapshot_lookup_prepare(s, l, burst);
		snapshot_lookup_burst(s, l, burst, maybe_pinned);
		for (uint32_t i = 0; i < burst; i++, done++) {
			enum lookup_reason reason;
			uint32_t dcode;
			expect(l[i].dip == (l[i].vip ? dips[done] : 0xbeef));
			ck_assert_uint_eq(snapshot_lookup_one(s, v, &keys[done], &reason, &dcode),
					  dips[done]);
			ck_assert((reason == LOOKUP_NONE) == (dips[done] == DIP_NONE));
			ck_assert_uint_eq(
				dcode, v->n_dcodes ? flow_home(flow_key_hash(&keys[done], v->seed),
							       v->n_dcodes)
						   : 0);
		}
	}
}

enum { FLOWS = 20000, DIPS = 20, DCODES = 2048 };

/* A VIP whose flows are at home but for one in fifty, which is pinned to a random DIP. */
static struct vip_view *pinned_view(struct prng *rng, struct flow_key *keys, uint16_t *dips)
{
	struct vip_view *v = view_new(0, DCODES, DIPS + 1);
	static uint64_t hashes[FLOWS];
	static uint32_t words[FLOWS];
	struct othello_map *m;
	uint32_t n_pins = 0;

	v->seed = prng_u64(rng);
	for (int i = 0; i < FLOWS; i++) {
		keys[i] = random_key(rng, v);
		uint64_t h = flow_key_hash(&keys[i], v->seed);
		dips[i] = vip_view_home(v, flow_home(h, DCODES));
		if (h % 50 == 0) {
			dips[i] = (uint16_t)(1 + (h >> 8) % DIPS);
			hashes[n_pins] = h;
			words[n_pins++] = pin_word(h, dips[i]);
		}
	}
	ck_assert_int_eq(othello_map_build(&m, n_pins, hashes, words, prng_u64(rng), NULL, NULL),
			 0);
	ck_assert_int_eq(othello_map_write(m, &v->pins), 0);
	othello_map_free(m);
	vip_view_mark_pins(v, hashes, n_pins);
	return v;
}

START_TEST(test_home_and_pins)
{
	struct prng rng = prng_new("home_and_pins");
	static struct flow_key keys[FLOWS];
	static uint16_t dips[FLOWS];
	struct snapshot *s = snapshot_new(1, 0);
	struct vip_view *v = pinned_view(&rng, keys, dips);
	uint32_t accidents = 0, pins = 0;

	ck_assert_uint_gt(vip_view_pin_bytes(v), 0);
	ck_assert_int_eq(snapshot_add_vip(s, v), 0);
	for (int i = 0; i < FLOWS; i++) {
		uint64_t h = flow_key_hash(&keys[i], v->seed);
		uint16_t found = vip_view_lookup(v, h);
		enum lookup_reason reason;
		uint32_t dcode;
		/* pins never miss; a fingerprint accident (1 in 65536) still gives a usable DIP */
		ck_assert(found > DIP_NONE && found <= DIPS);
		if (h % 50 == 0)
			ck_assert_uint_eq(found, dips[i]);
		accidents += found != dips[i];
		dips[i] = found;
		(void)!snapshot_lookup_one(s, v, &keys[i], &reason, &dcode);
		pins += reason == LOOKUP_PIN;
		ck_assert(reason == LOOKUP_PIN || reason == LOOKUP_HOME);
	}
	ck_assert_uint_le(accidents, 5);
	ck_assert_uint_ge(pins, FLOWS / 100);
	check_lookups(s, v, keys, dips, FLOWS, &rng);

	/* a pin to a DIP that is not usable (any more) falls back to the home Dcode */
	vip_view_dips(v)[7].usable = false;
	for (int i = 0; i < FLOWS; i++) {
		uint64_t h = flow_key_hash(&keys[i], v->seed);
		if (dips[i] == 7)
			dips[i] = vip_view_home(v, flow_home(h, DCODES));
	}
	check_lookups(s, v, keys, dips, FLOWS, &rng);
	snapshot_free(s);
	vip_view_unref(v);
}
END_TEST

/* Pins as a pool change makes them: all flows of some Dcodes. With the Dcodes marked, all is as
 * before, but that no other flow can meet a fingerprint accident. */
START_TEST(test_marked_pins)
{
	struct prng rng = prng_new("marked_pins");
	static struct flow_key keys[FLOWS];
	static uint16_t dips[FLOWS];
	static uint64_t hashes[FLOWS];
	static uint32_t words[FLOWS];
	struct vip_view *v = view_new(0, DCODES, DIPS + 1);
	struct snapshot *s = snapshot_new(1, 0);
	struct othello_map *m;
	uint32_t n_pins = 0;

	v->seed = prng_u64(&rng);
	for (int i = 0; i < FLOWS; i++) {
		keys[i] = random_key(&rng, v);
		uint64_t h = flow_key_hash(&keys[i], v->seed);
		uint32_t home = flow_home(h, DCODES);
		dips[i] = vip_view_home(v, home);
		if (home % 50 == 7) {
			dips[i] = (uint16_t)(1 + dips[i] % DIPS);
			hashes[n_pins] = h;
			words[n_pins++] = pin_word(h, dips[i]);
		}
	}
	ck_assert_int_eq(othello_map_build(&m, n_pins, hashes, words, prng_u64(&rng), NULL, NULL),
			 0);
	ck_assert_int_eq(othello_map_write(m, &v->pins), 0);
	othello_map_free(m);
	for (uint32_t c = 0; c < DCODES; c++)
		expect(v->homes[c] == vip_view_home(v, c)); /* nothing said yet */
	vip_view_mark_pins(v, hashes, n_pins);
	for (uint32_t c = 0; c < DCODES; c++)
		expect(v->homes[c] == vip_view_home(v, c) || c % 50 == 7);
	ck_assert_int_eq(snapshot_add_vip(s, v), 0);
	for (int i = 0; i < FLOWS; i++)
		expect(vip_view_lookup(v, flow_key_hash(&keys[i], v->seed)) == dips[i]);
	check_lookups(s, v, keys, dips, FLOWS, &rng);
	const uint32_t *counts = vip_view_dcodes(v);
	for (uint32_t i = 0; i <= DIPS; i++)
		ck_assert_uint_eq(counts[i], i ? DCODES / DIPS + (i <= DCODES % DIPS) : 0);
	expect(vip_view_dcodes(v) == counts);
	vip_view_mark_pins(v, NULL, 0);
	for (uint32_t c = 0; c < DCODES; c++)
		expect(v->homes[c] == vip_view_home(v, c));
	snapshot_free(s);
	vip_view_unref(v);
	v = view_new(0, 0, 2); /* no Dcodes */
	vip_view_mark_pins(v, NULL, 0);
	counts = vip_view_dcodes(v);
	expect(counts[0] == 0 && counts[1] == 0);
	vip_view_unref(v);
}
END_TEST

START_TEST(test_no_table)
{
	struct prng rng = prng_new("no_table");
	struct snapshot *s = snapshot_new(1, 4);
	struct vip_view *v = view_new(0, 0, 2);
	struct flow_key keys[10];
	uint16_t dips[10] = {DIP_NONE};

	ck_assert_int_eq(snapshot_add_vip(s, v), 0);
	for (int i = 0; i < 10; i++)
		keys[i] = random_key(&rng, v);
	check_lookups(s, v, keys, dips, 10, &rng);
	dips[3] = 1;
	ck_assert_int_eq(snapshot_exact_add(s, 0, &keys[3], flow_key_hash(&keys[3], v->seed), 1),
			 0);
	check_lookups(s, v, keys, dips, 10, &rng);
	snapshot_free(s);
	vip_view_unref(v);
}
END_TEST

/* --- exact flows ---------------------------------------------------------------------------------
 */

START_TEST(test_exact)
{
	struct prng rng = prng_new("exact");
	static struct flow_key keys[FLOWS];
	static uint16_t dips[FLOWS];
	struct snapshot *s = snapshot_new(1, 500);
	struct vip_view *v = pinned_view(&rng, keys, dips);
	enum lookup_reason reason;
	uint32_t dcode;

	ck_assert_int_eq(snapshot_add_vip(s, v), 0);
	ck_assert_uint_eq(s->exact_limit, 500);
	for (int i = 0; i < FLOWS; i++)
		dips[i] = vip_view_lookup(v, flow_key_hash(&keys[i], v->seed));
	for (int i = 0; i < 500; i++) { /* pinned ones are among them: exact comes first */
		uint64_t h = flow_key_hash(&keys[i * 10], v->seed);
		ck_assert_int_eq(snapshot_exact_add(s, 0, &keys[i * 10], h, 3), 0);
		ck_assert_int_eq(snapshot_exact_add(s, 0, &keys[i * 10], h, 5), 0); /* again */
		dips[i * 10] = 5;
	}
	ck_assert_uint_eq(s->n_exact, 500);
	uint64_t h = flow_key_hash(&keys[1], v->seed);
	ck_assert_int_eq(snapshot_exact_add(s, 0, &keys[1], h, 3), -ENOSPC);
	ck_assert_uint_eq(snapshot_exact_find(s, 0, &keys[1], h), DIP_NONE);
	h = flow_key_hash(&keys[10], v->seed);
	ck_assert_uint_eq(snapshot_exact_find(s, 0, &keys[10], h), 5);
	ck_assert_uint_eq(snapshot_exact_find(s, 1, &keys[10], h), DIP_NONE); /* another VIP's */
	ck_assert_uint_eq(snapshot_lookup_one(s, v, &keys[10], &reason, &dcode), 5);
	ck_assert_int_eq(reason, LOOKUP_EXACT);
	check_lookups(s, v, keys, dips, FLOWS, &rng);
	vip_view_dips(v)[5].usable = false;
	(void)snapshot_lookup_one(s, v, &keys[10], &reason, &dcode);
	ck_assert_int_ne(reason, LOOKUP_EXACT); /* its home may be that very DIP */
	snapshot_free(s);
	vip_view_unref(v);

	s = snapshot_new(1, 0);
	ck_assert_int_eq(snapshot_exact_add(s, 0, &keys[0], 1, 1), -ENOSPC);
	ck_assert_uint_eq(snapshot_exact_find(s, 0, &keys[0], 1), DIP_NONE);
	snapshot_free(s);
}
END_TEST

/* The state of the hash after the first word, under a seed that is known. */
static uint64_t after_first_word(uint64_t w, uint64_t seed)
{
	return flow_key_mix(seed, w, (seed ^ 0x9fb21c651e98df25u) | 1);
}

/* Another first word, and the second word that makes up for it. */
static void make_equal_hash(const struct flow_key *key, uint64_t seed, struct flow_key *other)
{
	uint64_t w[3];

	memcpy(w, key, sizeof(w));
	uint64_t first = w[0] ^ 0x20010db8;
	w[1] ^= after_first_word(w[0], seed) ^ after_first_word(first, seed);
	w[0] = first;
	memcpy(other, w, sizeof(w));
}

/* Two keys with equal hashes on different DIPs: one cannot be a pin beside the other; with the
 * exact table both are right. */
START_TEST(test_equal_hashes)
{
	struct prng rng = prng_new("equal_hashes");
	struct vip_view *v = view_new(0, DCODES, DIPS + 1);
	struct snapshot *s = snapshot_new(1, 8);
	struct flow_key keys[2];
	uint16_t dips[2];
	uint64_t hashes[2];
	uint32_t words[2], clashes[2], n_clashes;
	struct othello_map *m;

	v->seed = prng_u64(&rng);
	keys[0] = random_key(&rng, v);
	keys[0].src.b[0] = 0x20; /* IPv6; IPv4 flows of a protocol have no equal hashes */
	make_equal_hash(&keys[0], v->seed, &keys[1]);
	ck_assert(!flow_key_equal(&keys[0], &keys[1]));
	for (int i = 0; i < 2; i++) {
		hashes[i] = flow_key_hash(&keys[i], v->seed);
		dips[i] =
			(uint16_t)(1 + (vip_view_home(v, flow_home(hashes[i], DCODES)) + i) % DIPS);
		words[i] = pin_word(hashes[i], dips[i]);
	}
	ck_assert_uint_eq(hashes[0], hashes[1]);
	ck_assert_int_eq(othello_map_build(&m, 2, hashes, words, 1, clashes, &n_clashes), 0);
	ck_assert_uint_eq(n_clashes, 1);
	ck_assert_uint_eq(clashes[0], 1);
	ck_assert_int_eq(othello_map_write(m, &v->pins), 0);
	othello_map_free(m);
	vip_view_mark_pins(v, hashes, 1);
	ck_assert_int_eq(snapshot_add_vip(s, v), 0);
	ck_assert_int_eq(snapshot_exact_add(s, 0, &keys[1], hashes[1], dips[1]), 0);
	check_lookups(s, v, keys, dips, 2, &rng);
	/* and both in the exact table */
	ck_assert_int_eq(snapshot_exact_add(s, 0, &keys[0], hashes[0], dips[0]), 0);
	check_lookups(s, v, keys, dips, 2, &rng);
	snapshot_free(s);
	vip_view_unref(v);
}
END_TEST

/* --- errors --------------------------------------------------------------------------------------
 */

START_TEST(test_no_memory)
{
	struct snapshot *s;
	struct vip_view *v;

	if (SANITIZED)
		return;
	space_limit(1 << 20);
	v = vip_view_new(1 << 23, 2);
	struct vip_view *many = vip_view_new(0, DIP_INDEX_MAX + 1);
	s = snapshot_new(1, 1 << 20);
	space_unlimit();
	ck_assert_ptr_null(v);
	ck_assert_ptr_null(many);
	ck_assert_ptr_null(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("snapshot");
	TCase *tc = tcase_create("snapshot");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_match);
	tcase_add_test(tc, test_match_wide);
	tcase_add_test(tc, test_match_relations);
	tcase_add_test(tc, test_port_blocks);
	tcase_add_test(tc, test_all_slots);
	tcase_add_test(tc, test_destination_in_key);
	tcase_add_test(tc, test_affinity);
	tcase_add_test(tc, test_views_are_shared);
	tcase_add_test(tc, test_home_and_pins);
	tcase_add_test(tc, test_marked_pins);
	tcase_add_test(tc, test_no_table);
	tcase_add_test(tc, test_exact);
	tcase_add_test(tc, test_equal_hashes);
	tcase_add_test(tc, test_no_memory);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
