/* concury-agent: one thread, one loop. It wakes for the kernel's destroy events, for answers, for
 * signals, and once an interval to look at all sockets and report.
 *
 * An agent is in one of three states. GREETING: it knows nothing of the forwarder yet, and asks
 * with an empty report, which is never applied, for the VIP and the clock. TELLING: all connections
 * go out in the parts of a full report. IN_STEP: what is new goes out, or that nothing is. One
 * report is on its way at a time and is kept until it is acknowledged; a lost one goes out again
 * under its number. Whatever cannot be mended so (the forwarder has restarted, too many ends came
 * together) leads back to TELLING.
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
#include "base/entropy.h"
#include "base/log.h"

#define BACK_OFF_AFTER 10u /* failures in a row that are tried again at the next interval */
#define BACK_OFF_MAX_MS 30000u
#define DUMP_SHARE 5u /* reading the sockets may take one part of so many of the time */

enum agent_mode { GREETING, TELLING, IN_STEP };

struct agent {
	const struct agent_options *o;
	struct agent_sockets *sockets;
	struct agent_orphans *orphans; /* NULL: not permitted */
	struct agent_post *post;
	struct agent_table *table;
	struct agent_state state;
	struct agent_outgoing out; /* n and sequence hold while `waiting` */
	bool waiting;		   /* out is not acknowledged */
	enum agent_mode mode;
	bool begin; /* TELLING: from its first part */
	unsigned n_vips;
	struct agent_vip vips[AGENT_VIPS_MAX];
	char forwarder[17]; /* instance */
	unsigned n_failures;
	uint64_t tick_ms;    /* next look at all sockets */
	uint64_t send_ms;    /* nothing is sent before */
	uint64_t drained_ms; /* when there was no event left to read */
};

/* --- looking -------------------------------------------------------------------------------------
 */

