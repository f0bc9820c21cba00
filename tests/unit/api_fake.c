#include "tests/unit/api_fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct api_fake api_fake;

static void fill_web(struct vip_info *v)
{
	memset(v, 0, sizeof(*v));
	vip_conf_defaults(&v->conf);
	snprintf(v->conf.id, sizeof(v->conf.id), "web");
	if (ip_addr_parse("10.9.0.100", &v->conf.match.address))
		abort();
	v->conf.match.port = 80;
	v->packets = 11;
	v->bytes = 1100;
	v->n_dcodes = 1024;
	v->deleting = api_fake.draining;
	v->drain = (struct drain_info){.on = api_fake.draining,
				       .flows_remaining = 17,
				       .oldest_age_s = 4711,
				       .deadline_s = 1700000000};
}

static void fill_dip(struct dip_info *d, unsigned i)
{
	char address[32];

	memset(d, 0, sizeof(*d));
	dip_conf_defaults(&d->conf);
	snprintf(d->conf.id, sizeof(d->conf.id), "b%u", i);
	snprintf(address, sizeof(address), "10.9.0.1%u", i);
	if (ip_addr_parse(address, &d->conf.address))
		abort();
	d->dcodes = 512;
	d->packets = i;
	d->bytes = 100 * i;
	d->deleting = api_fake.draining;
	d->drain = (struct drain_info){.on = api_fake.draining, .flows_remaining = i};
}

static void change(void *ctx, struct control_request *r)
{
	(void)ctx;
	unsigned now = atomic_fetch_add(&api_fake.n_changes_now, 1) + 1;
	unsigned most = atomic_load(&api_fake.n_changes_together);
	while (now > most &&
	       !atomic_compare_exchange_weak(&api_fake.n_changes_together, &most, now))
		;
	if (api_fake.change_ms)
		usleep(api_fake.change_ms * 1000);
	bool held = atomic_load(&api_fake.hold_changes);
	while (atomic_load(&api_fake.hold_changes))
		usleep(1000);
	if (!api_fake.change_ms && !held)
		api_fake.last = *r;
	r->status = api_fake.status;
	r->errors = api_fake.errors;
	r->retry_after_s = api_fake.retry_after_s;
	r->flows_remaining = api_fake.flows_remaining;
	memcpy(r->detail, api_fake.detail, sizeof(api_fake.detail));
	r->change = (struct change_info){.generation = 42, .flows_known = 10000, .pause_us = 31};
	/* Like control, which tells nothing of what is gone. */
	bool gone = r->status == CONTROL_OK && (r->op == OP_VIP_DELETE || r->op == OP_DIP_DELETE);
	if (!gone) {
		fill_web(&r->vip_info);
		fill_dip(&r->dip_info, 1);
	}
	atomic_fetch_add(&api_fake.n_changes, 1);
	atomic_fetch_sub(&api_fake.n_changes_now, 1);
}

/* Nothing to be seen: the configuration as a whole is tested with a real control. */
static void look(void *ctx, void (*fn)(void *arg, struct control_view *view), void *arg)
{
	(void)ctx;
	(void)fn;
	(void)arg;
}

static uint64_t generation(void *ctx)
{
	(void)ctx;
	return 41;
}

/* Two versions: web came, and web went. */
static int read_history(void *ctx, uint64_t published, uint64_t from, uint64_t to, size_t max,
			struct history_view *out)
{
	static const struct persist_log_entry log[] = {
		{.wall_ms = 1700000000123,
		 .author = "local",
		 .action = "PUT /v1/vips/web",
		 .n_edits = 1,
		 .edits =
			 "[{\"path\":\"/v1/vips/web\",\"before\":null,\"after\":{\"id\":\"web\"}}]",
		 .generation = 40},
		{.wall_ms = 1700000001123,
		 .author = "ann",
		 .action = "DELETE /v1/vips/web",
		 .n_edits = 1,
		 .edits =
			 "[{\"path\":\"/v1/vips/web\",\"before\":{\"id\":\"web\"},\"after\":null}]",
		 .generation_before = 40,
		 .generation = 41}};
	static struct history *history;

