/* The bed that tests of AF_XDP ports lie in: namespace `lb` with l0 and l1, namespace `peer` with p0 and
 * p1 at their other ends, two queues each. The lb kernel owns the VIP's address on l0 and nothing listens
 * there, so a packet of the VIP that slips through to it is answered with a RST, which the peer would
 * see. Everything fails the running test if it cannot be done. Needs root. */
#pragma once

#include "frames.h"
#include "io/xsk_life.h"

#define VIP "10.9.0.100"
#define VIP6 "2001:db8::100"
#define VIP_PORT 80

extern int bed_lb, bed_peer;   /* namespaces; tests run in bed_lb */
extern uint8_t bed_macs[2][6]; /* of l0, l1 */

void bed_setup(void);
void bed_teardown(void);

/** After l<iface> was deleted: another pair of the names, with other addresses. */
void bed_remake(unsigned iface);

/* --- the peer's side, by p<iface> ---------------------------------------------------------------- */

/** A SYN to the VIP. */
struct frames_spec bed_syn(unsigned iface, uint16_t sport, uint16_t dport);

void bed_inject(unsigned iface, const struct frames_spec *spec);

/** n SYNs of different flows to the VIP's port. */
void bed_inject_syns(unsigned iface, unsigned n);

/** The next IPv4 TCP frame that arrives within ms and comes from the MAC address: its length, or 0. */
uint32_t bed_take(unsigned iface, const uint8_t src_mac[6], uint8_t *buf, uint32_t cap, int ms);

/** Send a SYN to the VIP: does the lb kernel answer it with a RST? */
bool bed_kernel_answers(unsigned iface);

/* --- the forwarder's side ------------------------------------------------------------------------- */

/** xsk_open on l0 (and l1). */
struct xsk *bed_open_ports(unsigned n_ifaces, unsigned n_workers, enum xdp_mode mode);

/** Add VIP and VIP6, port VIP_PORT, TCP, and attach. */
void bed_start(struct xsk *x);

/** Receive and send on by interface `out` (-1: free) for at most ms or until n frames have come. Returns
 *  how many; each must be sound, and has its source MAC address set to that of `out`. */
unsigned bed_forward(struct port *p, int out, unsigned n, int ms);

/** Every frame of the pool is free, or with one socket, for receiving or being sent, or was with a removed one
 *  that is not reclaimed: none is lost, none is there twice. */
void bed_check_frames(struct port *port);

/** SYNs come in by one interface and leave by another, or the same: all of them, and no frame is lost. */
void bed_check_way(struct port *p, unsigned in, unsigned out);

/** How to pause workers where there is no thread but the test's. */
extern const struct xsk_pause bed_at_once;

/** Id of the program on an interface in a mode (0: any), 0 if there is none. */
int bed_attached_id(const char *ifname, uint32_t flags);
