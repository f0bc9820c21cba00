/* steer's decisions, by BPF_PROG_TEST_RUN on random frames, against an oracle that knows how each
 * frame was built (not how it looks). A socket on lo stands for the worker. Needs root. */
#include <bpf/bpf.h>
#include <check.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "frames.h"
#include "io/steer.h"
#include "io/umem.h"
#include "io/xsk_socket.h"
#include "netns.h"
#include "packet/parse.h"
#include "tests/unit/icmp_frames.h"

#define FRAME_MAX 1792
#define N_ADDRESSES 4
#define N_PORTS 4

static struct steer *steer;
static struct xsk_sock sock;
static struct umem umem;
static const char *const addresses[N_ADDRESSES] = {"10.9.0.100", "10.9.0.101", "2001:db8::100",
						   "2001:db8::101"};
static const uint8_t lb_mac[6] = {2, 0, 0, 0, 0, 2}; /* where frames_build sends to */
static const uint16_t ports[N_PORTS] = {80, 443, 53, 22};

static void setup(void)
{
	struct error err = {""};
	struct xsk_socket_spec spec = {.ifname = "lo", .umem = &umem, .shared_fd = -1};

	netns_enter(netns_new());
	spec.ifindex = (int)if_nametoindex("lo");
	ck_assert_msg(steer_open(1, &spec.ifindex, FRAME_MAX, false, &steer, &err) == 0, "%s",
		      err.message);
	ck_assert(steer_set_mac(steer, 0, lb_mac));
	ck_assert_int_eq(umem_init(&umem, XSK_FILL_SIZE, 2048, false), 0);
	ck_assert_msg(xsk_socket_open(&sock, &spec, clock_now_ms() + 2000, &err) == 0, "%s",
		      err.message);
}

static void teardown(void)
{
	xsk_socket_close(&sock);
	umem_destroy(&umem);
	steer_close(steer);
	steer = NULL;
}

static void bind_worker(bool there)
{
	uint32_t key = 0;
	int map = steer_xskmap_fd(steer, 0);

	if (there)
		ck_assert_int_eq(bpf_map_update_elem(map, &key, &sock.fd, BPF_ANY), 0);
	else
		ck_assert_int_eq(bpf_map_delete_elem(map, &key), 0);
}

static uint32_t run(const uint8_t *frame, uint32_t len)
{
	static uint8_t out[FRAMES_MAX];
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = len, .data_out = out,
		    .data_size_out = sizeof(out), .repeat = 1);

	int rc = bpf_prog_test_run_opts(steer_program_fd(steer, 0), &o);
	ck_assert_msg(rc == 0, "test run of %u bytes: %s", len, strerror(-rc));
	ck_assert_uint_eq(o.data_size_out, len); /* untouched */
	ck_assert_mem_eq(out, frame, len);
	return o.retval;
}

static void add(const struct vip_match *m)
{
	struct error err = {""};

	ck_assert_msg(steer_add_vip(steer, m, &err) == 0, "%s", err.message);
}

static void del(const struct vip_match *m)
{
	struct error err = {""};

	ck_assert_msg(steer_del_vip(steer, m, &err) == 0, "%s", err.message);
}

/* --- the oracle ---------------------------------------------------------------------------------
 */

/* All VIPs there can be in this test; whether each is there. */
static struct vip_match vips[N_ADDRESSES * (N_PORTS + 1) * 3];
static bool present[ARRAY_LEN(vips)];

static void list_vips(void)
{
	unsigned n = 0;

	for (unsigned a = 0; a < N_ADDRESSES; a++)
		for (unsigned p = 0; p <= N_PORTS; p++)
			for (int proto = VIP_TCP; proto <= VIP_ANY; proto++)
				vips[n++] =
					(struct vip_match){.address = frames_ip(addresses[a]),
							   .port = p < N_PORTS ? ports[p] : 0,
							   .protocol = (enum vip_protocol)proto};
	memset(present, 0, sizeof(present));
}

static bool is_vip_address(const struct ip_addr *a)
{
	for (size_t i = 0; i < ARRAY_LEN(vips); i++)
		if (present[i] && ip_addr_equal(&vips[i].address, a))
			return true;
	return false;
}

