#include "tests/sim/scene.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void scene_must(bool holds, const char *what)
{
	if (holds)
		return;
	printf("  does not hold: %s\n", what);
	fflush(stdout);
	_exit(1);
}

void scene_open(struct scene *s, unsigned n_workers, uint64_t n_flows, enum vip_protocol protocol,
		const struct vip_conf *conf, unsigned n_dips)
{
	struct control_request r = {.op = OP_VIP_PUT, .vip = "v"};

	*s = (struct scene){.w = world_new(n_workers, n_flows)};
	if (conf)
		r.vip_edit.conf = *conf;
	else
		vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = UINT32_MAX;
	if (conf && conf->health.type != HEALTH_NONE)
		r.vip_edit.members |= HEALTH_M_ALL;
	if (!conf || !conf->match.protocol)
		r.vip_edit.conf.match.port = 80;
	r.vip_edit.conf.match.address = frames_ip(WORLD_VIP_ADDRESS);
	r.vip_edit.conf.match.protocol = protocol;
	world_request(s->w, &r);
	MUST(r.status == CONTROL_CREATED, r.detail);
	for (unsigned i = 1; i <= n_dips; i++)
		world_put_dip(s->w, "v", i, 10, CONTROL_CREATED);
}

void scene_close(struct scene *s)
{
	MUST(world_consistency(s->w).violations_total == 0, "no violation is counted");
	world_free(s->w);
}

void scene_connect(struct scene *s, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++) {
		s->dips[i] = (uint8_t)world_tcp(s->w, 0, i, FRAMES_SYN, 0);
		MUST(s->dips[i] != 0, "a SYN is carried");
		MUST(world_tcp(s->w, 0, i, FRAMES_ACK, 10) == s->dips[i],
		     "payload follows its SYN");
		control_step(s->w->control);
	}
}

void scene_must_stay(struct scene *s, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++) {
		unsigned now = world_tcp(s->w, 0, i, FRAMES_ACK, 10);
		if (now != s->dips[i])
			printf("  flow %u went to DIP %u, not %u\n", i, now, s->dips[i]);
		MUST(now == s->dips[i], "a flow stays on its DIP");
		world_advance_ms(1); /* refresh records are limited in time */
		control_step(s->w->control);
	}
}

unsigned scene_pin(struct scene *s, unsigned on, unsigned n)
{
	struct vip_runtime *v = control_find_vip(s->w->control, "v");

	scene_shake(s, on, 3);
	for (uint32_t i = 0; i < v->flows.n; i++) {
		const struct flow_ref *r = flow_set_ref(&v->flows, i);
		const struct flow_slot *slot = &s->w->control->flows.slots[r->slot];
		unsigned number = slot->key.src.b[15] * 1024u + ntohs(slot->key.sport_be) - 1024u;
		if ((r->flags & REF_PINNED) && number < n && s->dips[number] == on)
			return number;
	}
	MUST(false, "some flow is pinned");
	abort();
}

void scene_wait_s(struct scene *s, unsigned seconds)
{
	for (unsigned i = 0; i < seconds * 10; i++) {
		world_advance_ms(100);
		control_step(s->w->control);
	}
}

void scene_shake(struct scene *s, unsigned dip, uint32_t weight)
{
	world_set_weight(s->w, "v", dip, weight);
}

void scene_evict(struct scene *s)
{
	struct learn *l = &s->w->workers[0]->learn;

	for (unsigned i = 0; i < SEEN_ENTRIES; i++)
		l->seen[i] = (struct seen_entry){.hash = 1, .phase = SEEN_ESTABLISHED};
}
