#include "tests/sim/model.h"

#include <stdarg.h>
#include <stdio.h>

#include "tests/sim/box.h"

#define BURST_MS 20 /* a burst takes less */

const char *const segment_names[] = {"SYN", "ACK", "DATA", "FIN", "RST", "UDP", "Initial"};

static void wrong(struct model *m, const struct model_flow *f, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void wrong(struct model *m, const struct model_flow *f, const char *fmt, ...)
{
	char what[160];
	va_list ap;

	if (m->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	m->culprit = f;
	snprintf(m->fault, sizeof(m->fault), "flow %u.%u:%u->%u proto %u vip uid %u: %s",
		 f->key.src.b[14], f->key.src.b[15], f->key.sport_be, f->key.dport_be, f->key.proto,
		 f->vip_uid, what);
}

void model_init(struct model *m)
{
	*m = (struct model){.n_checks = 0};
	for (unsigned i = 0; i < 65536; i++)
		m->dips[i].may_go_s = MODEL_NEVER;
}

uint16_t model_dip_number(const struct vip_view *v, uint16_t index)
{
	if (index == DIP_NONE || index >= v->n_dips)
		return 0;
	return (uint16_t)(v->dips[index].address.b[14] << 8 | v->dips[index].address.b[15]);
}

uint16_t model_dip_index(const struct vip_view *v, uint16_t number)
{
	for (uint16_t i = 1; i < v->n_dips; i++)
		if (model_dip_number(v, i) == number)
			return i;
	return DIP_NONE;
}

/* --- how long a flow lives ----------------------------------------------------------------- */

static uint64_t timeout_ms(enum model_phase phase, const struct vip_conf *conf)
{
	switch (phase) {
	case MODEL_HALF_OPEN:
		return conf->idle_half_open_s * 1000ull;
	case MODEL_CLOSING:
		return conf->closing_pin_s * 1000ull;
	case MODEL_UDP:
		return conf->idle_udp_s * 1000ull;
	default:
		return conf->idle_established_s * 1000ull;
	}
}

static enum model_phase phase_after(enum model_phase was, bool opens, enum segment segment,
				    const struct vip_conf *conf)
{
	if (conf->affinity == AFFINITY_CLIENT)
		return MODEL_ESTABLISHED;
	switch (segment) {
	case SEGMENT_SYN:
		return opens || was == MODEL_CLOSING ? MODEL_HALF_OPEN : was;
	case SEGMENT_ACK:
		return !opens && was == MODEL_CLOSING ? was : MODEL_ESTABLISHED;
	case SEGMENT_FIN:
	case SEGMENT_RST:
		return MODEL_CLOSING;
	case SEGMENT_UDP:
	case SEGMENT_INITIAL:
		return MODEL_UDP;
	default:
		return MODEL_ESTABLISHED;
	}
}

static bool timed_out(const struct model_flow *f, uint64_t now_ms, const struct vip_conf *conf)
{
	return now_ms > f->last_ms && now_ms - f->last_ms >= timeout_ms(f->phase, conf);
}

/* True if nothing but the state of its DIP may move it. */
static bool held(const struct model_flow *f, uint64_t now_ms, uint64_t epoch,
		 const struct vip_conf *conf)
{
	if (f->dip == 0 || f->unsure || timed_out(f, now_ms, conf))
		return false;
	return (!f->unlearned && !f->unknown) || epoch == f->epoch;
}

static bool may_be_down(const struct model *m, uint16_t dip)
{
	return m->dips[dip].may_be_down || m->down_by_health(m->ctx, dip);
}

/* True if the view's word that the flow's DIP cannot be used is one that an operator, or the DIP's
 * health, allowed. */
static bool dip_lost(struct model *m, const struct model_flow *f, const struct vip_view *v)
{
	uint16_t index = model_dip_index(v, f->dip);
	const struct model_dip *d = &m->dips[f->dip];

	if (index == DIP_NONE) {
		if (d->may_go_s > box_time_s())
			wrong(m, f, "its DIP %u is gone %lld s before it may", f->dip,
			      (long long)(d->may_go_s - box_time_s()));
		return true;
	}
	if (!v->dips[index].usable && !may_be_down(m, f->dip))
		wrong(m, f, "its DIP %u is down, and nobody asked for it", f->dip);
	return !v->dips[index].usable;
}

/* True if control is told by this packet of a flow that an agent has ended: it may be silent about
 * one within a refresh interval of the last record, but not after that. */
static bool revives(const struct model_flow *f, const struct model_sent *s)
{
	return !s->lost &&
	       (s->segment == SEGMENT_SYN || s->segment == SEGMENT_FIN ||
		s->segment == SEGMENT_RST || s->now_ms > f->ended_ms + s->view->refresh_ms);
}

/* --- events -------------------------------------------------------------------------------- */

void model_packet(struct model *m, struct model_flow *f, const struct model_sent *s)
{
	bool same_vip = f->dip && f->vip_uid == s->view->uid;
	bool opens = !same_vip || timed_out(f, s->now_ms, s->conf);
	bool moved = same_vip && f->dip != s->dip;

	if (moved && held(f, s->now_ms, s->epoch, s->conf) && !dip_lost(m, f, s->view) &&
	    !(s->segment == SEGMENT_SYN && f->phase == MODEL_CLOSING))
		wrong(m, f, "a %s went to DIP %u, not %u (publish %llu, idle %llu ms, phase %d)",
		      segment_names[s->segment], s->dip, f->dip, (unsigned long long)s->epoch,
		      (unsigned long long)(s->now_ms - f->last_ms), f->phase);
	m->n_moved += moved;
	m->n_held += same_vip && !moved;
	if (same_vip && s->segment == SEGMENT_SYN && f->phase == MODEL_CLOSING && moved)
		opens = true;
	if (f->agent_ended && (!same_vip || moved || revives(f, s))) {
		f->agent_ended = false;
		if (s->segment != SEGMENT_SYN) /* that one opens a new flow then */
			f->phase = f->phase_before;
	}

	enum model_phase phase = phase_after(f->phase, opens || moved || f->unlearned || f->unknown,
					     s->segment, s->conf);
	if (same_vip || f->hidden) { /* control may take it for the old one all the same */
		enum model_phase old = phase_after(f->phase, false, s->segment, s->conf);
		if (timeout_ms(old, s->conf) < timeout_ms(phase, s->conf))
			phase = old;
	}
	bool news = opens || moved || !same_vip;
	if (!s->lost || !same_vip || timeout_ms(phase, s->conf) <= timeout_ms(f->phase, s->conf))
		f->phase = phase;
	if (s->lost) /* news too that it did not leave its DIP, where control may think so */
		f->unlearned |= news || f->unknown || f->unsure;
	else
		f->unlearned = false;
	bool opening = (s->segment == SEGMENT_SYN || s->segment == SEGMENT_INITIAL) &&
		       s->conf->affinity == AFFINITY_FLOW;
	bool told = !s->lost && s->now_ms > (opening ? f->syn_after_ms : f->told_after_ms);
	if (!same_vip && f->dip) { /* its seen entry may be of a time when it came here before */
		f->unknown = true;
		f->told_after_ms = s->now_ms + s->view->refresh_ms;
	} else if (told) {
		f->unknown = false;
	}
	if (f->agent_ended) {
		f->phase = MODEL_CLOSING;
		if (s->segment == SEGMENT_FIN || s->segment == SEGMENT_RST)
			f->phase_before = MODEL_CLOSING;
	}
	if (s->segment == SEGMENT_SYN && !s->lost)
		f->syn_ms = s->now_ms;
	f->unsure = f->hidden = false;
	f->vip_uid = s->view->uid;
	f->dip = s->dip;
	if (!s->twin || news)
		f->last_ms = s->now_ms;
	f->epoch = s->epoch;
}

void model_dropped(struct model *m, struct model_flow *f, enum segment segment,
		   const struct vip_conf *conf)
{
	const struct model_dip *d = &m->dips[f->dip];
	bool opens = !f->dip && !f->hidden;
	enum model_phase phase = phase_after(f->phase, opens, segment, conf);

	if (opens || timeout_ms(phase, conf) < timeout_ms(f->phase, conf))
		f->phase = phase;
	phase = phase_after(f->phase_before, false, segment, conf);
	if (f->agent_ended && timeout_ms(phase, conf) < timeout_ms(f->phase_before, conf))
		f->phase_before = phase;
	f->hidden = true;
	f->unsure |= may_be_down(m, f->dip) || d->may_go_s <= box_time_s();
}

void model_published(struct model *m, struct model_flow *f, const struct snapshot *s,
		     const struct vip_view *v, uint64_t epoch, const struct vip_conf *conf)
{
	enum lookup_reason reason;
	uint32_t dcode;

	m->n_checks++;
	if (!v || v->uid != f->vip_uid || !held(f, box_now_ms(), epoch, conf) || dip_lost(m, f, v))
		return;
	uint16_t dip = model_dip_number(v, snapshot_lookup_one(s, v, &f->key, &reason, &dcode));
	if (dip != f->dip)
		wrong(m, f, "generation %llu sends it to DIP %u, not %u (idle %llu ms, phase %d)",
		      (unsigned long long)s->generation, dip, f->dip,
		      (unsigned long long)(box_now_ms() - f->last_ms), f->phase);
}

void model_vip_gone(struct model *m, struct model_flow *f, uint64_t epoch,
		    const struct vip_conf *conf)
{
	const struct model_dip *d = &m->dips[f->dip];

	if (held(f, box_now_ms(), epoch, conf) && d->may_go_s > box_time_s())
		wrong(m, f, "its VIP is gone, and was to wait for it");
}

void model_killed(struct model_flow *f)
{
	f->told_after_ms = f->syn_after_ms = 0; /* seen caches are empty */
}

void model_rebooted(struct model_flow *f, bool pinned)
{
	model_killed(f);
	if (f->agent_ended)
		f->phase = f->phase_before;
	f->agent_ended = false;
	if (pinned && f->dip) {
		f->phase = f->phase == MODEL_UDP ? MODEL_UDP : MODEL_ESTABLISHED;
		f->last_ms = box_now_ms();
		f->unlearned = f->unknown = false;
	} else {
		f->unknown = true;
	}
}

void model_agent_ended(struct model_flow *f, const struct vip_conf *conf)
{
	if (conf->affinity == AFFINITY_CLIENT || f->phase == MODEL_UDP)
		return;
	/* Also of a flow that is closing here: control may have met it anew. */
	if (!f->agent_ended)
		f->phase_before = f->phase;
	f->agent_ended = true;
	f->ended_ms = box_now_ms();
	f->phase = MODEL_CLOSING;
}

void model_forgotten(struct model_flow *f, uint32_t refresh_ms)
{
	f->unknown = true;
	f->told_after_ms = box_now_ms() + refresh_ms;
	f->syn_after_ms = box_now_ms() + BURST_MS;
}
