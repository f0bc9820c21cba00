#include "tests/unit/config_bed.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/resources.h"

struct world *config_world;
static struct api_context api;

/* --- the API over the world ---------------------------------------------------------------- */

static void change(void *ctx, struct control_request *r)
{
	world_request(ctx, r);
}

static void look(void *ctx, void (*fn)(void *arg, struct control_view *view), void *arg)
{
	control_look(((struct world *)ctx)->control, fn, arg);
}

static uint64_t generation(void *ctx)
{
	return control_generation(((struct world *)ctx)->control);
}

static struct vip_info *read_vips(void *ctx, const char *vip, bool with_dips, size_t *n)
{
	return control_read_vips(((struct world *)ctx)->control, vip, with_dips, n);
}

static bool ends_own_use(void *ctx, const struct vip_match *m, char text[OWN_USE_LEN])
{
	(void)ctx;
	return own_use_ended_by(m, text);
}

static void read_capacity(void *ctx, uint64_t *flows, uint64_t *capacity)
{
	control_read_capacity(((struct world *)ctx)->control, flows, capacity);
}

void config_bed_start(void)
{
	config_world = world_new(1, 65536);
	memset(&api, 0, sizeof(api));
	api.backend = (struct api_backend){.ctx = config_world,
					   .change = change,
					   .look = look,
					   .generation = generation,
					   .read_vips = read_vips,
					   .free_vips = vip_infos_free,
					   .ends_own_use = ends_own_use,
					   .read_capacity = read_capacity};
	atomic_store(&api.ready, true);
}

void config_bed_end(void)
{
	ck_assert_uint_eq(world_consistency(config_world).violations_total, 0);
	world_free(config_world);
	json_decref(config_answer.body);
	config_answer.body = NULL;
}

struct api_response config_answer; /* of the last call */

unsigned config_call(config_handler *h, const char *method, struct config_call c)
{
	struct api_request req = {.api = &api,
				  .method = method,
				  .target = "/v1/config",
				  .content_type = c.body ? "application/json" : NULL,
				  .body = c.body,
				  .body_len = c.body ? strlen(c.body) : 0,
				  .author = "tester",
				  .if_match = c.if_match,
				  .if_none_match = c.if_none_match,
				  .path_args = {c.vip, c.dip}};

	if (c.query) {
		req.n_query = 1;
		req.query[0].name = c.query;
		req.query[0].value = c.value;
	}
	json_decref(config_answer.body);
	config_answer = (struct api_response){.status = 500};
	h(&req, &config_answer);
	return config_answer.status;
}

char *config_text(char tag[ETAG_LEN])
{
	ck_assert_uint_eq(config_call(config_get, "GET", (struct config_call){0}), 200);
	if (tag)
		snprintf(tag, ETAG_LEN, "%s", config_answer.etag);
	return json_dumps(config_answer.body, JSON_COMPACT);
}

json_int_t config_number(const char *group, const char *name)
{
	const json_t *o = json_object_get(config_answer.body, group);

	return json_integer_value(json_object_get(o, name));
}

const char *config_error(size_t i, const char *name)
{
	const json_t *e = json_array_get(json_object_get(config_answer.body, "errors"), i);
	const char *s = json_string_value(json_object_get(e, name));

	return s ? s : "";
}
