#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/precondition.h"
#include "api/server/problem.h"
#include "api/server/resources.h"
#include "api/server/selection.h"

/* The path's VIP with its DIPs (free with free_vips, *n = 1), or NULL with 404 set. */
static struct vip_info *read_vip(struct api_request *req, size_t *n, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct vip_info *vip = b->read_vips(b->ctx, req->path_args[0], true, n);

	if (*n)
		return vip;
	b->free_vips(vip, *n);
	problem_set(resp, 404, "no VIP has the id '%s'", req->path_args[0]);
	return NULL;
}

static bool tag_list(const struct vip_info *vip, char tag[ETAG_LEN])
{
	struct etag e;

	etag_begin(&e);
	for (unsigned i = 0; i < vip->n_dips; i++)
		etag_add_dip(&e, &vip->dips[i].conf, vip->dips[i].deleting);
	return etag_end(&e, tag);
}

void dips_list(struct api_request *req, struct api_response *resp)
{
	char tag[ETAG_LEN], next[ID_LEN];
	size_t n = 0;
	struct vip_info *vip = read_vip(req, &n, resp);

	if (!vip)
		return;
	if (!select_dips(req, vip, next, resp) ||
	    (tag_list(vip, tag) && precondition_settles(req, tag, resp))) {
		req->api->backend.free_vips(vip, n);
		return;
	}
	json_t *items = json_array();
	for (unsigned i = 0; items && i < vip->n_dips; i++) {
		if (json_array_append_new(items, codec_print_dip(&vip->dips[i]))) {
			json_decref(items);
			items = NULL;
		}
	}
	req->api->backend.free_vips(vip, n);
	listing_answer(req, items, *next ? next : NULL, resp);
}

static const struct dip_info *find_dip(const struct vip_info *vip, const char *id)
{
	for (unsigned i = 0; i < vip->n_dips; i++)
		if (!strcmp(vip->dips[i].conf.id, id))
			return &vip->dips[i];
	return NULL;
}

void dip_get(struct api_request *req, struct api_response *resp)
{
	char tag[ETAG_LEN];
	size_t n = 0;
	struct vip_info *vip = read_vip(req, &n, resp);

	if (!vip)
		return;
	const struct dip_info *dip = find_dip(vip, req->path_args[1]);
	if (dip &&
	    !(etag_of_dip(&dip->conf, dip->deleting, tag) && precondition_settles(req, tag, resp)))
		response_json(resp, 200, codec_print_dip(dip));
	else if (!dip)
		problem_set(resp, 404, "the VIP '%s' has no DIP '%s'", req->path_args[0],
			    req->path_args[1]);
	req->api->backend.free_vips(vip, n);
}

static void dip_write(struct api_request *req, struct api_response *resp, enum control_op op)
{
	struct change_call c;
	struct field_errors errors = {.n = 0};
	bool patch = op == OP_DIP_PATCH;

	if (!change_init(req, op, &c, resp))
		return;
	json_t *body = body_parse(req, patch, resp);
	if (!body)
		return;
	if (codec_parse_dip(body, c.r.dip, !patch, &c.r.dip_edit, &errors))
		change_run(&c, resp);
	else
		change_refuse(resp, &errors);
	json_decref(body);
}

void dip_put(struct api_request *req, struct api_response *resp)
{
	dip_write(req, resp, OP_DIP_PUT);
}

void dip_patch(struct api_request *req, struct api_response *resp)
{
	dip_write(req, resp, OP_DIP_PATCH);
}

void dip_delete(struct api_request *req, struct api_response *resp)
{
	struct change_call c;
	size_t n = 0;

	if (!change_init(req, OP_DIP_DELETE, &c, resp))
		return;
	struct vip_info *vip = read_vip(req, &n, resp);
	if (!vip)
		return;
	/* What it was, for the answer: of a DIP that is gone control tells nothing. */
	const struct dip_info *was = find_dip(vip, c.r.dip);
	if (was)
		c.r.dip_info = (struct dip_info){.conf = was->conf,
						 .packets = was->packets,
						 .bytes = was->bytes,
						 .deleting = true};
	req->api->backend.free_vips(vip, n);
	change_run(&c, resp);
}
