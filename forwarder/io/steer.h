/* `steer`, the XDP program that decides which packets are ours: a packet of a VIP goes to the AF_XDP
 * socket of its queue (none there: it is dropped, so that the host kernel never answers with a RST);
 * so do ICMP errors about its flows, and echo requests where the kernel does not have the address;
 * a broken or fragmented TCP or UDP packet to a VIP's address goes there too, to be counted; anything
 * else, and every frame that is not sent to the interface's own MAC address, goes to the kernel.
 * Attached by netlink, so it outlives the process. */
#pragma once

#include "base/error.h"
#include "io/steer_back.h"
#include "lookup/snapshot.h"

struct steer;

/** Load the program once for each interface (its own XSKMAP, which xsk_open fills), with one VIP map
 *  shared by all. frame_max: the longest frame (bytes) the sockets take, multi: also in several buffers;
 *  steer drops and counts others. It takes no frame of an interface before steer_set_mac. 0, or negative with err set. */
MUST_CHECK int steer_open(unsigned n_ifaces, const int *ifindexes, uint32_t frame_max, bool multi,
			  struct steer **out, struct error *err);

/** The interface's MAC address: frames to any other, to all and to groups go to the kernel. True if this
 *  is a change. Thread: main. */
bool steer_set_mac(struct steer *s, unsigned iface, const uint8_t mac[6]);

/** The host's own addresses, n of them, sorted by their bytes and without duplicates: echo requests to a
 *  VIP with one of them go to the kernel, to others to a worker. None at first. Thread: main. */
void steer_set_own_addresses(struct steer *s, const struct ip_addr *list, size_t n);

/** Attach on every interface, or replace atomically the steer that an earlier process left. flags:
 *  XDP_FLAGS_DRV_MODE or XDP_FLAGS_SKB_MODE; one found in the other mode is detached first (the kernel
 *  has no atomic way), which is logged. When an interface refuses, those attached by this call are put
 *  back as they were. -EPERM if an interface carries a program that is not ours: nothing was changed;
 *  else what the kernel says. */
MUST_CHECK int steer_attach(struct steer *s, uint32_t flags, struct error *err);

/** True if some interface carries a steer of an earlier process in generic mode. */
bool steer_found_generic(const struct steer *s);

/** Free; attached programs stay attached. NULL is fine. */
void steer_close(struct steer *s);

/** The interface has another index now, as one that was made anew: attach there in the mode of flags, unless
 *  it carries another program than this very one. 0, or negative with err set; s is unchanged then. Thread: main. */
MUST_CHECK int steer_move(struct steer *s, unsigned iface, int ifindex, uint32_t flags,
			  struct error *err);

/** What steer has counted for the frames of a queue that are ours. Thread: any. */
void steer_read_queue(const struct steer *s, unsigned iface, unsigned queue, uint64_t *redirected,
		      uint64_t *refused);

/** File descriptor of an interface's XSKMAP (key: queue number). */
int steer_xskmap_fd(const struct steer *s, unsigned iface);

/** File descriptor of an interface's program (BPF_PROG_TEST_RUN in tests). */
int steer_program_fd(const struct steer *s, unsigned iface);

/** The kernel's id of an interface's program, 0 if it does not tell. Thread: any. */
uint32_t steer_program_id(const struct steer *s, unsigned iface);

/** VIP map edits; see struct steering. Before attach they fill the maps. */
MUST_CHECK int steer_add_vip(struct steer *s, const struct vip_match *m, struct error *err);
MUST_CHECK int steer_del_vip(struct steer *s, const struct vip_match *m, struct error *err);

/** The ways back of mode nat: io/steer_back.h. They live as long as s. */
struct steer_backs *steer_backs(struct steer *s);

/** Frames to VIPs that steer dropped because no socket could take them (longer than frame_max, or in
 *  several buffers without multi), over all interfaces. Thread: any. */
uint64_t steer_read_too_big(const struct steer *s);

/** Remove our own program from interface i, if it is there. Unlike steer_detach it needs no more than
 *  CAP_NET_ADMIN. Thread: main. */
MUST_CHECK int steer_detach_own(const struct steer *s, unsigned iface, uint32_t flags,
				struct error *err);

/** Remove a steer program from an interface (`concuryd --detach`): 0, -ENOENT (there is none), -EPERM
 *  for a program that is not ours, or what the kernel says. */
MUST_CHECK int steer_detach(const char *ifname, struct error *err);
