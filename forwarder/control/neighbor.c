/* Two kinds of objects. A `target` is a watched address with its route; a `hop` is a neighbour (the
 * address itself, or the router before it) that any number of targets share, so that ten thousand
 * DIPs behind one router cost one ARP entry. Events and answers update the cached state of hops and
 * routes; what a target shows to control follows from them in target_update.
 *
 * Why a target *holds* its last answer for some seconds: a neighbour entry is also gone while the
 * kernel's garbage collection, `ip neigh flush`, a changed route or a bounced link has removed it
 * for a moment, and packets of an unresolved DIP are dropped. So only a definite no counts at once:
 * the kernel probed and failed (NUD_FAILED), or the route says that packets may not go there.
 * Silence counts after HOLD_MS, which is longer than the kernel's three probes take. */
#include "control/neighbor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/control.h"
#include "control/links.h"
#include "control/neighbor_rtnl.h"

#define HOLD_MS 4000
#define ASK_UNRESOLVED_MS 1000	/* NTF_USE while there is no MAC */
#define ASK_RESOLVED_MS 15000	/* and to have a stale one probed */
#define ASKING_MS 20		/* so long between two polls; the next goes on */
#define REROUTE_INTERVAL_MS 200 /* at most so often are all routes asked again */
#define N_BUCKETS_LOG2 15	/* chains of four, with as many DIPs as there may be */
#define N_BUCKETS (1u << N_BUCKETS_LOG2)

#define NUD_USABLE (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)
#define NUD_CONFIGURED (NUD_PERMANENT | NUD_NOARP)

struct hop {
	struct hop *next; /* of its bucket */
	struct rtnl_neigh neigh;
	unsigned n_targets;
	uint64_t ask_at_ms;
};

enum route_verdict {
	ROUTE_OK,
	ROUTE_MISSING, /* may come back in a moment */
	ROUTE_REFUSED,
};

struct target {
	struct target *next; /* of its bucket */
	struct ip_addr address;
	unsigned n_watches;
	enum route_verdict verdict;
	struct link_way way;	/* valid with ROUTE_OK, mtu the smaller of link's and route's */
	struct hop *hop;	/* NULL unless ROUTE_OK */
	uint64_t hold_until_ms; /* 0: not holding */
	struct next_hop shown;
	bool has_route;
};

struct neighbor {
	struct rtnl rtnl;
	bool relink;	     /* links changed, or events were lost */
	bool reroute;	     /* routes or links changed, or events were lost */
	bool recheck;	     /* some hop changed */
	uint64_t asked_ns;   /* spent on hop_ask since the last poll */
	unsigned ask_bucket; /* where ask_due goes on */
	bool changed;	     /* some target shows another answer than at the last poll */
	uint64_t rerouted_ms;
	uint64_t ticked_ms;
	struct links links;
	struct target *targets[N_BUCKETS];
	struct hop *hops[N_BUCKETS];
};

static unsigned bucket_of(const struct ip_addr *a, uint32_t salt)
{
	uint32_t w[4];

	memcpy(w, a->b, sizeof(w));
	uint64_t h = (w[0] ^ w[2]) * 0x9e3779b97f4a7c15u;
	h = (h ^ w[1] ^ ((uint64_t)w[3] << 13) ^ salt) * 0xd6e8feb86659fd93u;
	return (unsigned)(h >> (64 - N_BUCKETS_LOG2));
}

/* --- hops ----------------------------------------------------------------------------------------
 */

static struct hop *hop_find(struct neighbor *n, int ifindex, const struct ip_addr *a)
{
	struct hop *h = n->hops[bucket_of(a, (uint32_t)ifindex)];

	while (h && (h->neigh.ifindex != ifindex || !ip_addr_equal(&h->neigh.address, a)))
		h = h->next;
	return h;
}

static bool hop_usable(const struct hop *h)
{
	return (h->neigh.state & NUD_USABLE) && h->neigh.has_mac;
}

/* Control has more to do than to ask: a document may bring a hundred thousand addresses, and once
 * the kernel's table is full (net.ipv4.neigh.default.gc_thresh3) each question has it searched
 * through. */
static bool may_ask(const struct neighbor *n)
{
	return n->asked_ns < ASKING_MS * 1000000ull;
}

