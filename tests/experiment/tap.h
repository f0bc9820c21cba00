/* Packets on the wire: sent from a client's namespace, seen in the backends'. */
#pragma once

#include "tests/experiment/cell.h"

#define TAP_BACKENDS 4

struct tap {
	int tx;			  /* packet socket on the client's eth0 */
	int rx[TAP_BACKENDS + 1]; /* on backend d's, d in 1 .. */
	uint8_t gateway[6];	  /* where frames are sent to: the forwarder under test */
	unsigned n_queued;
	uint8_t (*queue)[128]; /* frames that wait for the next flush */
	uint32_t *queue_len;
};

/** Open the sockets in the namespaces PREFIXclient, PREFIXb1 .. PREFIXb4. Exits on failure. */
void tap_open(struct tap *t, const char *prefix);
void tap_close(struct tap *t);

/** MAC address of a machine on the segment: the client's, a forwarder's, or 10 + d for backend d.
 */
void tap_mac(uint8_t mac[6], unsigned host);

/** Send a frame of flow i, soon. */
void tap_send(struct tap *t, uint32_t i, uint8_t tcp_flags, uint32_t payload);
void tap_flush(struct tap *t);

/** Everything that backends got since the last call. */
void tap_poll(struct tap *t, void (*arrived)(void *ctx, uint32_t i, unsigned dip), void *ctx);
