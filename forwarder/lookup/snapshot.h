/* One immutable version ("generation") of everything a packet needs. Control builds it, workers
 * read it; it changes only by the pointer swap of a parked publish. Parts of VIPs that did not
 * change are shared between snapshots by reference count (control only). */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

#include "lookup/back_table.h"
#include "lookup/dcode_table.h"
#include "lookup/flow_key.h"
#include "lookup/othello.h"
#include "lookup/server_ids.h"
#include "lookup/vip_match.h"

#define VIPS_MAX 4096
#define VIP_SLOTS (2 * VIPS_MAX) /* one change may replace them all: both have slots until the swap */

enum vip_mode { VIP_L2, VIP_IPIP, VIP_GUE, VIP_NAT };
enum vip_affinity { AFFINITY_FLOW, AFFINITY_CLIENT };
/* Of UDP: fragments go where their flow goes, or by the client's address. */
enum vip_fragments { FRAGMENTS_FLOW, FRAGMENTS_CLIENT };
enum learn_overflow { OVERFLOW_FORWARD, OVERFLOW_DROP };

/** One DIP as a worker sees it; index in vip_view.dips is the DIP index. */
struct dip_view {
	struct ip_addr address;
	uint8_t dst_mac[6]; /* next hop */
	uint8_t src_mac[6]; /* egress interface */
	uint8_t egress;     /* interface index of io/port.h */
	bool usable : 1;    /* up or draining: a lookup may name it */
	bool resolved : 1;  /* egress and MACs are known; else count no_neighbor */
	uint16_t mtu;       /* of the egress interface, IP bytes */
	uint16_t vlan;      /* frames leave with this tag (VLAN ID); 0: with none of the host's VLANs */
	uint16_t nat_port_be; /* VIP_NAT: its port; 0: the packet's */
	uint32_t counter;   /* index of its packet and byte counters (worker/counters.h) */
};
_Static_assert(sizeof(struct dip_view) == 40, "its place is found by a shift and an addition");

/** Flows at home in this Dcode may be pinned. */
#define HOME_HAS_PINS 0x8000u

/** One VIP, immutable, shared between snapshots. */
struct vip_view {
	/* read for every packet */
	uint64_t seed;           /* of flow_key_hash; secret */
	const uint16_t *homes;   /* by Dcode: its DIP (after re-roll) and HOME_HAS_PINS; hugemem */
	uint32_t home_mask;      /* entries of homes - 1, which are a power of two */
	uint32_t n_dips;         /* entries of dips; index 0 is DIP_NONE and never usable */
	const struct dip_view *dips;
	struct othello pins;     /* n_a == 0: the VIP has no pins */
	uint32_t refresh_ms;     /* refresh interval */
	uint32_t loss_ms;        /* low bits of clock_now_ms: flows of a DIP were sent elsewhere then */
	uint16_t slot;           /* index in snapshot.vips, < VIP_SLOTS */
	uint16_t gue_port;       /* VIP_GUE: UDP port at the DIPs, host order */
	uint8_t mode;            /* enum vip_mode */
	uint8_t affinity;        /* enum vip_affinity */
	uint8_t on_learn_overflow; /* enum learn_overflow */
	uint8_t fragments; /* enum vip_fragments */
	bool clamp_mss;
	uint8_t dst_bits; /* low bits of the destination that belong to the flow; 0: none do */
	/* read in bursts of snapshots that have n_by_id */
	struct server_ids *server_ids; /* whom QUIC connection IDs name; NULL = they are not looked at */
	/* read by control */
	uint32_t n_dcodes; /* 0 = no table: every lookup is DIP_NONE */
	uint32_t uid; /* stable id, never reused; stands in learn records and flow slots */
	struct vip_match match;
	uint32_t refs;
	uint32_t *dcodes; /* see vip_view_dcodes; NULL = not counted yet */
	enum hugemem_kind home_memory;
};

/** A flow that neither home nor pin puts right, keyed by the full flow key. */
struct exact_entry {
	struct flow_key key;
	uint16_t vip_slot;
	uint16_t dip; /* DIP_NONE = free entry */
	uint32_t zero;
};

