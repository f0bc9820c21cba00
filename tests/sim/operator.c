/* Operators: what they ask for, and what they believe to be so. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/frames.h"

void operator_init(struct sim *s)
{
	static const struct {
		const char *id, *address;
		uint16_t port;
		enum vip_protocol protocol;
		enum vip_affinity affinity;
		uint8_t host_bits;
		uint16_t port_end;
	} kinds[SIM_VIPS] = {
		{"web", "10.9.255.1", 80, VIP_TCP, AFFINITY_FLOW, 0, 0},
		{"v6", "2001:db8::1", 443, VIP_ANY, AFFINITY_FLOW, 0, 0},
		{"dns", "10.9.255.2", 53, VIP_UDP, AFFINITY_FLOW, 0, 0},
		{"all", "10.9.255.3", 0, VIP_ANY, AFFINITY_CLIENT, 0, 0},
		{"ports", "10.9.255.4", 0, VIP_TCP, AFFINITY_FLOW, 0, 0},
		/* takes a port of "ports" */
		{"over", "10.9.255.4", 80, VIP_TCP, AFFINITY_FLOW, 0, 0},
		{"net", "10.10.0.0", 1000, VIP_ANY, AFFINITY_FLOW, 8, 1015},
		/* takes addresses of "net" */
		{"inner", "10.10.0.16", 0, VIP_TCP, AFFINITY_FLOW, 4, 0},
	};

	for (unsigned i = 0; i < SIM_VIPS; i++) {
		struct sim_vip *v = &s->vips[i];
		snprintf(v->id, sizeof(v->id), "%s", kinds[i].id);
		vip_conf_defaults(&v->conf);
		v->conf.match = (struct vip_match){.address = frames_ip(kinds[i].address),
						   .host_bits = kinds[i].host_bits,
						   .port = kinds[i].port,
						   .port_end = kinds[i].port_end,
						   .protocol = kinds[i].protocol};
		v->conf.affinity = kinds[i].affinity;
		v->conf.mode = (enum vip_mode)prng_below(&s->random, 3);
		v->conf.on_learn_overflow = sim_chance(s, 2) ? OVERFLOW_DROP : OVERFLOW_FORWARD;
		v->conf.drain_timeout_s = prng_below(&s->random, 60);
		/* Each longer than the one before: where a lost record leaves the phase open, the
		 * oracle takes the shorter. */
		v->conf.closing_pin_s = 1 + prng_below(&s->random, 15);
		v->conf.idle_half_open_s = 20 + prng_below(&s->random, 20);
		v->conf.idle_established_s = 45 + prng_below(&s->random, 200);
		v->conf.idle_closing_s = 20 + prng_below(&s->random, 40);
		v->conf.idle_udp_s = 8 + prng_below(&s->random, 50);
		v->may_go_s = MODEL_NEVER;
		checks_draw(s, v);
		v->health_before = v->conf.health;
		quic_draw_vip(s, &v->conf);
		v->quic_before = v->conf.quic;
	}
	s->next_dip = 1;
}

/* --- asking -------------------------------------------------------------------------------- */

static struct sim_request *request_new(struct sim *s, unsigned vip, enum control_op op)
{
	for (unsigned i = 0; i < SIM_REQUESTS; i++) {
		struct sim_request *q = &s->requests[i];
		if (q->used)
			continue;
		*q = (struct sim_request){.used = true, .vip = vip};
		q->r.op = op;
		q->r.override_hold = sim_chance(s, 2);
		memcpy(q->r.vip, s->vips[vip].id, sizeof(q->r.vip));
		return q;
	}
	return NULL;
}

static void submit(struct sim *s, struct sim_request *q)
{
	sim_event(s, "request: op %ld of VIP %ld, DIP %ld (force %ld)", q->r.op, q->vip,
		  q->dip ? q->dip->number : 0, q->r.force);
	s->vips[q->vip].n_edits++;
	control_change_async(s->box->control, &q->r, &q->done);
}

