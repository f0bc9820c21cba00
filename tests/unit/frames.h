/* Frames for tests, built field by field from a description, with nothing of packet/ in it, so that
 * it can serve as an oracle. All-zero fields mean the usual thing, so a test names only what it is
 * about. */
#pragma once

#include <stdbool.h>

#include "base/addr.h"

#define FRAMES_MAX 65600 /* holds every frame that can be built */
#define FRAMES_EXTS_MAX 12

enum frames_sum {
	FRAMES_SUM_FULL,    /* correct */
	FRAMES_SUM_PARTIAL, /* as a local stack leaves it: the folded pseudo-header sum */
	FRAMES_SUM_WRONG,   /* full, one bit off */
	FRAMES_SUM_ZERO,
};

#define FRAMES_FIN 0x01
#define FRAMES_SYN 0x02
#define FRAMES_RST 0x04
#define FRAMES_PSH 0x08
#define FRAMES_ACK 0x10

struct frames_spec {
	struct ip_addr src, dst; /* of one family, which is the frame's; frames_ip() helps */
	uint16_t sport, dport;
	uint8_t proto;	   /* 0: TCP. Neither TCP nor UDP: payload right behind the IP header */
	uint8_t tcp_flags; /* FRAMES_*; 0: ACK, unless no_tcp_flags */
	bool no_tcp_flags;
	uint8_t tcp_options; /* bytes of NOPs, a multiple of 4, at most 40 */
	uint32_t payload_len;
	uint32_t payload_seed; /* its bytes are a function of this */

	unsigned n_vlans;      /* 0 .. 4 */
	uint16_t vlan_tci[4];  /* outer first */
	uint16_t vlan_tpid[4]; /* 0: 0x88a8 for all but the last, 0x8100 for the last */

	uint8_t tos, ttl; /* ttl 0: 64 */
	uint16_t ip_id;
	uint16_t v4_frag; /* flags and offset as in the header */
	uint8_t v4_options[40];
	uint8_t v4_options_len; /* a multiple of 4 */
	uint32_t flow_label;	/* IPv6 */
	unsigned n_exts;	/* IPv6 extension headers, by their protocol number */
	uint8_t exts[FRAMES_EXTS_MAX];
	uint16_t v6_frag; /* of fragment headers: offset in bytes, and 1 if more follow; 0: the first */
	uint8_t segments_left;	  /* of routing headers */
	struct ip_addr final_dst; /* with segments_left: what the checksum is over */

	enum frames_sum sum;
	uint32_t udp_surplus;		/* bytes inside the IP packet, behind the UDP datagram */
	uint32_t padding;		/* bytes behind the IP packet */
	bool no_min;			/* do not pad up to Ethernet's 60 bytes */
	uint8_t dst_mac[6], src_mac[6]; /* all zero: 02:00:00:00:00:02 from 02:00:00:00:00:01 */
};

/** The address of a literal; aborts on a bad one. */
struct ip_addr frames_ip(const char *text);

/** Build the frame; returns its length, at most FRAMES_MAX (aborts if it would be longer). */
uint32_t frames_build(uint8_t *buf, const struct frames_spec *s);

/** Cut a part out of an untagged frame without options and extension headers: n bytes (all but of the
 *  last a multiple of 8) behind the IP header, from `at` on. Returns the length of the fragment's
 *  frame, which is not padded. */
uint32_t frames_cut(uint8_t *buf, const uint8_t *whole, uint32_t id, uint32_t at, uint32_t n);

/** RFC 1071 word by word: the ones' complement sum of len bytes, folded, in host order. */
uint16_t frames_sum16(const void *data, uint32_t len, uint32_t sum);

/** Copy a frame so that its last byte is the last before an unmapped page; the next call's copy
 * takes its place. A read behind the frame faults, in every build. */
uint8_t *frames_guarded(const void *data, uint32_t len);

/** Random numbers for tests (xorshift64*): *state is never 0. */
uint64_t frames_random(uint64_t *state);

/** A seed from TEST_SEED in the environment, or from the clock; printed, so that a failure can be
 *  repeated. */
uint64_t frames_seed(void);

/** A random valid frame: either family, TCP or UDP, tags, options, extension headers, padding. */
void frames_random_spec(uint64_t *state, struct frames_spec *s);