static void look_at_all(struct agent *a)
{
	uint64_t start = clock_now_ms();
	static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
	uint64_t suppressed;
	struct error err;

	if (a->n_vips && agent_sockets_dump(a->sockets, a->table, a->vips, a->n_vips, &err) &&
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
	int rc = agent_sockets_destroyed(a->sockets, a->table, a->vips, a->n_vips, at_ms);

	a->drained_ms = now;
	if (rc && log_limit_pass(&limit, &suppressed))
		log_warning("agent", "ends were missed, the next look finds them (%s)",
			    strerror(-rc));
	if (a->orphans)
		a->state.orphans += agent_orphans_read(a->orphans, a->vips, a->n_vips);
}

/* --- telling -------------------------------------------------------------------------------------
 */

static void read_load(struct agent *a)
{
	double average = 0;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	a->state.connections = agent_table_open(a->table);
	a->state.cpus = cpus > 0 ? (unsigned)cpus : 1;
	if (getloadavg(&average, 1) == 1)
		a->state.load_percent = (unsigned)(average * 100 / a->state.cpus);
}

static void begin_telling(struct agent *a)
{
	a->mode = TELLING;
	a->begin = true;
	a->waiting = false;
}

/* The next report, under the next number. */
static void make_report(struct agent *a)
{
	struct agent_outgoing *r = &a->out;

	if (agent_table_overflowed(a->table) && a->mode != GREETING)
		begin_telling(a);
	if (a->mode == TELLING && a->begin) {
		/* Twice: what one dump passed by, the other shows. */
		look_at_all(a);
		look_at_all(a);
		agent_table_all_news(a->table);
		r->part = 0;
		a->begin = false;
	}
	r->sequence++;
	r->full = a->mode == TELLING;
	r->n = a->mode == GREETING ? 0 : agent_table_take(a->table, r->news, AGENT_NEWS_MAX);
	r->more = agent_table_has_news(a->table);
}

static void send_next(struct agent *a)
{
	if (!a->waiting)
		make_report(a);
	a->waiting = true;
	read_load(a);
	if (agent_post_send(a->post, &a->out, &a->state)) {
		log_error("agent", "out of memory");
		a->send_ms = clock_now_ms() + a->o->interval_ms;
	}
}

/* --- hearing -------------------------------------------------------------------------------------
 */

static void learn_vips(struct agent *a, const struct agent_reply *r)
{
	if (a->o->n_vips ||
	    (a->n_vips == r->n_vips && !memcmp(a->vips, r->vips, r->n_vips * sizeof(r->vips[0]))))
		return;
	memcpy(a->vips, r->vips, sizeof(a->vips));
	a->n_vips = r->n_vips;
	agent_table_clear(a->table);
	for (unsigned i = 0; i < a->n_vips; i++) {
		char address[IP_ADDR_STRLEN];
		log_info("agent", "watching %s port %u",
			 ip_addr_format(&a->vips[i].address, address), a->vips[i].port);
	}
	if (a->mode != GREETING)
		begin_telling(a);
}

static void on_failure(struct agent *a, const struct agent_reply *r)
{
	uint64_t delay = a->o->interval_ms;

	if (a->n_failures++ == 0)
		log_warning("agent", "%s: %s; trying on", a->o->url, r->error);
	for (unsigned n = BACK_OFF_AFTER; n < a->n_failures && delay < BACK_OFF_MAX_MS; n++)
		delay *= 2;
	a->send_ms = clock_now_ms() + (delay < BACK_OFF_MAX_MS ? delay : BACK_OFF_MAX_MS);
	/* Told that the report is not one: sending it again would not help. */
	if (r->status == 400 || r->status == 413 || r->status == 422)
		begin_telling(a);
}

static void on_applied(struct agent *a)
{
	a->waiting = false;
	if (a->mode != TELLING)
		return;
	a->out.part++;
	if (a->out.more)
		return;
	a->mode = IN_STEP;
	log_info("agent", "in step with %s (%llu connections)", a->o->url,
		 (unsigned long long)agent_table_open(a->table));
}

static void on_reply(struct agent *a, const struct agent_reply *r)
{
	static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
	uint64_t now = clock_now_ms(), suppressed;

	if (r->status != 200) {
		on_failure(a, r);
		return;
	}
	if (a->n_failures)
		log_info("agent", "%s answers again", a->o->url);
	a->n_failures = 0;
	if (strcmp(a->forwarder, r->instance) != 0 && a->forwarder[0])
		log_info("agent", "concuryd has restarted");
	memcpy(a->forwarder, r->instance, sizeof(a->forwarder));
	/* The answer was made before it came: so this is never ahead of the forwarder's clock. */
	a->state.clock_base_ms = r->clock_ms - now;
	a->state.clock_known = true;
	if (r->refused && log_limit_pass(&limit, &suppressed))
		log_warning("agent", "%u connections refused: concuryd has them on another DIP",
			    r->refused);
	if (a->mode == GREETING) {
		a->out.sequence = r->ack; /* the greeting was not applied */
		begin_telling(a);
	} else if (r->ack == a->out.sequence && !r->resync) {
		on_applied(a);
	} else {
		begin_telling(a);
	}
	learn_vips(a, r);
	a->send_ms = a->mode == TELLING || agent_table_has_news(a->table) ? now : a->tick_ms;
}

/* --- the loop ------------------------------------------------------------------------------------
 */

static unsigned time_left(const struct agent *a, uint64_t now)
{
	uint64_t next = a->tick_ms;

	if (!agent_post_busy(a->post) && a->send_ms < next)
		next = a->send_ms;
	return next > now ? (unsigned)(next - now) : 0;
}

static void run(struct agent *a, int signals)
{
	struct curl_waitfd fds[3] = {
		{.fd = agent_sockets_fd(a->sockets), .events = CURL_WAIT_POLLIN},
		{.fd = signals, .events = CURL_WAIT_POLLIN},
		{.fd = a->orphans ? agent_orphans_fd(a->orphans) : -1, .events = CURL_WAIT_POLLIN}};
	struct signalfd_siginfo info;
	struct agent_reply reply;

	a->drained_ms = clock_now_ms();
	for (;;) {
		uint64_t now = clock_now_ms();
		if (now >= a->tick_ms)
			look_at_all(a);
		if (!agent_post_busy(a->post) && now >= a->send_ms)
			send_next(a);
		now = clock_now_ms();
		bool answered = agent_post_wait(a->post, fds, a->orphans ? 3 : 2, time_left(a, now),
						&reply);
		read_events(a, clock_now_ms() - now);
		if (answered)
			on_reply(a, &reply);
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
	a->table = agent_table_new();
	if (!rc && !a->table)
		rc = error_set(err, -ENOMEM, "out of memory");
	if (!rc && agent_orphans_open(&a->orphans, err)) {
		log_warning("agent", "orphans are not counted (%s)", err->message);
		a->orphans = NULL;
	}
	snprintf(a->state.instance, sizeof(a->state.instance), "%016llx",
		 (unsigned long long)entropy_u64());
	a->n_vips = a->o->n_vips;
	memcpy(a->vips, a->o->vips, sizeof(a->vips));
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
		agent_table_free(a->table);
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
		return puts("concury-agent " CONCURY_VERSION) < 0;
	default:
		return run_agent(&o);
	}
}
