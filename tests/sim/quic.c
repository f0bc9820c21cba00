/* QUIC clients whose connection IDs say where they belong, and what must come of that: a packet
 * whose ID names a usable DIP is that DIP's, wherever its client is now and whatever the pool has
 * become; every other one is its flow's. A DIP that drains stays while such packets come, though no
 * flow is known there. What a packet names is noted when it is made, so nothing is read as the
 * forwarder reads it. */
#include <string.h>

#include "tests/sim/sim.h"

#define NOBODY 50000 /* and on: no DIP has such a number */
#define ID_LEN_MIN 2 /* the DIP's number, behind as many octets as the VIP likes */
#define LONG_HEADER 6
#define VERSION_2 0x6b3343cfu
#define VERSION_OF_TOMORROW 0x1a2a3a4au

/* --- who has which ID ---------------------------------------------------------------------- */

static bool has_id(uint16_t number)
{
	return number % 5 != 0 && number < NOBODY;
}

static unsigned id_len(unsigned vip)
{
	return ID_LEN_MIN + vip % 4;
}

static void write_id(uint8_t *id, unsigned vip, uint16_t number)
{
	unsigned len = id_len(vip);

	memset(id, 0x5a, len);
	id[len - 2] = (uint8_t)(number >> 8);
	id[len - 1] = (uint8_t)number;
}

void quic_dip_conf(unsigned vip, uint16_t number, struct dip_conf *conf)
{
	conf->server_id_len = (uint8_t)(has_id(number) ? id_len(vip) : 0);
	if (has_id(number))
		write_id(conf->server_id, vip, number);
}

void quic_draw_vip(struct sim *s, struct vip_conf *conf)
{
	conf->quic = QUIC_FLOW;
	conf->quic_config_rotation = 0;
	if (conf->match.protocol == VIP_TCP)
		return;
	conf->quic = sim_chance(s, 2) ? QUIC_SERVER_ID : QUIC_FLOW;
	conf->quic_config_rotation = prng_below(&s->random, 7);
}

/* --- what clients send --------------------------------------------------------------------- */

/* A client has moved to this tuple's address, and its connection with it. */
static void migrate(struct sim *s, struct sim_tuple *t)
{
	const struct sim_tuple *from = &s->tuples[prng_below(&s->random, s->n_tuples)];

	if (from->vip == t->vip && from->server)
		t->server = from->server;
}

void quic_draw(struct sim *s, struct sim_tuple *t, struct sim_packet *p)
{
	static const enum sim_quic forms[] = {QUIC_SHORT, QUIC_SHORT, QUIC_SHORT, QUIC_HANDSHAKE,
					      QUIC_UNKNOWN};
	const struct sim_dip *any = &s->vips[t->vip].dips[prng_below(&s->random, SIM_DIPS)];
	unsigned dice = prng_below(&s->random, 100);

	if (p->segment == SEGMENT_INITIAL) {
		p->quic = QUIC_INITIAL;
		p->server = t->server;
		return;
	}
	if (sim_chance(s, 16))
		migrate(s, t);
	p->quic = forms[prng_below(&s->random, ARRAY_LEN(forms))];
	p->server = t->server;
	if (dice < 15)
		p->server = any->number;
	else if (dice < 20)
		p->server = (uint16_t)(NOBODY + prng_below(&s->random, 1000));
	else if (dice < 26)
		p->rotated = true;
	else if (dice < 34)
		p->quic = QUIC_0RTT;
	else if (dice < 42)
		p->quic = QUIC_CUT;
	else if (dice < 44)
		p->quic = QUIC_EMPTY;
}

uint32_t quic_payload_len(struct sim *s, const struct sim_tuple *t, const struct sim_packet *p)
{
	switch (p->quic) {
	case QUIC_INITIAL:
		return 1200 + prng_below(&s->random, 80);
	case QUIC_CUT:
		return 1 + prng_below(&s->random, id_len(t->vip) + 1);
	case QUIC_EMPTY:
		return 0;
	default:
		return 24 + prng_below(&s->random, 16);
	}
}

static uint8_t *write_long(uint8_t *b, uint32_t version, uint8_t type)
{
	const uint8_t header[LONG_HEADER] = {
		(uint8_t)(0xc0 | type << 4), (uint8_t)(version >> 24), (uint8_t)(version >> 16),
		(uint8_t)(version >> 8),     (uint8_t)version,	       8};

	memcpy(b, header, sizeof(header));
	return b + LONG_HEADER;
}

/* Types of version 2 are those of version 1 and one more. */
static uint8_t *write_header(uint8_t *b, const struct sim_packet *p)
{
	bool second = p->id % 2;
	uint32_t version = second ? VERSION_2 : 1;

	switch (p->quic) {
	case QUIC_INITIAL:
		return write_long(b, version, second ? 1 : 0);
	case QUIC_0RTT:
		return write_long(b, version, second ? 2 : 1);
	case QUIC_HANDSHAKE:
		return write_long(b, version, second ? 3 : 2);
	case QUIC_UNKNOWN:
		return write_long(b, VERSION_OF_TOMORROW, p->id % 4);
	default:
		b[0] = 0x40 | (p->id & 0x1f);
		return b + 1;
	}
}

