/* Where the ports of packets in fragments are remembered: the first fragment has them, all others are
 * known by (source, destination, identification, protocol). One table for all workers, since the
 * fragments of a packet may come by several queues. */
#pragma once

#include "base/error.h"
#include "packet/parse.h"

/* An entry is good for so long: fragments of one packet follow each other within milliseconds, and
 * an IPv4 sender soon begins anew with its 65,536 identifications (RFC 4963). */
#define FRAGMENT_LIFE_MS 1000u

struct fragment_cache;

/** NULL without memory. Thread: main. */
MUST_CHECK struct fragment_cache *fragment_cache_new(void);
void fragment_cache_free(struct fragment_cache *c); /* NULL is fine */

/** What all fragments of p's packet have in common, and with 1 in 2^63 those of another. p: of
 *  PARSE_FRAGMENT. Thread: any, as of all below; c: NULL is a cache that keeps nothing. */
uint64_t fragment_cache_tag(const struct fragment_cache *c, const struct packet *p);

/** Remember the ports of a first fragment. In the place of an old one, if need be. */
void fragment_cache_put(struct fragment_cache *c, uint64_t tag, const struct packet *first,
			uint32_t now_ms);

/** The ports and protocol of another one, and true, if they are known. */
bool fragment_cache_find(const struct fragment_cache *c, uint64_t tag, uint32_t now_ms,
			 struct packet *later);

/** How often something was put in: who saw nothing need not look again before it changes. */
uint64_t fragment_cache_puts(const struct fragment_cache *c);
