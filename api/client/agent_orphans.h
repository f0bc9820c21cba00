/* Packets for connections that this backend does not have: an independent witness of the promise.
 *
 * What is counted: RSTs without ACK that the kernel sends from a VIP. It answers so (RFC
 * 9293 3.10.7.1) a segment with ACK of a connection that it does not know, and nothing else: a RST
 * that ends a connection, or refuses a SYN, bears an ACK. What that is not: proof that a connection
 * was moved. Clients that go on speaking after the server has closed count too; and a backend that
 * drops unknown segments in a firewall before they reach TCP shows none. TCP alone has such
 * answers. */
#pragma once

#include "api/client/agent_options.h"

struct agent_orphans;

/** Needs CAP_NET_RAW. */
MUST_CHECK int agent_orphans_open(struct agent_orphans **out, struct error *err);
void agent_orphans_close(struct agent_orphans *o);

/** Readable when there is something to count. */
int agent_orphans_fd(const struct agent_orphans *o);

/** Count what was sent since the last call from these local addresses; returns how many. */
uint64_t agent_orphans_read(struct agent_orphans *o, const struct agent_vip *vips, unsigned n_vips);