static void ask_vip(struct sim *s, unsigned vip)
{
	struct sim_vip *v = &s->vips[vip];
	bool remove = v->exists && !v->deleting && sim_chance(s, 3);
	struct sim_request *q = request_new(s, vip, remove ? OP_VIP_DELETE : OP_VIP_PUT);

	if (!q)
		return;
	v->busy = true;
	q->r.force = !remove || sim_chance(s, 2);
	if (remove) {
		int64_t may_go_s = box_time_s() + (q->r.force ? 0 : v->conf.drain_timeout_s);
		v->may_go_s = may_go_s < v->may_go_s ? may_go_s : v->may_go_s;
	} else {
		if (sim_chance(s, 4))
			v->conf.on_learn_overflow = !v->conf.on_learn_overflow;
		if (sim_chance(s, 2)) {
			checks_draw(s, v);
			checks_asked(s, v);
		}
		if (sim_chance(s, 4) && v->conf.match.protocol != VIP_TCP)
			v->conf.quic = v->conf.quic == QUIC_FLOW ? QUIC_SERVER_ID : QUIC_FLOW;
		q->r.vip_edit.conf = v->conf;
		q->r.vip_edit.members = UINT32_MAX;
		if (v->conf.health.type != HEALTH_NONE)
			q->r.vip_edit.members |= HEALTH_M_ALL;
	}
	submit(s, q);
}

/* Of either family, whichever the VIP is of. */
static struct ip_addr dip_address(uint16_t number)
{
	struct ip_addr a = frames_ip(number % 2 ? "10.9.0.0" : "2001:db8:9::");

	a.b[14] = (uint8_t)(number >> 8);
	a.b[15] = (uint8_t)number;
	return a;
}

static void ask_put_dip(struct sim *s, unsigned vip, struct sim_dip *d)
{
	struct sim_request *q = request_new(s, vip, OP_DIP_PUT);

	if (!q)
		return;
	q->before = *d;
	*d = (struct sim_dip){.number = s->next_dip++}; /* one that drains goes on by itself */
	q->dip = d;
	verdicts_new_dip(s, vip, d->number);
	d->busy = true;
	d->weight = prng_below(&s->random, 8);
	snprintf(q->r.dip, sizeof(q->r.dip), "d%u", d->number);
	dip_conf_defaults(&q->r.dip_edit.conf);
	q->r.dip_edit.conf.address = dip_address(d->number);
	q->r.dip_edit.conf.weight = d->weight;
	q->r.dip_edit.members = DIP_M_ADDRESS | DIP_M_WEIGHT | DIP_M_SERVER_ID;
	quic_dip_conf(vip, d->number, &q->r.dip_edit.conf);
	submit(s, q);
}

static void ask_delete_dip(struct sim *s, unsigned vip, struct sim_dip *d)
{
	struct sim_request *q = request_new(s, vip, OP_DIP_DELETE);

	if (!q)
		return;
	q->before = *d;
	q->dip = d;
	d->busy = true;
	d->deleting = true;
	q->r.force = sim_chance(s, 4);
	struct model_dip *m = &s->model->dips[d->number];
	int64_t may_go_s = box_time_s() + (q->r.force ? 0 : s->vips[vip].conf.drain_timeout_s);
	m->may_go_s = may_go_s < m->may_go_s ? may_go_s : m->may_go_s;
	snprintf(q->r.dip, sizeof(q->r.dip), "d%u", d->number);
	submit(s, q);
}

static void ask_patch_dip(struct sim *s, unsigned vip, struct sim_dip *d)
{
	struct sim_request *q = request_new(s, vip, OP_DIP_PATCH);

	if (!q)
		return;
	q->before = *d;
	q->dip = d;
	d->busy = true;
	if (sim_chance(s, 2)) {
		d->weight = prng_below(&s->random, 8);
		q->r.dip_edit.members = DIP_M_WEIGHT;
	} else {
		d->down = !d->down;
		q->r.dip_edit.members = DIP_M_ADMIN_STATE;
		if (d->down)
			s->model->dips[d->number].may_be_down = true;
	}
	q->r.dip_edit.conf.weight = d->weight;
	q->r.dip_edit.conf.admin_state = d->down ? ADMIN_DOWN : ADMIN_UP;
	snprintf(q->r.dip, sizeof(q->r.dip), "d%u", d->number);
	submit(s, q);
}