static bool is_vip(const struct ip_addr *a, uint16_t port, uint8_t proto)
{
	for (size_t i = 0; i < ARRAY_LEN(vips); i++)
		if (present[i] && ip_addr_equal(&vips[i].address, a) &&
		    (vips[i].port == 0 || vips[i].port == port) &&
		    (vips[i].protocol == VIP_ANY ||
		     (vips[i].protocol == VIP_TCP) == (proto == IPPROTO_TCP)))
			return true;
	return false;
}

/* Where the extension headers of a frame built from s end: behind the last (which starts at *last),
 * or before a fragment header, whose place in the chain goes to *frag (s->n_exts: there is none).
 */
static uint32_t exts_end(const struct frames_spec *s, const uint8_t *frame, uint32_t at,
			 uint32_t *last, unsigned *frag)
{
	unsigned i;

	*last = at;
	for (i = 0; i < s->n_exts && s->exts[i] != 44; i++) {
		*last = at;
		at += s->exts[i] == 51 ? (frame[at + 1] + 2u) * 4 : (frame[at + 1] + 1u) * 8;
	}
	*frag = i;
	return at;
}

/* For IPv6: true if the chain alone decides. */
static bool chain_decides(const struct frames_spec *s, const uint8_t *frame, uint32_t len,
			  uint32_t l3, uint32_t *l4, bool balanced, uint32_t *verdict)
{
	unsigned frag;
	uint32_t last_ext;

	*l4 = exts_end(s, frame, l3 + 40, &last_ext, &frag);
	if (frag < s->n_exts && frag <= 8) {
		bool is_last = frag + 1 == s->n_exts;

		*verdict = len >= *l4 + 8 && is_last && !balanced ? XDP_PASS : XDP_REDIRECT;
		return true;
	}
	*verdict = XDP_REDIRECT;
	/* Cut off before the field that says what follows the chain. */
	return s->n_exts > 8 || (s->n_exts > 0 && len < last_ext + 8);
}

/* What becomes of the first len bytes of a frame built from s. */
static uint32_t oracle(const struct frames_spec *s, const uint8_t *frame, uint32_t len)
{
	static const uint8_t none[6];

	bool v6 = !ip_addr_is_v4(&s->dst);
	uint8_t proto = s->proto ? s->proto : IPPROTO_TCP;
	bool balanced = proto == IPPROTO_TCP || proto == IPPROTO_UDP;
	uint32_t l3 = 14 + 4 * s->n_vlans, l4 = l3 + 20 + s->v4_options_len, verdict;

	if (memcmp(s->dst_mac, none, 6) != 0 && memcmp(s->dst_mac, lb_mac, 6) != 0)
		return XDP_PASS;
	if (s->n_vlans > 2 || len < l3 + (v6 ? 40 : 20) || !is_vip_address(&s->dst))
		return XDP_PASS;
	if (v6 && chain_decides(s, frame, len, l3, &l4, balanced, &verdict))
		return verdict;
	if (!balanced)
		return XDP_PASS;
	if ((!v6 && (s->v4_frag & 0x3fff)) || len < l4 + (proto == IPPROTO_TCP ? 20 : 8))
		return XDP_REDIRECT;
	return is_vip(&s->dst, s->dport, proto) ? XDP_REDIRECT : XDP_PASS;
}

static void random_spec(uint64_t *rnd, struct frames_spec *s)
{
	static const uint8_t protos[] = {0, IPPROTO_UDP, IPPROTO_UDP, IPPROTO_ICMP, 47, 132};
	static const uint8_t exts[] = {0, 43, 60, 51};

	memset(s, 0, sizeof(*s));
	s->dst = frames_ip(frames_random(rnd) % 8 ? addresses[frames_random(rnd) % N_ADDRESSES]
						  : "10.9.0.200");
	bool v6 = !ip_addr_is_v4(&s->dst);
	s->src = frames_ip(v6 ? "2001:db8::1" : "10.9.0.1");
	s->sport = (uint16_t)frames_random(rnd);
	s->dport = frames_random(rnd) % 4 ? ports[frames_random(rnd) % N_PORTS]
					  : (uint16_t)frames_random(rnd);
	s->proto = frames_random(rnd) % 3 ? 0 : protos[frames_random(rnd) % ARRAY_LEN(protos)];
	if (v6 && s->proto == IPPROTO_ICMP)
		s->proto = IPPROTO_ICMPV6;
	s->n_vlans = frames_random(rnd) % 3 ? 0 : (unsigned)(frames_random(rnd) % 4);
	if (frames_random(rnd) % 8 == 0) { /* another's address, one bit off */
		memcpy(s->dst_mac, lb_mac, 6);
		s->dst_mac[frames_random(rnd) % 6] ^= (uint8_t)(1 << frames_random(rnd) % 8);
	}
	s->payload_len = (uint32_t)(frames_random(rnd) % 100);
	s->no_min = true;
	if (!v6) {
		s->v4_options_len =
			frames_random(rnd) % 4 ? 0 : (uint8_t)(frames_random(rnd) % 11 * 4);
		s->v4_frag =
			frames_random(rnd) % 8 ? 0x4000 : (uint16_t)(frames_random(rnd) & 0x3fff);
		return;
	}
	s->n_exts = frames_random(rnd) % 2 ? 0 : (unsigned)(frames_random(rnd) % 11);
	for (unsigned i = 0; i < s->n_exts; i++)
		s->exts[i] = exts[frames_random(rnd) % ARRAY_LEN(exts)];
	if (s->n_exts && frames_random(rnd) % 3 == 0)
		s->exts[frames_random(rnd) % s->n_exts] = 44;
}

