/* A worker over port_mem with VIPs made up for a test. */
#pragma once

#include "io/port_mem.h"
#include "worker/pipeline.h"

#define FORWARDING_IFACES 3
#define FORWARDING_FRAMES 384

struct forwarding {
	struct port *port;
	struct worker *worker;
	struct learn_ring *rings[N_LEARN_RINGS];
	struct fragment_cache *fragments;
};

/** A worker over a port of 2 queues and 3 interfaces; tx_ring and headroom as in port_mem_config. No
 *  snapshot is set. Aborts without memory. */
void forwarding_init(struct forwarding *f, unsigned tx_ring, unsigned headroom, uint32_t n_records);
/** The same with buffers of another size than 2048 bytes. */
void forwarding_init_sized(struct forwarding *f, unsigned tx_ring, unsigned headroom,
			   uint32_t n_records, unsigned frame_size);
void forwarding_destroy(struct forwarding *f);

/** A TCP and UDP VIP at this slot and address, any port, l2, affinity flow. DIPs 1..n_dips: usable,
 *  resolved, with egress i % 3, address "10.9.SLOT.i", MAC 02:09:00:00:SLOT:i and counter 16 SLOT + i;
 *  Dcode c names DIP 1 + c % n_dips. No table if n_dips is 0. To be changed by the test before it is
 *  added to a snapshot. */
struct vip_view *forwarding_vip(uint16_t slot, const char *address, unsigned n_dips);

/** Put the VIP into the snapshot, which then holds the only reference. */
void forwarding_add(struct snapshot *s, struct vip_view *v);

uint64_t forwarding_drops(const struct worker *w);
uint64_t forwarding_received(const struct worker *w);
uint64_t forwarding_sent(const struct worker *w);

/** Take everything out of the rings; returns the number of records. */
uint64_t forwarding_drain(struct forwarding *f);
