/* All is looked at anew at each tick, whatever event has waked us: events may be lost, and some
 * changes (the number of queues, a driver's reset) have none.
 *
 * What can fail when sockets are opened anew is the machine's: another program has the queue, a
 * driver is not done with its reset, an interface of the name is of another kind. It is tried again
 * after a quarter of a second, then ever later, up to RETRY_MAX_MS. So is a ring that stands still
 * again right after it was bound anew, up to REST_MAX_MS. */
#include "control/supervisor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/events.h"
#include "io/netdev.h"
#include "io/steer_map.h"
#include "io/xsk_life.h"

#define WHO "interfaces"
#define RETRY_MIN_MS 250u
#define RETRY_MAX_MS 8000u
#define REST_MIN_MS 1000u
#define REST_MAX_MS 60000u

const char *const iface_state_names[] = {
	[IFACE_UP] = "up",
	[IFACE_DOWN] = "down",
	[IFACE_GONE] = "gone",
	[IFACE_REBINDING] = "rebinding",
	NULL,
};

/* Of a queue that was bound anew because it stood still: another socket does not always help. */
struct rest {
	uint64_t until_ms; /* before that it is not bound anew again */
	unsigned ms;
};

struct supervised {
	struct iface_status status;
	struct rest rests[STEER_QUEUES_MAX];
	bool unfit; /* something of it is not bound */
	bool carrier;
	unsigned retry_after_ms;
	uint64_t retry_ms;
};

struct supervisor {
	struct xsk *xsk;
	struct control *control;
	struct xsk_pause pause;
	uint64_t look_ms; /* when rings are looked at next */
	unsigned n;
	struct supervised ifaces[IFACES_MAX];
	pthread_mutex_t mutex; /* over shown */
	struct iface_status shown[IFACES_MAX];
};

/* --- telling -------------------------------------------------------------------------------------
 */