struct snapshot {
	uint64_t generation;
	uint32_t n_exact;    /* looked up only when not 0 */
	uint32_t exact_mask; /* entries - 1 */
	uint32_t exact_limit; /* how many may be added */
	struct exact_entry *exact; /* open addressing by the flow's hash */
	/* VIP match: open addressing over those that are one address, and one port or any; entries
	 * name slots */
	uint32_t match_mask;
	uint16_t *match;      /* slot + 1, 0 = free */
	uint8_t match_kinds;  /* bit k: some VIP is of kind k (see snapshot_match) */
	uint16_t *sole;       /* by address and protocol, twice as many entries (see snapshot.c) */
	uint64_t match_seed;
	struct wide_match *wide; /* all others; NULL: there are none */
	struct back_table *back; /* of the VIPs of mode nat; the snapshot's reference; NULL = none */
	uint32_t n_vips;      /* VIPs in use */
	uint32_t n_by_id;     /* of them, those with server_ids */
	struct vip_view *vips[VIP_SLOTS]; /* by slot; NULL = unused */
};

/* By a server ID only the packet path goes: the lookups below know flows alone. */
enum lookup_reason { LOOKUP_HOME, LOOKUP_PIN, LOOKUP_EXACT, LOOKUP_NONE, LOOKUP_SERVER_ID };

/** A new view with reference count 1, room for n_dcodes and n_dips (zeroed, to be filled through
 *  the const pointers' owner functions below) and empty pins. NULL without memory. */
MUST_CHECK struct vip_view *vip_view_new(uint32_t n_dcodes, uint32_t n_dips);

/** Writable arrays of a view that is not published yet, nor asked for its Dcodes. Thread: control. */
uint16_t *vip_view_homes(struct vip_view *v);
struct dip_view *vip_view_dips(struct vip_view *v);

/** Say which flows the view pins: n hashes, all whose pin names another DIP than their home Dcode does.
 *  Pins move whole Dcodes, so most Dcodes have none, and a lookup whose home Dcode is not marked need
 *  not read the Othello at all (nor can a fingerprint accident misplace it). To be called when homes
 *  and pins are written: until then no pin is looked up. Thread: control, before the view is
 *  published. */
void vip_view_mark_pins(struct vip_view *v, const uint64_t *hashes, uint32_t n);

/** DIP of a Dcode < n_dcodes. */
static ALWAYS_INLINE uint16_t vip_view_home(const struct vip_view *v, uint32_t dcode)
{
	return v->homes[dcode] & (uint16_t)~HOME_HAS_PINS;
}

/** By DIP index < n_dips: how many Dcodes name it. Counted when first asked for, and kept, so the homes
 *  must be written; owner: the view. NULL without memory. Thread: control. */
MUST_CHECK const uint32_t *vip_view_dcodes(struct vip_view *v);

/** Reference counts are control's; workers never touch them. */
void vip_view_ref(struct vip_view *v);
void vip_view_unref(struct vip_view *v); /* frees at 0; NULL is fine */

/** Bytes of the Othello arrays (0 without pins) / of the Dcode table. */
size_t vip_view_pin_bytes(const struct vip_view *v);
size_t vip_view_dcode_bytes(const struct vip_view *v);

/** An empty snapshot of this generation with room for n_exact exact entries. */
MUST_CHECK struct snapshot *snapshot_new(uint64_t generation, uint32_t n_exact);

/** Put a view (the snapshot takes one reference of its own) at v->slot. 0, -ENOMEM, or -EEXIST: the
 *  slot is in use, or an equal match is in already. Thread: control. */
MUST_CHECK int snapshot_add_vip(struct snapshot *s, struct vip_view *v);

/** Unref all views and free. NULL is fine. No reader may be left. */
void snapshot_free(struct snapshot *s);

/** The VIP of a packet to dst:dport (host order) over proto (IPPROTO_*), or NULL: of those that take
 *  it (vip_match_takes) the most specific one (vip_match_order). Thread: worker or control. */
const struct vip_view *snapshot_match(const struct snapshot *s, const struct ip_addr *dst,
				      uint16_t dport, uint8_t proto);

/** The VIP of a packet to dst over proto, if it is the same whatever the port is; NULL if it is not, or
 *  cannot be told. For fragments without ports. Thread: worker or control. */
const struct vip_view *snapshot_match_sole(const struct snapshot *s, const struct ip_addr *dst,
					   uint8_t proto);

/** What of its destination belongs to a flow, for vip_view.dst_bits: with affinity `flow` all that
 *  differs within the VIP; to a client's one device all addresses are one. */
static inline uint8_t vip_match_dst_bits(const struct vip_match *m, enum vip_affinity affinity)
{
	return affinity == AFFINITY_FLOW ? m->host_bits : 0;
}

/** The flow key of a packet within a VIP (affinity decides what counts); that of a VIP with dst_bits
 *  needs flow_key_put_dst as well. */
