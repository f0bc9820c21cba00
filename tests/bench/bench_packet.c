/* What the stages of packet/ cost, in nanoseconds a packet: one burst of frames in the CPU's
 * caches, each stage over the whole burst as the pipeline does it, 64-byte frames, best of several
 * runs. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "packet/checksum.h"
#include "packet/rewrite.h"
#include "tests/bench/bench.h"
#include "tests/unit/frames.h"

#define BURST 32
#define ROUNDS 20000
#define SLOT 2048
#define HEADROOM 256

static uint8_t memory[BURST][SLOT];
static struct packet packets[BURST];
static uint32_t lens[BURST];
static unsigned runs = 9;
static volatile unsigned sink; /* so that no stage is optimized away */

enum stage { PARSE, CHECKSUM, L2, IPIP, N_STAGES };

static const char *const stages[] = {"parse", "checksum", "l2", "ipip"};

static const uint8_t dst_mac[6] = {2, 0, 0, 0, 1, 0x99}, src_mac[6] = {2, 0, 0, 0, 1, 0};

static void fill(struct frames_spec s)
{
	for (unsigned i = 0; i < BURST; i++) {
		s.sport = (uint16_t)(1024 + i);
		lens[i] = frames_build(memory[i] + HEADROOM, &s);
	}
}

/* The same frame over and over: of the inner one only the MACs and the hops left are changed. */
static bool run_ipip(uint8_t *data, uint32_t len, const struct packet *p,
		     const struct rewrite_to *to)
{
	data[p->l3_offset + (p->is_v6 ? 7 : 8)] = 64;
	return rewrite_ipip(&data, &len, HEADROOM, p, to) == REWRITE_OK;
}

static unsigned run_stage(enum stage stage, bool v6)
{
	struct ip_addr dip = frames_ip(v6 ? "2001:db8:d::40" : "10.20.30.40");
	struct rewrite_to to = {
		.address = &dip,
		.dst_mac = dst_mac,
		.src_mac = src_mac,
		.mtu = 1500,
	};
	unsigned n = 0;

	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned i = 0; i < BURST; i++) {
			uint8_t *data = memory[i] + HEADROOM;
			uint32_t len = lens[i];

			to.hash = (uint64_t)i << 24;
			if (stage == PARSE)
				n += parse_packet(data, len, &packets[i]) == PARSE_OK;
			else if (stage == CHECKSUM)
				n += !checksum_apply(CHECKSUM_AUTO, data, &packets[i]);
			else if (stage == L2)
				n += rewrite_l2(data, len, &packets[i], &to) == REWRITE_OK;
			else
				n += run_ipip(data, len, &packets[i], &to);
		}
	return n;
}

static double measure(enum stage stage, bool v6)
{
	double best = 1e9;

	for (unsigned i = 0; i < runs; i++) {
		uint64_t start = clock_now_ns();
		unsigned n = run_stage(stage, v6);
		double ns = (double)(clock_now_ns() - start) / ROUNDS / BURST;

		if (n != ROUNDS * BURST) {
			fprintf(stderr, "bench_packet: a frame was refused\n");
			exit(EXIT_FAILURE);
		}
		sink += n;
		if (ns < best)
			best = ns;
	}
	return best;
}

int main(void)
{
	static const struct {
		const char *name;
		bool v6;
		uint8_t proto;
		unsigned n_vlans, n_exts;
	} rows[] = {
		{"tcp", false, IPPROTO_TCP, 0, 0},	    {"udp", false, IPPROTO_UDP, 0, 0},
		{"tcp_2_tags", false, IPPROTO_TCP, 2, 0},   {"tcp_v6", true, IPPROTO_TCP, 0, 0},
		{"tcp_v6_3_exts", true, IPPROTO_TCP, 0, 3},
	};

	if (bench_quick())
		runs = 3;
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct frames_spec s = {
			.src = frames_ip(rows[i].v6 ? "2001:db8::7" : "198.51.100.7"),
			.dst = frames_ip(rows[i].v6 ? "2001:db8::80" : "192.0.2.80"),
			.dport = 80,
			.proto = rows[i].proto,
			.n_vlans = rows[i].n_vlans,
			.n_exts = rows[i].n_exts,
			.exts = {IPPROTO_HOPOPTS, IPPROTO_DSTOPTS, IPPROTO_ROUTING},
		};

		fill(s);
		for (enum stage stage = PARSE; stage < N_STAGES; stage++) {
			fill(s); /* ipip leaves its outer header in the headroom only */
			bench_result("packet", rows[i].name, stages[stage],
				     measure(stage, rows[i].v6), "ns/packet");
		}
	}
	return EXIT_SUCCESS;
}
