/* ICMP and ICMPv6 messages for tests, on top of frames.h. */
#pragma once

#include "tests/unit/frames.h"

struct icmp_spec {
	struct frames_spec outer;  /* addresses, tags and so on; its protocol and payload are set here */
	struct frames_spec quoted; /* what an error quotes; not looked at with no_quote */
	uint8_t type, code;
	uint32_t rest;	     /* behind the checksum */
	uint32_t quoted_len; /* bytes of the IP packet; 0: all of it */
	bool no_quote;	     /* quoted_len bytes of something else instead */
};

/** Build the frame, its ICMP checksum right; returns its length. */
uint32_t icmp_frames_build(uint8_t *buf, const struct icmp_spec *s);

/** A random error about a packet from outer.dst, or now and then something that is none. */
void icmp_frames_random(uint64_t *state, struct icmp_spec *s);