/* --- tests --------------------------------------------------------------------------------------
 */

START_TEST(random_frames_against_the_oracle)
{
	static uint8_t buf[FRAMES_MAX];
	uint64_t rnd = frames_seed();
	unsigned seen[XDP_REDIRECT + 1] = {0};

	list_vips();
	bind_worker(true);
	for (int i = 0; i < 60000; i++) {
		struct frames_spec s;

		if (i % 50 == 0) { /* a change of VIPs; a repeated add or del changes nothing */
			size_t v = frames_random(&rnd) % ARRAY_LEN(vips);

			present[v] = frames_random(&rnd) % 4 == 0;
			(present[v] ? add : del)(&vips[v]);
		}
		random_spec(&rnd, &s);
		uint32_t len = frames_build(buf, &s);
		if (frames_random(&rnd) % 4 == 0)
			len = 14 + (uint32_t)(frames_random(&rnd) % (len - 13));
		uint32_t want = oracle(&s, buf, len), got = run(buf, len);
		ck_assert_msg(
			got == want,
			"frame %d: %u instead of %u (%u bytes, proto %u, %u tags, %u ext, frag "
			"%x, port %u)",
			i, got, want, len, s.proto, s.n_vlans, s.n_exts, s.v4_frag, s.dport);
		seen[got]++;
	}
	ck_assert_uint_gt(seen[XDP_PASS], 5000);
	ck_assert_uint_gt(seen[XDP_REDIRECT], 5000);
	ck_assert_uint_eq(steer_read_too_big(steer), 0);
}
END_TEST

/* Random bytes never do more than pass or be dropped, whatever they claim (and the verifier has
 * proven that nothing is read outside). */
START_TEST(bent_headers)
{
	static uint8_t buf[FRAMES_MAX];
	uint64_t rnd = frames_seed();
	struct vip_match any = {.address = frames_ip(addresses[0]), .port = 0, .protocol = VIP_ANY};
	struct frames_spec s = {.src = frames_ip("10.9.0.1"), .dst = any.address, .dport = 80};

	bind_worker(true);
	add(&any);
	/* Contradicting lengths: never to the kernel, which answers some of them. */
	uint32_t len = frames_build(buf, &s);
	ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
	buf[14] = 0x44; /* header of 16 bytes */
	ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
	buf[14] = 0x4f; /* options behind the end */
	ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
	buf[14] = 0x45;
	buf[16] = 0; /* total length within the TCP header, then within the IP header */
	buf[17] = 39;
	ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
	buf[17] = 19;
	ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
	for (int i = 0; i < 20000; i++) {
		len = frames_build(buf, &s);
		for (int k = 0; k < 3; k++)
			buf[frames_random(&rnd) % len] = (uint8_t)frames_random(&rnd);
		uint32_t got = run(buf, len);
		ck_assert(got == XDP_PASS || got == XDP_REDIRECT);
	}
}
END_TEST

