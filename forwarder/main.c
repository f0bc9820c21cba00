/* concuryd: reads its options, puts the parts together, and waits for the signal to end.
 *
 * The order of the start follows from two promises. A start that fails leaves nothing attached, so
 * the steer program is attached late, when all that can be wrong about the machine or the options
 * has been found, and taken off again if a thread cannot be made after that, unless it was there
 * before us. And no packet of a VIP may reach the host's kernel from then on, so steer's maps are
 * filled before. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access.h"
#include "actions.h"
#include "api/server/http.h"
#include "api/server/traffic_history.h"
#include "api/server/web.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/priority.h"
#include "control/confine.h"
#include "control/health_engine.h"
#include "control/own_addresses.h"
#include "control/preflight.h"
#include "control/supervisor.h"
#include "control/watch.h"
#include "io/netdev.h"
#include "io/xdp_probe.h"
#include "worker/vlan.h"

#define TICK_MS 1000u

/* Of echo replies, and of answers to packets that are too big, by each worker: enough for every
 * path of many clients at once, and too little to be worth a flood of requests. */
#define ANSWERS_PER_S 1000u

_Static_assert(2 * OPTIONS_LISTEN_MAX <= LISTENERS_MAX, "every --listen gets a listener");

/* --- the daemon ---------------------------------------------------------------------------- */

struct daemon {
	const struct options *options;
	int signals; /* that end it, or have files read again: a signalfd */
	int link_events;
	struct tls *tls;
	struct http_server *http;
	struct web *web;
	struct store *store;
	struct xsk *xsk;
	struct state_file *state;
	struct neighbor *neighbor;
	struct control *control;
	struct health_engine *health;
	bool control_runs;
	struct supervisor *supervisor;
	struct watch *watch;
	unsigned n_queues;
	struct xsk_queue *queues; /* as they were at the start */
	unsigned n_workers;
	struct worker *workers[STATE_WORKERS_MAX];
	struct fragment_cache *fragments;
	struct host_links links;
	int cpus[STATE_WORKERS_MAX];
	bool attached_here[IFACES_MAX]; /* steer was not there before this process */
	struct api_live live;
	struct preflight machine;
	struct api_context api;
};

/* Worker i's CPU: the last ones, so that the first is left to control and the kernel; -1 when there
 * is none of its own. */
static void choose_cpus(struct daemon *d)
{
	int allowed[CPU_SETSIZE];
	unsigned n = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set))
		CPU_ZERO(&set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			allowed[n++] = cpu;
	bool pin = n > 1 && d->n_workers <= n;
	for (unsigned i = 0; i < d->n_workers; i++)
		d->cpus[i] = pin ? allowed[n - d->n_workers + i] : -1;
}

static int open_listeners(struct daemon *d, struct error *err)
{
	const struct options *o = d->options;
	const struct http_config c = {.n = o->n_listen,
				      .listen = o->listen,
				      .n_read_only = o->n_listen_read_only,
				      .listen_read_only = o->listen_read_only,
				      .has_tls = o->tls_cert != NULL};
	const struct tls_config files = {
		.cert = o->tls_cert, .key = o->tls_key, .client_ca = o->tls_client_ca};
	int rc = o->tls_cert ? tls_new(&files, &d->tls, err) : 0;

	if (!rc)
		rc = web_open(o->web, &d->web, err);
	d->api.web = d->web;
	return rc ? rc : http_open(&c, &d->http, err);
}

/* Refuses listeners by which anybody could ask. */
static int open_access(struct daemon *d, struct error *err)
{
	int rc = access_open(d->options, d->store, &d->api.auth, err);

	d->api.n_cors_origins = d->options->n_cors_origins;
	d->api.cors_origins = d->options->cors_origins;
	return rc ? rc : http_check(d->http, d->api.auth, err);
}

static int open_database(struct daemon *d, struct persist_state *boot, struct error *err)
{
	int rc = action_open_store(d->options, &d->store, err);
	if (!rc)
		rc = open_access(d, err);
	return rc ? rc : store_load(d->store, boot, err);
}

static int open_sockets(struct daemon *d, struct error *err)
{
	const struct options *o = d->options;
	struct xsk_config c = {
		.n_ifaces = o->n_ifaces, .n_workers = (unsigned)o->n_workers, .mode = o->xdp_mode};

	memcpy(c.ifaces, o->ifaces, sizeof(c.ifaces));
	int rc = xsk_open(&c, &d->xsk, err);
	if (rc)
		return rc;
	d->n_workers = xsk_n_workers(d->xsk);
	choose_cpus(d);
	return 0;
}

