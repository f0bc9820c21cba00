#include "api/server/resources.h"

static json_t *print_histogram(const struct histogram *h)
{
	json_t *buckets = json_array();

	for (unsigned i = 0; buckets && i < HISTOGRAM_BUCKETS; i++) {
		if (json_array_append_new(
			    buckets, json_pack("{s:I, s:I}", "le", (json_int_t)histogram_limit(i),
					       "count", (json_int_t)histogram_up_to(h, i)))) {
			json_decref(buckets);
			buckets = NULL;
		}
	}
	return json_pack("{s:I, s:I, s:o}", "count", (json_int_t)h->count, "sum",
			 (json_int_t)h->sum, "buckets", buckets);
}

void consistency_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct consistency c;
	json_t *body = json_object();
	int failed = 0;

	b->read_consistency(b->ctx, &c);
#define PUT_MEMBER(name, text)                                                                     \
	failed |= json_object_set_new(body, #name, json_integer((json_int_t)c.name));
	CONSISTENCY_FIELDS(PUT_MEMBER)
#undef PUT_MEMBER
#define PUT_MEMBER(name, text) failed |= json_object_set_new(body, #name, print_histogram(&c.name));
	CONSISTENCY_HISTOGRAMS(PUT_MEMBER)
#undef PUT_MEMBER
	if (failed) {
		json_decref(body);
		body = NULL;
	}
	response_json(resp, 200, body);
}
