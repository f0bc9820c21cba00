#include "tests/sim/wire.h"

#include <netinet/in.h>
#include <string.h>

void wire_report(const struct agent_outgoing *out, const struct agent_state *s,
		 struct agent_report *r, struct agent_entry *entries)
{
	*r = (struct agent_report){.sequence = out->sequence,
				   .full = out->full,
				   .first = out->full && out->part == 0,
				   .last = out->full && !out->more,
				   .clock_ms = agent_talk_clock_ms(out, s),
				   .orphans = s->orphans,
				   .entries = entries};
	memcpy(r->instance, s->instance, sizeof(r->instance));
	for (unsigned i = 0; i < out->n; i++) {
		const struct agent_news *n = &out->news[i];
		if (n->ended && n->key.proto != IPPROTO_TCP)
			continue;
		entries[r->n++] = (struct agent_entry){.src = n->key.src,
						       .dst = n->key.dst,
						       .has_dst = true,
						       .sport = n->key.sport,
						       .dport = n->key.dport,
						       .proto = n->key.proto,
						       .ended = n->ended,
						       .age_ms = agent_talk_age_ms(out, n)};
	}
}

void wire_reply(const struct agent_answer *a, struct agent_reply *r)
{
	*r = (struct agent_reply){.status = a->found ? 200 : 404};
	if (!a->found)
		return;
	r->ack = a->ack;
	r->resync = a->resync;
	r->clock_ms = a->clock_ms;
	r->refused = a->n_refused;
	memcpy(r->instance, a->instance, sizeof(r->instance));
	r->n_vips = 1;
	r->vips[0] = (struct agent_vip){.address = a->match.address,
					.host_bits = a->match.host_bits,
					.port = a->match.port,
					.port_end = a->match.port_end};
	if (a->match.protocol != VIP_ANY)
		r->vips[0].proto = a->match.protocol == VIP_TCP ? IPPROTO_TCP : IPPROTO_UDP;
}
