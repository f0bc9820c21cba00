#include "worker/vlan.h"

#include <arpa/inet.h>

#include "worker/modes.h"

#define MACS_LEN 12
#define TAG_LEN 4
#define TYPE_CTAG 0x8100
#define TCI_ID 0x0fffu

unsigned port_choose(uint32_t ports, const struct ip_addr *a)
{
	unsigned n = (unsigned)__builtin_popcount(ports);
	uint32_t w[4];

	memcpy(w, a->b, sizeof(w));
	uint64_t hash = (uint32_t)((w[0] ^ w[1] ^ w[2] ^ ntohl(w[3])) * 0x9e3779b1u);
	for (unsigned nth = (unsigned)(hash * n >> 32); nth; nth--)
		ports &= ports - 1;
	return (unsigned)__builtin_ctz(ports);
}

/* A tag on top of another is no sub-interface's. */
uint16_t vlan_of(const struct burst *b, unsigned i)
{
	const struct packet *p = &b->packets[i];
	const struct frame *f = &b->frames[i];
	uint16_t id = ntohs(p->vlan_tci_be) & TCI_ID, type_be;

	if (p->n_vlans != 1 || !b->w->links)
		return 0;
	memcpy(&type_be, f->data + MACS_LEN, sizeof(type_be));
	bool is_member = b->w->links->vlans[f->iface][id / 64] >> (id % 64) & 1;
	return type_be == htons(TYPE_CTAG) && is_member ? id : 0;
}

/* headroom: in front of the frame as it is now. */
static bool retag(struct burst *b, unsigned i, uint16_t vlan, uint32_t headroom)
{
	const struct packet *p = &b->packets[i];
	struct frame *f = &b->frames[i];

	if (!vlan && !vlan_of(b, i))
		return true;
	if (vlan && p->n_vlans == 0 && headroom < TAG_LEN)
		return false;
	int shift = TAG_LEN * (p->n_vlans - (vlan ? 1 : 0));
	uint8_t *data = f->data + shift;
	memmove(data, f->data, MACS_LEN);
	if (vlan) {
		uint16_t priority_be = p->vlan_tci_be & htons((uint16_t)~TCI_ID);
		uint16_t tag[2] = {htons(TYPE_CTAG), priority_be | htons(vlan)};
		memcpy(data + MACS_LEN, tag, sizeof(tag));
	}
	f->data = data;
	f->len -= (uint32_t)shift;
	return true;
}

SELDOM bool vlan_leave(struct burst *b, unsigned i)
{
	const struct dip_view *d = b->dips[i];
	uint32_t outer = modes_overhead((enum vip_mode)b->flows[i].vip->mode, &d->address);

	if (retag(b, i, d->vlan, b->frames[i].headroom - outer))
		return true;
	burst_end(b, i, DROP_no_headroom);
	return false;
}

SELDOM bool vlan_leave_back(struct burst *b, unsigned i, uint16_t vlan)
{
	return retag(b, i, vlan, b->frames[i].headroom);
}