void operator_request(struct sim *s)
{
	unsigned vip = prng_below(&s->random, SIM_VIPS);
	struct sim_vip *v = &s->vips[vip];
	struct sim_dip *d = &v->dips[prng_below(&s->random, SIM_DIPS)];

	if (!s->box->control || s->resync || v->busy)
		return;
	if (sim_chance(s, 5)) {
		transaction_ask(s);
		return;
	}
	if (!v->exists || v->deleting || sim_chance(s, 40)) {
		for (unsigned i = 0; i < SIM_DIPS; i++)
			if (v->dips[i].busy)
				return;
		ask_vip(s, vip);
	} else if (d->busy) {
		return;
	} else if (!d->number || d->deleting) {
		ask_put_dip(s, vip, d);
	} else if (sim_chance(s, 5)) {
		ask_delete_dip(s, vip, d);
	} else {
		ask_patch_dip(s, vip, d);
	}
}

/* --- answers ------------------------------------------------------------------------------- */

static void answer_vip(struct sim *s, struct sim_request *q, bool done)
{
	struct sim_vip *v = &s->vips[q->vip];

	v->busy = false;
	if (!done) {
		v->conf.health = v->health_before;
		v->conf.quic = v->quic_before;
		return;
	}
	v->health_before = v->conf.health;
	v->quic_before = v->conf.quic;
	if (q->r.op == OP_VIP_PUT) {
		if (q->r.status == CONTROL_CREATED)
			memset(v->dips, 0, sizeof(v->dips));
		v->exists = true;
		v->deleting = false;
		v->may_go_s = MODEL_NEVER;
		return;
	}
	v->deleting = q->r.status == CONTROL_ACCEPTED;
	if (!v->deleting) {
		v->exists = false;
		memset(v->dips, 0, sizeof(v->dips));
	}
}

static void answer_dip(struct sim *s, struct sim_request *q, bool done)
{
	struct sim_dip *d = q->dip;
	struct model_dip *m = &s->model->dips[d->number];

	if (!done) {
		bool gone = q->r.status == CONTROL_NOT_FOUND;
		*d = gone ? (struct sim_dip){0} : q->before;
		if (!gone && q->r.op == OP_DIP_PATCH)
			m->may_be_down = d->down;
		return;
	}
	d->busy = false;
	if (q->r.op == OP_DIP_DELETE && q->r.status == CONTROL_OK) {
		*d = (struct sim_dip){0}; /* gone at once */
		return;
	}
	if (q->r.op == OP_DIP_PUT)
		m->may_go_s = MODEL_NEVER;
	if (!d->down)
		m->may_be_down = false;
}

void operator_answers(struct sim *s)
{
	transaction_answer(s);
	for (unsigned i = 0; i < SIM_REQUESTS; i++) {
		struct sim_request *q = &s->requests[i];
		if (!q->used || !q->done)
			continue;
		enum control_status st = q->r.status;
		bool done = st == CONTROL_OK || st == CONTROL_CREATED || st == CONTROL_ACCEPTED;
		sim_event(s, "answer %ld to op %ld of VIP %ld, DIP %ld", st, q->r.op, q->vip,
			  q->dip ? q->dip->number : 0);
		if (st == CONTROL_INVALID ||
		    (st == CONTROL_FAILED && !strstr(q->r.detail, "told to fail")))
			sim_wrong(s, "op %d of VIP %u failed: %s", q->r.op, q->vip, q->r.detail);
		if (done && q->r.change.flows_moved && !q->r.force &&
		    !(q->r.op == OP_DIP_PATCH && q->dip->down))
			sim_event(s, "%ld flows moved", (long)q->r.change.flows_moved, 0, 0, 0);
		s->n_answered++;
		s->n_refused += !done;
		if (q->dip)
			answer_dip(s, q, done);
		else
			answer_vip(s, q, done);
		q->used = false;
	}
}

/* --- over the end of a process ------------------------------------------------------------- */

static void deadlines_nearer(struct sim *s, int64_t seconds)
{
	for (unsigned i = 0; i < s->next_dip; i++)
		if (s->model->dips[i].may_go_s != MODEL_NEVER)
			s->model->dips[i].may_go_s -= seconds;
	for (unsigned i = 0; i < SIM_VIPS; i++)
		if (s->vips[i].may_go_s != MODEL_NEVER)
			s->vips[i].may_go_s -= seconds;
}

