/* All is looked at anew each time: some system calls and one read of control. The only memory is
 * since when a DIP is unresolved, because each one is for a moment after it was made, and what was
 * logged. */
#include "control/watch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/own_addresses.h"
#include "control/survey.h"
#include "io/netdev.h"
#include "io/xdp_probe.h"

#define UNRESOLVED_MS 3000 /* three requests of the kernel's neighbour discovery */

struct unresolved {
	uint64_t uid; /* of the DIP */
	uint64_t since_ms;
};

struct watch {
	struct supervisor *supervisor;
	unsigned n_ifaces;
	struct iface_status ifaces[IFACES_MAX]; /* as at the last look */
	struct control *control;
	_Atomic bool serving;
	pthread_mutex_t mutex; /* over the rest */
	bool detached[IFACES_MAX];
	unsigned n_unresolved;
	struct unresolved *unresolved; /* sorted by uid */
	struct warnings last;	   /* at the last tick, sorted; this and logged are main's alone */
	bool logged[WARNINGS_MAX]; /* of last */
};

static void warn(struct warnings *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void warn(struct warnings *w, const char *fmt, ...)
{
	va_list ap;

	if (!w->list || w->n == WARNINGS_MAX) {
		w->n_more++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(w->list[w->n++], WARNING_LEN, fmt, ap);
	va_end(ap);
}

/* --- interfaces ----------------------------------------------------------------------------------
 */

static void look_at_link(const struct netdev_link *link, struct warnings *out)
{
	if (!link->up) {
		out->serving = false;
		warn(out, "%s: the interface is down: ip link set dev %s up", link->name,
		     link->name);
	} else if (!link->carrier) {
		warn(out, "%s: there is no carrier: ip link show dev %s", link->name, link->name);
	}
}

/* True if the interface has our program. */
static bool look_at_program(const struct iface_status *i, const char *name, struct warnings *out)
{
	struct xdp_probe x;
	struct error err;

	if (xdp_probe_read(i->ifindex, &x, &err)) {
		warn(out, "%s: %s: ip link show dev %s", name, err.message, name);
		return false;
	}
	if (x.id && x.id == i->program_id)
		return true;
	if (!x.id)
		warn(out,
		     "%s: the steer program was detached, so packets of VIPs reach this host's "
		     "kernel: restart concuryd to attach it again (systemctl restart concury)",
		     name);
	else if (x.ours)
		warn(out,
		     "%s: the steer program of another concuryd (id %u) is attached: end one of "
		     "the two, then restart the other",
		     name, x.id);
	else if (!x.name[0]) /* we have given up the right to ask for it */
		warn(out,
		     "%s: another XDP program (bpftool prog show id %u) is in steer's place: ip "
		     "link set dev %s xdp off, then restart concuryd",
		     name, x.id, name);
	else
		warn(out,
		     "%s: another XDP program (\"%s\", id %u) is in steer's place: ip link set "
		     "dev %s xdp off, then restart concuryd",
		     name, x.name, x.id, name);
	return false;
}

static void look_at_iface(struct watch *w, unsigned k, struct warnings *out)
{
	const struct iface_status *i = &w->ifaces[k];
	struct netdev_link link;

	w->detached[k] = true;
	if (i->state == IFACE_GONE || !netdev_read_link(i->ifindex, &link)) {
		warn(out,
		     "%s: the interface is gone from this network namespace; it is served again as "
		     "soon as there is one of its name: ip link show dev %s",
		     i->name, i->name);
	} else {
		w->detached[k] = !look_at_program(i, link.name, out);
		look_at_link(&link, out);
		if (i->state == IFACE_REBINDING)
			warn(out, "%s: not bound, which is tried again: %s", i->name, i->reason);
		else if (link.up && link.carrier && *i->reason)
			warn(out, "%s: %s", i->name, i->reason);
	}
	out->serving &= !w->detached[k] && i->state != IFACE_REBINDING;
}

/* --- VIPs and DIPs -------------------------------------------------------------------------------
 */

static int unresolved_order(const void *x, const void *y)
{
	uint64_t a = ((const struct unresolved *)x)->uid;
	uint64_t b = ((const struct unresolved *)y)->uid;

	return (a > b) - (a < b);
}

/* Since when each DIP of the survey, by its place there, is unresolved: taken over from the last
 * look, or now. */
static void remember_unresolved(struct watch *w, const struct survey *s, uint64_t now_ms)
{
	struct unresolved *next = calloc(s->n_dips + 1, sizeof(*next));

	for (unsigned i = 0; next && i < s->n_dips; i++) {
		next[i] = (struct unresolved){s->dips[i].uid, now_ms};
		const struct unresolved *was =
			w->n_unresolved ? bsearch(&next[i], w->unresolved, w->n_unresolved,
						  sizeof(*next), unresolved_order)
					: NULL;
		if (was)
			next[i].since_ms = was->since_ms;
	}
	free(w->unresolved);
	w->unresolved = next;
	w->n_unresolved = next ? s->n_dips : 0;
}

static void warn_unresolved(const struct survey *s, const struct survey_dip *d,
			    const struct own_addresses *own, struct warnings *out)
{
	const char *vip = s->vips[d->vip].id;
	char a[IP_ADDR_STRLEN];
	char name[IF_NAMESIZE] = "?";

	ip_addr_format(&d->address, a);
	if (d->not_served && if_indextoname((unsigned)d->ifindex, name))
		warn(out,
		     "DIP %s/%s: %s is reached by %s, which is not served: start concuryd with "
		     "--interface %s too, or change the route (ip route get %s)",
		     vip, d->id, a, name, name, a);
	else if (own_addresses_have(own, &d->address))
		warn(out,
		     "DIP %s/%s: %s is this host's own address, packets cannot be sent there: ip "
		     "address show to %s",
		     vip, d->id, a, a);
	else if (!d->has_route)
		warn(out, "DIP %s/%s: there is no route to %s: ip route get %s", vip, d->id, a, a);
	else
		warn(out,
		     "DIP %s/%s: %s, or the router before it, does not answer %s: ip route get %s; "
		     "ip neighbour show dev %s",
		     vip, d->id, a, ip_addr_is_v4(&d->address) ? "ARP" : "neighbour discovery", a,
		     if_indextoname((unsigned)d->ifindex, name) ? name : "?");
}

static void warn_address(const struct watch *w, const struct survey_vip *v,
			 const struct own_addresses *own, struct warnings *out)
{
	const struct ip_addr *address = &v->match.address, *inside;
	char a[IP_PREFIX_STRLEN], b[IP_ADDR_STRLEN];
	char command[128];

	ip_prefix_format(address, v->match.host_bits, a);
	if (v->match.host_bits) {
		inside = own_addresses_within(own, &v->match);
		if (inside)
			warn(out,
			     "VIP %s: %s holds this host's own address %s: connections to it go to "
			     "the DIPs",
			     v->id, a, ip_addr_format(inside, b));
	} else if (own->list && !own_addresses_have(own, address)) {
		warn(out,
		     "VIP %s: %s is on no interface here: unless it is routed here, clients get no "
		     "answer to %s: %s",
		     v->id, a, ip_addr_is_v4(address) ? "ARP" : "neighbour discovery",
		     own_addresses_add_command(address, w->n_ifaces ? w->ifaces[0].name : "IF",
					       command, sizeof(command)));
	}
}

static void warn_vip(const struct watch *w, const struct survey_vip *v,
		     const struct own_addresses *own, struct warnings *out)
{
	warn_address(w, v, own, out);
	if (v->deleting)
		return;
	if (!v->n_dips)
		warn(out,
		     "VIP %s: it has no DIP, so its packets are dropped: PUT "
		     "/v1/vips/%s/dips/{dip}",
		     v->id, v->id);
	else if (!v->n_taking)
		warn(out,
		     "VIP %s: none of its DIPs can take new connections: GET /v1/vips/%s/dips "
		     "(state, "
		     "weight)",
		     v->id, v->id);
	if (v->worn)
		warn(out,
		     "VIP %s: fewer than min_up of its DIPs are up, so all are used, whatever "
		     "their checks say: GET /v1/vips/%s/dips (health)",
		     v->id, v->id);
}

static void look_at_vips(struct watch *w, uint64_t now_ms, struct warnings *out)
{
	struct own_addresses own;
	struct survey s;

	if (control_survey(w->control, &s))
		return;
	if (own_addresses_read(&own))
		log_debug("watch", "the addresses of this host cannot be read");
	remember_unresolved(w, &s, now_ms);
	for (unsigned i = 0; i < w->n_unresolved; i++) {
		const struct survey_dip *d = &s.dips[i];
		if (now_ms - w->unresolved[i].since_ms < UNRESOLVED_MS)
			continue;
		s.vips[d->vip].n_taking -= d->taking;
		warn_unresolved(&s, d, &own, out);
	}
	for (unsigned i = 0; i < s.n_vips; i++)
		warn_vip(w, &s.vips[i], &own, out);
	own_addresses_free(&own);
	survey_free(&s);
}

/* --- the whole -----------------------------------------------------------------------------------
 */

void watch_look(struct watch *w, struct warnings *out)
{
	*out = (struct warnings){.serving = true, .list = calloc(WARNINGS_MAX, sizeof(*out->list))};

	pthread_mutex_lock(&w->mutex);
	if (w->supervisor)
		w->n_ifaces = supervisor_read(w->supervisor, w->ifaces);
	for (unsigned i = 0; i < w->n_ifaces; i++)
		look_at_iface(w, i, out);
	if (w->control)
		look_at_vips(w, clock_now_ms(), out);
	atomic_store(&w->serving, out->serving);
	pthread_mutex_unlock(&w->mutex);
}

void warnings_free(struct warnings *w)
{
	free(w->list);
	*w = (struct warnings){0};
}

static int text_order(const void *x, const void *y)
{
	return strcmp(x, y);
}

/* The place of a sentence in a sorted list, or -1. */
static int find(const struct warnings *w, const char *text)
{
	const char(*at)[WARNING_LEN] =
		w->n ? bsearch(text, w->list, w->n, sizeof(*w->list), text_order) : NULL;

	return at ? (int)(at - (const char(*)[WARNING_LEN])w->list) : -1;
}

static void announce(struct watch *w, const char *before, const char *text)
{
	if (w->control)
		events_emit(control_events(w->control), &(struct event_note){.kind = EVENT_warning},
			    "%s%s", before, text);
}

void watch_tick(struct watch *w)
{
	bool logged[WARNINGS_MAX];
	struct warnings now;

	watch_look(w, &now);
	if (!now.list)
		return; /* no memory: what was true is compared next time */
	qsort(now.list, now.n, sizeof(*now.list), text_order);
	for (unsigned i = 0; i < now.n; i++) {
		int was = find(&w->last, now.list[i]);
		if (was >= 0 && !w->logged[was]) {
			log_warning("concuryd", "%s", now.list[i]);
			announce(w, "", now.list[i]);
		}
		logged[i] = was >= 0;
	}
	for (unsigned i = 0; i < w->last.n; i++)
		if (w->logged[i] && find(&now, w->last.list[i]) < 0) {
			log_info("concuryd", "no longer: %s", w->last.list[i]);
			announce(w, "no longer: ", w->last.list[i]);
		}
	warnings_free(&w->last);
	w->last = now;
	memcpy(w->logged, logged, now.n * sizeof(*logged));
}

bool watch_serving(const struct watch *w)
{
	return atomic_load(&w->serving);
}

const char *watch_detached(struct watch *w, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	pthread_mutex_lock(&w->mutex);
	for (unsigned i = 0; i < w->n_ifaces; i++) {
		if (!w->detached[i] || len >= size)
			continue;
		len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
					w->ifaces[i].name);
	}
	pthread_mutex_unlock(&w->mutex);
	return buf;
}

int watch_new(struct supervisor *supervisor, struct control *control, struct watch **out)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->supervisor = supervisor;
	w->control = control;
	atomic_init(&w->serving, true);
	pthread_mutex_init(&w->mutex, NULL);
	*out = w;
	return 0;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	warnings_free(&w->last);
	free(w->unresolved);
	pthread_mutex_destroy(&w->mutex);
	free(w);
}
