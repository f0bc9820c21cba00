/* Building and freeing snapshots, and their two small hash tables: VIP match and exact flows. Both
 * are open-addressing tables that are at most half full, probed linearly; the match table is keyed
 * by a secret of its own, the exact table by the flow's hash, which hangs on the VIP's secret.
 * Prefixes and ranges of ports are in a third one (wide_match.c). */
#include "lookup/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "lookup/wide_match.h"

#define MATCH_ENTRIES_MIN 16u

/* --- one VIP's view ------------------------------------------------------------------------------
 */

static size_t home_bytes(const struct vip_view *v)
{
	return ((size_t)v->home_mask + 1) * sizeof(*v->homes);
}

/* Zeroed memory that begins a cache line. size > 0. */
static void *alloc_lines(size_t size)
{
	size_t rounded = (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
	void *p = aligned_alloc(CACHE_LINE, rounded);

	if (p)
		memset(p, 0, rounded);
	return p;
}

struct vip_view *vip_view_new(uint32_t n_dcodes, uint32_t n_dips)
{
	struct vip_view *v = alloc_lines(sizeof(*v));

	assert((n_dcodes & (n_dcodes - 1)) == 0 && n_dips <= DIP_INDEX_MAX + 1);
	if (!v)
		return NULL;
	v->refs = 1;
	v->n_dcodes = n_dcodes;
	v->n_dips = n_dips;
	/* Without Dcodes there is one entry all the same: lookups need not ask. */
	v->home_mask = n_dcodes ? n_dcodes - 1 : 0;
	v->homes = hugemem_alloc(home_bytes(v), &v->home_memory);
	if (n_dips)
		v->dips = alloc_lines(n_dips * sizeof(*v->dips));
	if (!v->homes || (n_dips && !v->dips)) {
		vip_view_unref(v);
		return NULL;
	}
	return v;
}

uint16_t *vip_view_homes(struct vip_view *v)
{
	assert(!v->dcodes);
	return (uint16_t *)v->homes;
}

struct dip_view *vip_view_dips(struct vip_view *v)
{
	return (struct dip_view *)v->dips;
}

void vip_view_mark_pins(struct vip_view *v, const uint64_t *hashes, uint32_t n)
{
	uint16_t *homes = (uint16_t *)v->homes;

	assert(n == 0 || v->pins.n_a);
	for (uint32_t c = 0; c <= v->home_mask; c++)
		homes[c] &= (uint16_t)~HOME_HAS_PINS;
	for (uint32_t i = 0; i < n; i++)
		homes[(uint32_t)hashes[i] & v->home_mask] |= HOME_HAS_PINS;
}

const uint32_t *vip_view_dcodes(struct vip_view *v)
{
	if (v->dcodes)
		return v->dcodes;
	v->dcodes = calloc((size_t)v->n_dips + 1, sizeof(*v->dcodes));
	for (uint32_t c = 0; v->dcodes && c < v->n_dcodes; c++)
		v->dcodes[vip_view_home(v, c)]++;
	return v->dcodes;
}

void vip_view_ref(struct vip_view *v)
{
	v->refs++;
}

void vip_view_unref(struct vip_view *v)
{
	if (!v)
		return;
	assert(v->refs > 0);
	if (--v->refs)
		return;
	othello_destroy(&v->pins);
	server_ids_free(v->server_ids);
	hugemem_free((void *)v->homes, home_bytes(v));
	free((void *)v->dips);
	free(v->dcodes);
	free(v);
}

size_t vip_view_pin_bytes(const struct vip_view *v)
{
	return othello_bytes(&v->pins);
}

size_t vip_view_dcode_bytes(const struct vip_view *v)
{
	return v->n_dcodes * sizeof(*v->homes);
}

/* --- the snapshot --------------------------------------------------------------------------------
 */

struct snapshot *snapshot_new(uint64_t generation, uint32_t n_exact)
{
	struct snapshot *s = alloc_lines(sizeof(*s));
	uint64_t entries = 1;

	if (!s)
		return NULL;
	s->generation = generation;
	s->match_seed = entropy_u64();
	s->match_mask = MATCH_ENTRIES_MIN - 1;
	s->match = calloc(MATCH_ENTRIES_MIN, sizeof(*s->match));
	s->sole = calloc(2 * (size_t)MATCH_ENTRIES_MIN, sizeof(*s->sole));
	s->exact_limit = n_exact;
	if (n_exact) {
		while (entries < 2 * (uint64_t)n_exact)
			entries *= 2;
		s->exact = calloc(entries, sizeof(*s->exact));
		s->exact_mask = (uint32_t)(entries - 1);
	}
	if (!s->match || !s->sole || (n_exact && !s->exact)) {
		snapshot_free(s);
		return NULL;
	}
	return s;
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < VIP_SLOTS; i++)
		vip_view_unref(s->vips[i]);
	back_table_unref(s->back);
	free(s->match);
	free(s->sole);
	free(s->exact);
	wide_match_free(s->wide);
	free(s);
}

