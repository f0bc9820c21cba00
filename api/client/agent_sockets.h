/* The kernel's sockets of this network namespace, by NETLINK_SOCK_DIAG: who is there, and who has
 * just gone. Needs no privileges and no module of ours. (sock_diag(7)) */
#pragma once

#include "api/client/agent_options.h"
#include "api/client/agent_table.h"

struct agent_sockets;

/** Open both netlink sockets and join the groups of destroyed TCP sockets. */
MUST_CHECK int agent_sockets_open(struct agent_sockets **out, struct error *err);
void agent_sockets_close(struct agent_sockets *s);

/** Readable when sockets were destroyed. */
int agent_sockets_fd(const struct agent_sockets *s);

/** Show the table every connection of these local addresses. 0, or -errno: the dump is not whole,
 * and was not ended in the table. */
MUST_CHECK int agent_sockets_dump(struct agent_sockets *s, struct agent_table *t,
				  const struct agent_vip *vips, unsigned n_vips, struct error *err);

/** Tell the table of the TCP sockets that were destroyed since the last call, as of at_ms. 0,
 * -ENOBUFS: some were missed (the next dump finds them), or another -errno. */
MUST_CHECK int agent_sockets_destroyed(struct agent_sockets *s, struct agent_table *t,
				       const struct agent_vip *vips, unsigned n_vips,
				       uint64_t at_ms);
