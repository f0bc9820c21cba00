/* Reads: everyone but workers learns of control's state by a call that control answers between the
 * steps of its work. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"

static void fill_traffic(const struct control *c, const struct dip_runtime *d, struct dip_info *out)
{
	struct dip_traffic t;

	dip_runtime_traffic(c, d, &t);
	out->packets = t.packets;
	out->bytes = t.bytes;
	out->return_packets = t.return_packets;
	out->return_bytes = t.return_bytes;
	out->flows_opened = t.flows_opened;
}

void control_fill_dip_info(struct control *c, struct vip_runtime *v, const struct dip_version *d,
			   struct dip_info *out)
{
	const struct vip_view *view = v->now->view;

	*out = (struct dip_info){
		.conf = d->conf,
		.state = dip_version_state(v->now, d),
		.flows = v->flows.dip_flows[d->index],
		.deleting = d->deleting,
		.weight_in_use = d->use.up ? d->use.weight : 0,
	};
	control_fill_health(v, d, &out->health);
	for (uint32_t i = 0; i < view->n_dcodes; i++)
		out->dcodes += vip_view_home(view, i) == d->index;
	fill_traffic(c, &v->dips[d->index], out);
	if (d->deleting)
		control_dip_progress(c, v, d, &out->drain);
}

void control_fill_vip_info(struct control *c, struct vip_runtime *v, struct vip_info *out)
{
	struct dip_traffic sum = v->retired_traffic, t;

	for (unsigned i = 0; i < v->now->n_dips; i++) {
		vip_runtime_traffic(c, &v->dips[v->now->dips[i].index], &t);
		dip_traffic_add(&sum, &t);
	}
	*out = (struct vip_info){
		.conf = v->now->conf,
		.flows = v->flows.n,
		.flows_pinned = v->flows.n_pinned,
		.packets = sum.packets,
		.bytes = sum.bytes,
		.return_packets = sum.return_packets,
		.return_bytes = sum.return_bytes,
		.n_dcodes = v->now->view->n_dcodes,
		.deleting = v->now->deleting,
		.n_dips = v->now->n_dips,
	};
	for (unsigned i = 0; i < v->now->n_dips; i++)
		out->dips_in_state[dip_version_state(v->now, &v->now->dips[i])]++;
	if (v->now->deleting)
		control_vip_progress(c, v, &out->drain);
}

static struct dip_info *list_dips(struct control *c, struct vip_runtime *v)
{
	const struct vip_version *now = v->now;
	struct dip_info *dips = calloc(now->n_dips + 1, sizeof(*dips));
	const uint32_t *dcodes = vip_view_dcodes(now->view);

	for (unsigned i = 0; dips && dcodes && i < now->n_dips; i++) {
		const struct dip_version *d = &now->dips[i];
		dips[i] = (struct dip_info){
			.conf = d->conf,
			.state = dip_version_state(now, d),
			.dcodes = dcodes[d->index],
			.flows = v->flows.dip_flows[d->index],
			.deleting = d->deleting,
			.weight_in_use = d->use.up ? d->use.weight : 0,
		};
		control_fill_health(v, d, &dips[i].health);
		fill_traffic(c, &v->dips[d->index], &dips[i]);
		if (d->deleting)
			control_dip_progress(c, v, d, &dips[i].drain);
	}
	return dips;
}

/* --- VIPs ---------------------------------------------------------------------------------- */

struct read_vips {
	const char *vip;
	bool with_dips;
	struct vip_info *list;
	size_t n;
};

static int vip_info_order(const void *x, const void *y)
{
	return strcmp(((const struct vip_info *)x)->conf.id, ((const struct vip_info *)y)->conf.id);
}

static void read_vips(struct control *c, void *arg)
{
	struct read_vips *r = arg;
	struct vip_walk walk = {0};
	struct vip_runtime *v;

	r->list = calloc(c->n_vips + 1, sizeof(*r->list));
	while (r->list && (v = vip_walk_next(c, &walk))) {
		if (r->vip && strcmp(v->now->conf.id, r->vip) != 0)
			continue;
		control_fill_vip_info(c, v, &r->list[r->n]);
		if (r->with_dips)
			r->list[r->n].dips = list_dips(c, v);
		r->n++;
	}
	if (r->list)
		qsort(r->list, r->n, sizeof(*r->list), vip_info_order);
}

struct vip_info *control_read_vips(struct control *c, const char *vip, bool with_dips, size_t *n)
{
	struct read_vips r = {.vip = vip, .with_dips = with_dips};

	control_call(c, read_vips, &r);
	*n = r.n;
	if (r.n == 0) {
		free(r.list);
		return NULL;
	}
	return r.list;
}

void vip_infos_free(struct vip_info *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		free(v[i].dips);
	free(v);
}

/* --- consistency --------------------------------------------------------------------------- */