static void tell(struct supervisor *s, unsigned i, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* In the log and as an event. */
static void tell(struct supervisor *s, unsigned i, const char *fmt, ...)
{
	char text[IFACE_REASON_LEN + 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_info(WHO, "%s: %s", s->ifaces[i].status.name, text);
	events_emit(control_events(s->control), &(struct event_note){.kind = EVENT_interface},
		    "%s: %s", s->ifaces[i].status.name, text);
}

static void set_state(struct supervisor *s, unsigned i, enum iface_state state, const char *reason)
{
	struct iface_status *now = &s->ifaces[i].status;

	if (now->state == state && strcmp(now->reason, reason) == 0)
		return;
	now->state = state;
	snprintf(now->reason, sizeof(now->reason), "%s", reason);
	tell(s, i, "%s%s%s%s", iface_state_names[state], *reason ? " (" : "", reason,
	     *reason ? ")" : "");
}

static void show(struct supervisor *s)
{
	const struct xsk_iface *ifaces;

	(void)xsk_ifaces(s->xsk, &ifaces);
	for (unsigned i = 0; i < s->n; i++) {
		struct iface_status *now = &s->ifaces[i].status;

		now->ifindex = ifaces[i].ifindex;
		now->n_queues = now->ifindex ? ifaces[i].n_queues : 0;
		now->n_bound = now->ifindex ? xsk_iface_n_bound(s->xsk, i) : 0;
		now->mtu = ifaces[i].mtu;
	}
	pthread_mutex_lock(&s->mutex);
	for (unsigned i = 0; i < s->n; i++)
		s->shown[i] = s->ifaces[i].status;
	pthread_mutex_unlock(&s->mutex);
}

/* --- one interface -------------------------------------------------------------------------------
 */

static bool describe_stall(const struct supervisor *s, unsigned i, unsigned n_queues,
			   char reason[IFACE_REASON_LEN])
{
	for (unsigned q = 0; q < n_queues && q < STEER_QUEUES_MAX; q++) {
		enum xsk_stall stall = xsk_queue_stall(s->xsk, i, q);
		if (stall == XSK_RUNS)
			continue;
		snprintf(reason, IFACE_REASON_LEN, "queue %u stands still: %s", q,
			 stall == XSK_STALL_RX ? "frames sent to its socket do not arrive"
					       : "frames to be sent are not taken");
		return true;
	}
	return false;
}

/* What an interface that is bound lacks, as a reason; "" = nothing. */
static void find_fault(const struct supervisor *s, unsigned i, const struct xsk_iface *f,
		       char reason[IFACE_REASON_LEN])
{
	unsigned limit = xsk_mtu_limit(s->xsk), n_workers = xsk_n_workers(s->xsk);

	*reason = '\0';
	if (!s->ifaces[i].carrier)
		snprintf(reason, IFACE_REASON_LEN, "there is no carrier");
	else if (describe_stall(s, i, f->n_queues, reason))
		;
	else if (f->mtu > limit)
		snprintf(reason, IFACE_REASON_LEN,
			 "its MTU is %u, but frames of more than %u bytes of IP are dropped: "
			 "ip link set dev %s mtu %u, or restart concuryd",
			 f->mtu, limit, f->name, limit);
	else if (f->n_queues < n_workers)
		snprintf(reason, IFACE_REASON_LEN,
			 "it has %u RX queues for %u workers, so not all of them can send by it: "
			 "ethtool -L %s, or restart concuryd",
			 f->n_queues, n_workers, f->name);
}

static void lose(struct supervisor *s, unsigned i)
{
	struct supervised *v = &s->ifaces[i];

	xsk_iface_drop(s->xsk, i, &s->pause);
	control_move_iface(s->control, i, 0);
	v->unfit = true;
	v->retry_ms = 0;
	v->retry_after_ms = RETRY_MIN_MS;
	set_state(s, i, IFACE_GONE, "it was deleted or moved away");
}

static void settle(struct supervisor *s, unsigned i, const struct netdev_link *link)
{
	const struct xsk_iface *ifaces;
	char reason[IFACE_REASON_LEN];

	(void)xsk_ifaces(s->xsk, &ifaces);
	s->ifaces[i].carrier = link->carrier;
	if (!link->up) {
		set_state(s, i, IFACE_DOWN, "");
		return;
	}
	find_fault(s, i, &ifaces[i], reason);
	set_state(s, i, IFACE_UP, reason);
}

/* Have all of it bound, whatever of it is. */
static void rebind(struct supervisor *s, unsigned i, uint64_t now_ms)
{
	struct supervised *v = &s->ifaces[i];
	const struct xsk_iface *ifaces;
	struct netdev_link link;
	struct error err = {""};

	(void)xsk_ifaces(s->xsk, &ifaces);
	int was = ifaces[i].ifindex;
	unsigned n_was = xsk_iface_n_bound(s->xsk, i);
	int rc = was ? xsk_iface_fit(s->xsk, i, &s->pause, &err)
		     : xsk_iface_take(s->xsk, i, &s->pause, &err);
	int ifindex = ifaces[i].ifindex;
	if (ifindex != was)
		control_move_iface(s->control, i, ifindex);
	v->unfit = rc < 0;
	if (rc < 0) {
		set_state(s, i, IFACE_REBINDING, err.message);
		v->retry_ms = now_ms + v->retry_after_ms;
		v->retry_after_ms *= 2;
		if (v->retry_after_ms > RETRY_MAX_MS)
			v->retry_after_ms = RETRY_MAX_MS;
		return;
	}
	v->retry_after_ms = RETRY_MIN_MS;
	if (ifindex != was || xsk_iface_n_bound(s->xsk, i) != n_was ||
	    v->status.state == IFACE_REBINDING) {
		v->status.rebinds_total++;
		tell(s, i, "bound again, %u RX queues", ifaces[i].n_queues);
	}
	if (netdev_read_link(ifindex, &link))
		settle(s, i, &link);
}

/* True if a queue that stands still is to be bound anew now. */
static bool is_due(struct rest *r, uint64_t now_ms)
{
	if (now_ms < r->until_ms)
		return false;
	bool again = r->ms && now_ms < r->until_ms + REST_MAX_MS;
	r->ms = again ? 2 * r->ms : REST_MIN_MS;
	if (r->ms > REST_MAX_MS)
		r->ms = REST_MAX_MS;
	r->until_ms = now_ms + r->ms;
	return true;
}

static void look_at_rings(struct supervisor *s, unsigned i, const struct netdev_link *link,
			  uint64_t now_ms)
{
	struct supervised *v = &s->ifaces[i];
	const struct xsk_iface *ifaces;
	char reason[IFACE_REASON_LEN];
	bool dropped = false;

	xsk_look_at_queues(s->xsk, i, link->up && link->carrier);
	(void)xsk_ifaces(s->xsk, &ifaces);
	for (unsigned q = 0; q < ifaces[i].n_queues; q++) {
		if (xsk_queue_stall(s->xsk, i, q) == XSK_RUNS || !is_due(&v->rests[q], now_ms))
			continue;
		if (!dropped && describe_stall(s, i, ifaces[i].n_queues, reason))
			set_state(s, i, IFACE_REBINDING, reason);
		v->status.stalls_total++;
		xsk_queue_drop(s->xsk, i, q, &s->pause);
		dropped = true;
	}
	if (dropped)
		rebind(s, i, now_ms);
}

static void look_at(struct supervisor *s, unsigned i, bool rings, uint64_t now_ms)
{
	struct supervised *v = &s->ifaces[i];
	const struct xsk_iface *ifaces;
	struct netdev_link link;
	struct xsk_iface dev;
	struct error err;

	(void)xsk_ifaces(s->xsk, &ifaces);
	const struct xsk_iface *f = &ifaces[i];
	if (f->ifindex && (netdev_is_gone(f->ifindex) || xsk_iface_is_dead(s->xsk, i)))
		lose(s, i);
	if (v->unfit) {
		if (!f->ifindex && !if_nametoindex(f->name))
			set_state(s, i, IFACE_GONE, "it was deleted or moved away");
		else if (now_ms >= v->retry_ms)
			rebind(s, i, now_ms);
		return;
	}
	if (!netdev_read_link(f->ifindex, &link) || netdev_read(link.name, &dev, &err))
		return; /* it goes just now, or cannot be looked at */
	if (dev.n_queues != f->n_queues || dev.mtu != f->mtu) {
		if (dev.mtu != f->mtu)
			tell(s, i, "its MTU is %u now", dev.mtu);
		if (dev.n_queues != f->n_queues) {
			char reason[IFACE_REASON_LEN];

			snprintf(reason, sizeof(reason), "it has %u RX queues now, not %u",
				 dev.n_queues, f->n_queues);
			set_state(s, i, IFACE_REBINDING, reason);
		}
		rebind(s, i, now_ms);
		return;
	}
	settle(s, i, &link);
	if (rings)
		look_at_rings(s, i, &link, now_ms);
}

/* --- the whole -----------------------------------------------------------------------------------
 */

unsigned supervisor_tick(struct supervisor *s)
{
	uint64_t now_ms = clock_now_ms();
	bool rings = now_ms >= s->look_ms;

	if (rings)
		s->look_ms = now_ms + XSK_LOOK_MS;
	xsk_follow_macs(s->xsk);
	for (unsigned i = 0; i < s->n; i++)
		look_at(s, i, rings, now_ms);
	show(s);
	now_ms = clock_now_ms();
	return now_ms < s->look_ms ? (unsigned)(s->look_ms - now_ms) : 0;
}

unsigned supervisor_read(struct supervisor *s, struct iface_status out[IFACES_MAX])
{
	pthread_mutex_lock(&s->mutex);
	memcpy(out, s->shown, s->n * sizeof(*out));
	pthread_mutex_unlock(&s->mutex);
	return s->n;
}

static void run_paused(void *ctx, void (*fn)(void *arg), void *arg)
{
	control_pause(ctx, fn, arg);
}

int supervisor_new(struct xsk *x, struct control *control, struct supervisor **out)
{
	struct supervisor *s = calloc(1, sizeof(*s));
	const struct xsk_iface *ifaces;

	if (!s)
		return -ENOMEM;
	s->xsk = x;
	s->control = control;
	s->pause = (struct xsk_pause){control, run_paused};
	s->n = xsk_ifaces(x, &ifaces);
	for (unsigned i = 0; i < s->n; i++) {
		struct supervised *v = &s->ifaces[i];
		struct netdev_link link;

		memcpy(v->status.name, ifaces[i].name, sizeof(v->status.name));
		v->status.program_id = xsk_program_id(x, i);
		v->retry_after_ms = RETRY_MIN_MS;
		if (netdev_read_link(ifaces[i].ifindex, &link) && !link.up)
			v->status.state = IFACE_DOWN;
		v->carrier = true;
	}
	pthread_mutex_init(&s->mutex, NULL);
	show(s);
	*out = s;
	return 0;
}

void supervisor_free(struct supervisor *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->mutex);
	free(s);
}
