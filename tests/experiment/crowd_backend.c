/* A backend of the crowd: accepts, answers each turn with its own number, and knows nothing of what
 * other backends have. A segment of a connection that it did not accept is answered by a RST, as by
 * a real stack. */
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "tests/experiment/crowd.h"
#include "tests/unit/frames.h"

void crowd_mac(uint8_t mac[6], unsigned host)
{
	memcpy(mac, (uint8_t[]){2, 0, 0, 9, 0, (uint8_t)host}, 6);
}

uint32_t crowd_number(uint32_t address, uint16_t port)
{
	if (address >> 16 != (10u << 8 | 64) || port < CROWD_PORTS || port >= 2 * CROWD_PORTS)
		return UINT32_MAX;
	return (address & 0xffff) * CROWD_PORTS + port - CROWD_PORTS;
}

void crowd_send(struct lane *l, const struct segment *s)
{
	lane_queue(l, segment_build(lane_frame(l), s));
}

void backend_open(struct backend *b, const char *netns, uint32_t id, uint32_t n_conns)
{
	*b = (struct backend){.id = id, .n_conns = n_conns, .rng = entropy_u64() | 1};
	b->peers = calloc(n_conns, sizeof(*b->peers));
	if (!b->peers)
		abort();
	lane_open(&b->lane, netns);
}

void backend_close(struct backend *b)
{
	lane_close(&b->lane);
	free(b->peers);
}

static void accept_or_repeat(struct backend *b, struct peer *p, const struct segment *in)
{
	if (p->known && p->client_isn == in->seq)
		return; /* its SYN again */
	*p = (struct peer){
		.known = true, .isn = (uint32_t)frames_random(&b->rng), .client_isn = in->seq};
}

/* False: nothing to say. */
static bool answer(struct backend *b, struct peer *p, const struct segment *in, struct segment *out)
{
	if (in->flags & FRAMES_RST) {
		p->known = false;
		return false;
	}
	if (in->flags & FRAMES_SYN) {
		accept_or_repeat(b, p, in);
		out->flags = FRAMES_SYN | FRAMES_ACK;
		out->seq = p->isn;
		out->ack = p->client_isn + 1;
		return true;
	}
	if (!p->known) {
		b->n_strange++;
		out->flags = FRAMES_RST;
		out->seq = in->ack;
		return true;
	}
	if (in->flags & FRAMES_FIN) {
		out->flags = FRAMES_FIN | FRAMES_ACK;
		out->seq = in->ack;
		out->ack = in->seq + 1;
		return true;
	}
	uint32_t at = in->words.turn * WORDS_LEN;
	if (!in->has_words || in->seq != p->client_isn + 1 + at)
		return false;
	out->flags = FRAMES_PSH | FRAMES_ACK;
	out->seq = p->isn + 1 + at;
	out->ack = in->seq + WORDS_LEN;
	out->has_words = true;
	out->words = in->words;
	out->words.backend = b->id;
	return true;
}

static void take(void *ctx, const uint8_t *frame, uint32_t len)
{
	struct backend *b = ctx;
	struct segment in;
	uint8_t own[6];

	crowd_mac(own, 10 + b->id);
	/* A bridge that does not know an address yet shows its frames to all. */
	if (!segment_read(frame, len, &in) || memcmp(in.dst_mac, own, sizeof(own)) != 0)
		return;
	uint32_t i = crowd_number(in.src, in.sport);
	if (i >= b->n_conns)
		return;
	struct segment out = {.src = in.dst, .dst = in.src, .sport = in.dport, .dport = in.sport};
	crowd_mac(out.src_mac, 10 + b->id);
	crowd_mac(out.dst_mac, 1);
	if (answer(b, &b->peers[i], &in, &out))
		crowd_send(&b->lane, &out);
}

void backend_poll(struct backend *b)
{
	lane_poll(&b->lane, take, b);
	lane_flush(&b->lane);
}
