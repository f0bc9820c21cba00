/* Pages of a list: what ?limit and ?cursor ask for, and where the answer says how to go on: a member `next`,
 * and a Link header (RFC 8288) with the same query. */
#pragma once

#include "api/server/exchange.h"

#define CURSOR_LEN 96

struct listing {
	unsigned limit;
	char cursor[CURSOR_LEN]; /* "" = from the beginning */
};

/** Read limit (1 to `most`; `usual` if it is not given) and cursor. Faults are noted. */
void listing_read(const struct api_request *req, unsigned usual, unsigned most, struct listing *p,
	       struct field_errors *errors);

/** Answer 200 with the page; takes over items, of which NULL means that memory ran out. next: the cursor
 *  behind it, NULL = it is the last one. */
void listing_answer(const struct api_request *req, json_t *items, const char *next,
		 struct api_response *resp);
