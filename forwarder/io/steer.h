/* `steer`, the XDP program that decides which packets are ours: a packet of a VIP goes to the AF_XDP
 * socket of its queue (none there: it is dropped, so that the host kernel never answers with a RST);
 * a broken or fragmented TCP or UDP packet to a VIP's address goes there too, to be counted; anything
 * else goes to the kernel. Attached by netlink, so it outlives the process. (DESIGN 2, 6) */
#pragma once

#include "base/error.h"
#include "lookup/snapshot.h"

struct steer;

/** Load the program once for each interface (its own XSKMAP, which xsk_open fills), with one VIP map
 *  shared by all. 0, or negative with err set. */
MUST_CHECK int steer_open(unsigned n_ifaces, const int *ifindexes, struct steer **out,
			  struct error *err);

/** Attach or replace atomically on every interface. flags: XDP_FLAGS_DRV_MODE or XDP_FLAGS_SKB_MODE.
 *  When an interface refuses, those attached by this call are put back as they were. */
MUST_CHECK int steer_attach(struct steer *s, uint32_t flags, struct error *err);

/** Free; attached programs stay attached. NULL is fine. */
void steer_close(struct steer *s);

/** File descriptor of an interface's XSKMAP (key: queue number). */
int steer_xskmap_fd(const struct steer *s, unsigned iface);

/** VIP map edits; see struct steering. Before attach they fill the maps. */
int steer_add_vip(struct steer *s, const struct vip_match *m, struct error *err);
int steer_del_vip(struct steer *s, const struct vip_match *m, struct error *err);

/** Remove a steer program from an interface (`concuryd --detach`): 0, -ENOENT (there is none), -EPERM
 *  for a program that is not ours, or what the kernel says. */
MUST_CHECK int steer_detach(const char *ifname, struct error *err);
