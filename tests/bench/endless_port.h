/* A port that never runs dry: it hands out small TCP frames of N flows in random order, writing
 * each into its buffer as a NIC's DMA would, and takes whatever is sent. */
#pragma once

#include "base/addr.h"
#include "io/port.h"

#define ENDLESS_FRAME_LEN 60u	 /* IPv4: 64 with the checksum that a NIC cuts off */
#define ENDLESS_FRAME_LEN_V6 74u /* no smaller one bears TCP */

/** n_flows: bare ACKs of flows 0 .. n_flows - 1 (client 10.0.0.0 + i / 16, port 1024 + i % 16) to
 *  vip:80; besides, openings_per_s SYNs of flows never seen before, by the clock. vip: host order.
 */
struct port *endless_port_new(uint32_t n_flows, uint32_t openings_per_s, uint32_t vip);

/** The same to a VIP of either family. Clients of an IPv6 one: 2001:db8:c:: with those in the last
 * bytes. */
struct port *endless_port_new_to(uint32_t n_flows, uint32_t openings_per_s,
				 const struct ip_addr *vip);
void endless_port_free(struct port *p);

enum endless_shape {
	ENDLESS_ACKS,	   /* as above */
	ENDLESS_LARGE,	   /* IPv4 packets of 1500 bytes; of them as much is written as is read */
	ENDLESS_FRAGMENTS, /* IPv4 UDP datagrams in two small fragments, one after the other */
};

/** What it hands out from now on; without openings. Thread: that of its worker. */
void endless_port_shape(struct port *p, enum endless_shape shape);

/** Frames that were sent, and that were dropped. */
uint64_t endless_port_sent(const struct port *p);
uint64_t endless_port_dropped(const struct port *p);
