#include "api/server/backend.h"

static void live_change(void *ctx, struct control_request *r)
{
	struct api_live *l = ctx;

	control_change(l->control, r);
}

static void live_look(void *ctx, void (*fn)(void *arg, struct control_view *view), void *arg)
{
	struct api_live *l = ctx;

	control_look(l->control, fn, arg);
}

static uint64_t live_generation(void *ctx)
{
	struct api_live *l = ctx;

	return control_generation(l->control);
}

static int live_read_history(void *ctx, uint64_t generation, uint64_t from, uint64_t to, size_t max,
			     struct history_view *out)
{
	struct api_live *l = ctx;

	return history_read(l->history, generation, from, to, max, out);
}

static struct vip_info *live_read_vips(void *ctx, const char *vip, bool with_dips, size_t *n)
{
	struct api_live *l = ctx;

	return control_read_vips(l->control, vip, with_dips, n);
}

static void live_read_consistency(void *ctx, struct consistency *out)
{
	struct api_live *l = ctx;

	control_read_consistency(l->control, out);
}

static bool live_audit(void *ctx, struct audit *out)
{
	struct api_live *l = ctx;

	return control_audit(l->control, out);
}

static void live_explain(void *ctx, const struct explain_question *q, struct explanation *out)
{
	struct api_live *l = ctx;

	control_explain(l->control, q, out);
}

static void live_read_flows(void *ctx, const struct flow_query *q, struct flow_page *page)
{
	struct api_live *l = ctx;

	control_read_flows(l->control, q, page);
}

static int live_trace_start(void *ctx, const struct trace_filter *f)
{
	struct api_live *l = ctx;

	return workers_trace_start(l->workers, l->n_workers, f);
}

static unsigned live_trace_read(void *ctx, struct trace_record *out, unsigned n)
{
	struct api_live *l = ctx;
	const struct trace_record *r;
	unsigned got = 0;

	for (unsigned i = 0; i < l->n_workers; i++) {
		while (got < n && (r = worker_trace_peek(l->workers[i])) != NULL) {
			out[got++] = *r;
			worker_trace_pop(l->workers[i]);
		}
	}
	return got;
}

static uint64_t live_trace_lost(void *ctx)
{
	struct api_live *l = ctx;

	return workers_trace_lost(l->workers, l->n_workers);
}

static void live_trace_stop(void *ctx)
{
	struct api_live *l = ctx;

	workers_trace_stop(l->workers, l->n_workers);
}

static void live_trace_target(void *ctx, const char *vip, const char *dip, struct trace_target *out)
{
	struct api_live *l = ctx;

	control_trace_target(l->control, vip, dip, out);
}

static void live_trace_names(void *ctx, struct trace_name *list, unsigned n)
{
	struct api_live *l = ctx;

	control_trace_names(l->control, list, n);
}

static void live_read_capacity(void *ctx, uint64_t *flows, uint64_t *capacity)
{
	struct api_live *l = ctx;

	control_read_capacity(l->control, flows, capacity);
}

static void add_worker(struct api_traffic *t, const struct worker_counters *c)
{
	for (unsigned i = 0; i < t->n_ifaces; i++) {
		t->ifaces[i].rx_packets += counter_read(&c->rx[i].packets);
		t->ifaces[i].rx_bytes += counter_read(&c->rx[i].bytes);
		t->ifaces[i].tx_packets += counter_read(&c->tx[i].packets);
		t->ifaces[i].tx_bytes += counter_read(&c->tx[i].bytes);
	}
	for (unsigned i = 0; i < N_DROP_REASONS; i++)
		t->drops[i] += counter_read(&c->drops[i]);
	t->unlearned += counter_read(&c->unlearned);
	t->lost_openings += counter_read(&c->lost_openings);
	t->lost_datagrams += counter_read(&c->lost_datagrams);
	t->lost_refreshes += counter_read(&c->lost_refreshes);
	t->checksums_completed += counter_read(&c->checksums_completed);
	t->echo_replies += counter_read(&c->echo_replies);
	t->too_big_replies += counter_read(&c->too_big_replies);
	t->quic_by_id += counter_read(&c->quic_by_id);
	t->quic_by_flow += counter_read(&c->quic_by_flow);
}

