/* From the kernel's next hops to the views that workers read. A changed MAC is no change of
 * placement: it is written into the published views in place, while all workers are parked and no
 * reader exists. */
#include "control/announce.h"
#include "worker/vlan.h"

uint32_t control_ports(const struct control *c, const struct next_hop *hop)
{
	uint32_t ports = 0;

	for (unsigned i = 0; i < hop->n_ports; i++)
		for (unsigned k = 0; k < c->conf.n_ifaces; k++)
			if (c->conf.ifindexes[k] == hop->ports[i])
				ports |= 1u << k;
	return ports;
}

void control_fill_hop(struct control *c, const struct dip_version *d, struct dip_view *view)
{
	struct next_hop hop;
	bool has_route = false;

	c->conf.next_hops.get(c->conf.next_hops.ctx, &d->conf.address, &hop, &has_route);
	view->resolved = false;
	if (!has_route || !(hop.resolved || d->conf.has_mac))
		return;
	uint32_t ports = control_ports(c, &hop);
	if (!ports)
		return;
	view->egress = (uint8_t)port_choose(ports, &d->conf.address);
	view->vlan = hop.vlan;
	view->mtu = hop.mtu > UINT16_MAX ? UINT16_MAX : (uint16_t)hop.mtu;
	memcpy(view->src_mac, hop.src_mac, sizeof(view->src_mac));
	memcpy(view->dst_mac, d->conf.has_mac ? d->conf.mac : hop.dst_mac, sizeof(view->dst_mac));
	view->resolved = true;
}

static void refresh_vip(struct control *c, struct vip_runtime *v)
{
	for (unsigned i = 0; i < v->now->n_dips; i++) {
		const struct dip_version *d = &v->now->dips[i];
		control_fill_hop(c, d, &vip_view_dips(v->now->view)[d->index]);
	}
	ways_back_refresh(c, v->now);
}

/* Not while the workers stand still. */
static void announce_vip(struct control *c, struct vip_runtime *v)
{
	for (unsigned i = 0; i < v->now->n_dips; i++) {
		const struct dip_version *d = &v->now->dips[i];
		bool resolved = v->now->view->dips[d->index].resolved;
		if (v->dips[d->index].hop_told != resolved)
			announce_hop(c, v, d, resolved);
		v->dips[d->index].hop_told = resolved;
	}
}

void control_refresh_hops(struct control *c)
{
	workers_hold(c->conf.workers, c->conf.n_workers);
	if (workers_wait_parked(c->conf.workers, c->conf.n_workers, -1) == 0) {
		host_links_fill(c);
		for (unsigned i = 0, left = c->n_vips; left; i++) {
			struct vip_runtime *v = c->vips[i];
			if (!v)
				continue;
			left--;
			refresh_vip(c, v);
		}
		c->hops_changed = false;
	}
	workers_release(c->conf.workers, c->conf.n_workers);
	host_links_steer(c);
	for (unsigned i = 0, left = c->n_vips; left; i++) {
		if (!c->vips[i])
			continue;
		left--;
		announce_vip(c, c->vips[i]);
	}
}
