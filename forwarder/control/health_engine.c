/* One thread checks all DIPs, without ever blocking but in its epoll_wait and in its calls of
 * control. A target starts a check when it is due, and is due again an interval (give or take the
 * jitter) after that start, or at once if the check took longer. What a check ends with goes
 * through the target's state, and reaches control with the next batch: at once if a verdict has
 * changed, else some times a second. Every report bears the verdict, so one that control could not
 * use (its VIP was being changed) is mended by the next.
 *
 * Control is asked anew what there is to check whenever its epoch says that this may have changed,
 * and, for checks of type agent, for when the agents have last been heard of. */
#include "control/health_engine.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/log.h"
#include "control/health_targets.h"

#define EVENTS_MAX 256
#define LOOK_MS                                                                                    \
	100u /* between two looks at control's epoch, and two reports without a new verdict */
#define STARTS_MAX 512u /* between two looks at the sockets */
#define SKIP_MS 1000u	/* to the next attempt at a check that could not be made */

struct health_engine {
	struct check_loop loop; /* first: a check knows it, and so its engine */
	struct control *control;
	struct targets targets;
	uint64_t epoch;
	bool synced;
	uint64_t look_ms; /* of the last look at control */
	bool any_agent;
	bool urgent; /* a verdict has changed */
	bool any_news;
	uint64_t told_ms;
	int stop_fd;
	bool stop;
	pthread_t thread;
};

/* --- results -------------------------------------------------------------------------------- */

static uint64_t with_jitter(const struct health_conf *c)
{
	uint64_t width = c->interval_ms * (uint64_t)c->jitter_percent / 100;

	return c->interval_ms - width + entropy_u64() % (2 * width + 1);
}

static void plan_next(struct targets *t, struct target *target)
{
	uint64_t now_ms = clock_now_ms();
	uint64_t next_ms = target->started_ns / 1000000 + with_jitter(&target->spec->conf);

	targets_move(t, target, next_ms > now_ms ? next_ms : now_ms);
}

static void take_result(struct health_engine *e, struct target *target, bool ok, const char *error)
{
	const struct health_conf *conf = &target->spec->conf;
	const struct health_rules rules = {
		.rise = conf->rise, .fall = conf->fall, .half_life_s = conf->damping_half_life_s};
	struct health_stats *s = &target->stats;

	e->urgent |= health_state_result(&target->state, &rules, ok, clock_now_ms());
	s->checks_total++;
	s->failed_total += !ok;
	s->last_check_ms = clock_wall_ms();
	s->latency_us = (uint32_t)((clock_now_ns() - target->started_ns) / 1000);
	s->consecutive = target->state.consecutive;
	s->last_ok = ok;
	s->damped = target->state.damped;
	if (!ok)
		snprintf(s->last_error, sizeof(s->last_error), "%s", error);
	target->news = e->any_news = true;
}

static void on_end(struct check *c, enum check_result result, const char *error)
{
	static struct log_limit limit = {.interval_ms = 10000, .burst = 1};
	struct health_engine *e = (struct health_engine *)(void *)c->loop;
	struct target *target = (struct target *)(void *)c;
	uint64_t n_suppressed;

	target->running = false;
	if (result != CHECK_SKIPPED) {
		take_result(e, target, result == CHECK_PASSED, error);
		plan_next(&e->targets, target);
		return;
	}
	if (log_limit_pass(&limit, &n_suppressed))
		log_warning("health",
			    "a check could not be made (%s); %llu others neither since the last "
			    "such line",
			    error, (unsigned long long)n_suppressed);
	targets_move(&e->targets, target, clock_now_ms() + SKIP_MS);
}

static void check_agent(struct health_engine *e, struct target *target)
{
	const struct health_conf *conf = &target->spec->conf;
	uint64_t allowed_ms = (uint64_t)conf->interval_ms + conf->timeout_ms;
	uint64_t now_ms = clock_now_ms();
	char error[HEALTH_CAUSE_LEN] = "no agent has reported for it";

	if (target->dip.agent_ms)
		snprintf(error, sizeof(error), "its agent was last heard of %llu ms ago",
			 (unsigned long long)(now_ms - target->dip.agent_ms));
	take_result(e, target, target->dip.agent_ms && now_ms - target->dip.agent_ms <= allowed_ms,
		    error);
	plan_next(&e->targets, target);
}

/* --- what is due ---------------------------------------------------------------------------- */

static void run_target(struct health_engine *e, struct target *target, uint64_t now_ms)
{
	const struct health_conf *conf = &target->spec->conf;
	char error[HEALTH_CAUSE_LEN];

	if (target->running) {
		check_abort(&target->check);
		snprintf(error, sizeof(error), "no answer within %u ms", conf->timeout_ms);
		on_end(&target->check, CHECK_FAILED, error);
		return;
	}
	target->started_ns = clock_now_ns();
	if (conf->type == HEALTH_AGENT) {
		check_agent(e, target);
		return;
	}
	target->running = true;
	targets_move(&e->targets, target, now_ms + conf->timeout_ms);
	check_start(&target->check);
}

