/* The control thread: a loop of short steps. Every step drains the rings first, because nothing
 * else control does may keep it from learning: long work (plans, commits) breathes in between. */
#include "control/control.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/priority.h"
#include "control/announce.h"

#define EXPIRE_INTERVAL_MS 100u
#define BUSY_SLEEP_MS 1	 /* while records come */
#define IDLE_SLEEP_MS 10 /* else; an idle ring takes 3 million records a second for that long */
#define BUSY_AFTER_RECORD_MS 100u

/* --- calls --------------------------------------------------------------------------------- */

void control_wake(struct control *c)
{
	uint64_t one = 1;

	if (write(c->wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, so the reader will wake anyway */
}

void control_call(struct control *c, void (*fn)(struct control *c, void *arg), void *arg)
{
	struct queued_call call = {.fn = fn, .arg = arg};

	pthread_mutex_lock(&c->mutex);
	if (!c->running) {
		/* One-threaded use, or control has ended: nobody else touches the state. */
		fn(c, arg);
		pthread_mutex_unlock(&c->mutex);
		return;
	}
	call.next = c->calls;
	/* It is waited for below, so it may lie on the stack. */
	/* cppcheck-suppress autoVariables */
	c->calls = &call;
	control_wake(c);
	while (!call.done)
		pthread_cond_wait(&c->answered, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
}

static bool run_calls(struct control *c)
{
	pthread_mutex_lock(&c->mutex);
	struct queued_call *list = c->calls;
	c->calls = NULL;
	pthread_mutex_unlock(&c->mutex);
	if (!list)
		return false;
	for (struct queued_call *q = list; q; q = q->next)
		q->fn(c, q->arg);
	pthread_mutex_lock(&c->mutex);
	while (list) {
		struct queued_call *next =
			list->next; /* the caller's stack: gone once done is seen */
		list->done = true;
		list = next;
	}
	pthread_cond_broadcast(&c->answered);
	pthread_mutex_unlock(&c->mutex);
	return true;
}

void control_change_async(struct control *c, struct control_request *r, bool *done)
{
	struct queued_change *q = calloc(1, sizeof(*q));

	*done = false;
	pthread_mutex_lock(&c->mutex);
	if (!q || c->stop) {
		r->status = CONTROL_UNAVAILABLE;
		r->retry_after_s = 1;
		*done = true;
		free(q);
	} else {
		q->request = r;
		q->done = done;
		*c->changes_end = q;
		c->changes_end = &q->next;
		control_wake(c);
	}
	pthread_mutex_unlock(&c->mutex);
}

void control_change(struct control *c, struct control_request *r)
{
	bool done;

	control_change_async(c, r, &done);
	pthread_mutex_lock(&c->mutex);
	while (!done)
		pthread_cond_wait(&c->answered, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
}

/* --- the loop ------------------------------------------------------------------------------ */

void control_breathe(struct control *c)
{
	FAULT_POINT();
	control_drain(c, UINT64_MAX);
	run_calls(c);
	FAULT_POINT();
}

static bool run_due(struct control *c)
{
	uint64_t now = clock_now_ms();
	struct batch b = {0};
	struct error err;

	if (now - c->last_expire_ms < EXPIRE_INTERVAL_MS)
		return false;
	c->last_expire_ms = now;
	if (c->hold_until_ms && now >= c->hold_until_ms)
		control_end_hold(c);
	control_expire(c, now);
	if (c->conf.next_hops.poll(c->conf.next_hops.ctx, now))
		c->hops_changed = true;
	if (c->hops_changed)
		control_refresh_hops(c);
	ways_back_tick(c, now);
	announce_violations(c);
	announce_overload(c);
	events_tick(c->events);
	control_collect_due(c, &b, now);
	bool due = b.n != 0 || c->committed_in_vain;
	if (due && control_publish(c, &b, &err))
		log_warning("control", "a due publish failed, it is tried again (%s)", err.message);
	batch_destroy(c, &b);
	return due;
}

bool control_step(struct control *c)
{
	bool busy = control_drain(c, UINT64_MAX) != 0;

	busy |= run_calls(c);
	FAULT_POINT();
	busy |= control_run_changes(c);
	busy |= control_run_overrides(c);
	busy |= control_run_health(c);
	busy |= control_run_audit(c);
	busy |= run_due(c);
	return busy;
}

static void wait_for_work(struct control *c)
{
	struct pollfd fds[2] = {{.fd = c->wake_fd, .events = POLLIN},
				{.fd = c->conf.next_hops.fd, .events = POLLIN}};
	bool recent = clock_now_ms() - c->last_record_ms < BUSY_AFTER_RECORD_MS;
	uint64_t count;

	if (poll(fds, 2, recent ? BUSY_SLEEP_MS : IDLE_SLEEP_MS) > 0) {
		if ((fds[0].revents & POLLIN) && read(c->wake_fd, &count, sizeof(count)) < 0)
			return;
		if (fds[1].revents & POLLIN)
			c->hops_changed |=
				c->conf.next_hops.poll(c->conf.next_hops.ctx, clock_now_ms());
	}
}

static void *control_main(void *arg)
{
	struct control *c = arg;

	(void)priority_raise(); /* workers wait for it while they are parked */
	for (;;) {
		pthread_mutex_lock(&c->mutex);
		bool stop = c->stop;
		pthread_mutex_unlock(&c->mutex);
		if (stop)
			break;
		if (!control_step(c))
			wait_for_work(c);
	}
	return NULL;
}

/* --- life ---------------------------------------------------------------------------------- */

int control_start(struct control *c, struct error *err)
{
	c->running = true;
	int rc = pthread_create(&c->thread, NULL, control_main, c);
	if (rc) {
		c->running = false;
		return error_set(err, -rc, "control: no thread (%s)", strerror(rc));
	}
	pthread_setname_np(c->thread, "control");
	return 0;
}

static void refuse_waiting(struct control *c)
{
	for (struct queued_change *q = c->changes; q;) {
		struct queued_change *next = q->next;
		q->request->status = CONTROL_UNAVAILABLE;
		q->request->retry_after_s = 1;
		*q->done = true;
		free(q);
		q = next;
	}
	c->changes = NULL;
	c->changes_end = &c->changes;
	control_refuse_audits(c);
	control_refuse_overrides(c);
	pthread_cond_broadcast(&c->answered);
}

void control_stop(struct control *c)
{
	pthread_mutex_lock(&c->mutex);
	bool joinable = c->running;
	c->stop = true;
	control_wake(c);
	pthread_mutex_unlock(&c->mutex);
	if (!joinable)
		return;
	pthread_join(c->thread, NULL);
	/* Calls that came after the last step are answered here. */
	run_calls(c);
	pthread_mutex_lock(&c->mutex);
	c->running = false;
	refuse_waiting(c);
	pthread_mutex_unlock(&c->mutex);
	run_calls(c);
}

static int control_init(struct control *c, const struct control_config *conf)
{
	c->conf = *conf;
	c->changes_end = &c->changes;
	vip_index_init(&c->index);
	pthread_mutex_init(&c->mutex, NULL);
	pthread_cond_init(&c->answered, NULL);
	c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	c->free_counters = malloc(DIP_COUNTERS_MAX * sizeof(*c->free_counters));
	c->snapshot = snapshot_new(0, 0);
	if (c->wake_fd < 0 || !c->free_counters || !c->snapshot)
		return -ENOMEM;
	while (c->n_free_counters < DIP_COUNTERS_MAX) {
		c->free_counters[c->n_free_counters] = DIP_COUNTERS_MAX - 1 - c->n_free_counters;
		c->n_free_counters++;
	}
	for (unsigned i = 0; i < conf->n_workers; i++)
		worker_set_snapshot(conf->workers[i], c->snapshot);
	return flow_table_init(&c->flows, state_file_slots(conf->state),
			       (uint32_t)state_file_n_flows(conf->state));
}

int control_new(const struct control_config *conf, struct persist_state *boot, struct control **out,
		struct error *err)
{
	struct control *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return error_set(err, -ENOMEM, "out of memory");
	rc = control_init(c, conf);
	if (!rc) {
		host_links_fill(c);
		host_links_steer(c);
	}
	if (!rc)
		rc = agents_init(&c->agents, boot);
	if (!rc) {
		c->events = events_new(c->agents.instance);
		rc = c->events ? 0 : -ENOMEM;
	}
	if (rc)
		error_set(err, rc, "control: out of memory or file descriptors");
	else
		rc = control_boot(c, boot, err);
	if (!rc)
		announce_start(c);
	persist_state_free(boot);
	if (rc) {
		control_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

struct events *control_events(struct control *c)
{
	return c->events;
}

void control_free(struct control *c)
{
	if (!c)
		return;
	refuse_waiting(c);
	for (unsigned i = 0; i < c->conf.n_workers; i++)
		worker_set_snapshot(c->conf.workers[i], NULL);
	snapshot_free(c->snapshot);
	ways_back_destroy(&c->ways_back);
	for (unsigned i = 0; i < VIP_SLOTS + c->n_zombies; i++) {
		struct vip_runtime *v = i < VIP_SLOTS ? c->vips[i] : c->zombies[i - VIP_SLOTS];
		if (!v)
			continue;
		v->flows.n = 0; /* the slots stay in the state file for the next process */
		vip_runtime_free(c, v);
	}
	flow_table_destroy(&c->flows);
	agents_destroy(&c->agents);
	events_free(c->events);
	free(c->zombies);
	free(c->stale_uids);
	free(c->free_counters);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	pthread_cond_destroy(&c->answered);
	pthread_mutex_destroy(&c->mutex);
	free(c);
}
