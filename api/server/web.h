/* The dashboard's files: static, read once at the start, since the process may open none later. They are for
 * everyone who may reach the listener: what they show they ask the API for, with a token of their own. */
#pragma once

#include "api/server/exchange.h"

struct web;

/** Read the files of a directory (not those below it) whose names and types are a page's. dir NULL: where they
 *  are installed, seen from the program, or where a build put them; *out is NULL if they are in neither.
 *  -ENOENT: no index.html; -E2BIG: too many, or too large; errno of reading. Thread: main. */
MUST_CHECK int web_open(const char *dir, struct web **out, struct error *err);
void web_free(struct web *w);

/** False if the request is for none of the files; w may be NULL. Else the answer is set. Thread: any. */
MUST_CHECK bool web_answer(const struct web *w, const struct api_request *req,
			   struct api_response *resp);
