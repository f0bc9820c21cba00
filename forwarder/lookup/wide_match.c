/* A range of ports is cut into at most 30 blocks of a power of two (of a CIDR's kind), so that
 * whether a VIP takes a packet is a matter of equal keys: {prefix, block, protocol}. Of VIPs that
 * share a key the most specific one stands there; a packet fits one block of each VIP that takes
 * it, so the best of all keys that it fits is the best of all VIPs. There is one probe for each
 * prefix length in use, each size of block there, and each of the two protocols: three for a few
 * VIPs of one kind, and never more than the kinds that there are, whatever the number of VIPs.
 *
 * steer asks the same keys of its own map (io/steer_wide.c), where it matters only whether there is
 * one. */
#include "lookup/wide_match.h"

#include <errno.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "lookup/snapshot.h"

#define ENTRIES_MIN 64u
#define WHOLE_MATCH 0xff  /* in place of block bits: the key of a VIP itself, to find its equal */
#define WHOLE_PREFIX 0xfe /* so too: that of a prefix, of which there is some VIP */

struct wide_key {
	struct ip_addr address;
	uint16_t port;
	uint16_t port_end; /* WHOLE_MATCH only, else 0 */
	uint8_t bits;	   /* of the block, or WHOLE_MATCH */
	uint8_t host_bits;
	uint8_t protocol; /* enum vip_protocol */
	uint8_t zero;
};

struct wide_entry {
	struct wide_key key;
	const struct vip_view *vip; /* NULL = free */
};

struct wide_match *wide_match_new(void)
{
	struct wide_match *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->seed = entropy_u64();
	w->entries = calloc(ENTRIES_MIN, sizeof(*w->entries));
	w->mask = ENTRIES_MIN - 1;
	if (w->entries)
		return w;
	free(w);
	return NULL;
}

void wide_match_free(struct wide_match *w)
{
	if (w)
		free(w->entries);
	free(w);
}

/* The key's entry, or the free one where it would go. */
static struct wide_entry *entry_of(const struct wide_match *w, const struct wide_key *key)
{
	struct flow_key words = {.src = key->address,
				 .sport_be = key->port_end,
				 .dport_be = key->port,
				 .proto = key->protocol,
				 .dst = {key->bits, key->host_bits}};
	uint32_t i = (uint32_t)flow_key_hash(&words, w->seed) & w->mask;

	for (;; i = (i + 1) & w->mask) {
		struct wide_entry *e = &w->entries[i];
		if (!e->vip || memcmp(&e->key, key, sizeof(*key)) == 0)
			return e;
	}
}

static int reserve(struct wide_match *w, uint32_t n)
{
	struct wide_match next = *w;

	while ((w->n + n) * 2 > next.mask + 1)
		next.mask = next.mask * 2 + 1;
	if (next.mask == w->mask)
		return 0;
	next.entries = calloc((size_t)next.mask + 1, sizeof(*next.entries));
	if (!next.entries)
		return -ENOMEM;
	for (uint32_t i = 0; i <= w->mask; i++)
		if (w->entries[i].vip)
			*entry_of(&next, &w->entries[i].key) = w->entries[i];
	free(w->entries);
	*w = next;
	return 0;
}

static void put(struct wide_match *w, const struct wide_key *key, const struct vip_view *v)
{
	struct wide_entry *e = entry_of(w, key);

	if (e->vip && vip_match_order(&v->match, &e->vip->match) >= 0)
		return;
	w->n += !e->vip;
	*e = (struct wide_entry){.key = *key, .vip = v};
}

static void add_level(struct wide_match *w, unsigned family, uint8_t host_bits)
{
	uint8_t *levels = w->levels[family];
	unsigned i = w->n_levels[family]++;

	for (; i && levels[i - 1] > host_bits; i--)
		levels[i] = levels[i - 1];
	levels[i] = host_bits;
}

int wide_match_add(struct wide_match *w, const struct vip_view *v)
{
	const struct vip_match *m = &v->match;
	struct wide_key key = {.address = m->address,
			       .port = m->port,
			       .port_end = m->port_end,
			       .bits = WHOLE_MATCH,
			       .host_bits = m->host_bits,
			       .protocol = (uint8_t)m->protocol};
	struct port_block blocks[PORT_BLOCKS_MAX];
	unsigned n = vip_match_blocks(m, blocks), family = !ip_addr_is_v4(&m->address);

	if (entry_of(w, &key)->vip)
		return -EEXIST;
	if (reserve(w, n + 2))
		return -ENOMEM;
	put(w, &key, v);
	put(w,
	    &(struct wide_key){
		    .address = m->address, .bits = WHOLE_PREFIX, .host_bits = m->host_bits},
	    v);
	if (!w->sizes[family][m->host_bits])
		add_level(w, family, m->host_bits);
	key.port_end = 0;
	for (unsigned i = 0; i < n; i++) {
		key.port = blocks[i].first;
		key.bits = blocks[i].bits;
		w->sizes[family][m->host_bits] |= 1u << blocks[i].bits;
		put(w, &key, v);
	}
	return 0;
}

static const struct vip_view *match_level(const struct wide_match *w, const struct ip_addr *dst,
					  uint16_t dport, enum vip_protocol protocol,
					  uint8_t host_bits)
{
	struct wide_key key = {.address = ip_addr_mask(dst, host_bits), .host_bits = host_bits};
	const enum vip_protocol protocols[] = {protocol, VIP_ANY};
	const struct vip_view *best = NULL;

	for (uint32_t left = w->sizes[!ip_addr_is_v4(dst)][host_bits]; left; left &= left - 1) {
		key.bits = (uint8_t)__builtin_ctz(left);
		key.port = port_block_first(dport, key.bits);
		for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
			key.protocol = (uint8_t)protocols[i];
			const struct vip_view *v = entry_of(w, &key)->vip;
			if (v && (!best || vip_match_order(&v->match, &best->match) < 0))
				best = v;
		}
	}
	return best;
}

bool wide_match_has_prefix_of(const struct wide_match *w, const struct ip_addr *dst)
{
	unsigned family = !ip_addr_is_v4(dst);

	for (unsigned i = 0; i < w->n_levels[family]; i++) {
		uint8_t host_bits = w->levels[family][i];
		struct wide_key key = {.address = ip_addr_mask(dst, host_bits),
				       .bits = WHOLE_PREFIX,
				       .host_bits = host_bits};
		if (host_bits && entry_of(w, &key)->vip)
			return true;
	}
	return false;
}

const struct vip_view *wide_match_address(const struct wide_match *w, const struct ip_addr *dst,
					  uint16_t dport, enum vip_protocol protocol)
{
	return match_level(w, dst, dport, protocol, 0);
}

const struct vip_view *wide_match_prefix(const struct wide_match *w, const struct ip_addr *dst,
					 uint16_t dport, enum vip_protocol protocol)
{
	unsigned family = !ip_addr_is_v4(dst);
	const struct vip_view *v = NULL;

	for (unsigned i = 0; i < w->n_levels[family] && !v; i++)
		if (w->levels[family][i])
			v = match_level(w, dst, dport, protocol, w->levels[family][i]);
	return v;
}
