/* concury-agent: one thread, one loop. It wakes for the kernel's destroy events, for answers, for
 * signals, and once an interval to look at all sockets and report. What it says is agent_talk.c's.
 *
 * An end must not be said to be later than it was, or it would end the next connection on its
 * tuple. The kernel's event says no time; it is taken for as old as the loop may have been busy. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "api/client/agent_orphans.h"
#include "api/client/agent_post.h"
#include "api/client/agent_sockets.h"
#include "base/clock.h"
#include "base/log.h"

#define DUMP_SHARE 5u /* reading the sockets may take one part of so many of the time */

struct agent {
	const struct agent_options *o;
	struct agent_sockets *sockets;
	struct agent_orphans *orphans; /* NULL: not permitted */
	struct agent_post *post;
	struct agent_talk talk;
	uint64_t tick_ms;    /* next look at all sockets */
	uint64_t drained_ms; /* when there was no event left to read */
};

/* --- looking -------------------------------------------------------------------------------------
 */

static void look_at_all(void *ctx)
{
	struct agent *a = ctx;
	struct agent_talk *t = &a->talk;
	uint64_t start = clock_now_ms();
	static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
	uint64_t suppressed;
	struct error err;

	if (t->n_vips && agent_sockets_dump(a->sockets, t->table, t->vips, t->n_vips, &err) &&
	    log_limit_pass(&limit, &suppressed))
		log_warning("agent", "%s", err.message);
	uint64_t took = clock_now_ms() - start;
	a->tick_ms = start + a->o->interval_ms;
	if (took * DUMP_SHARE > a->o->interval_ms)
		a->tick_ms = start + took * DUMP_SHARE;
}

static void read_events(struct agent *a, uint64_t waited_ms)
{
	uint64_t now = clock_now_ms();
	/* Woken out of a sleep: it was the event that woke us. */
	uint64_t at_ms = waited_ms > 1 ? now - 1 : a->drained_ms;
	static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
	uint64_t suppressed;
	struct agent_talk *t = &a->talk;
	int rc = agent_sockets_destroyed(a->sockets, t->table, t->vips, t->n_vips, at_ms);

	a->drained_ms = now;
	if (rc && log_limit_pass(&limit, &suppressed))
		log_warning("agent", "ends were missed, the next look finds them (%s)",
			    strerror(-rc));
	if (a->orphans)
		t->state.orphans += agent_orphans_read(a->orphans, t->vips, t->n_vips);
}

/* --- telling -------------------------------------------------------------------------------------
 */

static void read_load(struct agent_talk *t)
{
	double average = 0;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	t->state.connections = agent_table_open(t->table);
	t->state.cpus = cpus > 0 ? (unsigned)cpus : 1;
	if (getloadavg(&average, 1) == 1)
		t->state.load_percent = (unsigned)(average * 100 / t->state.cpus);
}

static void send_next(struct agent *a)
{
	const struct agent_outgoing *out = agent_talk_next(&a->talk);

	read_load(&a->talk);
	if (agent_post_send(a->post, out, &a->talk.state)) {
		log_error("agent", "out of memory");
		a->talk.send_ms = clock_now_ms() + a->o->interval_ms;
	}
}

/* --- the loop ------------------------------------------------------------------------------------
 */

static unsigned time_left(const struct agent *a, uint64_t now)
{
	uint64_t next = a->tick_ms;

	if (!agent_post_busy(a->post) && a->talk.send_ms < next)
		next = a->talk.send_ms;
	return next > now ? (unsigned)(next - now) : 0;
}

static void run(struct agent *a, int signals)
{
	struct curl_waitfd fds[4] = {
		{.fd = agent_sockets_fd(a->sockets), .events = CURL_WAIT_POLLIN},
		{.fd = signals, .events = CURL_WAIT_POLLIN},
		{.fd = agent_post_hangup_fd(a->post), .events = CURL_WAIT_POLLIN},
		{.fd = a->orphans ? agent_orphans_fd(a->orphans) : -1, .events = CURL_WAIT_POLLIN}};
	struct signalfd_siginfo info;
	struct agent_reply reply;

	a->drained_ms = clock_now_ms();
	for (;;) {
		uint64_t now = clock_now_ms();
		if (now >= a->tick_ms)
			look_at_all(a);
		if (!agent_post_busy(a->post) && now >= a->talk.send_ms)
			send_next(a);
		now = clock_now_ms();
		bool answered = agent_post_wait(a->post, fds, a->orphans ? 4 : 3, time_left(a, now),
						&reply);
		read_events(a, clock_now_ms() - now);
		if (answered)
			agent_talk_reply(&a->talk, &reply, a->tick_ms);
		if (agent_post_hung_up(a->post))
			agent_talk_hung_up(&a->talk);
		if (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
			log_info("agent", "%s: ending",
				 info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
			return;
		}
	}
}

static int open_all(struct agent *a, struct error *err)
{
	int rc = agent_sockets_open(&a->sockets, err);

	if (!rc)
		rc = agent_post_open(a->o, &a->post, err);
	if (!rc && agent_talk_init(&a->talk, a->o, look_at_all, a))
		rc = error_set(err, -ENOMEM, "out of memory");
	if (!rc && agent_orphans_open(&a->orphans, err)) {
		log_warning("agent", "orphans are not counted (%s)", err->message);
		a->orphans = NULL;
	}
	return rc;
}

static int run_agent(const struct agent_options *o)
{
	struct agent *a = calloc(1, sizeof(*a));
	struct error err = {"out of memory"};
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	int signals = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
	int rc = a && signals >= 0 ? 0 : -ENOMEM;
	if (!rc) {
		a->o = o;
		rc = open_all(a, &err);
	}
	if (rc) {
		log_error("agent", "%s", err.message);
	} else {
		log_info("agent", "version " CONCURY_VERSION ", %s to %s every %u ms", o->id,
			 o->url, o->interval_ms);
		run(a, signals);
	}
	if (a) {
		agent_post_close(a->post);
		agent_orphans_close(a->orphans);
		agent_sockets_close(a->sockets);
		agent_talk_destroy(&a->talk);
	}
	free(a);
	if (signals >= 0)
		close(signals);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct agent_options o;
	struct error err;

	if (agent_options_parse(argc, argv, &o, &err)) {
		log_error("agent", "%s", err.message);
		return 1;
	}
	switch (o.action) {
	case AGENT_HELP:
		return fputs(agent_help, stdout) < 0;
	case AGENT_VERSION:
		return puts("concury-agent " CONCURY_VERSION " (" CONCURY_COMMIT ")") < 0;
	default:
		return run_agent(&o);
	}
}
