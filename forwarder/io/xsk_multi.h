/* Frames in several buffers, for interfaces whose MTU no single one holds (XDP_USE_SG; kernel
 * Documentation/networking/af_xdp.rst, "Multi-Buffer Support"). The calls of struct port_driver that know of
 * them; ports without such interfaces have others, and pay nothing. Thread: worker. */
#pragma once

#include "io/port.h"

/* Newer than the headers of Debian 12. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

/** The largest MTU of which every packet fits into one buffer, whatever the driver; interfaces with a larger one
 *  need multi-buffer XDP (Linux 6.6, and the driver). */
#define XSK_MTU_MAX 3498
#define XSK_MTU_MAX_TEXT "3498"
/** The largest MTU that an interface may have. */
#define XSK_MTU_JUMBO 9216
#define XSK_PARTS_MAX 3 /* buffers of a frame, then */

unsigned xsk_multi_rx(struct port *p, unsigned q, struct frame *frames, unsigned n);
unsigned xsk_multi_tx(struct port *p, unsigned iface, const struct frame *frames, unsigned n);
void xsk_multi_free(struct port *p, const struct frame *frames, unsigned n);
const uint8_t *xsk_multi_rest(struct port *p, const struct frame *f, unsigned k, uint32_t *len);
