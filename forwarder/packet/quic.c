#include "packet/quic.h"

#include <arpa/inet.h>
#include <string.h>

#define VERSION_1 1u
#define VERSION_2 0x6b3343cfu
#define CID_LEN_MAX 20 /* of both */

#define LONG_FORM 0x80
#define LONG_LEN_MIN 6u /* up to the length of the ID */

/* A version that is not known is read like version 1, whose form the drafts had too. Version 0 is
 * what a server answers with (version negotiation). */
bool quic_long_is_initial(const uint8_t *b)
{
	uint32_t version_be;
	uint8_t type = (b[0] >> 4) & 3;

	memcpy(&version_be, b + 1, sizeof(version_be));
	if (version_be == 0 || b[5] > CID_LEN_MAX)
		return false;
	return type == (version_be == htonl(VERSION_2) ? 1 : 0);
}

/* Version 0 (version negotiation) and the Retry packets come from servers only. */
static bool long_may_be_servers(const uint8_t *b)
{
	uint32_t version_be;
	uint8_t type = (b[0] >> 4) & 3;

	memcpy(&version_be, b + 1, sizeof(version_be));
	switch (ntohl(version_be)) {
	case 0:
		return false;
	case VERSION_1:
		return type == 2 && b[5] <= CID_LEN_MAX;
	case VERSION_2:
		return type == 3 && b[5] <= CID_LEN_MAX;
	default:
		return true;
	}
}

const uint8_t *quic_server_cid(const uint8_t *b, uint32_t len, uint32_t *cid_len)
{
	if (len == 0)
		return NULL;
	if (!(b[0] & LONG_FORM)) {
		*cid_len = len - 1 < CID_LEN_MAX ? len - 1 : CID_LEN_MAX;
		return b + 1;
	}
	if (len < LONG_LEN_MIN || len - LONG_LEN_MIN < b[5] || !long_may_be_servers(b))
		return NULL;
	*cid_len = b[5];
	return b + LONG_LEN_MIN;
}