/* Read the kernel's entry, and have it resolved or probed. A configured entry is left alone:
 * NTF_USE would take its NUD_PERMANENT from it. */
static void hop_ask(struct neighbor *n, struct hop *h, uint64_t now_ms)
{
	uint64_t start_ns = clock_now_ns();
	struct rtnl_neigh neigh;

	if (rtnl_get_neigh(&n->rtnl, h->neigh.ifindex, &h->neigh.address, &neigh) == 0) {
		h->neigh = neigh;
		n->recheck = true;
	}
	/* An error (the interface has just gone) ends with the event that says so. */
	if (!(h->neigh.state & NUD_CONFIGURED))
		rtnl_use_neigh(&n->rtnl, h->neigh.ifindex, &h->neigh.address, true);
	h->ask_at_ms = now_ms + (hop_usable(h) ? ASK_RESOLVED_MS : ASK_UNRESOLVED_MS);
	n->asked_ns += clock_now_ns() - start_ns;
}

static struct hop *hop_acquire(struct neighbor *n, int ifindex, const struct ip_addr *a,
			       uint64_t now_ms)
{
	struct hop *h = hop_find(n, ifindex, a);

	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		struct hop **bucket = &n->hops[bucket_of(a, (uint32_t)ifindex)];
		h->neigh.ifindex = ifindex;
		h->neigh.address = *a;
		h->next = *bucket;
		*bucket = h;
		if (may_ask(n))
			hop_ask(n, h, now_ms);
		else
			n->recheck = true; /* it is due */
	}
	h->n_targets++;
	return h;
}

static void hop_release(struct neighbor *n, struct hop *h)
{
	struct hop **p;

	if (!h || --h->n_targets > 0)
		return;
	/* The kernel need not keep it any more; if that fails it merely goes on doing so. */
	if (!(h->neigh.state & NUD_CONFIGURED) && h->neigh.state != NUD_NONE)
		rtnl_use_neigh(&n->rtnl, h->neigh.ifindex, &h->neigh.address, false);
	for (p = &n->hops[bucket_of(&h->neigh.address, (uint32_t)h->neigh.ifindex)]; *p != h;)
		p = &(*p)->next;
	*p = h->next;
	free(h);
}

/* --- targets -------------------------------------------------------------------------------------
 */

static struct target **target_slot(struct neighbor *n, const struct ip_addr *a)
{
	struct target **p = &n->targets[bucket_of(a, 0)];

	while (*p && !ip_addr_equal(&(*p)->address, a))
		p = &(*p)->next;
	return p;
}

/* Ask the kernel for the route; take the hop it names. */
static void target_reroute(struct neighbor *n, struct target *t, uint64_t now_ms)
{
	struct rtnl_route route;
	struct hop *hop = NULL;

	int rc = rtnl_get_route(&n->rtnl, &t->address, &route);
	if (rc == 0 && links_way(&n->links, route.ifindex, &t->way) == 0)
		hop = hop_acquire(n, route.ifindex, &route.via, now_ms);
	/* Acquired before the old one is released: it mostly is the same. */
	hop_release(n, t->hop);
	t->hop = hop;
	if (hop)
		t->verdict = ROUTE_OK;
	else
		t->verdict = rc == -EHOSTUNREACH || rc == -EINVAL || rc == -EACCES ? ROUTE_REFUSED
										   : ROUTE_MISSING;
	if (hop && route.mtu && route.mtu < t->way.mtu)
		t->way.mtu = route.mtu;
}

static bool next_hop_equal(const struct next_hop *x, const struct next_hop *y)
{
	return x->resolved == y->resolved && x->ifindex == y->ifindex && x->mtu == y->mtu &&
	       memcmp(x->dst_mac, y->dst_mac, 6) == 0 && memcmp(x->src_mac, y->src_mac, 6) == 0 &&
	       x->vlan == y->vlan && x->n_ports == y->n_ports &&
	       memcmp(x->ports, y->ports, x->n_ports * sizeof(*x->ports)) == 0;
}

/* Is what is not resolved now likely to be resolved in a moment? */
static bool target_may_recover(const struct target *t)
{
	return t->verdict == ROUTE_MISSING ||
	       (t->verdict == ROUTE_OK && !(t->hop->neigh.state & NUD_FAILED));
}

