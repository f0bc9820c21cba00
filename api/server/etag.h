/* Entity tags: strong, over the desired state of a resource alone, the same in every process. (RFC 9110 8.8.3) */
#pragma once

#include <gnutls/crypto.h>

#include "api/server/exchange.h"

/** The tag of one VIP without its DIPs / of one DIP. deleting: it drains. False without memory. Thread: any. */
MUST_CHECK bool etag_of_vip(const struct vip_conf *c, bool deleting, char out[ETAG_LEN]);
MUST_CHECK bool etag_of_dip(const struct dip_conf *c, bool deleting, char out[ETAG_LEN]);

/** The tag of several resources: begin, add each in the order of ids, end. */
struct etag {
	gnutls_hash_hd_t hash;
	bool failed;
};

void etag_begin(struct etag *e);
void etag_add_vip(struct etag *e, const struct vip_conf *c, bool deleting);
void etag_add_dip(struct etag *e, const struct dip_conf *c, bool deleting);
/** Of what is no resource: as it stands. */
void etag_add_bytes(struct etag *e, const void *data, size_t n);
/** False without memory, now or before. Must be called in any case. */
MUST_CHECK bool etag_end(struct etag *e, char out[ETAG_LEN]);

/** A view's whole desired state. Thread: control's. */
MUST_CHECK bool etag_of_view(struct control_view *view, char out[ETAG_LEN]);

/** True if the value of If-Match or If-None-Match is well-formed. */
bool etag_list_valid(const char *list);
/** True if the list names the tag ("" = of what is not there). weak: a weak one in the list counts too. */
bool etag_list_has(const char *list, const char *tag, bool weak);
