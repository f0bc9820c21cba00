/* What workers and steer know of interfaces that stand on others.
 *
 * Packets of mode nat on their way back bear a code for such an interface, which steer has written
 * and a worker reads a moment later. So an interface keeps its code as long as it is there, and a
 * code that has become free is taken again as late as can be. */
#include "base/log.h"
#include "control/internal.h"
#include "control/links.h"

static uint32_t ports_of(const struct control *c, const struct link_way *way)
{
	struct next_hop hop = {.n_ports = way->n_ports};

	_Static_assert(sizeof(hop.ports) == sizeof(way->ports), "as many");
	memcpy(hop.ports, way->ports, sizeof(hop.ports));
	return control_ports(c, &hop);
}

static unsigned code_of(const struct host_codes *h, int ifindex)
{
	unsigned i = 0;

	while (i < STEER_STACKED_MAX && h->ifindexes[i] != ifindex)
		i++;
	return i;
}

static unsigned free_code(struct host_codes *h)
{
	for (unsigned n = 0; n < STEER_STACKED_MAX; n++) {
		unsigned i = (h->last + 1 + n) % STEER_STACKED_MAX;
		if (!h->ifindexes[i])
			return h->last = i;
	}
	return STEER_STACKED_MAX;
}

static bool is_among(const int *list, unsigned n, int ifindex)
{
	for (unsigned i = 0; i < n; i++)
		if (list[i] == ifindex)
			return true;
	return false;
}

static void put_out(struct control *c, int ifindex)
{
	struct host_codes *h = &c->host_codes;
	struct link_way way;

	if (links_way(c->conf.next_hops.links, ifindex, &way))
		return;
	uint32_t ports = ports_of(c, &way);
	unsigned i = code_of(h, ifindex);
	if (i == STEER_STACKED_MAX && ports)
		i = free_code(h);
	if (i == STEER_STACKED_MAX)
		return;
	c->conf.links->outs[i] = (struct way_out){ports, way.vlan};
	h->ifindexes[i] = ifindex;
	h->changed = true;
}

void host_links_fill(struct control *c)
{
	const struct links *ls = c->conf.next_hops.links;
	struct host_codes *h = &c->host_codes;
	int stacked[STEER_STACKED_MAX];

	if (!c->conf.links || !ls)
		return;
	for (unsigned i = 0; i < c->conf.n_ifaces; i++)
		links_vlans(ls, c->conf.ifindexes[i], c->conf.links->vlans[i]);
	unsigned n = links_stacked(ls, stacked, STEER_STACKED_MAX);
	for (unsigned i = 0; i < STEER_STACKED_MAX; i++) {
		if (!h->ifindexes[i] || is_among(stacked, n, h->ifindexes[i]))
			continue;
		c->conf.links->outs[i] = (struct way_out){.ports = 0};
		h->ifindexes[i] = 0;
		h->changed = true;
	}
	for (unsigned i = 0; i < n; i++)
		put_out(c, stacked[i]);
}

void host_links_steer(struct control *c)
{
	const struct steering *s = &c->conf.steering;
	struct error err;

	if (!c->host_codes.changed || !s->set_outs)
		return;
	c->host_codes.changed = false;
	if (s->set_outs(s->ctx, c->host_codes.ifindexes, &err))
		log_error("control", "%s", err.message);
}
