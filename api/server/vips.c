#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/precondition.h"
#include "api/server/problem.h"
#include "api/server/resources.h"
#include "api/server/selection.h"
#include "base/log.h"

static bool tag_list(const struct vip_info *vips, size_t n, char tag[ETAG_LEN])
{
	struct etag e;

	etag_begin(&e);
	for (size_t i = 0; i < n; i++)
		etag_add_vip(&e, &vips[i].conf, vips[i].deleting);
	return etag_end(&e, tag);
}

void vips_list(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	char tag[ETAG_LEN];
	size_t n = 0;
	struct vip_info *vips = b->read_vips(b->ctx, NULL, false, &n);
	size_t n_all = n;
	char next[ID_LEN];

	if (!select_vips(req, vips, &n, next, resp) ||
	    (tag_list(vips, n, tag) && precondition_settles(req, tag, resp))) {
		b->free_vips(vips, n_all);
		return;
	}
	json_t *items = json_array();

	for (size_t i = 0; items && i < n; i++) {
		if (json_array_append_new(items, codec_print_vip(&vips[i]))) {
			json_decref(items);
			items = NULL;
		}
	}
	b->free_vips(vips, n_all);
	listing_answer(req, items, *next ? next : NULL, resp);
}

void vip_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	char tag[ETAG_LEN];
	size_t n = 0;
	struct vip_info *vips = b->read_vips(b->ctx, req->path_args[0], false, &n);

	if (n && !(etag_of_vip(&vips->conf, vips->deleting, tag) &&
		   precondition_settles(req, tag, resp)))
		response_json(resp, 200, codec_print_vip(&vips[0]));
	else if (!n)
		problem_set(resp, 404, "no VIP has the id '%s'", req->path_args[0]);
	b->free_vips(vips, n);
}

/* It is done, or planned, as it was asked for: who puts a VIP where this host is reached may mean
 * to. */
static void warn(const struct change_call *c, struct api_response *resp)
{
	const struct api_backend *b = &c->req->api->backend;
	char text[OWN_USE_LEN];

	if (resp->status >= 300 || !b->ends_own_use(b->ctx, &c->r.vip_edit.conf.match, text))
		return;
	if (!c->t.dry_run)
		log_warning("api", "VIP %s: %s", c->r.vip, text);
	/* Without memory it is not said here. */
	(void)json_object_set_new(resp->body, "warnings", json_pack("[o]", problem_text(text)));
}

static void vip_write(struct api_request *req, struct api_response *resp, enum control_op op)
{
	struct change_call c;
	struct field_errors errors = {.n = 0};
	bool patch = op == OP_VIP_PATCH;

	if (!change_init(req, op, &c, resp))
		return;
	json_t *body = body_parse(req, patch, resp);
	if (!body)
		return;
	if (codec_parse_vip(body, c.r.vip, !patch, &c.r.vip_edit, &errors)) {
		change_run(&c, resp);
		if (!patch) /* which cannot change what it takes */
			warn(&c, resp);
	} else {
		change_refuse(resp, &errors);
	}
	json_decref(body);
}

void vip_put(struct api_request *req, struct api_response *resp)
{
	vip_write(req, resp, OP_VIP_PUT);
}

void vip_patch(struct api_request *req, struct api_response *resp)
{
	vip_write(req, resp, OP_VIP_PATCH);
}

void vip_delete(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct change_call c;
	size_t n = 0;

	if (!change_init(req, OP_VIP_DELETE, &c, resp))
		return;
	/* What it was, for the answer: of a VIP that is gone control tells nothing. */
	struct vip_info *was = b->read_vips(b->ctx, c.r.vip, false, &n);
	if (n)
		c.r.vip_info = (struct vip_info){.conf = was->conf,
						 .packets = was->packets,
						 .bytes = was->bytes,
						 .deleting = true};
	b->free_vips(was, n);
	change_run(&c, resp);
}