void quic_write(const struct sim *s, const struct sim_tuple *t, const struct sim_packet *p,
		uint8_t *payload, uint32_t len)
{
	uint8_t packet[64] = {0};
	unsigned rotation = s->vips[t->vip].conf.quic_config_rotation + p->rotated;
	uint8_t *cid = write_header(packet, p);

	cid[0] = (uint8_t)(rotation % 7 << 5 | (p->id & 0x1f));
	write_id(cid + 1, t->vip, p->server);
	memcpy(payload, packet, len < 24 ? len : 24);
}

/* --- where it must go ---------------------------------------------------------------------- */

enum quic_way quic_way(const struct vip_view *v, const struct sim_packet *p, uint16_t *index)
{
	bool bears = p->quic == QUIC_SHORT || p->quic == QUIC_HANDSHAKE ||
		     p->quic == QUIC_UNKNOWN || p->quic == QUIC_CUT;

	if (!bears || !v->server_ids)
		return QUIC_BY_NOTHING;
	if (p->rotated || p->quic == QUIC_CUT || p->server == 0 || !has_id(p->server))
		return QUIC_BY_FLOW;
	uint16_t i = model_dip_index(v, p->server);
	if (i == DIP_NONE || !v->dips[i].usable)
		return QUIC_BY_FLOW;
	*index = i;
	return QUIC_BY_ID;
}

void quic_sent(struct sim *s, const struct sim_packet *p, const struct vip_view *v, uint16_t dip,
	       bool by_id)
{
	struct sim_heard *h = &s->heard[dip];
	uint64_t silence_ms = box_now_ms() - h->last_ms;

	if (p->quic ==
	    QUIC_INITIAL) /* it answers with an ID of its own, or one that names nobody */
		s->tuples[p->tuple].server = dip;
	if (!by_id)
		return;
	s->n_by_id++;
	h->unsure |= h->last_ms == 0 || h->vip_uid != v->uid || silence_ms >= h->idle_ms;
	h->last_ms = box_now_ms();
	h->idle_ms = s->vips[s->tuples[p->tuple].vip].conf.idle_udp_s * 1000ull;
	h->vip_uid = v->uid;
}

/* --- what drains --------------------------------------------------------------------------- */

/* A DIP of a VIP that goes by ID has had a packet by ID not long ago, at a time when it was not
 * about to go: it stays until its deadline. */
static void check_dip(struct sim *s, const struct vip_view *v, const struct sim_vip *vip,
		      uint16_t number)
{
	struct sim_heard *h = &s->heard[number];
	bool late =
		s->model->dips[number].may_go_s <= box_time_s() || vip->may_go_s <= box_time_s();

	if (v && v->uid == h->vip_uid && v->server_ids && model_dip_index(v, number) != DIP_NONE) {
		h->unsure = false;
		return;
	}
	bool another = vip->uid != h->vip_uid; /* that VIP has gone before */
	bool by_flow = v && !v->server_ids;    /* then what drains waits for flows alone */
	if (!late && !another && !by_flow && !h->unsure && box_now_ms() - h->last_ms < h->idle_ms)
		sim_wrong(s, "DIP %u has gone, and had a QUIC packet %llu ms ago", number,
			  (unsigned long long)(box_now_ms() - h->last_ms));
	*h = (struct sim_heard){.last_ms = 0};
}

static bool some_dip_has_id(const struct vip_view *v)
{
	for (uint16_t i = 1; i < v->n_dips; i++)
		if (model_dip_number(v, i) && has_id(model_dip_number(v, i)))
			return true;
	return false;
}

void quic_published(struct sim *s, const struct snapshot *snapshot)
{
	const struct vip_view *views[SIM_VIPS] = {NULL};

	for (unsigned k = 0; k < 2 * SIM_VIPS; k++) {
		struct sim_vip *vip = traffic_vip(s, snapshot->vips[k]);
		if (vip)
			views[vip - s->vips] = snapshot->vips[k];
	}
	for (unsigned i = 0; i < SIM_VIPS; i++) {
		const struct sim_vip *vip = &s->vips[i];
		bool must =
			vip->conf.quic == QUIC_SERVER_ID && views[i] && some_dip_has_id(views[i]);
		if (views[i] && !vip->busy && !s->resync && must != (views[i]->server_ids != NULL))
			sim_wrong(s, "VIP %s goes by connection IDs: %d, and should: %d", vip->id,
				  !must, must);
	}
	for (uint16_t number = 1; number < s->next_dip; number++)
		if (s->heard[number].last_ms) {
			unsigned vip = s->healths[number].vip;
			check_dip(s, views[vip], &s->vips[vip], number);
		}
}