	(void)ctx;
	if (!history) {
		struct persist_txn txn = {.generation = 40, .n_log = ARRAY_LEN(log), .log = log};
		if (history_new(&history) || history_apply(history, &txn))
			abort();
	}
	return history_read(history, published, from, to, max, out);
}

static struct vip_info *read_vips(void *ctx, const char *vip, bool with_dips, size_t *n)
{
	(void)ctx;
	*n = 0;
	if (api_fake.no_vips || (vip && strcmp(vip, "web") != 0))
		return NULL;
	struct vip_info *v = calloc(1, sizeof(*v));
	fill_web(v);
	if (with_dips) {
		v->n_dips = 2;
		v->dips = calloc(2, sizeof(*v->dips));
		fill_dip(&v->dips[0], 1);
		fill_dip(&v->dips[1], 2);
	}
	*n = 1;
	return v;
}

static void free_vips(struct vip_info *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].dips);
	free(v);
}

static void read_consistency(void *ctx, struct consistency *out)
{
	uint64_t value = 100;

	(void)ctx;
#define FILL(name, text) out->name = value++;
	CONSISTENCY_FIELDS(FILL)
#undef FILL
	out->publish_pause_us = (struct histogram){0};
	out->publish_build_us = (struct histogram){0};
	for (uint64_t us = 10; us < 100000000; us *= 10)
		histogram_add(&out->publish_pause_us, us);
}

static bool audit(void *ctx, struct audit *out)
{
	(void)ctx;
	*out = (struct audit){.generation = 42,
			      .flows_checked = 1000,
			      .flows_misplaced = api_fake.misplaced,
			      .flows_of_down_dips = 7,
			      .duration_us = 1234,
			      .done = true};
	return !api_fake.no_audit;
}

static void explain(void *ctx, const struct explain_question *q, struct explanation *out)
{
	(void)ctx;
	api_fake.explained = *q;
	*out = (struct explanation){
		.found = q->sport != 1, .dip = "b1", .reason = "home", .dcode = 713, .known = true};
	if (q->sport == 2)
		out->dip[0] = '\0';
}

static void read_flows(void *ctx, const struct flow_query *q, struct flow_page *page)
{
	(void)ctx;
	*page = (struct flow_page){
		.vip_found = strcmp(q->vip, "web") == 0, .dip_found = true, .list = page->list};
}

static int trace_start(void *ctx, const struct trace_filter *f)
{
	(void)ctx;
	(void)f;
	return 0;
}

static unsigned trace_read(void *ctx, struct trace_record *out, unsigned n)
{
	(void)ctx;
	(void)out;
	(void)n;
	return 0;
}

static uint64_t trace_lost(void *ctx)
{
	(void)ctx;
	return 0;
}

static void trace_stop(void *ctx)
{
	(void)ctx;
}

static void trace_target(void *ctx, const char *vip, const char *dip, struct trace_target *out)
{
	(void)ctx;
	*out = (struct trace_target){.vip_found = strcmp(vip, "web") == 0,
				     .dip_found = !dip || strcmp(dip, "b1") == 0,
				     .vip_uid = 1,
				     .dip = dip != NULL};
}

static void read_capacity(void *ctx, uint64_t *flows, uint64_t *capacity)
{
	(void)ctx;
	*flows = api_fake.flows;
	*capacity = 1000;
}

static void read_traffic(void *ctx, struct api_traffic *out)
{
	(void)ctx;
	memset(out, 0, sizeof(*out));
	out->n_ifaces = 1;
	strcpy(out->ifaces[0].name, "eth0");
	out->ifaces[0].rx_packets = 5;
	for (unsigned i = 0; i < N_DROP_REASONS; i++)
		out->drops[i] = 1000 + i;
}

static bool ends_own_use(void *ctx, const struct vip_match *m, char text[OWN_USE_LEN])
{
	(void)ctx;
	snprintf(text, OWN_USE_LEN, "port %u is in use", m->port);
	return api_fake.ends_own_use;
}