static ALWAYS_INLINE void flow_key_of(const struct vip_view *v, const struct ip_addr *src,
				      uint16_t sport_be, uint16_t dport_be, uint8_t proto,
				      struct flow_key *key)
{
	bool flow = v->affinity == AFFINITY_FLOW;

	key->src = *src;
	key->sport_be = flow ? sport_be : 0;
	key->dport_be = flow ? dport_be : 0;
	key->proto = flow ? proto : 0;
	memset(key->dst, 0, sizeof(key->dst));
}

/** Put the destination into the key of a flow of a VIP with dst_bits. Up to 24 bits stand there as they
 *  are. Of more, 24 bits of their hash do: two connections from one client address and port to one
 *  port of two addresses are one flow once in 2^24 such pairs, and then both stay on its DIP.
 *  Thread: any. */
void flow_key_put_dst(const struct vip_view *v, const struct ip_addr *dst, struct flow_key *key);

/** True if x (an Othello word) pins hash h to a usable DIP of v. */
static ALWAYS_INLINE bool vip_view_pin_valid(const struct vip_view *v, uint64_t h, uint32_t x)
{
	uint32_t dip = x & 0xffff;

	return (x >> 16) == flow_fingerprint(h) && dip < v->n_dips && v->dips[dip].usable;
}

/** The word that pins hash h to dip. */
static ALWAYS_INLINE uint32_t pin_word(uint64_t h, uint16_t dip)
{
	return flow_fingerprint(h) << 16 | dip;
}

/** DIP for hash h by pins and home alone (no exact table): what control checks known flows with.
 *  DIP_NONE if the home Dcode names no usable DIP. Thread: worker or control. */
static ALWAYS_INLINE uint16_t vip_view_lookup(const struct vip_view *v, uint64_t h)
{
	uint32_t home = v->homes[(uint32_t)h & v->home_mask];
	if (home & HOME_HAS_PINS) {
		uint32_t x = othello_get(&v->pins, h);
		if (vip_view_pin_valid(v, h, x))
			return (uint16_t)x;
	}
	return (uint16_t)(home & ~HOME_HAS_PINS);
}

/** The usable DIP that a QUIC connection ID of len octets names, or DIP_NONE. v has server_ids. Thread: worker or
 *  control. */
static inline uint16_t vip_view_dip_of_cid(const struct vip_view *v, const uint8_t *cid, uint32_t len)
{
	uint16_t dip = server_ids_find(v->server_ids, cid, len);

	return dip < v->n_dips && v->dips[dip].usable ? dip : DIP_NONE;
}

/** One flow of a burst: in vip, key; out hash, dip (usable, or DIP_NONE). */
struct lookup {
	const struct vip_view *vip; /* NULL: skipped, all else untouched */
	struct flow_key key;
	uint64_t hash;
	uint32_t cell_a; /* of the pins; from stage 1 to stage 2 */
	uint32_t cell_b;
	uint16_t dip;
};

/** Stage 1: hash each key, place it by its home, and prefetch what stage 2 reads. Returns which of
 *  them may be pinned (bit i: l[i]), for stage 2; until that, the dip of those is not the answer. n <= 64.
 *  Thread: worker. */
MUST_CHECK uint64_t snapshot_lookup_prepare(const struct snapshot *s, struct lookup *l, unsigned n);

/** Stage 2: look up the rest. Never allocates, never fails. Thread: worker. (Concury 5.2) */
void snapshot_lookup_burst(const struct snapshot *s, struct lookup *l, unsigned n,
			   uint64_t maybe_pinned);

/** The same for one flow, with the reason, for explain. *dcode: the home Dcode. */
uint16_t snapshot_lookup_one(const struct snapshot *s, const struct vip_view *v,
			     const struct flow_key *key, enum lookup_reason *reason,
			     uint32_t *dcode);

/** Add to the exact table of a snapshot that is not visible to workers (not published, or all
 *  parked); a flow that is in gets the new DIP. dip is not DIP_NONE. 0, or -ENOSPC when exact_limit is
 *  reached. Thread: control. */
MUST_CHECK int snapshot_exact_add(struct snapshot *s, uint16_t vip_slot, const struct flow_key *key,
				  uint64_t hash, uint16_t dip);

/** DIP of an exact entry or DIP_NONE. */
uint16_t snapshot_exact_find(const struct snapshot *s, uint16_t vip_slot,
			     const struct flow_key *key, uint64_t hash);
