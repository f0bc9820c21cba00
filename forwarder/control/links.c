#include "control/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void links_free(struct links *ls)
{
	free(ls->list);
	free(ls->next);
	*ls = (struct links){0};
}

const struct rtnl_link *links_find(const struct links *ls, int ifindex)
{
	const struct rtnl_link key = {.ifindex = ifindex};

	return ls->n ? bsearch(&key, ls->list, ls->n, sizeof(key), links_order) : NULL;
}

/* Of a bond with one slave in use it is that one, of others all that carry traffic. */
static bool is_in_use(const struct rtnl_link *bond, const struct rtnl_link *slave)
{
	if (slave->master != bond->ifindex || !slave->up)
		return false;
	return bond->active ? slave->ifindex == bond->active : slave->carries;
}

static void add_slaves(const struct links *ls, const struct rtnl_link *bond, struct link_way *w)
{
	for (unsigned i = 0; i < ls->n && w->n_ports < IFACES_MAX; i++)
		if (is_in_use(bond, &ls->list[i]))
			w->ports[w->n_ports++] = ls->list[i].ifindex;
}

int links_way(const struct links *ls, int ifindex, struct link_way *out)
{
	const struct rtnl_link *top = links_find(ls, ifindex), *l = top;
	struct link_way w = {0};

	if (!top || !top->up)
		return -ENODEV;
	w.mtu = top->mtu;
	memcpy(w.mac, top->mac, sizeof(w.mac));
	if (top->kind == LINK_VLAN) {
		l = links_find(ls, top->parent);
		w.vlan = top->vlan_id;
		if (!w.vlan || !l || !l->up || l->kind == LINK_VLAN)
			return -ENODEV;
		if (l->mtu < w.mtu)
			w.mtu = l->mtu;
	}
	if (l->kind == LINK_BOND)
		add_slaves(ls, l, &w);
	else
		w.ports[w.n_ports++] = l->ifindex;
	if (!w.n_ports)
		return -ENODEV;
	*out = w;
	return 0;
}

/* --- VLANs ---------------------------------------------------------------------------------------
 */

void links_vlans(const struct links *ls, int ifindex, uint64_t ids[VLAN_IDS / 64])
{
	const struct rtnl_link *l = links_find(ls, ifindex),
			       *bond = l ? links_find(ls, l->master) : NULL;

	memset(ids, 0, VLAN_IDS / 8);
	for (unsigned i = 0; l && i < ls->n; i++) {
		const struct rtnl_link *v = &ls->list[i];
		if (v->kind != LINK_VLAN || !v->vlan_id || v->vlan_id >= VLAN_IDS || !v->up)
			continue;
		if (v->parent == ifindex ||
		    (bond && bond->kind == LINK_BOND && v->parent == bond->ifindex))
			ids[v->vlan_id / 64] |= 1ull << (v->vlan_id % 64);
	}
}

unsigned links_stacked(const struct links *ls, int *ifindexes, unsigned n)
{
	struct link_way way;
	unsigned found = 0;

	for (unsigned i = 0; i < ls->n && found < n; i++)
		if (ls->list[i].kind != LINK_OTHER && !links_way(ls, ls->list[i].ifindex, &way))
			ifindexes[found++] = ls->list[i].ifindex;
	return found;
}

/* --- names ---------------------------------------------------------------------------------------
 */

static const struct rtnl_link *find_name(const struct links *ls, const char *name)
{
	for (unsigned i = 0; i < ls->n; i++)
		if (!strcmp(ls->list[i].name, name))
			return &ls->list[i];
	return NULL;
}

int links_below(const struct links *ls, const char *name, char names[][IF_NAMESIZE], int n)
{
	const struct rtnl_link *l = find_name(ls, name);
	int found = 0;

	if (l && l->kind == LINK_VLAN && links_find(ls, l->parent))
		l = links_find(ls, l->parent);
	if (!l)
		return -ENODEV;
	if (l->kind != LINK_BOND) {
		memcpy(names[0], l->name, sizeof(l->name));
		return 1;
	}
	for (unsigned i = 0; i < ls->n && found < n; i++)
		if (ls->list[i].master == l->ifindex)
			memcpy(names[found++], ls->list[i].name, IF_NAMESIZE);
	return found;
}
