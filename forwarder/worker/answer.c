/* An answer takes its request's frame, so there is never one more frame than came in. To a packet
 * that is too big it is sent besides the drop: the packet is counted as frame_too_big once the
 * answer has left, or when it could not. */
#include "worker/answer.h"

#include "packet/icmp.h"
#include "worker/modes.h"

SELDOM void answer_echo_take(struct burst *b, unsigned i)
{
	b->flows[i].vip = NULL;
	b->echoes |= 1u << i;
}

SELDOM void answer_echoes(struct burst *b)
{
	for (uint32_t left = b->echoes; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);

		if (!answer_allowed(&b->w->echo_limit, b->now_ms))
			burst_end(b, i, DROP_answer_limit);
		else if (!icmp_answer_echo(b->frames[i].data, &b->packets[i]))
			burst_end(b, i, DROP_not_l4);
		else
			burst_send_aside(b, i, b->frames[i].iface);
	}
}

SELDOM void answer_too_big(struct burst *b, unsigned i)
{
	const struct dip_view *d = b->dips[i];
	uint32_t overhead = modes_overhead((enum vip_mode)b->flows[i].vip->mode, &d->address);
	struct frame *f = &b->frames[i];

	/* What bears no packet at all is a mistake that no answer mends. */
	if (burst_mtu(b, i) <= overhead || !answer_allowed(&b->w->too_big_limit, b->now_ms) ||
	    !icmp_answer_too_big(&f->data, &f->len, f->headroom, &b->packets[i],
				 burst_mtu(b, i) - overhead)) {
		burst_end(b, i, DROP_frame_too_big);
		return;
	}
	burst_send_aside(b, i, f->iface);
	b->reason[i] = DROP_frame_too_big;
}

SELDOM void answer_sent(struct burst *b, unsigned i)
{
	struct worker_counters *c = b->w->counters;

	if (b->reason[i] != ANSWERS_NONE) {
		counter_add(&c->drops[b->reason[i]], 1);
		counter_add(&c->too_big_replies, 1);
	} else if (b->echoes >> i & 1) {
		counter_add(&c->echo_replies, 1);
	}
}

SELDOM enum drop_reason answer_reason(const struct burst *b, unsigned i, enum drop_reason other)
{
	bool answers = (b->aside >> i & 1) && b->reason[i] != ANSWERS_NONE;

	return answers ? (enum drop_reason)b->reason[i] : other;
}
