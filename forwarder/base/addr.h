/* IP and MAC addresses as text and bytes. IPv4 is held IPv4-mapped (::ffff:a.b.c.d), so one type
 * serves both families. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/cpu.h"

struct ip_addr {
	uint8_t b[16];
};

#define IP_ADDR_STRLEN 46
#define IP_PREFIX_STRLEN (IP_ADDR_STRLEN + 4)
#define MAC_STRLEN 18

/** The IPv4-mapped address of four bytes in network order. */
static inline struct ip_addr ip_addr_v4(const void *be4)
{
	struct ip_addr a = {.b = {[10] = 0xff, [11] = 0xff}};

	memcpy(&a.b[12], be4, 4);
	return a;
}

static inline bool ip_addr_is_v4(const struct ip_addr *a)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(a->b, prefix, sizeof(prefix)) == 0;
}

static inline bool ip_addr_equal(const struct ip_addr *x, const struct ip_addr *y)
{
	return memcmp(x, y, sizeof(*x)) == 0;
}

/** The address with its lowest bits (0 .. 128) 0. Thread: any. */
static inline struct ip_addr ip_addr_mask(const struct ip_addr *a, unsigned bits)
{
	struct ip_addr first = *a;

	for (unsigned i = sizeof(first.b); bits; bits -= bits < 8 ? bits : 8)
		first.b[--i] &= (uint8_t)(bits < 8 ? 0xff << bits : 0);
	return first;
}

/** Parse "10.0.0.1" or "2001:db8::1" (an IPv4-mapped literal counts as IPv4). No zone, no prefix,
 *  no port. 0 or -EINVAL; *out is written only on success. Thread: any. */
MUST_CHECK int ip_addr_parse(const char *text, struct ip_addr *out);

/** Canonical text (RFC 5952) into buf of at least IP_ADDR_STRLEN bytes; returns buf. */
const char *ip_addr_format(const struct ip_addr *a, char *buf);

/** Parse an address, "10.0.0.0/24" or "2001:db8::/64" (of no IPv4-mapped literal). *host_bits: what
 *  the length leaves of 32 or 128; 0 for an address. 0, -EINVAL, or -EDOM: bits behind the length
 *  are set. Outputs are written only on success. Thread: any. */
MUST_CHECK int ip_prefix_parse(const char *text, struct ip_addr *out, uint8_t *host_bits);

/** The same as canonical text, an address without a length, into buf of at least IP_PREFIX_STRLEN
 *  bytes; returns buf. */
const char *ip_prefix_format(const struct ip_addr *a, unsigned host_bits, char *buf);

/** True for an address that can be one host's: not unspecified, multicast, loopback or v4
 *  broadcast. */
bool ip_addr_is_host(const struct ip_addr *a);

/** Parse "02:00:00:00:00:01" (any case). 0 or -EINVAL; refuses multicast and all-zero. */
MUST_CHECK int mac_parse(const char *text, uint8_t out[6]);

/** Lower-case text into buf of at least MAC_STRLEN bytes; returns buf. */
const char *mac_format(const uint8_t mac[6], char *buf);
