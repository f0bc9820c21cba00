#include "packet/quic.h"

#include <arpa/inet.h>
#include <string.h>

#define VERSION_2 0x6b3343cfu
#define CID_LEN_MAX 20

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