static int open_state(struct daemon *d, const struct persist_state *boot, struct error *err)
{
	struct state_file_config c = {.dir = d->options->state_dir,
				      .n_flows = d->options->n_flows,
				      .n_workers = d->n_workers};

	memcpy(c.database_id, boot->database_id, sizeof(c.database_id));
	return state_file_open(&c, &d->state, err);
}

static int make_workers(struct daemon *d, struct error *err)
{
	d->fragments = fragment_cache_new();
	if (!d->fragments)
		return error_set(err, -ENOMEM, "no memory for the cache of fragments");
	for (unsigned i = 0; i < d->n_workers; i++) {
		struct worker_config c = {.id = i,
					  .cpu = d->cpus[i],
					  .port = xsk_port(d->xsk, i),
					  .checksum = d->options->checksum,
					  .answers_per_s = ANSWERS_PER_S,
					  .fragments = d->fragments,
					  .links = &d->links};
		for (unsigned r = 0; r < N_LEARN_RINGS; r++)
			c.rings[r] = state_file_ring(d->state, i, (enum learn_ring_id)r);
		int rc = worker_new(&c, &d->workers[i]);
		if (rc)
			return error_set(err, rc, "worker %u: %s", i, strerror(-rc));
	}
	return 0;
}

/* Takes boot over. */
static int make_control(struct daemon *d, struct persist_state *boot, struct error *err)
{
	const struct xsk_iface *ifaces;
	struct control_config c = {.n_workers = d->n_workers,
				   .workers = d->workers,
				   .state = d->state,
				   .persist = store_persist(d->store),
				   .next_hops = neighbor_next_hops(d->neighbor),
				   .steering = xsk_steering(d->xsk),
				   .n_ifaces = xsk_ifaces(d->xsk, &ifaces),
				   .links = &d->links};

	for (unsigned i = 0; i < c.n_ifaces; i++)
		c.ifindexes[i] = ifaces[i].ifindex;
	return control_new(&c, boot, &d->control, err);
}

/* Everything up to, and without, what outlives a failed start. */
static int prepare(struct daemon *d, struct error *err)
{
	struct persist_state boot = {0};

	int rc = preflight_privileges(err);
	if (!rc)
		rc = action_find_interfaces(d->options, err);
	if (!rc)
		rc = open_listeners(d, err);
	if (rc)
		return rc;
	rc = open_database(d, &boot, err);
	if (rc)
		return rc;
	rc = open_sockets(d, err);
	if (!rc)
		rc = open_state(d, &boot, err);
	if (!rc)
		rc = make_workers(d, err);
	if (!rc)
		rc = neighbor_open(&d->neighbor, err);
	if (rc) {
		persist_state_free(&boot);
		return rc;
	}
	return make_control(d, &boot, err);
}

/* Echo to a VIP is the kernel's to answer where it has the address. */
static void follow_addresses(struct daemon *d)
{
	struct own_addresses own;

	if (own_addresses_read(&own) == 0)
		xsk_set_own_addresses(d->xsk, own.list, own.n);
	own_addresses_free(&own);
}

static int attach(struct daemon *d, struct error *err)
{
	const struct xsk_iface *ifaces;
	unsigned n = xsk_ifaces(d->xsk, &ifaces);
	bool was_there[IFACES_MAX];
	struct xdp_probe probe;

	for (unsigned i = 0; i < n; i++) {
		int rc = xdp_probe_read(ifaces[i].ifindex, &probe, err);
		if (rc)
			return rc;
		was_there[i] = probe.id != 0;
	}
	follow_addresses(d);
	int rc = xsk_attach(d->xsk, err);
	for (unsigned i = 0; !rc && i < n; i++)
		d->attached_here[i] = !was_there[i];
	return rc;
}

static int open_events(struct daemon *d, const sigset_t *ends, struct error *err)
{
	d->signals = signalfd(-1, ends, SFD_CLOEXEC | SFD_NONBLOCK);
	if (d->signals < 0)
		return error_set(err, -errno, "signalfd: %s", strerror(errno));
	d->link_events = netdev_open_events(err);
	return d->link_events < 0 ? d->link_events : 0;
}

