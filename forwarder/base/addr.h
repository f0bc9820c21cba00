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

/** Parse "10.0.0.1" or "2001:db8::1" (an IPv4-mapped literal counts as IPv4). No zone, no prefix,
 *  no port. 0 or -EINVAL; *out is written only on success. Thread: any. */
MUST_CHECK int ip_addr_parse(const char *text, struct ip_addr *out);

/** Canonical text (RFC 5952) into buf of at least IP_ADDR_STRLEN bytes; returns buf. */
const char *ip_addr_format(const struct ip_addr *a, char *buf);

/** True for an address that can be one host's: not unspecified, multicast, loopback or v4
 *  broadcast. */
bool ip_addr_is_host(const struct ip_addr *a);

/** Parse "02:00:00:00:00:01" (any case). 0 or -EINVAL; refuses multicast and all-zero. */
MUST_CHECK int mac_parse(const char *text, uint8_t out[6]);

/** Lower-case text into buf of at least MAC_STRLEN bytes; returns buf. */
const char *mac_format(const uint8_t mac[6], char *buf);
