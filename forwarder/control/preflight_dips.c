/* The way to each backend: a route that leaves by a served interface, a neighbour that answers, and
 * room for the largest packet, with the header in front where it is tunnelled. Neighbours that are
 * not known yet are asked for all at once, and then given some time. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control/links.h"
#include "control/own_addresses.h"
#include "control/preflight_report.h"
#include "io/netdev.h"
#include "worker/modes.h"

#define ANSWER_MS 1500u /* the kernel asks once a second */
#define LOOK_MS 50u
#define CLIENTS_MTU 1500u /* the largest packet that clients are taken to send: the Internet's */

#define NUD_KNOWN (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)

struct way {
	const struct preflight_dip *dip;
	bool asked; /* for the neighbour */
	bool known; /* it answers */
	struct rtnl_route route;
	unsigned mtu; /* of the way; 0 = not known */
};

struct search {
	const struct preflight *p;
	struct findings *r;
	struct rtnl rtnl;
	struct links links;
	struct own_addresses own;
	unsigned mtu; /* the largest packet that may come */
	unsigned n_good;
	int not_forwarding[2]; /* the interface that was last told of, by family */
};

/* --- routes --------------------------------------------------------------------------------------
 */

static void find_mtu(struct search *s)
{
	struct xsk_iface dev;
	struct error err;

	for (unsigned i = 0; i < s->p->n_ifaces; i++)
		if (!netdev_read(s->p->ifaces[i], &dev, &err) && dev.mtu > s->mtu)
			s->mtu = dev.mtu < CLIENTS_MTU ? dev.mtu : CLIENTS_MTU;
}

static bool is_served(const struct search *s, const struct link_way *out)
{
	char name[IF_NAMESIZE];

	for (unsigned k = 0; k < out->n_ports; k++)
		for (unsigned i = 0; i < s->p->n_ifaces; i++)
			if (if_indextoname((unsigned)out->ports[k], name) &&
			    !strcmp(s->p->ifaces[i], name))
				return true;
	return !s->p->n_ifaces;
}

static void report_no_route(struct search *s, const struct way *w, const char *vip, const char *a)
{
	char fix[128];

	if (own_addresses_have(&s->own, &w->dip->address)) {
		report_note(
			s->r, NULL,
			"DIP %s/%s: %s is this host's own address, packets cannot be sent there",
			vip, w->dip->id, a);
		return;
	}
	snprintf(fix, sizeof(fix), "ip route add %s via ROUTER    (or: dev IF)", a);
	report_note(s->r, fix, "DIP %s/%s: there is no route to %s", vip, w->dip->id, a);
}

/* What a DIP of mode nat answers is forwarded: the kernel's FIB says where to, if it may at all. */
static void check_forwarding(struct search *s, const struct way *w, const char *name)
{
	const struct vip_conf *vip = &s->p->vips[w->dip->vip];
	bool v6 = !ip_addr_is_v4(&w->dip->address);
	char path[64 + IF_NAMESIZE], fix[96];
	const char *family = v6 ? "ipv6" : "ipv4";

	if (vip->mode != VIP_NAT || s->not_forwarding[v6] == w->route.ifindex)
		return;
	snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/forwarding", family, name);
	FILE *f = fopen(path, "re");
	bool off = f && fgetc(f) == '0';
	if (f)
		fclose(f);
	if (!off)
		return;
	s->not_forwarding[v6] = w->route.ifindex;
	snprintf(fix, sizeof(fix), "sysctl -w net.%s.conf.%s.forwarding=1", family, name);
	report_note(s->r, fix,
		    "VIP %s is of mode nat, but what its DIPs answer by %s is not forwarded",
		    vip->id, name);
}

/* False: there is none that packets can take, and it was said. */
static bool find_route(struct search *s, struct way *w)
{
	const char *vip = s->p->vips[w->dip->vip].id;
	char a[IP_ADDR_STRLEN], name[IF_NAMESIZE], fix[128];
	struct link_way out = {.n_ports = 0};

	ip_addr_format(&w->dip->address, a);
	if (rtnl_get_route(&s->rtnl, &w->dip->address, &w->route) ||
	    !if_indextoname((unsigned)w->route.ifindex, name)) {
		report_no_route(s, w, vip, a);
		return false;
	}
	bool is_out = links_way(&s->links, w->route.ifindex, &out) == 0;
	if (!is_served(s, &out)) {
		snprintf(fix, sizeof(fix), "start concuryd with --interface %s too", name);
		report_note(s->r, fix, "DIP %s/%s: %s is reached by %s, which is not served", vip,
			    w->dip->id, a, name);
		return false;
	}
	check_forwarding(s, w, name);
	if (is_out)
		w->mtu = w->route.mtu && w->route.mtu < out.mtu ? w->route.mtu : out.mtu;
	return true;
}