/* --- which VIP -----------------------------------------------------------------------------------
 */

/* Kinds of match, the most specific first. */
enum match_kind { PORT_PROTO, PORT_ANY, ANYPORT_PROTO, ANYPORT_ANY, N_MATCH_KINDS };

static enum match_kind match_kind(const struct vip_match *m)
{
	return (m->port ? PORT_PROTO : ANYPORT_PROTO) + (m->protocol == VIP_ANY);
}

static uint32_t match_hash(const struct snapshot *s, const struct ip_addr *address, uint16_t port,
			   enum vip_protocol protocol)
{
	struct flow_key key = {.src = *address, .dport_be = port, .proto = (uint8_t)protocol};

	return (uint32_t)flow_key_hash(&key, s->match_seed) & s->match_mask;
}

static struct vip_view *match_find(const struct snapshot *s, const struct ip_addr *address,
				   uint16_t port, enum vip_protocol protocol)
{
	uint32_t i = match_hash(s, address, port, protocol);

	for (; s->match[i]; i = (i + 1) & s->match_mask) {
		struct vip_view *v = s->vips[s->match[i] - 1];
		if (v->match.port == port && v->match.protocol == protocol &&
		    ip_addr_equal(&v->match.address, address))
			return v;
	}
	return NULL;
}

static void match_insert(struct snapshot *s, const struct vip_view *v)
{
	uint32_t i = match_hash(s, &v->match.address, v->match.port, v->match.protocol);

	while (s->match[i])
		i = (i + 1) & s->match_mask;
	s->match[i] = (uint16_t)(v->slot + 1);
	s->match_kinds |= (uint8_t)(1u << match_kind(&v->match));
}

/* An entry of `sole` is the first VIP of an address and protocol, slot + 1, and whether there are
 * others. A VIP of any protocol has two. */
#define SOLE_SEVERAL 0x8000u
#define SOLE_UDP 0x4000u
#define SOLE_SLOT 0x3fffu
_Static_assert(VIP_SLOTS <= SOLE_SLOT, "slot + 1 leaves the flags alone");

static uint16_t *sole_entry(const struct snapshot *s, const struct ip_addr *address, bool udp)
{
	struct flow_key key = {.src = *address, .proto = udp};
	uint32_t mask = 2 * s->match_mask + 1;
	uint32_t i = (uint32_t)flow_key_hash(&key, s->match_seed) & mask;

	for (; s->sole[i]; i = (i + 1) & mask) {
		const struct vip_view *v = s->vips[(s->sole[i] & SOLE_SLOT) - 1];
		if (!(s->sole[i] & SOLE_UDP) == !udp && ip_addr_equal(&v->match.address, address))
			break;
	}
	return &s->sole[i];
}

static void sole_insert(struct snapshot *s, const struct vip_view *v)
{
	for (unsigned udp = v->match.protocol == VIP_UDP; udp <= (v->match.protocol != VIP_TCP);
	     udp++) {
		uint16_t *e = sole_entry(s, &v->match.address, udp);

		*e = *e ? *e | SOLE_SEVERAL : (uint16_t)((v->slot + 1) | (udp ? SOLE_UDP : 0));
	}
}

static void insert(struct snapshot *s, const struct vip_view *v)
{
	if (!vip_match_is_wide(&v->match))
		match_insert(s, v);
	if (!v->match.host_bits)
		sole_insert(s, v);
}

static int match_grow(struct snapshot *s)
{
	uint32_t entries = (s->match_mask + 1) * 2;
	uint16_t *bigger = calloc(entries, sizeof(*bigger));
	uint16_t *bigger_sole = calloc(2 * (size_t)entries, sizeof(*bigger_sole));

	if (!bigger || !bigger_sole) {
		free(bigger);
		free(bigger_sole);
		return -ENOMEM;
	}
	free(s->match);
	free(s->sole);
	s->match = bigger;
	s->sole = bigger_sole;
	s->match_mask = entries - 1;
	for (unsigned i = 0; i < VIP_SLOTS; i++) {
		if (s->vips[i])
			insert(s, s->vips[i]);
	}
	return 0;
}

static int add_wide(struct snapshot *s, const struct vip_view *v)
{
	if (!s->wide)
		s->wide = wide_match_new();
	return s->wide ? wide_match_add(s->wide, v) : -ENOMEM;
}