static enum control_status put_agent(void *ctx, const char *id, const char *vip, const char *dip,
				     const uint8_t *token_hash, bool *created, struct error *err)
{
	(void)ctx;
	if (strcmp(vip, "web") != 0) {
		error_set(err, -ENOENT, "no VIP has the id '%s'", vip);
		return CONTROL_NOT_FOUND;
	}
	if (api_fake.status != CONTROL_OK) {
		error_set(err, -EIO, "told to fail");
		return api_fake.status;
	}
	*created = !api_fake.agent_bound;
	if (!token_hash)
		return CONTROL_OK;
	api_fake.agent_bound = true;
	memcpy(api_fake.token_hash, token_hash, sizeof(api_fake.token_hash));
	snprintf(api_fake.agent.id, ID_LEN, "%s", id);
	snprintf(api_fake.agent.vip, ID_LEN, "%s", vip);
	snprintf(api_fake.agent.dip, ID_LEN, "%s", dip);
	return CONTROL_OK;
}

static bool agent_is(const char *id)
{
	return api_fake.agent_bound && strcmp(api_fake.agent.id, id) == 0;
}

static enum control_status delete_agent(void *ctx, const char *id, struct error *err)
{
	(void)ctx;
	if (!agent_is(id))
		return CONTROL_NOT_FOUND;
	if (api_fake.status != CONTROL_OK) {
		error_set(err, -EIO, "told to fail");
		return api_fake.status;
	}
	api_fake.agent_bound = false;
	return CONTROL_OK;
}

static struct agent_info *read_agents(void *ctx, const char *id, size_t *n)
{
	struct agent_info *a = NULL;

	(void)ctx;
	*n = api_fake.agent_bound && (!id || agent_is(id));
	if (*n) {
		a = malloc(sizeof(*a));
		*a = api_fake.agent;
	}
	return a;
}

static bool agent_token(void *ctx, const char *id, uint8_t *token_hash)
{
	(void)ctx;
	memcpy(token_hash, api_fake.token_hash, sizeof(api_fake.token_hash));
	return agent_is(id);
}

static void agent_report(void *ctx, const char *id, const struct agent_report *r,
			 struct agent_answer *out)
{
	(void)ctx;
	*out = (struct agent_answer){.found = agent_is(id),
				     .ack = r->sequence,
				     .resync = r->sequence > 100,
				     .clock_ms = 5};
	snprintf(out->instance, sizeof(out->instance), "00000000deadbeef");
	out->match.port = 80;
	if (ip_addr_parse("10.9.0.100", &out->match.address))
		abort();
	api_fake.report = *r;
	memcpy(api_fake.entries, r->entries, r->n * sizeof(*r->entries));
	atomic_fetch_add(&api_fake.n_reports, 1);
}

/* b1 of web is there, and each answer that an override can get is one of its reasons. */
static void override_health(void *ctx, struct health_request *r)
{
	static const struct {
		const char *reason;
		enum control_status status;
	} answers[] = {{"held", CONTROL_UNAVAILABLE},
		       {"full", CONTROL_NO_STORAGE},
		       {"failed", CONTROL_FAILED}};

	(void)ctx;
	api_fake.health = *r;
	r->status = strcmp(r->vip, "web") || strcmp(r->dip, "b1") ? CONTROL_NOT_FOUND : CONTROL_OK;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++)
		if (!strcmp(r->reason, answers[i].reason))
			r->status = (int)answers[i].status;
}

static void read_health_history(void *ctx, const char *vip, const char *dip,
				struct health_history *out)
{
	(void)ctx;
	(void)vip;
	(void)dip;
	*out = (struct health_history){.found = true,
				       .n = 2,
				       .list = {{1700000002345, "up", "2 checks in a row passed"},
						{1700000000001, "down", "bad \xff bytes"}}};
}

static unsigned read_interfaces(void *ctx, struct iface_status out[IFACES_MAX])
{
	(void)ctx;
	out[0] = (struct iface_status){.name = "eth0",
				       .state = IFACE_REBINDING,
				       .reason = "queue 1 stands still",
				       .ifindex = 2,
				       .mtu = 1500,
				       .n_queues = 3,
				       .n_bound = 2,
				       .rebinds_total = 4,
				       .stalls_total = 1};
	out[1] = (struct iface_status){.name = "eth1", .state = IFACE_UP, .mtu = 9000};
	return 2;
}

