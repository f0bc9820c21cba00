/* GET and PUT of the whole desired state. */
#include "api/server/config.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/body.h"
#include "api/server/change.h"
#include "api/server/codec.h"
#include "api/server/precondition.h"
#include "api/server/problem.h"
#include "api/server/resources.h"

/* --- GET ----------------------------------------------------------------------------------- */

static void take_copy(void *arg, struct control_view *view)
{
	*(struct config_copy **)arg = config_copy_new(view);
}

void config_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct config_copy *copy = NULL;
	char tag[ETAG_LEN];

	if (!precondition_accept(req, resp))
		return;
	b->look(b->ctx, take_copy, &copy);
	if (!copy || !config_copy_tag(copy, tag)) {
		problem_set(resp, 500, "out of memory");
	} else {
		resp->generation = config_copy_generation(copy);
		if (!precondition_settles(req, tag, resp))
			response_json(resp, 200, config_copy_print(copy));
	}
	config_copy_free(copy);
}

/* --- PUT ----------------------------------------------------------------------------------- */

struct put {
	struct change_call call;
	struct config wanted;
	enum config_prune prune;
	struct config_diff diff;
	char tag[ETAG_LEN]; /* of what was made */
	bool tag_failed;
};

enum control_status config_check_whole(struct change_call *c, struct control_view *view)
{
	if (!precondition_given(c->req))
		return CONTROL_OK;
	if (!etag_of_view(view, c->current))
		return CONTROL_FAILED;
	return precondition_holds(c->req, c->current) ? CONTROL_OK : CONTROL_PRECONDITION;
}

static struct put *put_of(void *ctx)
{
	return (struct put *)((char *)ctx - offsetof(struct put, call));
}

static enum control_status prepare(void *ctx, struct control_view *view,
				   struct control_transaction *t)
{
	struct put *p = put_of(ctx);
	enum control_status status = config_check_whole(&p->call, view);

	if (status != CONTROL_OK)
		return status;
	config_diff_make(&p->diff, &p->wanted, p->prune, view);
	t->edits = p->diff.edits;
	t->n_edits = p->diff.n;
	return p->diff.failed ? CONTROL_FAILED : CONTROL_OK;
}

static void published(void *ctx, struct control_view *view)
{
	struct put *p = put_of(ctx);

	p->tag_failed = !etag_of_view(view, p->tag);
}

static bool read_prune(const struct api_request *req, enum config_prune *out,
		       struct api_response *resp)
{
	const char *value = request_query(req, "prune");

	*out = PRUNE_DRAIN;
	if (!value)
		return true;
	for (int i = 0; config_prune_names[i]; i++) {
		*out = (enum config_prune)i;
		if (!strcmp(config_prune_names[i], value))
			return true;
	}
	problem_parameter(resp, "prune", "none, drain or remove");
	return false;
}

struct tally {
	unsigned created, changed, draining, removed;
};

static json_t *print_tally(const struct tally *t)
{
	return json_pack("{s:i, s:i, s:i, s:i}", "created", (int)t->created, "changed",
			 (int)t->changed, "draining", (int)t->draining, "removed", (int)t->removed);
}

static void count_edit(struct tally *t, const struct control_edit *e)
{
	bool deletes = e->op == OP_VIP_DELETE || e->op == OP_DIP_DELETE;

	t->created += e->status == CONTROL_CREATED;
	t->draining += e->status == CONTROL_ACCEPTED;
	t->removed += deletes && e->status == CONTROL_OK;
	t->changed += !deletes && e->status == CONTROL_OK;
}

static void answer_put(const struct put *p, struct api_response *resp)
{
	const struct control_transaction *t = &p->call.t;
	struct tally vips = {0}, dips = {0};

	for (unsigned i = 0; i < t->n_edits; i++)
		count_edit(control_op_is_dip(t->edits[i].op) ? &dips : &vips, &t->edits[i]);
	response_json(resp, 200,
		      json_pack("{s:o, s:o, s:o}", "vips", print_tally(&vips), "dips",
				print_tally(&dips), "change",
				codec_print_change(&p->call.r.change)));
	resp->generation = p->call.r.change.generation;
	if (!p->tag_failed)
		memcpy(resp->etag, p->tag, sizeof(p->tag));
}

static void put_run(struct put *p, struct api_response *resp)
{
	p->call.t.prepare = prepare;
	p->call.t.published = published;
	if (change_run_several(&p->call, resp))
		answer_put(p, resp);
}

/* A body that was read: carry it out. */
static void put_document(struct put *p, const json_t *document, struct api_response *resp)
{
	struct field_errors errors = {.n = 0};

	if (config_parse(document, &p->wanted, &errors))
		put_run(p, resp);
	else if (errors.n)
		change_refuse(resp, &errors);
	else
		problem_set(resp, 500, "out of memory");
}

static void put_free(struct put *p)
{
	change_end(&p->call);
	config_diff_free(&p->diff);
	config_free(&p->wanted);
	free(p);
}

void config_put(struct api_request *req, struct api_response *resp)
{
	struct put *p = calloc(1, sizeof(*p));
	json_t *body = NULL;

	if (!p) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	if (read_prune(req, &p->prune, resp) &&
	    change_init_several(req, "PUT /v1/config", &p->call, resp))
		body = body_parse(req, false, resp);
	if (body)
		put_document(p, body, resp);
	json_decref(body);
	put_free(p);
}

void config_apply(const struct api_request *req, const json_t *document, enum config_prune prune,
		  const char *action, struct api_response *resp)
{
	struct put *p = calloc(1, sizeof(*p));

	if (!p) {
		problem_set(resp, 500, "out of memory");
		return;
	}
	p->prune = prune;
	if (change_init_several(req, action, &p->call, resp))
		put_document(p, document, resp);
	put_free(p);
}