/* Derive what the target shows from its route and hop. */
static void target_update(struct neighbor *n, struct target *t, uint64_t now_ms)
{
	bool has_route = t->verdict == ROUTE_OK;
	struct next_hop hop = {0};

	if (has_route) {
		hop.resolved = hop_usable(t->hop);
		hop.ifindex = t->hop->neigh.ifindex;
		hop.mtu = t->way.mtu;
		hop.vlan = t->way.vlan;
		hop.n_ports = t->way.n_ports;
		memcpy(hop.ports, t->way.ports, sizeof(hop.ports));
		memcpy(hop.src_mac, t->way.mac, 6);
		if (hop.resolved)
			memcpy(hop.dst_mac, t->hop->neigh.mac, 6);
	}
	if (t->shown.resolved && !hop.resolved && target_may_recover(t)) {
		if (t->hold_until_ms == 0)
			t->hold_until_ms = now_ms + HOLD_MS;
		if (now_ms < t->hold_until_ms)
			return;
	}
	t->hold_until_ms = 0;
	if (has_route == t->has_route && next_hop_equal(&hop, &t->shown))
		return;
	t->shown = hop;
	t->has_route = has_route;
	n->changed = true;
}

/* --- events --------------------------------------------------------------------------------------
 */

static void on_neigh(void *ctx, const struct rtnl_neigh *event)
{
	struct neighbor *n = ctx;
	struct hop *h = hop_find(n, event->ifindex, &event->address);

	if (!h)
		return;
	h->neigh = *event;
	if (!hop_usable(h) && !(event->state & (NUD_INCOMPLETE | NUD_FAILED)))
		h->ask_at_ms = 0; /* removed by someone: have it resolved again at once */
	n->recheck = true;
}

static void on_links(void *ctx)
{
	struct neighbor *n = ctx;

	n->relink = true;
	n->reroute = true;
}

static void on_routes(void *ctx)
{
	struct neighbor *n = ctx;

	n->reroute = true;
}

/* What cannot be read now is read the next time. */
static void relink(struct neighbor *n)
{
	int rc = links_read(&n->links, &n->rtnl);

	n->relink = rc < 0;
	if (rc > 0)
		n->changed = true;
}

static void reroute_all(struct neighbor *n, uint64_t now_ms)
{
	if (n->relink)
		relink(n);
	n->reroute = n->relink;
	n->rerouted_ms = now_ms;
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		for (struct target *t = n->targets[i]; t; t = t->next)
			target_reroute(n, t, now_ms);
	}
	n->recheck = true;
}

/* False if there is no time for all that are due. */
static bool ask_chain(struct neighbor *n, struct hop *h, uint64_t now_ms)
{
	for (; h; h = h->next) {
		/* It may have failed since it was asked as a resolved one. */
		if (!hop_usable(h) && h->ask_at_ms > now_ms + ASK_UNRESOLVED_MS)
			h->ask_at_ms = now_ms + ASK_UNRESOLVED_MS;
		if (now_ms < h->ask_at_ms)
			continue;
		if (!may_ask(n))
			return false;
		hop_ask(n, h, now_ms);
	}
	return true;
}

/* False if some that are due have to wait for the next poll, which begins with them. */
static bool ask_due(struct neighbor *n, uint64_t now_ms)
{
	for (unsigned left = N_BUCKETS; left; left--) {
		if (!ask_chain(n, n->hops[n->ask_bucket], now_ms))
			return false;
		n->ask_bucket = (n->ask_bucket + 1) % N_BUCKETS;
	}
	return true;
}

/* Events were lost: what the kernel has is to be read anew. */
static void make_all_due(struct neighbor *n)
{
	for (unsigned i = 0; i < N_BUCKETS; i++)
		for (struct hop *h = n->hops[i]; h; h = h->next)
			h->ask_at_ms = 0;
	n->recheck = true;
}

