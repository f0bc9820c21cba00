/* The hop that forwarding takes from a packet. (RFC 1812 5.3.1, RFC 8200 3) */
#pragma once

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

#include "base/cpu.h"

#define TTL_V4_AT 8
#define TTL_V4_CHECK_AT 10
#define TTL_V6_AT 7

/** Whether the packet with this IP header may take no further hop. Thread: any. Pure. */
static ALWAYS_INLINE bool ttl_ends(const uint8_t *ip, bool is_v6)
{
	return ip[is_v6 ? TTL_V6_AT : TTL_V4_AT] <= 1;
}

/** One hop less, of a packet that has one. The header's checksum is brought up to date, not made
 * anew: a bad one stays bad, by as much. (RFC 1624 3; a sum of 0 cannot be, as the header's first
 * byte is not 0, so what would come out as 0xffff is 0. Sums mind no byte order: RFC 1071 2B.)
 * Thread: any. */
static ALWAYS_INLINE void ttl_lower(uint8_t *ip, bool is_v6)
{
	if (is_v6) {
		ip[TTL_V6_AT]--;
		return;
	}
	uint16_t check_be;
	memcpy(&check_be, ip + TTL_V4_CHECK_AT, sizeof(check_be));
	uint32_t check = (uint32_t)check_be + htons(0x100); /* the TTL is a word's high byte */
	check_be = (uint16_t)(check + (check >= 0xffff));
	memcpy(ip + TTL_V4_CHECK_AT, &check_be, sizeof(check_be));
	ip[TTL_V4_AT]--;
}