/* From now on somebody else may take steer off again, or an interface away. */
static int make_watch(struct daemon *d, struct error *err)
{
	d->n_queues = xsk_copy_queues(d->xsk, &d->queues);
	int rc = d->queues ? supervisor_new(d->xsk, d->control, &d->supervisor) : -ENOMEM;
	if (!rc)
		rc = watch_new(d->supervisor, d->control, &d->watch);
	return rc ? error_set(err, rc, "no memory") : 0;
}

static int run_threads(struct daemon *d, struct error *err)
{
	for (unsigned i = 0; i < d->n_workers; i++) {
		int rc = worker_start(d->workers[i]);
		if (rc)
			return error_set(err, rc, "worker %u: %s", i, strerror(-rc));
	}
	int rc = control_start(d->control, err);
	priority_drop();
	if (rc)
		return rc;
	d->control_runs = true;
	rc = health_engine_start(d->control, &d->health, err);
	if (rc)
		return rc;

	struct api_backend *b = &d->api.backend;
	d->live = (struct api_live){.control = d->control,
				    .workers = d->workers,
				    .n_workers = d->n_workers,
				    .xsk = d->xsk,
				    .supervisor = d->supervisor,
				    .watch = d->watch,
				    .history = store_history(d->store),
				    .machine = &d->machine};
	api_backend_live(b, &d->live);
	b->info.commit = CONCURY_COMMIT;
	b->info.state_file = state_file_status(d->state);
	b->info.lookup_memory = hugemem_probe();
	b->info.umem_memory = xsk_umem_memory(d->xsk);
	b->info.n_workers = d->n_workers;
	b->info.cpus = d->cpus;
	d->machine = (struct preflight){.n_ifaces = d->options->n_ifaces,
					.ifaces = d->options->ifaces,
					.database = d->options->database,
					.state_dir = d->options->state_dir,
					.n_workers = d->n_workers,
					.n_flows = d->options->n_flows,
					.keep_ipc_lock = d->options->keep_ipc_lock,
					.n_queues = d->n_queues,
					.queues = d->queues};
	d->api.started_ms = clock_now_ms();
	d->api.traffic = traffic_history_new();
	if (!d->api.traffic)
		return error_set(err, -ENOMEM, "no memory");
	return http_start(d->http, &d->api, err);
}

/* Ends what runs and frees everything, however far the start came. steer stays where it is
 * attached. */
static void stop(struct daemon *d)
{
	atomic_store(&d->api.ready, false);
	if (d->control)
		control_announce_end(d->control);
	http_close(d->http);
	tls_free(d->tls);
	web_free(d->web);
	traffic_history_free(d->api.traffic);
	health_engine_stop(d->health);
	if (d->control_runs)
		control_stop(d->control);
	for (unsigned i = 0; i < d->n_workers; i++)
		if (d->workers[i] && d->workers[i]->started)
			worker_stop(d->workers[i]);
	watch_free(d->watch);
	supervisor_free(d->supervisor);
	control_free(d->control);
	if (d->neighbor)
		neighbor_close(d->neighbor);
	for (unsigned i = 0; i < d->n_workers; i++)
		worker_free(d->workers[i]);
	fragment_cache_free(d->fragments);
	state_file_close(d->state);
	xsk_close(d->xsk);
	auth_free(d->api.auth);
	store_close(d->store);
	free(d->queues);
	if (d->link_events >= 0)
		close(d->link_events);
	if (d->signals >= 0)
		close(d->signals);
}

static void undo_attach(const struct daemon *d)
{
	struct error err;

	for (unsigned i = 0; i < d->options->n_ifaces; i++)
		if (d->attached_here[i] && xsk_detach(d->xsk, i, &err))
			log_error("concuryd", "%s", err.message);
}

static void log_ready(const struct daemon *d)
{
	const struct api_info *info = &d->api.backend.info;

	for (unsigned i = 0; i < d->n_queues; i++)
		log_info("concuryd", "%s: queue %u to worker %u, XDP mode %s", d->queues[i].iface,
			 d->queues[i].queue, d->queues[i].worker, xdp_mode_name(d->queues[i].mode));
	log_info("concuryd", "huge pages: lookup %s, UMEM %s; room for %llu flows",
		 hugemem_kind_name(info->lookup_memory), hugemem_kind_name(info->umem_memory),
		 (unsigned long long)state_file_n_flows(d->state));
	for (unsigned i = 0; i < http_n_listeners(d->http); i++)
		log_info("concuryd", "API on %s%s", http_listener_text(d->http, i),
			 http_listener_kind(d->http, i));
	log_info("concuryd", "version " CONCURY_VERSION " (" CONCURY_COMMIT "), workers: %u, ready",
		 d->n_workers);
}

