/* Direct server return: the front of the frame only. The packet, its TTL and its checksums leave as
 * they came. */
#include "packet/rewrite.h"

#include "packet/rewrite_macs.h"

enum rewrite_result rewrite_l2(uint8_t *data, uint32_t len, const struct packet *p,
			       const struct rewrite_to *to)
{
	(void)len; /* the padding is left where it is */
	if (p->l3_len > to->mtu)
		return REWRITE_TOO_BIG;
	rewrite_macs(data, to);
	return REWRITE_OK;
}
