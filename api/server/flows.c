/* GET /v1/vips/{vip}/flows: known flows, page by page. Control is asked for a bounded piece at a
 * time, and between two pieces does all its other work, so a request may take many: up to
 * PIECES_MAX, and then the page is answered as it is, with the place to go on from. */
#include "control/flow_page.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/listing.h"
#include "api/server/problem.h"
#include "api/server/resources.h"

#define PIECES_MAX 64u
#define FLOWS_USUAL 100u

static const char *protocol_word(uint8_t proto)
{
	return proto == IPPROTO_TCP ? "tcp" : "udp";
}

/* Of flows that are told apart by the client's address alone, there is no more to say. */
static json_t *print_flow(const struct flow_info *f)
{
	char client[IP_ADDR_STRLEN];
	bool whole = f->proto != 0;

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:b, s:b, s:I, s:I}", "client",
			 ip_addr_format(&f->client, client), "client_port",
			 whole ? json_integer(f->client_port) : json_null(), "port",
			 whole ? json_integer(f->port) : json_null(), "protocol",
			 whole ? json_string(protocol_word(f->proto)) : json_null(), "dip",
			 f->dip[0] ? json_string(f->dip) : json_null(), "state",
			 flow_state_names[f->state], "pinned", (int)f->pinned, "exact",
			 (int)f->exact, "age_s", (json_int_t)f->age_s, "idle_s",
			 (json_int_t)f->idle_s);
}

static json_t *print_flows(const struct flow_info *list, unsigned n)
{
	json_t *items = json_array();

	for (unsigned i = 0; items && i < n; i++) {
		if (json_array_append_new(items, print_flow(&list[i]))) {
			json_decref(items);
			items = NULL;
		}
	}
	return items;
}

/* The place of a word in a list that NULL ends; -1 and an error if it is not there. No word: -1. */
static int read_word(const struct api_request *req, const char *pointer, const char *const *words,
		     struct field_errors *errors)
{
	const char *word = request_query(req, pointer + 1);
	char known[64] = "";

	if (!word)
		return -1;
	for (int i = 0; words[i]; i++) {
		if (!strcmp(words[i], word))
			return i;
		size_t len = strlen(known);
		snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", words[i]);
	}
	field_errors_add(errors, pointer, "bad_value", "one of %s", known);
	return -1;
}

static void read_query(const struct api_request *req, struct flow_query *q,
		       struct field_errors *errors)
{
	static const char *const bools[] = {"false", "true", NULL};
	const char *client = request_query(req, "client");
	struct listing page;

	*q = (struct flow_query){.vip = req->path_args[0], .dip = request_query(req, "dip")};
	listing_read(req, FLOWS_USUAL, FLOW_PAGE_MAX, &page, errors);
	q->limit = page.limit;
	q->pinned = read_word(req, "?pinned", bools, errors);
	q->state = read_word(req, "?state", flow_state_names, errors);
	if (client && ip_addr_parse(client, &q->client))
		field_errors_add(errors, "?client", "bad_value", "an IPv4 or IPv6 address");
	q->has_client = client != NULL;

	size_t len = strlen(page.cursor);
	unsigned long long from = strtoull(page.cursor, NULL, 10);
	if (len && (strspn(page.cursor, "0123456789") != len || len > 10 || from > UINT32_MAX))
		field_errors_add(errors, "?cursor", "bad_value", "what another page gave as next");
	q->from = (uint32_t)from;
}

/* Collect a page; what of it was found is in *page. */
static void read_pieces(const struct api_backend *b, struct flow_query q, struct flow_page *page)
{
	struct flow_page piece = {.list = page->list};
	unsigned limit = q.limit;

	page->n = 0;
	for (unsigned i = 0; i < PIECES_MAX; i++) {
		b->read_flows(b->ctx, &q, &piece);
		piece.n += page->n;
		*page = (struct flow_page){.vip_found = piece.vip_found,
					   .dip_found = piece.dip_found,
					   .failed = piece.failed,
					   .more = piece.more,
					   .next = piece.next,
					   .n = piece.n,
					   .list = page->list};
		if (!page->more || page->n == limit)
			return;
		q.from = page->next;
		q.limit = limit - page->n;
		piece.list = page->list + page->n;
	}
}

static void answer(const struct api_request *req, const struct flow_query *q,
		   const struct flow_page *page, struct api_response *resp)
{
	char next[16];

	if (page->failed) {
		problem_set(resp, 500, "out of memory");
	} else if (!page->vip_found) {
		problem_set(resp, 404, "no VIP has the id '%s'", q->vip);
	} else if (!page->dip_found) {
		problem_set(resp, 404, "the VIP '%s' has no DIP '%s'", q->vip, q->dip);
	} else {
		snprintf(next, sizeof(next), "%u", page->next);
		listing_answer(req, print_flows(page->list, page->n), page->more ? next : NULL,
			       resp);
	}
}

void flows_list(struct api_request *req, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};
	struct flow_page page = {.n = 0};
	struct flow_query q;

	read_query(req, &q, &errors);
	if (errors.n) {
		problem_query(resp, &errors);
		return;
	}
	page.list = calloc(q.limit, sizeof(*page.list));
	page.failed = !page.list;
	if (page.list)
		read_pieces(&req->api->backend, q, &page);
	answer(req, &q, &page, resp);
	free(page.list);
}
