#include "api/server/listing.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/problem.h"

void listing_read(const struct api_request *req, unsigned usual, unsigned most, struct listing *p,
		  struct field_errors *errors)
{
	const char *limit = request_query(req, "limit");
	const char *cursor = request_query(req, "cursor");

	*p = (struct listing){.limit = usual};
	if (limit) {
		size_t len = strlen(limit);
		bool digits = len && len <= 9 && strspn(limit, "0123456789") == len;
		p->limit = digits ? (unsigned)strtoul(limit, NULL, 10) : 0;
		if (!p->limit || p->limit > most)
			field_errors_add(errors, "?limit", "out_of_range", "1 to %u", most);
	}
	if (cursor && (!*cursor || strlen(cursor) >= sizeof(p->cursor)))
		field_errors_add(errors, "?cursor", "bad_value", "what another page gave as next");
	else if (cursor)
		snprintf(p->cursor, sizeof(p->cursor), "%s", cursor);
}

/* Of RFC 3986's unreserved characters and what a query may hold besides, the ones that mean nothing
 * to us, or to who reads a Link header. */
static void put_escaped(FILE *f, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || strchr("-._~:", c);
		if (plain)
			fputc(c, f);
		else
			fprintf(f, "%%%02X", c);
	}
}

static void put_parameter(FILE *f, char before, const char *name, const char *value)
{
	fputc(before, f);
	put_escaped(f, name);
	fputc('=', f);
	put_escaped(f, value);
}

/* The request's own target, with another cursor. Too long a query goes without a Link: `next` says
 * it too. */
static void link_next(const struct api_request *req, const char *next, struct api_response *resp)
{
	size_t path_len = strcspn(req->target, "?");
	FILE *f = fmemopen(resp->link, sizeof(resp->link), "w");

	if (!f)
		return;
	fprintf(f, "<%.*s", (int)path_len, req->target);
	put_parameter(f, '?', "cursor", next);
	for (unsigned i = 0; i < req->n_query; i++)
		if (strcmp(req->query[i].name, "cursor") != 0)
			put_parameter(f, '&', req->query[i].name, req->query[i].value);
	fputs(">; rel=\"next\"", f);
	if (fflush(f) || ferror(f))
		resp->link[0] = '\0';
	if (fclose(f))
		resp->link[0] = '\0';
}

void listing_answer(const struct api_request *req, json_t *items, const char *next,
		    struct api_response *resp)
{
	response_items(resp, items);
	if (!next || resp->status != 200)
		return;
	if (json_object_set_new(resp->body, "next", json_string(next)))
		problem_set(resp, 500, "out of memory");
	else
		link_next(req, next, resp);
}
