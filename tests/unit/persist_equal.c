#include "tests/unit/persist_equal.h"

#include <string.h>

static bool conf_equal(const struct vip_conf *x, const struct vip_conf *y)
{
	return strcmp(x->id, y->id) == 0 && vip_match_equal(&x->match, &y->match) &&
	       x->affinity == y->affinity && x->mode == y->mode &&
	       x->on_learn_overflow == y->on_learn_overflow && x->quic == y->quic &&
	       x->quic_config_rotation == y->quic_config_rotation && x->fragments == y->fragments &&
	       x->drain_timeout_s == y->drain_timeout_s && x->closing_pin_s == y->closing_pin_s &&
	       x->idle_established_s == y->idle_established_s &&
	       x->idle_half_open_s == y->idle_half_open_s &&
	       x->idle_closing_s == y->idle_closing_s && x->idle_udp_s == y->idle_udp_s &&
	       x->gue_port == y->gue_port && memcmp(&x->health, &y->health, sizeof(x->health)) == 0;
}

static bool health_equal(const struct dip_health *x, const struct dip_health *y)
{
	return x->verdict == y->verdict && x->since_s == y->since_s && x->override == y->override &&
	       x->override_until_s == y->override_until_s && strcmp(x->reason, y->reason) == 0;
}

static bool dip_equal(const struct persist_dip *x, const struct persist_dip *y)
{
	return strcmp(x->conf.id, y->conf.id) == 0 &&
	       ip_addr_equal(&x->conf.address, &y->conf.address) &&
	       x->conf.weight == y->conf.weight && x->conf.has_mac == y->conf.has_mac &&
	       memcmp(x->conf.mac, y->conf.mac, sizeof(x->conf.mac)) == 0 &&
	       x->conf.admin_state == y->conf.admin_state &&
	       x->conf.server_id_len == y->conf.server_id_len &&
	       memcmp(x->conf.server_id, y->conf.server_id, sizeof(x->conf.server_id)) == 0 &&
	       x->uid == y->uid && x->index == y->index && x->deleting == y->deleting &&
	       x->drain_deadline_s == y->drain_deadline_s && health_equal(&x->health, &y->health);
}

static bool has_dip(const struct persist_vip *v, const struct persist_dip *d)
{
	for (unsigned i = 0; i < v->n_dips; i++)
		if (v->dips[i].uid == d->uid)
			return dip_equal(&v->dips[i], d);
	return false;
}

bool persist_vip_equal(const struct persist_vip *x, const struct persist_vip *y)
{
	if (!conf_equal(&x->conf, &y->conf) || x->uid != y->uid || x->slot != y->slot ||
	    x->deleting != y->deleting || x->drain_deadline_s != y->drain_deadline_s ||
	    x->seed != y->seed || x->pin_seed != y->pin_seed || x->pin_n_a != y->pin_n_a ||
	    x->pin_n_b != y->pin_n_b || x->n_dcodes != y->n_dcodes || x->n_pins != y->n_pins ||
	    x->n_dips != y->n_dips)
		return false;
	for (unsigned i = 0; i < x->n_dips; i++)
		if (!has_dip(y, &x->dips[i]))
			return false;
	return (!x->n_dcodes ||
		memcmp(x->dcodes, y->dcodes, x->n_dcodes * sizeof(x->dcodes[0])) == 0) &&
	       (!x->n_pins || memcmp(x->pins, y->pins, x->n_pins * sizeof(x->pins[0])) == 0);
}

static bool has_vip(const struct persist_state *s, const struct persist_vip *v)
{
	for (unsigned i = 0; i < s->n_vips; i++)
		if (s->vips[i].uid == v->uid)
			return persist_vip_equal(&s->vips[i], v);
	return false;
}

static bool has_agent(const struct persist_state *s, const struct persist_agent *a)
{
	for (unsigned i = 0; i < s->n_agents; i++) {
		const struct persist_agent *b = &s->agents[i];
		if (strcmp(a->id, b->id) == 0)
			return a->vip_uid == b->vip_uid && a->dip_uid == b->dip_uid &&
			       memcmp(a->token_hash, b->token_hash, sizeof(a->token_hash)) == 0;
	}
	return false;
}

bool persist_state_equal(const struct persist_state *x, const struct persist_state *y)
{
	if (x->generation != y->generation || x->next_dip_uid != y->next_dip_uid ||
	    x->next_vip_uid != y->next_vip_uid || x->n_vips != y->n_vips ||
	    x->n_agents != y->n_agents)
		return false;
	for (unsigned i = 0; i < x->n_vips; i++)
		if (!has_vip(y, &x->vips[i]))
			return false;
	for (unsigned i = 0; i < x->n_agents; i++)
		if (!has_agent(y, &x->agents[i]))
			return false;
	return true;
}