static void add_vip(struct consistency *out, const struct vip_runtime *v)
{
	out->flows_known += v->flows.n;
	out->flows_pinned += v->flows.n_pinned;
	out->pin_bytes += vip_view_pin_bytes(v->now->view);
	out->dcode_bytes += vip_view_dcode_bytes(v->now->view);
	for (int l = 0; l < N_FLOW_LISTS; l++) {
		uint64_t *by_class[] = {
			[CLASS_CLOSING] = &out->flows_closing,
			[CLASS_HALF_OPEN] = &out->flows_half_open,
			[CLASS_UNPROVEN] = &out->flows_unproven,
			[CLASS_ESTABLISHED] = &out->flows_established,
		};
		*by_class[flow_list_class(l)] += v->flows.lists[l].n;
	}
}

static void read_consistency(struct control *c, void *arg)
{
	struct consistency *out = arg;
	struct vip_walk walk = {0};
	const struct vip_runtime *v;

	*out = c->stats;
	out->generation = c->generation;
	out->flows_forgotten_total = c->flows.n_forgotten;
	out->flows_exact = c->snapshot ? c->snapshot->n_exact : 0;
	for (unsigned i = 0; i < c->conf.n_workers; i++)
		out->flows_unlearned_total +=
			counter_read(&c->conf.workers[i]->counters->unlearned);
	while ((v = vip_walk_next(c, &walk)))
		add_vip(out, v);
}

void control_read_consistency(struct control *c, struct consistency *out)
{
	*out = (struct consistency){0};
	control_call(c, read_consistency, out);
}

uint64_t control_generation(struct control *c)
{
	return atomic_load(&c->generation_shown);
}

struct read_capacity {
	uint64_t flows, capacity;
};

static void read_capacity(struct control *c, void *arg)
{
	struct read_capacity *r = arg;

	r->flows = c->flows.n;
	r->capacity = c->flows.capacity;
}

void control_read_capacity(struct control *c, uint64_t *flows, uint64_t *capacity)
{
	struct read_capacity r = {0};

	control_call(c, read_capacity, &r);
	*flows = r.flows;
	*capacity = r.capacity;
}

/* --- explain ------------------------------------------------------------------------------- */

struct read_explain {
	const struct explain_question *q;
	struct explanation *out;
};

static const char *reason_word(const struct vip_runtime *v, enum lookup_reason reason,
			       uint32_t dcode, uint16_t dip)
{
	static const char *const words[] = {
		[LOOKUP_HOME] = "home", [LOOKUP_PIN] = "pin", [LOOKUP_EXACT] = "exact"};

	if (dip == DIP_NONE)
		return "none";
	if (reason == LOOKUP_HOME && v->now->table.dcodes[dcode] != dip)
		return "reroll";
	return words[reason];
}

static uint8_t question_proto(const struct explain_question *q, const struct vip_match *m)
{
	if (q->proto)
		return q->proto;
	return m->protocol == VIP_UDP || (m->protocol == VIP_ANY && q->cid_len) ? IPPROTO_UDP
										: IPPROTO_TCP;
}

/* The connection ID goes before the flow where it names a usable DIP. */
static uint16_t explain_cid(const struct explain_question *q, const struct vip_view *v,
			    uint16_t dip, struct explanation *out)
{
	uint16_t named =
		q->cid_len && v->server_ids ? vip_view_dip_of_cid(v, q->cid, q->cid_len) : DIP_NONE;

	if (named == DIP_NONE)
		return dip;
	snprintf(out->reason, sizeof(out->reason), "server_id");
	return named;
}

static void read_explain(struct control *c, void *arg)
{
	struct read_explain *r = arg;
	const struct explain_question *q = r->q;
	struct vip_runtime *v = control_find_vip(c, q->vip);
	struct flow_key key;
	enum lookup_reason reason;

	if (!v)
		return;
	const struct vip_view *view = v->now->view;
	const struct vip_match *m = &view->match;
	uint8_t proto = question_proto(q, m);
	const struct ip_addr *dst = m->host_bits ? &q->dst : &m->address;
	uint16_t dport = m->port && !m->port_end ? m->port : q->dport;
	/* Without a port it is asked for all of a client's, which may be several VIPs'. */
	if (dport && snapshot_match(c->snapshot, dst, dport, proto) != view)
		return;
	flow_key_of(view, &q->src, htons(q->sport), htons(dport), proto, &key);
	if (view->dst_bits)
		flow_key_put_dst(view, dst, &key);
	uint64_t hash = flow_key_hash(&key, v->seed);
	struct explanation *out = r->out;
	uint16_t dip = snapshot_lookup_one(c->snapshot, view, &key, &reason, &out->dcode);
	out->found = true;
	out->generation = c->generation;
	out->known = flow_table_find(&c->flows, &v->flows, &key, hash) != FLOW_NONE;
	snprintf(out->reason, sizeof(out->reason), "%s", reason_word(v, reason, out->dcode, dip));
	dip = explain_cid(q, view, dip, out);
	for (unsigned i = 0; i < v->now->n_dips; i++)
		if (v->now->dips[i].index == dip)
			memcpy(out->dip, v->now->dips[i].conf.id, sizeof(out->dip));
}

void control_explain(struct control *c, const struct explain_question *q, struct explanation *out)
{
	struct read_explain r = {.q = q, .out = out};

	*out = (struct explanation){0};
	control_call(c, read_explain, &r);
}