static void run_due(struct health_engine *e)
{
	uint64_t now_ms = clock_now_ms();

	check_http_timer(&e->loop);
	for (unsigned n = 0; n < STARTS_MAX; n++) {
		struct target *first = targets_first(&e->targets);
		if (!first || first->due_ms > now_ms)
			break;
		run_target(e, first, now_ms);
	}
}

/* --- control -------------------------------------------------------------------------------- */

static void report(struct health_engine *e)
{
	struct health_report *list;
	unsigned n = 0;

	if (!e->any_news || (!e->urgent && clock_now_ms() - e->told_ms < LOOK_MS))
		return;
	for (unsigned i = 0; i < e->targets.n; i++)
		n += e->targets.list[i]->news;
	list = malloc((n + 1) * sizeof(*list));
	if (!list)
		return; /* the news stay */
	n = 0;
	for (unsigned i = 0; i < e->targets.n; i++) {
		struct target *t = e->targets.list[i];
		if (!t->news)
			continue;
		t->news = false;
		list[n++] = (struct health_report){.vip_slot = t->dip.vip_slot,
						   .dip_index = t->dip.dip_index,
						   .vip_uid = t->dip.vip_uid,
						   .dip_uid = t->dip.dip_uid,
						   .verdict = t->state.verdict,
						   .stats = t->stats};
	}
	control_set_health(e->control, list, n);
	free(list);
	e->any_news = e->urgent = false;
	e->told_ms = clock_now_ms();
}

static void find_agents(struct health_engine *e)
{
	e->any_agent = false;
	for (unsigned i = 0; i < e->targets.n; i++)
		e->any_agent |= e->targets.list[i]->spec->conf.type == HEALTH_AGENT;
}

static void look_at_control(struct health_engine *e)
{
	uint64_t now_ms = clock_now_ms();
	struct health_targets list;

	if (e->synced && now_ms - e->look_ms < LOOK_MS)
		return;
	e->look_ms = now_ms;
	uint64_t epoch = control_health_epoch(e->control);
	if (e->synced && epoch == e->epoch && !e->any_agent)
		return;
	int rc = control_list_health(e->control, &list);
	if (rc == 0)
		rc = targets_sync(&e->targets, &list, &e->loop, on_end);
	health_targets_free(&list);
	if (rc)
		return; /* no memory: the next look tries again */
	e->epoch = epoch;
	e->synced = true;
	find_agents(e);
}

/* --- the thread ----------------------------------------------------------------------------- */

static int wait_ms(const struct health_engine *e)
{
	uint64_t now_ms = clock_now_ms(), until_ms = e->look_ms + LOOK_MS;
	const struct target *first = targets_first(&e->targets);

	if (first && first->due_ms < until_ms)
		until_ms = first->due_ms;
	if (check_http_due_ms(&e->loop) < until_ms)
		until_ms = check_http_due_ms(&e->loop);
	return until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
}

static void wait_for_events(struct health_engine *e)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(e->loop.epoll_fd, events, EVENTS_MAX, wait_ms(e));

	for (int i = 0; i < n; i++) {
		uint64_t data = events[i].data.u64;
		if (data == 0)
			e->stop = true;
		else if (data & CHECK_HTTP_EVENT)
			check_http_event(&e->loop, (int)(uint32_t)data, events[i].events);
		else
			check_event(events[i].data.ptr);
	}
}

static void *engine_main(void *arg)
{
	struct health_engine *e = arg;

	while (!e->stop) {
		look_at_control(e);
		run_due(e);
		report(e);
		wait_for_events(e);
	}
	e->urgent = true;
	report(e);
	return NULL;
}

/* --- life ----------------------------------------------------------------------------------- */

/* Each check takes a descriptor, and the usual limit is 1,024. */
static void raise_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == l.rlim_max)
		return;
	l.rlim_cur = l.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &l))
		log_warning("health", "the limit of open files stays as it is: %s",
			    strerror(errno));
}

static int start_thread(struct health_engine *e)
{
	sigset_t all, old;

	sigfillset(&all); /* signals are the main thread's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&e->thread, NULL, engine_main, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_setname_np(e->thread, "health");
	return -rc;
}

static void engine_free(struct health_engine *e)
{
	targets_free(&e->targets);
	check_http_close(&e->loop);
	if (e->loop.epoll_fd >= 0)
		close(e->loop.epoll_fd);
	if (e->stop_fd >= 0)
		close(e->stop_fd);
	free(e);
}

int health_engine_start(struct control *c, struct health_engine **out, struct error *err)
{
	struct health_engine *e = calloc(1, sizeof(*e));
	struct epoll_event event = {.events = EPOLLIN};

	if (!e)
		return error_set(err, -ENOMEM, "out of memory");
	e->control = c;
	e->loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	e->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	raise_limit();
	int rc = e->loop.epoll_fd < 0 || e->stop_fd < 0 ||
				 epoll_ctl(e->loop.epoll_fd, EPOLL_CTL_ADD, e->stop_fd, &event)
			 ? -errno
			 : start_thread(e);
	if (rc) {
		engine_free(e);
		return error_set(err, rc, "health checks: %s", strerror(-rc));
	}
	*out = e;
	return 0;
}

void health_engine_stop(struct health_engine *e)
{
	const uint64_t one = 1;

	if (!e)
		return;
	if (write(e->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(e->thread, NULL);
	engine_free(e);
}