/* Nobody there: dropped, never passed; other traffic passes still. */
START_TEST(no_worker_means_drop)
{
	uint8_t buf[256];
	struct vip_match m = {.address = frames_ip(addresses[2]), .port = 443, .protocol = VIP_UDP};
	struct frames_spec s = {.src = frames_ip("2001:db8::1"),
				.dst = m.address,
				.dport = 443,
				.proto = IPPROTO_UDP};
	uint32_t len = frames_build(buf, &s);

	ck_assert_uint_eq(run(buf, len), XDP_PASS);
	add(&m);
	ck_assert_uint_eq(run(buf, len), XDP_DROP);
	bind_worker(true);
	ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
	bind_worker(false);
	ck_assert_uint_eq(run(buf, len), XDP_DROP);
	s.dport = 22;
	len = frames_build(buf, &s);
	ck_assert_uint_eq(run(buf, len), XDP_PASS);
	ck_assert_uint_eq(steer_read_too_big(steer), 0);
}
END_TEST

/* Neighbour discovery, ping and ARP are the kernel's, also to a VIP's address. */
START_TEST(control_traffic_passes)
{
	uint8_t buf[256] = {[12] = 0x08, [13] = 0x06};
	struct vip_match m4 = {.address = frames_ip(addresses[0]), .port = 0, .protocol = VIP_ANY};
	struct vip_match m6 = {.address = frames_ip(addresses[2]), .port = 0, .protocol = VIP_ANY};
	struct frames_spec s = {.src = frames_ip("10.9.0.1"),
				.dst = m4.address,
				.proto = IPPROTO_ICMP,
				.payload_len = 32};

	add(&m4);
	add(&m6);
	ck_assert_uint_eq(run(buf, 60), XDP_PASS);
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_PASS);
	s.src = frames_ip("2001:db8::1");
	s.dst = m6.address;
	s.proto = IPPROTO_ICMPV6;
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_PASS);
	s.n_exts = 1; /* MLD has a hop-by-hop header */
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_PASS);
	s.exts[0] = 44; /* a fragmented ping */
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_PASS);
}
END_TEST

/* Flooded, broadcast and multicast frames to a VIP are never a worker's, whole or broken, and are
 * not dropped either: the kernel may have to bridge them. */
START_TEST(other_mac_addresses_pass)
{
	static const uint8_t others[][6] = {
		{2, 0, 0, 0, 0, 3},
		{3, 0, 0, 0, 0, 2},
		{2, 0, 0, 0, 2, 0},
		{0, 0, 0, 0, 0, 0},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{1, 0, 0x5e, 0, 0, 1},
	};
	uint8_t buf[2048];
	struct vip_match m[] = {
		{.address = frames_ip(addresses[0]), .port = 80, .protocol = VIP_TCP},
		{.address = frames_ip(addresses[2]), .port = 80, .protocol = VIP_TCP}};
	static const char *const clients[] = {"10.9.0.1", "2001:db8::1"};

	bind_worker(true);
	for (unsigned k = 0; k < ARRAY_LEN(m); k++) {
		struct frames_spec s = {
			.src = frames_ip(clients[k]), .dst = m[k].address, .dport = 80};

		add(&m[k]);
		for (unsigned tags = 0; tags <= 2; tags++) {
			s.n_vlans = tags;
			uint32_t len = frames_build(buf, &s);
			uint32_t cut = 14 + 4 * tags + (k ? 40 : 20) + 10;

			ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
			ck_assert_uint_eq(run(buf, cut), XDP_REDIRECT);
			for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
				memcpy(buf, others[i], 6);
				ck_assert_uint_eq(run(buf, len), XDP_PASS);
				ck_assert_uint_eq(run(buf, cut), XDP_PASS);
			}
		}
	}
	struct frames_spec s = {.src = frames_ip(clients[0]),
				.dst = m[0].address,
				.dport = 80,
				.payload_len = FRAME_MAX,
				.dst_mac = {2, 0, 0, 0, 0, 3}};
	static uint8_t big[FRAMES_MAX];
	ck_assert_uint_eq(run(big, frames_build(big, &s)), XDP_PASS);
	ck_assert_uint_eq(steer_read_too_big(steer), 0);
}
END_TEST

/* At once, and the old address is another's then. */
START_TEST(mac_address_changes)
{
	static const uint8_t next_mac[6] = {0x0e, 0xdc, 0xba, 0x98, 0x76, 0xf4};
	uint8_t old[256], new[256];
	struct vip_match m = {.address = frames_ip(addresses[0]), .port = 80, .protocol = VIP_TCP};
	struct frames_spec s = {.src = frames_ip("10.9.0.1"), .dst = m.address, .dport = 80};
	uint32_t len = frames_build(old, &s);

	memcpy(s.dst_mac, next_mac, 6);
	ck_assert_uint_eq(frames_build(new, &s), len);
	add(&m);
	bind_worker(true);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(run(old, len), XDP_REDIRECT);
		ck_assert_uint_eq(run(new, len), XDP_PASS);
		ck_assert(!steer_set_mac(steer, 0, lb_mac));
		ck_assert(steer_set_mac(steer, 0, next_mac));
		ck_assert_uint_eq(run(old, len), XDP_PASS);
		ck_assert_uint_eq(run(new, len), XDP_REDIRECT);
		ck_assert(steer_set_mac(steer, 0, lb_mac));
	}
}
END_TEST