/* True if a signal has come that ends us. */
static bool read_end(const struct daemon *d, struct signalfd_siginfo *end)
{
	if (read(d->signals, end, sizeof(*end)) != (ssize_t)sizeof(*end))
		return false;
	if (end->ssi_signo != SIGHUP)
		return true;
	access_reload(d->api.auth, d->tls);
	return false;
}

/* Watches until a signal says to end; returns which. A new MAC address cannot wait for the next
 * tick: the host's kernel would answer what comes for it with RSTs. */
static int wait_for_end(struct daemon *d)
{
	struct pollfd fds[] = {{.fd = d->signals, .events = POLLIN},
			       {.fd = d->link_events, .events = POLLIN}};
	struct signalfd_siginfo end;
	uint64_t tick_ms = 0;

	do {
		netdev_drain_events(d->link_events);
		follow_addresses(d);
		unsigned wait_ms = supervisor_tick(d->supervisor);
		uint64_t now_ms = clock_now_ms();
		if (now_ms >= tick_ms) {
			watch_tick(d->watch);
			traffic_history_tick(d->api.traffic, &d->api.backend);
			tick_ms = now_ms + TICK_MS;
		}
		poll(fds, ARRAY_LEN(fds), (int)wait_ms);
	} while (!read_end(d, &end));
	watch_tick(d->watch);
	return (int)end.ssi_signo;
}

static void log_end(struct daemon *d, int signal_number)
{
	const char *name = signal_number == SIGTERM ? "SIGTERM" : "SIGINT";
	char detached[IFACES_MAX * (IF_NAMESIZE + 2)];

	if (*watch_detached(d->watch, detached, sizeof(detached)))
		log_info("concuryd", "%s: ending (our steer program is not attached to: %s)", name,
			 detached);
	else
		log_info("concuryd", "%s: ending (steer stays attached and drops packets of VIPs)",
			 name);
}

static int run(const struct options *o)
{
	struct daemon d = {.options = o, .signals = -1, .link_events = -1};
	struct error err = {""};
	sigset_t ends;

	/* Blocked in every thread; a second one waits, and is harmless. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);

	int rc = open_events(&d, &ends, &err);
	if (!rc)
		rc = prepare(&d, &err);
	if (!rc)
		rc = attach(&d, &err);
	if (!rc)
		rc = make_watch(&d, &err);
	/* Threads are born without rights from here on, but with our priority. */
	if (!rc)
		store_rest(d.store);
	(void)priority_raise();
	if (!rc)
		rc = confine_enter(o->keep_ipc_lock, &err);
	if (!rc)
		rc = run_threads(&d, &err);
	if (rc) {
		undo_attach(&d);
		stop(&d);
		log_error("concuryd", "%s", err.message);
		return 1;
	}
	atomic_store(&d.api.ready, true);
	log_ready(&d);
	notify_manager("READY=1");
	log_end(&d, wait_for_end(&d));
	notify_manager("STOPPING=1");
	stop(&d);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o;
	struct error err;

	if (options_parse(argc, argv, &o, &err)) {
		log_error("concuryd", "%s", err.message);
		return 2; /* no use in starting it again like that */
	}
	bool needs_interfaces =
		o.action == ACTION_RUN || o.action == ACTION_DETACH || o.action == ACTION_CHECK;
	if (needs_interfaces && action_expand_interfaces(&o, &err)) {
		log_error("concuryd", "%s", err.message);
		return 1;
	}
	switch (o.action) {
	case ACTION_HELP:
		return fputs(options_help, stdout) < 0;
	case ACTION_VERSION:
		return puts("concuryd " CONCURY_VERSION " (" CONCURY_COMMIT ")") < 0;
	case ACTION_DETACH:
		return action_detach(&o);
	case ACTION_INIT_TOKEN:
		return action_init_token(&o);
	case ACTION_CHECK:
		return action_check(&o);
	default:
		return run(&o);
	}
}