int snapshot_add_vip(struct snapshot *s, struct vip_view *v)
{
	bool wide = vip_match_is_wide(&v->match);

	assert(v->slot < VIP_SLOTS);
	if (s->vips[v->slot])
		return -EEXIST;
	if (!wide && match_find(s, &v->match.address, v->match.port, v->match.protocol))
		return -EEXIST;
	if ((s->n_vips + 1) * 2 > s->match_mask + 1 && match_grow(s))
		return -ENOMEM;
	int rc = wide ? add_wide(s, v) : 0;
	if (rc)
		return rc;
	vip_view_ref(v);
	s->vips[v->slot] = v;
	s->n_vips++;
	s->n_by_id += v->server_ids != NULL;
	insert(s, v);
	return 0;
}

static ALWAYS_INLINE const struct vip_view *match_plain(const struct snapshot *s,
							const struct ip_addr *dst, uint16_t dport,
							enum vip_protocol exact,
							enum match_kind first)
{
	for (unsigned kind = first; kind < first + 2u; kind++) {
		if (!(s->match_kinds >> kind & 1))
			continue;
		struct vip_view *v = match_find(s, dst, dport, kind == first ? exact : VIP_ANY);
		if (v)
			return v;
	}
	return NULL;
}

const struct vip_view *snapshot_match(const struct snapshot *s, const struct ip_addr *dst,
				      uint16_t dport, uint8_t proto)
{
	enum vip_protocol exact = proto == IPPROTO_TCP ? VIP_TCP : VIP_UDP;
	const struct vip_view *v = NULL;

	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return NULL;
	if (likely(dport)) /* 0 is a key's word for any port */
		v = match_plain(s, dst, dport, exact, PORT_PROTO);
	if (!v && unlikely(s->wide))
		v = wide_match_address(s->wide, dst, dport, exact);
	if (!v)
		v = match_plain(s, dst, 0, exact, ANYPORT_PROTO);
	if (!v && unlikely(s->wide))
		v = wide_match_prefix(s->wide, dst, dport, exact);
	return v;
}

const struct vip_view *snapshot_match_sole(const struct snapshot *s, const struct ip_addr *dst,
					   uint8_t proto)
{
	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) ||
	    (s->wide && wide_match_has_prefix_of(s->wide, dst)))
		return NULL;
	uint16_t e = *sole_entry(s, dst, proto == IPPROTO_UDP);
	return e && !(e & SOLE_SEVERAL) ? s->vips[(e & SOLE_SLOT) - 1] : NULL;
}

#define DST_BITS_KEPT 24u

void flow_key_put_dst(const struct vip_view *v, const struct ip_addr *dst, struct flow_key *key)
{
	struct flow_key words = {.src = *dst};
	uint64_t h = flow_key_hash(&words, v->seed);

	/* The bits that differ most go where the hash multiplies them into the most others. */
	for (unsigned i = 0; i < sizeof(key->dst); i++)
		key->dst[i] = v->dst_bits <= DST_BITS_KEPT ? dst->b[15 - i]
							   : (uint8_t)(h >> (24 + 8 * i));
}

/* --- exact flows ---------------------------------------------------------------------------------
 */

/* The entry of a flow, or the free one where it would go. */
static struct exact_entry *exact_slot(const struct snapshot *s, uint16_t vip_slot,
				      const struct flow_key *key, uint64_t hash)
{
	uint32_t i = (uint32_t)(hash >> 24) & s->exact_mask;

	for (;; i = (i + 1) & s->exact_mask) {
		struct exact_entry *e = &s->exact[i];
		if (e->dip == DIP_NONE || (e->vip_slot == vip_slot && flow_key_equal(&e->key, key)))
			return e;
	}
}

int snapshot_exact_add(struct snapshot *s, uint16_t vip_slot, const struct flow_key *key,
		       uint64_t hash, uint16_t dip)
{
	assert(dip != DIP_NONE);
	if (!s->exact_limit)
		return -ENOSPC;
	struct exact_entry *e = exact_slot(s, vip_slot, key, hash);
	if (e->dip == DIP_NONE) {
		if (s->n_exact == s->exact_limit)
			return -ENOSPC;
		s->n_exact++;
	}
	*e = (struct exact_entry){.key = *key, .vip_slot = vip_slot, .dip = dip};
	return 0;
}

uint16_t snapshot_exact_find(const struct snapshot *s, uint16_t vip_slot,
			     const struct flow_key *key, uint64_t hash)
{
	return s->n_exact ? exact_slot(s, vip_slot, key, hash)->dip : DIP_NONE;
}