/* Deadlines on disk are wall time: they are nearer now for the next process, or at once for one
 * that may not have read them yet. */
void operator_wall_stepped(struct sim *s, int64_t seconds)
{
	if (seconds <= 0)
		return;
	if (s->resync)
		deadlines_nearer(s, seconds);
	else
		s->wall_stepped_s += seconds;
}

void operator_killed(struct sim *s)
{
	for (unsigned i = 0; i < SIM_REQUESTS; i++)
		s->requests[i].used = false;
	s->resync = true;
	/* Deadlines are wall time in whole seconds on disk: each process may round them once more.
	 */
	deadlines_nearer(s, s->wall_stepped_s + 2);
	s->wall_stepped_s = 0;
}

static const struct dip_info *info_dip(const struct vip_info *info, uint16_t number)
{
	for (unsigned i = 0; info && i < info->n_dips; i++) {
		const uint8_t *a = info->dips[i].conf.address.b;
		if ((a[14] << 8 | a[15]) == number)
			return &info->dips[i];
	}
	return NULL;
}

static void resync_dip(struct sim *s, struct sim_vip *v, struct sim_dip *d,
		       const struct dip_info *info)
{
	struct model_dip *m = &s->model->dips[d->number];

	if (!info) {
		if (!d->busy && !d->deleting && !v->deleting && v->may_go_s > box_time_s())
			sim_wrong(s, "DIP %u, acknowledged, is lost over a restart", d->number);
		*d = (struct sim_dip){0};
		return;
	}
	bool down = info->conf.admin_state == ADMIN_DOWN;
	if (!d->busy &&
	    (d->weight != info->conf.weight || d->down != down || (d->deleting && !info->deleting)))
		sim_wrong(s, "DIP %u: an acknowledged change is lost over a restart", d->number);
	*d = (struct sim_dip){.number = d->number,
			      .weight = info->conf.weight,
			      .down = down,
			      .deleting = info->deleting};
	if (!info->deleting)
		m->may_go_s = MODEL_NEVER;
	m->may_be_down = down;
}

static void resync_vip(struct sim *s, struct sim_vip *v)
{
	size_t n;
	struct vip_info *info = control_read_vips(s->box->control, v->id, true, &n);

	if (n == 0 && v->exists && !v->busy && !v->deleting && v->may_go_s > box_time_s())
		sim_wrong(s, "VIP %s, acknowledged, is lost over a restart", v->id);
	for (unsigned i = 0; i < SIM_DIPS; i++)
		if (v->dips[i].number)
			resync_dip(s, v, &v->dips[i], info_dip(n ? info : NULL, v->dips[i].number));
	if (n) {
		if (!health_conf_equal(&info->conf.health, &v->conf.health) &&
		    !(v->busy && health_conf_equal(&info->conf.health, &v->health_before)))
			sim_wrong(s, "VIP %s: how it is checked is lost over a restart", v->id);
		if (info->conf.quic != v->conf.quic &&
		    !(v->busy && info->conf.quic == v->quic_before))
			sim_wrong(s, "VIP %s: what QUIC packets go by is lost over a restart",
				  v->id);
		v->conf.quic = v->quic_before = info->conf.quic;
		v->conf.health = v->health_before = info->conf.health;
		v->checked = v->conf.health.type != HEALTH_NONE;
		v->conf.on_learn_overflow = info->conf.on_learn_overflow;
		v->conf.drain_timeout_s = info->conf.drain_timeout_s;
		if (!info->deleting)
			v->may_go_s = MODEL_NEVER;
	}
	v->n_edits++;
	v->exists = n != 0;
	v->deleting = n && info->deleting;
	v->busy = false;
	vip_infos_free(info, n);
}

void operator_resync(struct sim *s)
{
	transaction_resync(s);
	for (unsigned i = 0; i < SIM_VIPS; i++)
		resync_vip(s, &s->vips[i]);
	verdicts_resync(s);
	s->resync = false;
}
