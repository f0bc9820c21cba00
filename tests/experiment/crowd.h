/* A crowd of connections, client and backends frame by frame, so that thousands cost little. Each end
 * keeps to itself and speaks over the wire alone: the client's frames reach a backend through the
 * forwarder under test, a backend answers to the client directly. */
#pragma once

#include "tests/experiment/lane.h"
#include "tests/experiment/segment.h"

#define CROWD_BACKENDS_MAX 8u
#define CROWD_PORTS 1024u /* of one client address, 10.64.x.y */

/* A backend's side of a connection. Nothing else of it has to be remembered: an exchange's sequence
 * numbers follow from its turn. */
struct peer {
	bool known;
	uint32_t isn, client_isn;
};

struct backend {
	uint32_t id; /* 1 .. CROWD_BACKENDS_MAX */
	uint32_t n_conns;
	struct peer *peers; /* by connection */
	struct lane lane;
	uint64_t rng;
	uint64_t n_strange; /* segments of connections that it does not have: answered by RST */
};

/** A connection's number, of a client's address and port; UINT32_MAX: none of the crowd's. */
uint32_t crowd_number(uint32_t address, uint16_t port);
/** MAC address of a machine on the segment: 1 the client, 2 the forwarder, 10 + d backend d. */
void crowd_mac(uint8_t mac[6], unsigned host);
/** Queue a segment. */
void crowd_send(struct lane *l, const struct segment *s);

/** Backend `id` in its namespace, for connections 0 .. n_conns - 1. Exits on failure. */
void backend_open(struct backend *b, const char *netns, uint32_t id, uint32_t n_conns);
void backend_close(struct backend *b);
/** Answer all that has come in. */
void backend_poll(struct backend *b);
