/* What the machine lacks, as --check says it, but of the running forwarder. */
#include "api/server/problem.h"
#include "api/server/resources.h"

static json_t *print_finding(const struct finding *f)
{
	return json_pack("{s:s, s:o, s:o}", "rank", finding_rank_name(f->rank), "text",
			 problem_text(f->text), "command",
			 f->command ? problem_text(f->command) : json_null());
}

void doctor_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	json_t *items = json_array();
	struct findings f;

	b->look_at_machine(b->ctx, &f);
	for (unsigned i = 0; items && i < f.n; i++) {
		if (json_array_append_new(items, print_finding(&f.list[i]))) {
			json_decref(items);
			items = NULL;
		}
	}
	response_json(resp, 200,
		      json_pack("{s:o, s:i, s:i}", "items", items, "blocking",
				(int)f.n_of[FINDING_BLOCKS], "to_note", (int)f.n_of[FINDING_NOTE]));
	findings_free(&f);
}