/* Longer than a chunk: dropped and counted; not when it is none of ours. */
START_TEST(too_big_is_counted)
{
	static uint8_t buf[FRAMES_MAX];
	struct vip_match m = {.address = frames_ip(addresses[0]), .port = 80, .protocol = VIP_TCP};
	struct frames_spec s = {.src = frames_ip("10.9.0.1"), .dst = m.address, .dport = 80};

	add(&m);
	bind_worker(true);
	s.payload_len = FRAME_MAX - 54;
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_REDIRECT);
	ck_assert_uint_eq(steer_read_too_big(steer), 0);
	s.payload_len++;
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_DROP);
	ck_assert_uint_eq(steer_read_too_big(steer), 1);
	s.payload_len = 8000; /* several buffers */
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_DROP);
	ck_assert_uint_eq(steer_read_too_big(steer), 2);
	s.dport = 22;
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_PASS);
	ck_assert_uint_eq(steer_read_too_big(steer), 2);
}
END_TEST

/* Errors by the flow that they quote, whole or as much of it as there is; what quotes no VIP's
 * flow, or is not from its source, is the kernel's. */
START_TEST(icmp_errors)
{
	static uint8_t buf[FRAMES_MAX];
	uint64_t seed = frames_seed();
	unsigned n_ours = 0;

	for (unsigned a = 0; a < N_ADDRESSES; a++)
		add(&(struct vip_match){
			.address = frames_ip(addresses[a]), .port = 80, .protocol = VIP_TCP});
	bind_worker(true);
	for (int i = 0; i < 3000; i++) {
		struct icmp_spec s;
		icmp_frames_random(&seed, &s);
		bool v6 = !ip_addr_is_v4(&s.outer.dst), named = frames_random(&seed) % 4;
		bool other = !ip_addr_equal(&s.outer.dst, &s.quoted.src);
		struct ip_addr vip = frames_ip(addresses[2 * v6 + frames_random(&seed) % 2]);

		s.outer.dst = s.quoted.src = vip;
		if (other)
			s.quoted.src.b[15] ^= 0x40;
		s.quoted.sport = named ? 80 : 81;
		s.quoted_len = frames_random(&seed) % 3 ? 0 : s.quoted_len;
		bool tcp = s.quoted.proto == 0 || s.quoted.proto == IPPROTO_TCP;
		uint32_t ports_at = (v6 ? 40 : 20 + s.quoted.v4_options_len);
		bool error = v6 ? s.type >= 1 && s.type <= 4
				: s.type == 3 || s.type == 11 || s.type == 12;
		bool echo = s.type == (v6 ? 128 : 8);
		/* Where extension headers end is exts_end's; here such quotes are whole. */
		if (s.quoted.n_exts || s.quoted.v4_frag & 0x1fff)
			continue;
		bool whole = s.quoted_len == 0 || s.quoted_len >= ports_at + 4;
		bool ours = echo || (error && !s.no_quote && whole && !other && named && tcp);
		if (s.no_quote && s.quoted_len >= ports_at)
			continue; /* bytes that no one has chosen */
		s.outer.padding = 0;
		uint32_t len = icmp_frames_build(buf, &s);
		ck_assert_msg(run(buf, len) == (ours ? XDP_REDIRECT : XDP_PASS),
			      "frame %d: type %u, quoted %u", i, s.type, s.quoted_len);
		n_ours += ours;
	}
	ck_assert_uint_gt(n_ours, 300);
}
END_TEST

/* Whatever extension headers the quote has; cut off anywhere before the ports it is the kernel's.
 */
