#include <stdio.h>
#include <stdlib.h>

#include "api/server/problem.h"
#include "api/server/resources.h"
#include "base/clock.h"

/* From this fill level of the flow table on, status warns: what is forgotten at capacity is no
 * longer held on its DIP. */
#define FLOWS_WARN_PERCENT 80

static json_t *print_queues(const struct xsk_queue *queues, unsigned n, unsigned worker)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < n; i++) {
		const struct xsk_queue *q = &queues[i];
		if (q->worker != worker)
			continue;
		if (json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "interface", q->iface,
							  "queue", (int)q->queue, "xdp_mode",
							  xdp_mode_name(q->mode)))) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

/* Queues that are bound now. */
static json_t *print_workers(const struct api_backend *b)
{
	const struct api_info *info = &b->info;
	json_t *list = json_array();
	struct xsk_queue *queues;
	unsigned n = b->copy_queues(b->ctx, &queues);

	for (unsigned i = 0; list && i < info->n_workers; i++) {
		json_t *cpu = info->cpus[i] < 0 ? json_null() : json_integer(info->cpus[i]);
		if (json_array_append_new(list,
					  json_pack("{s:i, s:o, s:o}", "id", (int)i, "cpu", cpu,
						    "queues", print_queues(queues, n, i)))) {
			json_decref(list);
			list = NULL;
		}
	}
	free(queues);
	return list;
}

static json_t *print_interfaces(const struct api_backend *b)
{
	struct iface_status ifaces[IFACES_MAX];
	unsigned n = b->read_interfaces(b->ctx, ifaces);
	json_t *list = json_array();

	for (unsigned i = 0; list && i < n; i++) {
		const struct iface_status *f = &ifaces[i];
		json_t *reason = *f->reason ? problem_text(f->reason) : json_null();
		if (json_array_append_new(
			    list, json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:I, s:I}", "name",
					    f->name, "state", iface_state_names[f->state], "reason",
					    reason, "mtu", (int)f->mtu, "queues", (int)f->n_queues,
					    "queues_bound", (int)f->n_bound, "rebinds_total",
					    (json_int_t)f->rebinds_total, "stalls_total",
					    (json_int_t)f->stalls_total))) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

/* Append a sentence to *list, which becomes NULL when there is no memory. */
static void add_warning(json_t **list, const char *text)
{
	if (*list && json_array_append_new(*list, problem_text(text))) {
		json_decref(*list);
		*list = NULL;
	}
}

static json_t *print_warnings(const struct warnings *found, uint64_t flows, uint64_t capacity)
{
	json_t *list = json_array();
	char text[160];

	for (unsigned i = 0; i < found->n; i++)
		add_warning(&list, found->list[i]);
	if (found->n_more) {
		snprintf(text, sizeof(text), "%u more warnings are not shown", found->n_more);
		add_warning(&list, text);
	}
	if (capacity && flows * 100 >= capacity * FLOWS_WARN_PERCENT) {
		snprintf(text, sizeof(text),
			 "the flow table is %u%% full: at capacity, flows are forgotten (raise "
			 "--flows)",
			 (unsigned)(flows * 100 / capacity));
		add_warning(&list, text);
	}
	return list;
}

static const char *state_file_word(enum state_file_status s)
{
	switch (s) {
	case STATE_KEPT:
		return "kept";
	case STATE_REPLACED:
		return "replaced";
	default:
		return "new";
	}
}

void status_get(struct api_request *req, struct api_response *resp)
{
	struct api_context *api = req->api;
	const struct api_backend *b = &api->backend;
	struct consistency consistency;
	struct warnings warnings;
	uint64_t flows, capacity;

	b->read_warnings(b->ctx, &warnings);
	b->read_consistency(b->ctx, &consistency);
	b->read_capacity(b->ctx, &flows, &capacity);
	uint64_t uptime_s = (clock_now_ms() - api->started_ms) / 1000;
	response_json(
		resp, 200,
		json_pack(
			"{s:s, s:s, s:I, s:I, s:b, s:s, s:{s:s, s:s}, s:{s:I, s:I}, s:o, s:o, s:o}",
			"version", CONCURY_VERSION, "commit", b->info.commit, "uptime_s",
			(json_int_t)uptime_s, "generation", (json_int_t)consistency.generation,
			"ready", (int)(atomic_load(&api->ready) && warnings.serving), "state_file",
			state_file_word(b->info.state_file), "hugepages", "lookup",
			hugemem_kind_name(b->info.lookup_memory), "umem",
			hugemem_kind_name(b->info.umem_memory), "flows", "known", (json_int_t)flows,
			"capacity", (json_int_t)capacity, "warnings",
			print_warnings(&warnings, flows, capacity), "interfaces",
			print_interfaces(b), "workers", print_workers(b)));
	warnings_free(&warnings);
}
