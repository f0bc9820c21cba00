/* Which DIP a QUIC connection ID names: the plaintext scheme of draft-ietf-quic-load-balancers. An ID is
 * an octet whose 3 high bits say by which configuration it was made, the server's own ID, and what makes
 * it unique (at least 4 octets by the draft, which are not looked at here). A table is part of its
 * view: immutable once that is published. */
#pragma once


#include "base/addr.h"

#define SERVER_ID_MAX 15u	 /* octets */
#define SERVER_ID_ROTATION_MAX 6u /* 7 says that the ID names no server */

struct server_ids;

/** A table for at most n IDs of len octets (1 .. SERVER_ID_MAX), in connection IDs of this configuration
 *  (0 .. SERVER_ID_ROTATION_MAX). seed: secret, of the hash. NULL without memory. */
MUST_CHECK struct server_ids *server_ids_new(unsigned len, unsigned rotation, unsigned n,
					    uint64_t seed);
void server_ids_free(struct server_ids *t); /* NULL is fine */

/** Say whose an ID of the table's length is; one that is in gets the new DIP. At most n differ. */
void server_ids_set(struct server_ids *t, const uint8_t *id, uint16_t dip);

/** The DIP index that a connection ID names, or 0 (DIP_NONE): of another configuration, too short, or
 *  nobody's. len: octets at cid; those behind the ID itself do no harm. Thread: any. Pure. */
uint16_t server_ids_find(const struct server_ids *t, const uint8_t *cid, uint32_t len);