START_TEST(icmp_quoted_extensions)
{
	static const uint8_t exts[] = {0, 60, 43, 51, 60};
	static uint8_t buf[FRAMES_MAX];
	struct icmp_spec s = {.type = 2, .rest = 1280};

	add(&(struct vip_match){
		.address = frames_ip(addresses[2]), .port = 80, .protocol = VIP_ANY});
	bind_worker(true);
	s.outer.src = frames_ip("2001:db8:77::1");
	s.outer.dst = s.quoted.src = frames_ip(addresses[2]);
	s.quoted.dst = frames_ip("2001:db8:1::9");
	s.quoted.sport = 80;
	s.quoted.n_exts = ARRAY_LEN(exts);
	memcpy(s.quoted.exts, exts, sizeof(exts));
	uint32_t len = icmp_frames_build(buf, &s);
	struct packet p;
	ck_assert_int_eq(parse_packet(buf, len, &p), PARSE_OK);
	ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
	unsigned n = 0;
	for (s.quoted_len = 1; s.quoted_len < len - 62; s.quoted_len++) {
		uint32_t cut = icmp_frames_build(buf, &s);
		bool ours = parse_packet(buf, cut, &p) == PARSE_OK;
		ck_assert_uint_eq(run(buf, cut), ours ? XDP_REDIRECT : XDP_PASS);
		n += ours;
	}
	ck_assert_uint_eq(n, 16); /* a TCP header less the last bytes of 4, up to all but one */
}
END_TEST

/* The kernel's where it has the address, and a worker's as soon as it has not. */
START_TEST(echo_by_address)
{
	uint8_t buf[256];
	struct ip_addr own[] = {frames_ip("10.9.0.2"), frames_ip(addresses[0])};

	bind_worker(true);
	for (unsigned a = 0; a < N_ADDRESSES; a += 2) {
		bool v6 = a > 1;
		struct icmp_spec s = {.type = v6 ? 128 : 8, .no_quote = true, .quoted_len = 8};
		s.outer.src = frames_ip(v6 ? "2001:db8::9" : "10.9.0.1");
		s.outer.dst = frames_ip(addresses[a]);
		uint32_t len = icmp_frames_build(buf, &s);

		own[1] = s.outer.dst;
		steer_set_own_addresses(steer, NULL, 0);
		ck_assert_uint_eq(run(buf, len), XDP_PASS); /* no VIP */
		add(&(struct vip_match){.address = s.outer.dst, .port = 80, .protocol = VIP_TCP});
		ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
		for (int i = 0; i < 3; i++) {
			steer_set_own_addresses(steer, own + (v6 ? 1 : 0), v6 ? 1 : 2);
			ck_assert_uint_eq(run(buf, len), XDP_PASS);
			steer_set_own_addresses(steer, own, 1);
			ck_assert_uint_eq(run(buf, len), XDP_REDIRECT);
		}
	}
}
END_TEST

/* As many VIPs as there are slots; one more is refused with nothing changed; all can go again. */
START_TEST(full_map)
{
	struct error err = {""};
	struct vip_match m = {.address = frames_ip("10.1.0.0"), .port = 80, .protocol = VIP_TCP};
	uint8_t buf[256];
	struct frames_spec s = {.src = frames_ip("10.9.0.1"), .dport = 80};

	for (int i = 0; i < VIPS_MAX; i++) {
		m.address.b[14] = (uint8_t)(i >> 8);
		m.address.b[15] = (uint8_t)i;
		add(&m);
	}
	s.dst = m.address;
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_DROP);
	struct vip_match more = {.address = frames_ip("10.2.0.0"), .port = 80, .protocol = VIP_TCP};
	ck_assert_int_eq(steer_add_vip(steer, &more, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.message, "cannot add a VIP"));
	s.dst = more.address;
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_PASS);
	s.dst = m.address;
	for (int i = 0; i < VIPS_MAX; i++) {
		m.address.b[14] = (uint8_t)(i >> 8);
		m.address.b[15] = (uint8_t)i;
		del(&m);
	}
	ck_assert_uint_eq(run(buf, frames_build(buf, &s)), XDP_PASS);
	add(&more);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("steer");
	TCase *t = tcase_create("test_run");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, random_frames_against_the_oracle);
	tcase_add_test(t, bent_headers);
	tcase_add_test(t, no_worker_means_drop);
	tcase_add_test(t, control_traffic_passes);
	tcase_add_test(t, other_mac_addresses_pass);
	tcase_add_test(t, mac_address_changes);
	tcase_add_test(t, too_big_is_counted);
	tcase_add_test(t, icmp_errors);
	tcase_add_test(t, icmp_quoted_extensions);
	tcase_add_test(t, echo_by_address);
	tcase_add_test(t, full_map);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
