/* Requests of any kind through router, codec and resources. The first line of an input is the
 * target, the rest is the body; every method is tried with it. What must hold: an answer that is a
 * JSON document of a status that is documented, and no edit reaches control that names what it
 * cannot be. */
#include <stdlib.h>

#include "api/server/router.h"
#include "tests/unit/api_fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_edit(const struct control_edit *e)
{
	const struct vip_edit *v = e->vip_edit;
	const struct dip_edit *d = e->dip_edit;

	if (!model_id_valid(e->vip) || (control_op_is_dip(e->op) && !model_id_valid(e->dip)))
		abort();
	if (e->op == OP_VIP_PUT || e->op == OP_VIP_PATCH) {
		if ((v->members & VIP_M_PROTOCOL && (unsigned)v->conf.match.protocol > VIP_ANY) ||
		    (v->members & VIP_M_MODE && (unsigned)v->conf.mode > VIP_GUE) ||
		    (v->members & VIP_M_AFFINITY && (unsigned)v->conf.affinity > AFFINITY_CLIENT))
			abort();
		if (e->op == OP_VIP_PUT && !(v->members & VIP_M_ADDRESS))
			abort();
	}
	if (e->op == OP_DIP_PUT || e->op == OP_DIP_PATCH) {
		if ((d->members & DIP_M_WEIGHT && d->conf.weight > WEIGHT_MAX) ||
		    (d->members & DIP_M_MAC && d->conf.has_mac && d->conf.mac[0] & 1) ||
		    (e->op == OP_DIP_PUT && !(d->members & DIP_M_ADDRESS)))
			abort();
	}
}

static void (*fake_change)(void *ctx, struct control_request *r);

/* While the edits are there. */
static void checked_change(void *ctx, struct control_request *r)
{
	const struct control_transaction *t = r->transaction;
	const struct control_edit one = {.op = r->op,
					 .vip = r->vip,
					 .dip = r->dip,
					 .vip_edit = &r->vip_edit,
					 .dip_edit = &r->dip_edit};

	if (!t || !t->several)
		check_edit(&one);
	for (unsigned i = 0; t && t->several && i < t->n_edits; i++)
		check_edit(&t->edits[i]);
	fake_change(ctx, r);
}

/* The made-up daemon shows no configuration: what needs it says that there is no memory for it. */
static bool lacks_config(const struct api_response *resp, const char *target)
{
	const char *detail = json_string_value(json_object_get(resp->body, "detail"));

	return resp->status == 500 && strstr(target, "config") && detail &&
	       !strcmp(detail, "out of memory");
}

static void check_answer(struct api_response *resp, const char *target)
{
	static const unsigned known[] = {200, 201, 400, 401, 404, 405, 415, 422};
	size_t i = 0;

	while (i < ARRAY_LEN(known) && known[i] != resp->status)
		i++;
	if (resp->stream.read && resp->status == 200) { /* it would wait for what comes next */
		resp->stream.close(resp->stream.state);
		return;
	}
	if (resp->text && resp->status == 200 && strlen(resp->text) == resp->text_len) {
		free(resp->text);
		return;
	}
	if ((i == ARRAY_LEN(known) && !lacks_config(resp, target)) || !resp->body ||
	    resp->problem != (resp->status >= 300))
		abort();
	char *text = json_dumps(resp->body, 0);
	json_error_t err;
	json_t *again = text ? json_loads(text, 0, &err) : NULL;
	if (!again || !json_equal(again, resp->body))
		abort();
	json_decref(again);
	free(text);
	json_decref(resp->body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const methods[] = {"GET", "HEAD", "PUT", "PATCH", "DELETE", "POST"};
	static const struct api_peer peer = {.unix_socket = true};
	static struct api_context api;
	size_t line = 0;

	api_fake_context(&api);
	fake_change = api.backend.change;
	api.backend.change = checked_change;
	while (line < size && data[line] != '\n')
		line++;
	char *target = malloc(line + 1);
	size_t skip = line < size ? line + 1 : line;
	char *body = malloc(size - skip + 1);
	memcpy(target, data, line);
	target[line] = '\0';
	memcpy(body, data + skip, size - skip);
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		struct api_request req = {.api = &api,
					  .method = methods[i],
					  .target = target,
					  .peer = &peer,
					  .content_type = "application/json",
					  .body = body,
					  .body_len = size - skip};
		struct api_response resp = {.status = 0};

		router_dispatch(api_routes, api_n_routes, &req, &resp);
		check_answer(&resp, target);
	}
	free(target);
	free(body);
	return 0;
}