static void live_read_traffic(void *ctx, struct api_traffic *out)
{
	struct api_live *l = ctx;
	const struct xsk_iface *ifaces;

	memset(out, 0, sizeof(*out));
	out->n_ifaces = xsk_ifaces(l->xsk, &ifaces);
	for (unsigned i = 0; i < out->n_ifaces; i++)
		memcpy(out->ifaces[i].name, ifaces[i].name, sizeof(out->ifaces[i].name));
	for (unsigned i = 0; i < l->n_workers; i++)
		add_worker(out, l->workers[i]->counters);
	out->drops[DROP_frame_too_big] += xsk_rx_too_big(l->xsk);
	out->rx_kernel_drops = xsk_rx_kernel_drops(l->xsk);
}

static void live_override_health(void *ctx, struct health_request *r)
{
	struct api_live *l = ctx;

	control_override_health(l->control, r);
}

static void live_read_health_history(void *ctx, const char *vip, const char *dip,
				     struct health_history *out)
{
	struct api_live *l = ctx;

	control_read_health_history(l->control, vip, dip, out);
}

static unsigned live_read_interfaces(void *ctx, struct iface_status out[IFACES_MAX])
{
	struct api_live *l = ctx;

	return supervisor_read(l->supervisor, out);
}

static unsigned live_copy_queues(void *ctx, struct xsk_queue **out)
{
	struct api_live *l = ctx;

	return xsk_copy_queues(l->xsk, out);
}

static void live_read_warnings(void *ctx, struct warnings *out)
{
	struct api_live *l = ctx;

	watch_look(l->watch, out);
}

static bool live_ends_own_use(void *ctx, const struct vip_match *m, char text[OWN_USE_LEN])
{
	(void)ctx;
	return own_use_ended_by(m, text);
}

static bool live_serving(void *ctx)
{
	struct api_live *l = ctx;

	return watch_serving(l->watch);
}

static void live_look_at_machine(void *ctx, struct findings *out)
{
	struct api_live *l = ctx;
	struct preflight p = *l->machine;
	size_t n;
	struct vip_info *vips = control_read_vips(l->control, NULL, true, &n);

	p.running = true;
	if (!preflight_take_infos(&p, vips, n))
		preflight_drop(&p);
	vip_infos_free(vips, n);
	preflight_look(&p, out);
	preflight_drop(&p);
}

static enum control_status live_put_agent(void *ctx, const char *id, const char *vip,
					  const char *dip, const uint8_t *token_hash, bool *created,
					  struct error *err)
{
	struct api_live *l = ctx;

	return control_agent_put(l->control, id, vip, dip, token_hash, created, err);
}

static enum control_status live_delete_agent(void *ctx, const char *id, struct error *err)
{
	struct api_live *l = ctx;

	return control_agent_delete(l->control, id, err);
}

static struct agent_info *live_read_agents(void *ctx, const char *id, size_t *n)
{
	struct api_live *l = ctx;

	return control_read_agents(l->control, id, n);
}

static bool live_agent_token(void *ctx, const char *id, uint8_t *token_hash)
{
	struct api_live *l = ctx;

	return control_agent_token(l->control, id, token_hash);
}

static void live_agent_report(void *ctx, const char *id, const struct agent_report *r,
			      struct agent_answer *out)
{
	struct api_live *l = ctx;

	control_agent_report(l->control, id, r, out);
}

void api_backend_live(struct api_backend *b, struct api_live *live)
{
	b->events = control_events(live->control);
	b->ctx = live;
	b->change = live_change;
	b->look = live_look;
	b->generation = live_generation;
	b->read_history = live_read_history;
	b->read_vips = live_read_vips;
	b->free_vips = vip_infos_free;
	b->read_consistency = live_read_consistency;
	b->audit = live_audit;
	b->explain = live_explain;
	b->read_flows = live_read_flows;
	b->trace_start = live_trace_start;
	b->trace_read = live_trace_read;
	b->trace_lost = live_trace_lost;
	b->trace_stop = live_trace_stop;
	b->trace_target = live_trace_target;
	b->trace_names = live_trace_names;
	b->read_capacity = live_read_capacity;
	b->read_traffic = live_read_traffic;
	b->override_health = live_override_health;
	b->read_health_history = live_read_health_history;
	b->read_interfaces = live_read_interfaces;
	b->copy_queues = live_copy_queues;
	b->read_warnings = live_read_warnings;
	b->ends_own_use = live_ends_own_use;
	b->serving = live_serving;
	b->look_at_machine = live_look_at_machine;
	b->put_agent = live_put_agent;
	b->delete_agent = live_delete_agent;
	b->read_agents = live_read_agents;
	b->agent_token = live_agent_token;
	b->agent_report = live_agent_report;
}
