/* What opens a QUIC connection: a client's Initial packet; and what says whose it is: the connection ID that
 * its server has chosen. (RFC 8999, RFC 9000 17.2.2, RFC 9369) */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

/** A client pads every datagram with an Initial packet up to this. (RFC 9000 14.1) */
#define QUIC_INITIAL_LEN_MIN 1200u

/** Whether a long header, of which at least 6 bytes are there, is that of an Initial packet. */
bool quic_long_is_initial(const uint8_t *b);

/** Whether a UDP payload of len bytes begins with an Initial packet. Other protocols' payloads that look
 *  like one are some 0.5% of random ones of this length; they are told to control once more than needed.
 *  Thread: any. Pure. */
static ALWAYS_INLINE bool quic_is_initial(const uint8_t *b, uint32_t len)
{
	/* long header form and fixed bit */
	return len >= QUIC_INITIAL_LEN_MIN && (b[0] & 0xc0) == 0xc0 && quic_long_is_initial(b);
}

/** The destination connection ID of a UDP payload of len bytes, if its server may have chosen it, and its
 *  length; NULL: there is none, or the client has made it up. Of a short header, which does not say its
 *  length, all that follows counts, up to the 20 bytes of an ID of today's versions. Of versions 1 and 2 a
 *  long header counts in a Handshake packet alone: an Initial or 0-RTT packet, in which the client's own ID
 *  stands at first, is met during the handshake, and its flow tells. Of any other version only what no
 *  version changes is known, so each long header counts. Thread: any. Pure. */
const uint8_t *quic_server_cid(const uint8_t *b, uint32_t len, uint32_t *cid_len);
