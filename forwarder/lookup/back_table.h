/* The ways back of mode nat: which VIP a packet from a DIP belongs to. Immutable but for the
 * interfaces, shared between snapshots by reference count (control only). */
#pragma once

#include <stdbool.h>

#include "base/addr.h"

/** A DIP's end of the connections of a VIP. Fixed width, no padding with unknown content. */
struct back_key {
	struct ip_addr address;
	uint16_t port_be; /* 0 = any */
	uint8_t proto;	  /* IPPROTO_TCP or IPPROTO_UDP */
	uint8_t zero;
};
_Static_assert(sizeof(struct back_key) == 20, "hashed and compared as bytes");

#define BACK_UNCOUNTED UINT32_MAX

/** One way back. */
struct back_way {
	struct back_key key;
	struct ip_addr vip;   /* the source that clients see */
	uint16_t vip_port_be; /* 0: the DIP's port stays */
	uint16_t ifaces;      /* bit i: the DIP's packets come in by interface i of io/port.h */
	uint16_t vlan;	      /* and in this VLAN of the host's; 0: in none */
	uint32_t counter;     /* index of its counters (worker/counters.h); BACK_UNCOUNTED: it has none */
};

struct back_table {
	uint32_t refs;
	uint32_t n;
	uint32_t mask;	/* entries - 1 */
	bool any_port;	/* some key has port 0 */
	uint64_t seed;
	struct back_way ways[]; /* open addressing; counter tells nothing, proto 0 = a free entry */
};

/** An empty table with room for n ways and one reference. NULL without memory. */
MUST_CHECK struct back_table *back_table_new(uint32_t n);

/** References are control's; workers never touch them. unref frees at 0; NULL is fine. */
void back_table_ref(struct back_table *t);
void back_table_unref(struct back_table *t);

/** Add a way, before the table is published. 0, or -EEXIST: the key is in already. At most as many as
 *  the table was made for. Thread: control. */
MUST_CHECK int back_table_add(struct back_table *t, const struct back_way *w);

/** The way of exactly this key, NULL = none. To be changed only while no worker runs. */
struct back_way *back_table_get(struct back_table *t, const struct back_key *key);

/** The way of a packet from this end: by its port, else that of any port; NULL = none. Thread: worker
 *  or control. */
const struct back_way *back_table_find(const struct back_table *t, const struct ip_addr *src,
				       uint16_t sport_be, uint8_t proto);
