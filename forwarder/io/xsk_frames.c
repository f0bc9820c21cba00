/* Multi-buffer is enabled only if an interface's MTU needs it: a VIP's packets come from clients of
 * the internet with 1500 bytes or less mostly, and one frame in one chunk keeps the packet path
 * simple.
 *
 * In zero-copy mode the NIC writes into the chunks, and some can be told the room there only in
 * KiB: Intel's 1G, 2.5G and early 10G ones (SRRCTL.BSIZEPKT), whose drivers round down. Of 2048
 * bytes less the headroom that leaves 1024, and every longer frame is lost, those to the kernel
 * too. So there a chunk is large already for an MTU of 1500. */
#include "io/xsk_frames.h"

#include <errno.h>

#define HEADROOM 256	/* XDP_PACKET_HEADROOM: what the kernel leaves free in front */
#define SHARED_INFO 320 /* what it keeps behind a packet in a page, skb_shared_info */
#define LINK_HEADER 22	/* Ethernet and two VLAN tags */
#define SMALL_CHUNK 2048
#define LARGE_CHUNK 4096
#define KIB 1024u

_Static_assert(XSK_PARTS_MAX *(LARGE_CHUNK - HEADROOM) >= XSK_MTU_JUMBO + LINK_HEADER &&
		       XSK_PARTS_MAX <= PORT_REST_MAX + 1,
	       "a frame's buffers");
/* Every driver can receive this in one buffer of a page; above, native mode uses several. */
_Static_assert(XSK_MTU_MAX == LARGE_CHUNK - HEADROOM - LINK_HEADER - SHARED_INFO,
	       "the documented limit");

static bool counts_in_kib(const char *driver)
{
	/* ixgbe: the 82599 alone, which is most of them. */
	static const char *const drivers[] = {"igb", "igc", "ixgbe"};

	for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
		if (strcmp(driver, drivers[i]) == 0)
			return true;
	return false;
}

/* Of a chunk, for a frame that is received without copying. */
static uint32_t room(uint32_t chunk, const struct xsk_iface *i)
{
	uint32_t n = chunk - HEADROOM;

	return counts_in_kib(i->driver) ? n / KIB * KIB : n;
}

struct xsk_frames xsk_frames_plan(const struct xsk_iface *ifaces, unsigned n, enum xdp_mode mode)
{
	bool zerocopy = mode == XDP_MODE_AUTO || mode == XDP_MODE_ZEROCOPY;
	struct xsk_frames f = {.chunk = SMALL_CHUNK};

	for (unsigned i = 0; i < n; i++) {
		uint32_t small = zerocopy ? room(SMALL_CHUNK, &ifaces[i]) : SMALL_CHUNK - HEADROOM;

		if (ifaces[i].mtu + LINK_HEADER > small)
			f.chunk = LARGE_CHUNK;
		if (ifaces[i].mtu > XSK_MTU_MAX)
			f.multi = true;
	}
	return f;
}

int xsk_frames_check_zerocopy(const struct xsk_frames *f, const struct xsk_iface *i,
			      struct error *err)
{
	uint32_t most = room(f->chunk, i) - LINK_HEADER;

	if (f->multi || i->mtu <= most)
		return 0;
	return error_set(err, -EOPNOTSUPP,
			 "%s: its driver %s takes packets of %u bytes at most in zero-copy mode "
			 "with the packet memory of now, and its MTU is %u",
			 i->name, i->driver, most, i->mtu);
}

uint32_t xsk_frames_longest(const struct xsk_frames *f)
{
	return f->multi ? XSK_MTU_JUMBO + LINK_HEADER : f->chunk - HEADROOM;
}

unsigned xsk_frames_mtu(const struct xsk_frames *f)
{
	return xsk_frames_longest(f) - LINK_HEADER;
}