bool neighbor_poll(struct neighbor *n, uint64_t now_ms)
{
	const struct rtnl_event_handler handler = {
		.ctx = n, .neigh = on_neigh, .links = on_links, .routes = on_routes};

	bool lost = rtnl_read_events(&n->rtnl, &handler) == -ENOBUFS;
	if (lost) {
		on_links(n);
		make_all_due(n);
	}
	if (n->reroute && (lost || now_ms - n->rerouted_ms >= REROUTE_INTERVAL_MS))
		reroute_all(n, now_ms);
	bool tick = now_ms - n->ticked_ms >= ASK_UNRESOLVED_MS / 2;
	if (n->recheck || tick) {
		n->recheck = false;
		bool done = ask_due(n, now_ms);
		n->ticked_ms = now_ms;
		for (unsigned i = 0; i < N_BUCKETS; i++) {
			for (struct target *t = n->targets[i]; t; t = t->next)
				target_update(n, t, now_ms);
		}
		n->recheck = !done;
	}
	n->asked_ns = 0;
	bool changed = n->changed;
	n->changed = false;
	return changed;
}

/* --- the rest of the contract --------------------------------------------------------------------
 */

int neighbor_open(struct neighbor **out, struct error *err)
{
	struct neighbor *n = calloc(1, sizeof(*n));

	if (!n)
		return error_set(err, -ENOMEM, "neighbor: out of memory");
	int rc = rtnl_open(&n->rtnl, err);
	if (rc < 0) {
		free(n);
		return rc;
	}
	relink(n);
	n->changed = false; /* whoever opens it asks for all */
	n->reroute = n->relink;
	*out = n;
	return 0;
}

void neighbor_close(struct neighbor *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		while (n->targets[i]) {
			struct target *t = n->targets[i];
			n->targets[i] = t->next;
			hop_release(n, t->hop);
			free(t);
		}
	}
	links_free(&n->links);
	rtnl_close(&n->rtnl);
	free(n);
}

int neighbor_fd(const struct neighbor *n)
{
	return rtnl_events_fd(&n->rtnl);
}

int neighbor_watch(struct neighbor *n, const struct ip_addr *a)
{
	struct target **slot = target_slot(n, a);
	uint64_t now_ms = clock_now_ms();

	if (!*slot) {
		struct target *t = calloc(1, sizeof(*t));
		if (!t)
			return -ENOMEM;
		t->address = *a;
		*slot = t;
		target_reroute(n, t, now_ms);
		target_update(n, t, now_ms);
	}
	(*slot)->n_watches++;
	return 0;
}

void neighbor_unwatch(struct neighbor *n, const struct ip_addr *a)
{
	struct target **slot = target_slot(n, a);
	struct target *t = *slot;

	assert(t);
	if (--t->n_watches > 0)
		return;
	*slot = t->next;
	hop_release(n, t->hop);
	free(t);
}

void neighbor_get(const struct neighbor *n, const struct ip_addr *a, struct next_hop *hop,
		  bool *has_route)
{
	const struct target *t = n->targets[bucket_of(a, 0)];

	while (t && !ip_addr_equal(&t->address, a))
		t = t->next;
	*hop = t ? t->shown : (struct next_hop){.resolved = false};
	*has_route = t && t->has_route;
}

void neighbor_resolve(struct neighbor *n, int ifindex, const struct ip_addr *a)
{
	struct rtnl_neigh now;

	/* NTF_USE would take its NUD_PERMANENT from a configured one. */
	if (rtnl_get_neigh(&n->rtnl, ifindex, a, &now) == 0 && !(now.state & NUD_CONFIGURED))
		rtnl_use_neigh(&n->rtnl, ifindex, a, false);
}

/* --- for control ---------------------------------------------------------------------------------
 */

static int watch(void *ctx, const struct ip_addr *a)
{
	return neighbor_watch(ctx, a);
}

static void unwatch(void *ctx, const struct ip_addr *a)
{
	neighbor_unwatch(ctx, a);
}

static void get(void *ctx, const struct ip_addr *a, struct next_hop *hop, bool *has_route)
{
	neighbor_get(ctx, a, hop, has_route);
}

static bool poll_events(void *ctx, uint64_t now_ms)
{
	return neighbor_poll(ctx, now_ms);
}

static void resolve(void *ctx, int ifindex, const struct ip_addr *a)
{
	neighbor_resolve(ctx, ifindex, a);
}

struct next_hops neighbor_next_hops(struct neighbor *n)
{
	return (struct next_hops){
		.ctx = n,
		.fd = neighbor_fd(n),
		.watch = watch,
		.unwatch = unwatch,
		.get = get,
		.links = &n->links,
		.poll = poll_events,
		.resolve = resolve,
	};
}
