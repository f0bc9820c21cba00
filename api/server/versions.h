/* What the lists of the change log have in common. */
#pragma once

#include "api/server/listing.h"

/** Read limit and cursor: *before becomes the version below which the page begins (at least 1). Faults are
 *  noted. */
void versions_read_page(const struct api_request *req, struct listing *page, uint64_t *before,
			struct field_errors *errors);
