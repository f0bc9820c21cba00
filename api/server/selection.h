/* What of a list of VIPs or DIPs a query asks for: filters, and a page of what is left. */
#pragma once

#include "api/server/listing.h"

/** Keep in the list (sorted by id) what ?address, ?port, ?protocol and ?state name, behind ?cursor, up to
 *  ?limit. next: the cursor behind it, "" = it is the last page. False with 400 set. */
MUST_CHECK bool select_vips(const struct api_request *req, struct vip_info *vips, size_t *n,
			    char next[ID_LEN], struct api_response *resp);

/** The same for a VIP's DIPs, by ?address and ?state. */
MUST_CHECK bool select_dips(const struct api_request *req, struct vip_info *vip, char next[ID_LEN],
			    struct api_response *resp);
