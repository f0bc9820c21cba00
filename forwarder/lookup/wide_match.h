/* The VIPs of a snapshot that are more than one address or one port: prefixes and ranges. A table of
 * its own, which a lookup of others' packets does not touch while there is no such VIP. */
#pragma once

#include "lookup/vip_match.h"

struct vip_view;

#define WIDE_LEVELS 129u /* prefix lengths of a family, at most */

struct wide_entry;

/** An empty one is all-zero but for the seed. */
struct wide_match {
	uint64_t seed;
	uint32_t n;    /* entries in use */
	uint32_t mask; /* entries - 1; entries == NULL: none */
	struct wide_entry *entries;
	/* By family (0: IPv4) and host bits: the sizes of port blocks that VIPs there have. */
	uint32_t sizes[2][WIDE_LEVELS];
	uint8_t levels[2][WIDE_LEVELS]; /* host bits that have any, the fewest first */
	uint8_t n_levels[2];
};

/** NULL without memory. */
struct wide_match *wide_match_new(void);
void wide_match_free(struct wide_match *w); /* NULL is fine */

/** 0, -EEXIST: an equal match is in, -ENOMEM. v stays the caller's and must outlive w. */
MUST_CHECK int wide_match_add(struct wide_match *w, const struct vip_view *v);

/** True if some VIP that is a prefix has this address, whatever its ports and protocol. */
bool wide_match_has_prefix_of(const struct wide_match *w, const struct ip_addr *dst);

/** The most specific VIP of these that takes the packet and is one address (ranges of it), or of
 *  those that are more: NULL if there is none. protocol: of the packet, not VIP_ANY. */
const struct vip_view *wide_match_address(const struct wide_match *w, const struct ip_addr *dst,
					  uint16_t dport, enum vip_protocol protocol);
const struct vip_view *wide_match_prefix(const struct wide_match *w, const struct ip_addr *dst,
					 uint16_t dport, enum vip_protocol protocol);
