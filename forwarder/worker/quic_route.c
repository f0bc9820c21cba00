/* Out of the way of all other packets: a burst comes here only if its snapshot has a VIP that
 * routes by connection ID.
 *
 * What such a packet tells of its flow. If its ID names the DIP that the flow is looked up on, it
 * is a packet of that flow like any other, and is learned as such. If it names another one, because
 * the client has a new address, or the pool has changed while nobody knew the flow, it tells
 * nothing: the tuple's flow is whatever the lookup says, which a packet without an ID will meet,
 * and the ID needs no memory, since it says the same again in the next packet. So no record ever
 * names another DIP than the lookup did: forged IDs cannot make pins, two connections on one tuple
 * do not throw its flow to and fro, and a record whose DIP is not the flow's is still a violation.
 */
#include "worker/quic_route.h"

#include "packet/quic.h"

#define UDP_LEN 8u

void quic_route(struct burst *b)
{
	uint64_t by_id = 0, by_flow = 0;

	for (unsigned i = 0; i < b->n; i++) {
		struct packet *p = &b->packets[i];
		struct lookup *f = &b->flows[i];
		const uint8_t *udp = b->frames[i].data + p->l4_offset;
		uint32_t len;
		if (!f->vip || !f->vip->server_ids || p->proto != IPPROTO_UDP ||
		    p->kind != PACKET_FLOW)
			continue;
		const uint8_t *cid = quic_server_cid(
			udp + UDP_LEN, ((uint32_t)udp[4] << 8 | udp[5]) - UDP_LEN, &len);
		if (!cid)
			continue;
		uint16_t dip = vip_view_dip_of_cid(f->vip, cid, len);
		by_id += dip != DIP_NONE;
		by_flow += dip == DIP_NONE;
		if (dip == DIP_NONE || dip == f->dip)
			continue;
		f->dip = dip;
		if (!FAULT(learn_by_id))
			p->segment = SEG_UNTOLD;
	}
	counter_add(&b->w->counters->quic_by_id, by_id);
	counter_add(&b->w->counters->quic_by_flow, by_flow);
}