static void check_mtu(struct search *s, const struct way *w)
{
	const struct vip_conf *vip = &s->p->vips[w->dip->vip];
	unsigned outer = modes_overhead(vip->mode, &w->dip->address);
	unsigned wanted = s->mtu + outer;
	char name[IF_NAMESIZE] = "IF", fix[160];

	if (!w->mtu || w->mtu >= wanted || !s->mtu)
		return;
	/* Clients of TCP are told by their SYN; whoever sends more all the same is told by ICMP. */
	if (vip->clamp_mss && vip->match.protocol == VIP_TCP)
		return;
	if_indextoname((unsigned)w->route.ifindex, name);
	snprintf(fix, sizeof(fix),
		 "ip link set dev %s mtu %u    (and so at the switch and the backend; or lower the "
		 "clients' to %u)",
		 name, wanted, w->mtu - outer);
	report_note(s->r, fix,
		    "DIP %s/%s: the way there takes %u bytes, so packets over %u%s are dropped",
		    vip->id, w->dip->id, w->mtu, w->mtu - outer,
		    outer ? ", without the header put in front," : "");
}

/* A packet to the VIP that gets to a router goes back to where the VIP is: here. */
static void check_l2(struct search *s, const struct way *w)
{
	const struct vip_conf *vip = &s->p->vips[w->dip->vip];
	char via[IP_ADDR_STRLEN], fix[64 + ID_LEN];

	if (vip->mode != VIP_L2 || ip_addr_equal(&w->route.via, &w->dip->address))
		return;
	ip_addr_format(&w->route.via, via);
	snprintf(fix, sizeof(fix), "concuryctl vip set %s mode=ipip    (or gue)", vip->id);
	report_note(s->r, fix,
		    "DIP %s/%s: it lies behind %s; mode l2 reaches it only if that is the backend "
		    "itself: a router sends packets to the VIP back here",
		    vip->id, w->dip->id, via);
}

/* --- neighbours ----------------------------------------------------------------------------------
 */

static bool is_known(struct search *s, const struct way *w)
{
	struct rtnl_neigh n;

	return !rtnl_get_neigh(&s->rtnl, w->route.ifindex, &w->route.via, &n) &&
	       (n.state & NUD_KNOWN);
}

/* Ask for those that are not known; returns how many that are. */
static unsigned ask_neighbors(struct search *s, struct way *ways, unsigned n)
{
	unsigned n_asked = 0;

	for (unsigned i = 0; i < n; i++) {
		struct way *w = &ways[i];
		w->known = w->dip->has_mac || is_known(s, w);
		w->asked = !w->known &&
			   !rtnl_use_neigh(&s->rtnl, w->route.ifindex, &w->route.via, false);
		n_asked += w->asked;
	}
	return n_asked;
}

static void await_neighbors(struct search *s, struct way *ways, unsigned n)
{
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
	unsigned left = ask_neighbors(s, ways, n);

	for (unsigned ms = 0; left && ms < ANSWER_MS; ms += LOOK_MS) {
		nanosleep(&pause, NULL);
		for (unsigned i = 0; i < n; i++) {
			if (!ways[i].asked || ways[i].known || !is_known(s, &ways[i]))
				continue;
			ways[i].known = true;
			left--;
		}
	}
}

static void report_neighbor(struct search *s, const struct way *w)
{
	char a[IP_ADDR_STRLEN], via[IP_ADDR_STRLEN], name[IF_NAMESIZE] = "IF", fix[224];

	ip_addr_format(&w->dip->address, a);
	ip_addr_format(&w->route.via, via);
	if_indextoname((unsigned)w->route.ifindex, name);
	snprintf(
		fix, sizeof(fix),
		"ip neighbour flush to %s dev %s; ping -c 3 %s    (is it up, and on that segment?)",
		via, name, via);
	report_note(s->r, fix, "DIP %s/%s: %s%s does not answer %s on %s",
		    s->p->vips[w->dip->vip].id, w->dip->id, via,
		    ip_addr_equal(&w->route.via, &w->dip->address) ? "" : ", the router before it,",
		    ip_addr_is_v4(&w->route.via) ? "ARP" : "neighbour discovery", name);
}

/* --- the whole -----------------------------------------------------------------------------------
 */

static void look_at(struct search *s, struct way *ways)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->p->n_dips; i++) {
		ways[n] = (struct way){.dip = &s->p->dips[i]};
		n += find_route(s, &ways[n]);
	}
	await_neighbors(s, ways, n);
	for (unsigned i = 0; i < n; i++) {
		check_mtu(s, &ways[i]);
		check_l2(s, &ways[i]);
		if (ways[i].known)
			s->n_good++;
		else
			report_neighbor(s, &ways[i]);
	}
}

void preflight_dips(const struct preflight *p, struct findings *r)
{
	struct search s = {.p = p, .r = r};
	struct error err;

	if (!p->n_dips)
		return;
	if (rtnl_open(&s.rtnl, &err)) {
		report_note(r, NULL, "DIPs: %s", err.message);
		return;
	}
	struct way *ways = calloc(p->n_dips, sizeof(*ways));
	bool own = own_addresses_read(&s.own) == 0;
	bool links = links_read(&s.links, &s.rtnl) >= 0;
	find_mtu(&s);
	if (ways && own && links)
		look_at(&s, ways);
	if (s.n_good)
		report_ok(r, "DIPs: %u of %u can be reached", s.n_good, p->n_dips);
	free(ways);
	own_addresses_free(&s.own);
	links_free(&s.links);
	rtnl_close(&s.rtnl);
}