static unsigned copy_queues(void *ctx, struct xsk_queue **out)
{
	static const struct xsk_queue queues[] = {{"eth0", 0, 0, XDP_MODE_COPY},
						  {"eth0", 1, 1, XDP_MODE_GENERIC}};

	(void)ctx;
	*out = malloc(sizeof(queues));
	if (!*out)
		return 0;
	memcpy(*out, queues, sizeof(queues));
	return ARRAY_LEN(queues);
}

static void read_warnings(void *ctx, struct warnings *out)
{
	(void)ctx;
	*out = (struct warnings){.serving = !api_fake.not_serving,
				 .list = calloc(1, sizeof(*out->list))};
	if (out->list && api_fake.not_serving)
		snprintf(out->list[out->n++], WARNING_LEN,
			 "eth0: the interface is down: up with it");
	out->n_more = api_fake.n_more_warnings;
}

static bool serving(void *ctx)
{
	(void)ctx;
	return !api_fake.not_serving;
}

static void look_at_machine(void *ctx, struct findings *out)
{
	(void)ctx;
	*out = (struct findings){.n = 2, .list = calloc(2, sizeof(*out->list))};
	if (!out->list)
		abort();
	out->list[0] = (struct finding){FINDING_OK, strdup("cores: 2"), NULL};
	out->list[1] = (struct finding){FINDING_BLOCKS, strdup("eth0: \xff"), strdup("ethtool")};
	out->n_of[FINDING_OK] = 1;
	out->n_of[FINDING_BLOCKS] = 1;
}

static int keep_token(void *ctx, const struct store_token *t, struct error *err)
{
	(void)ctx;
	(void)t;
	if (api_fake.status != CONTROL_OK)
		return error_set(err, -EROFS, "told to fail");
	return 0;
}

static int drop_token(void *ctx, const char *id, struct error *err)
{
	(void)ctx;
	(void)id;
	if (api_fake.status != CONTROL_OK)
		return error_set(err, -EROFS, "told to fail");
	return 0;
}

const struct auth_store api_fake_store = {.put = keep_token, .remove = drop_token};

/* One without tokens, for all who ask for none. */
static struct auth *fake_auth(void)
{
	const struct auth_config c = {.store = api_fake_store};
	static struct auth *auth;
	struct error err;

	if (!auth && auth_new(&c, &auth, &err))
		abort();
	return auth;
}

void api_fake_context(struct api_context *api)
{
	static const int cpus[] = {1, -1};
	static struct events *events;
	if (!events)
		events = events_new("00000000deadbeef");

	memset(api, 0, sizeof(*api));
	api->auth = fake_auth();
	api->backend = (struct api_backend){
		.info = {.commit = "0123456789ab",
			 .state_file = STATE_KEPT,
			 .lookup_memory = HUGEMEM_RESERVED,
			 .umem_memory = HUGEMEM_TRANSPARENT,
			 .n_workers = 2,
			 .cpus = cpus},
		.events = events,
		.change = change,
		.look = look,
		.generation = generation,
		.read_history = read_history,
		.read_vips = read_vips,
		.free_vips = free_vips,
		.read_consistency = read_consistency,
		.audit = audit,
		.explain = explain,
		.read_flows = read_flows,
		.trace_start = trace_start,
		.trace_read = trace_read,
		.trace_lost = trace_lost,
		.trace_stop = trace_stop,
		.trace_target = trace_target,
		.read_capacity = read_capacity,
		.read_traffic = read_traffic,
		.override_health = override_health,
		.read_health_history = read_health_history,
		.read_interfaces = read_interfaces,
		.copy_queues = copy_queues,
		.read_warnings = read_warnings,
		.serving = serving,
		.look_at_machine = look_at_machine,
		.ends_own_use = ends_own_use,
		.put_agent = put_agent,
		.delete_agent = delete_agent,
		.read_agents = read_agents,
		.agent_token = agent_token,
		.agent_report = agent_report,
	};
	atomic_store(&api->ready, true);
}
