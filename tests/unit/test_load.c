/* The whole API under load, for the sanitizers: 64 clients that read and write over real sockets
 * beside a worker that forwards without a pause, health checks, event streams, traces and audits,
 * with the store that production has. No update is lost, and generations only go forward: an answer
 * bears at least that of every answer that came before its request. */
#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/health_engine.h"
#include "control/internal.h"
#include "schema/store.h"
#include "tests/bench/endless_port.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/netns.h"
#include "tests/unit/prng.h"
#include "tests/unit/raw_http.h"
#include "tests/unit/world.h"

#define CLIENTS 64
#define SECONDS (SANITIZED ? 12 : 3)
#define CHECKED_PORT 8099 /* where half the DIPs answer */

static char dir[64], where[96];
static struct world *w;
static struct port *memory_port;
static struct store *store;
static struct health_engine *health;
static struct api_live live;
static struct api_context api;
static struct http_server *server;

static uint64_t seed;
static _Atomic uint64_t end_ms;
static _Atomic uint64_t answered_generation; /* the highest that an answer bore */
static _Atomic unsigned n_faults, n_answers, n_increments, n_conflicts, n_changes, n_streamed;

static void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (atomic_fetch_add(&n_faults, 1) < 10)
		fprintf(stderr, "%s\n", line);
}

/* --- the daemon ----------------------------------------------------------------------------- */

static void read_traffic(void *ctx, struct api_traffic *out)
{
	(void)ctx;
	*out = (struct api_traffic){.n_ifaces = 1};
	strcpy(out->ifaces[0].name, "eth7");
}

static void read_warnings(void *ctx, struct warnings *out)
{
	(void)ctx;
	memset(out, 0, sizeof(*out));
}

static bool serving(void *ctx)
{
	(void)ctx;
	return true;
}

static void open_store(void)
{
	struct persist_state empty;
	struct error err;
	char path[96];

	snprintf(path, sizeof(path), "%s/load.db", dir);
	ck_assert_msg(store_open(path, &store, &err) == 0, "%s", err.message);
	ck_assert_msg(store_load(store, &empty, &err) == 0, "%s", err.message);
	persist_state_free(&empty);
	w->control->conf.persist = store_persist(store);
}

/* The DIPs' addresses are all our own, in a network of our own; half of them answer. */
static void open_network(void)
{
	const struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(CHECKED_PORT)};
	struct sockaddr_in half = a;

	netns_enter(netns_new());
	ck_assert_int_eq(netns_sh("ip address add 10.9.0.0/24 dev lo"), 0);
	for (unsigned d = 1; d <= 8; d += 2) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		half.sin_addr.s_addr = htonl(0x0a090000u + d);
		ck_assert_int_eq(bind(fd, (struct sockaddr *)&half, sizeof(half)), 0);
		ck_assert_int_eq(listen(fd, 4096), 0); /* the kernel accepts for us */
	}
}

/* Ports of memory have neither. */
static unsigned no_interfaces(void *ctx, struct iface_status out[IFACES_MAX])
{
	(void)ctx;
	(void)out;
	return 0;
}

static unsigned no_queues(void *ctx, struct xsk_queue **out)
{
	(void)ctx;
	*out = NULL;
	return 0;
}

static void start_server(void)
{
	const char *listen[] = {where};
	const struct http_config config = {.n = 1, .listen = listen};
	struct auth_config none = {.store = api_fake_store};
	struct error err;

	live = (struct api_live){.control = w->control,
				 .workers = w->workers,
				 .n_workers = 1,
				 .history = store_history(store)};
	memset(&api, 0, sizeof(api));
	api_backend_live(&api.backend, &live);
	api.backend.info.commit = "0123456789ab";
	api.backend.read_traffic = read_traffic;
	api.backend.read_warnings = read_warnings;
	api.backend.serving = serving;
	api.backend.read_interfaces = no_interfaces;
	api.backend.copy_queues = no_queues;
	ck_assert_int_eq(auth_new(&none, &api.auth, &err), 0);
	atomic_store(&api.ready, true);
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
}

static void set_up(void)
{
	struct error err;

	signal(SIGPIPE, SIG_IGN);
	snprintf(dir, sizeof(dir), "/tmp/test_load.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(where, sizeof(where), "unix:%s/api.sock", dir);
	open_network();
	w = world_new(1, 16384);
	clock_set_source(NULL, NULL);
	open_store();
	memory_port = w->ports[0];
	w->workers[0]->port = endless_port_new(2000, 2000, 0x0a090064);
	ck_assert_int_eq(worker_start(w->workers[0]), 0);
	ck_assert_msg(control_start(w->control, &err) == 0, "%s", err.message);
	ck_assert_msg(health_engine_start(w->control, &health, &err) == 0, "%s", err.message);
	start_server();
}

static void tear_down(void)
{
	atomic_store(&api.ready, false);
	control_announce_end(w->control);
	http_close(server);
	health_engine_stop(health);
	control_stop(w->control);
	worker_stop(w->workers[0]);
	endless_port_free(w->workers[0]->port);
	w->workers[0]->port = memory_port;
	world_free(w);
	auth_free(api.auth);
	store_close(store);
	ck_assert_int_eq(netns_sh("rm -rf %s", dir), 0);
}

/* --- a client -------------------------------------------------------------------------------- */

struct client {
	unsigned number;
	struct prng random;
	int fd; /* kept from request to request; -1 = none */
	char tag[ETAG_LEN];
	char *body; /* of the last answer */
};

/* The status of the answer, in which c->body and c->tag are. */
static int ask(struct client *c, const char *method, const char *path, const char *if_match,
	       const char *body)
{
	uint64_t before = atomic_load(&answered_generation);
	size_t len = body ? strlen(body) : 0;
	char head[512];
	struct http_answer a;

	if (c->fd < 0)
		c->fd = http_connect(where);
	snprintf(head, sizeof(head),
		 "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s%s%s"
		 "Content-Length: %zu\r\n\r\n",
		 method, path, if_match ? "If-Match: " : "", if_match ? if_match : "",
		 if_match ? "\r\n" : "", len);
	if (!http_send(c->fd, head, strlen(head)) || (len && !http_send(c->fd, body, len)))
		complain("%s %s: cut while it was sent", method, path);
	http_read(c->fd, false, &a);
	const char *tag = http_header(&a, "ETag");
	snprintf(c->tag, sizeof(c->tag), "%s", tag ? tag : "");
	const char *text = http_header(&a, "X-Generation");
	uint64_t generation = text ? strtoull(text, NULL, 10) : 0;
	if (a.status == 0 || a.status >= 500)
		complain("%s %s: %d %s", method, path, a.status, a.body ? a.body : "");
	if (generation < before)
		complain("%s %s: generation %lu after %lu", method, path, (unsigned long)generation,
			 (unsigned long)before);
	while (generation > before &&
	       !atomic_compare_exchange_weak(&answered_generation, &before, generation))
		;
	free(c->body);
	c->body = a.body;
	atomic_fetch_add(&n_answers, 1);
	if (a.status == 0 || prng_below(&c->random, 50) == 0) {
		close(c->fd);
		c->fd = -1;
	}
	return a.status;
}

static json_int_t weight_in(const struct client *c)
{
	json_t *dip = json_loads(c->body ? c->body : "", 0, NULL);
	json_int_t weight = json_integer_value(json_object_get(dip, "weight"));

	json_decref(dip);
	return weight;
}

static void expect_status(const struct client *c, const char *what, int status, int wanted)
{
	if (status != wanted)
		complain("%s: %d, not %d: %s", what, status, wanted, c->body ? c->body : "");
}

/* All of them add 1 to one weight. */
static void increment(struct client *c)
{
	char body[64], tag[ETAG_LEN];

	expect_status(c, "GET", ask(c, "GET", "/v1/vips/web/dips/b1", NULL, NULL), 200);
	snprintf(body, sizeof(body), "{\"weight\": %lld}", (long long)weight_in(c) + 1);
	memcpy(tag, c->tag, sizeof(tag));
	int status = ask(c, "PATCH", "/v1/vips/web/dips/b1", tag, body);
	if (status == 200)
		atomic_fetch_add(&n_increments, 1);
	else if (status == 412)
		atomic_fetch_add(&n_conflicts, 1);
	else
		expect_status(c, "PATCH with If-Match", status, 200);
}

/* What this one alone writes, it reads. */
static void write_own(struct client *c)
{
	json_int_t weight = prng_below(&c->random, 20);
	char path[64], body[64];

	snprintf(path, sizeof(path), "/v1/vips/web/dips/own%u", c->number);
	snprintf(body, sizeof(body), "{\"address\": \"10.9.0.%u\", \"weight\": %lld}",
		 100 + c->number, (long long)weight);
	int status = ask(c, "PUT", path, NULL, body);
	if (status != 200 && status != 201)
		expect_status(c, "PUT", status, 200);
	expect_status(c, "GET", ask(c, "GET", path, NULL, NULL), 200);
	if (weight_in(c) != weight)
		complain("%s: weight %lld, not %lld", path, (long long)weight_in(c),
			 (long long)weight);
	atomic_fetch_add(&n_changes, 1);
}

static void look_around(struct client *c)
{
	static const char *const paths[] = {
		"/v1/config",	   "/v1/vips",
		"/v1/vips/web",	   "/v1/vips/web/dips",
		"/v1/status",	   "/v1/counters",
		"/v1/consistency", "/metrics",
		"/v1/limits",	   "/v1/vips/web/flows?limit=200",
		"/v1/agents",	   "/v1/config/versions?limit=20",
		"/v1/tokens",	   "/v1/audit-log?limit=20",
		"/readyz",	   "/v1/explain?vip=web&src=10.0.0.1&sport=1024",
		"/openapi.json",   "/v1/vips/web/dips/b1/health",
	};

	for (unsigned i = 0; i < 4; i++) {
		const char *path = paths[prng_below(&c->random, ARRAY_LEN(paths))];
		expect_status(c, path, ask(c, "GET", path, NULL, NULL), 200);
	}
}

/* A VIP comes and goes, each time in one piece. */
static void batch(struct client *c)
{
	char body[512], path[64];
	unsigned port = 1000 + c->number;

	snprintf(path, sizeof(path), "/v1/vips/tmp%u", c->number);
	snprintf(
		body, sizeof(body),
		"{\"operations\": [{\"method\": \"PUT\", \"path\": \"%s\", \"body\": {\"address\": "
		"\"10.9.0.100\", \"port\": %u, \"protocol\": \"udp\"}}, {\"method\": \"PUT\", "
		"\"path\": \"%s/dips/x\", \"body\": {\"address\": \"10.9.0.3\"}}]}",
		path, port, path);
	expect_status(c, "batch", ask(c, "POST", "/v1/config:batch", NULL, body), 200);
	expect_status(c, path, ask(c, "GET", path, NULL, NULL), 200);
	snprintf(body, sizeof(body), "%s?force=true", path);
	expect_status(c, "DELETE", ask(c, "DELETE", body, NULL, NULL), 200);
	expect_status(c, path, ask(c, "GET", path, NULL, NULL), 404);
	atomic_fetch_add(&n_changes, 2);
}

static void turn_knobs(struct client *c)
{
	static const char *const health_confs[] = {
		"{\"health\": null}",
		"{\"health\": {\"type\": \"tcp\", \"port\": 8099, \"interval_ms\": 100, "
		"\"timeout_ms\": 100, \"rise\": 1, \"fall\": 1}}"};
	char path[64];
	int status;

	switch (prng_below(&c->random, 4)) {
	case 0:
		expect_status(c, "audit", ask(c, "POST", "/v1/audit", NULL, NULL), 200);
		break;
	case 1:
		status = ask(c, "PATCH", "/v1/vips/web", NULL,
			     health_confs[prng_below(&c->random, 4) != 0]);
		expect_status(c, "health", status, 200);
		break;
	case 2:
		snprintf(path, sizeof(path), "/v1/vips/web/dips/b%u/health-override",
			 2 + prng_below(&c->random, 7));
		status = ask(c, "PUT", path, NULL,
			     prng_below(&c->random, 2)
				     ? "{\"state\": \"down\", \"reason\": \"load\", \"ttl_s\": 1}"
				     : "{\"state\": \"up\", \"reason\": \"load\", \"ttl_s\": 1}");
		expect_status(c, path, status, 200);
		break;
	default:
		status = ask(c, "PATCH", "/v1/vips/web/dips/b2?dry_run=true", NULL,
			     "{\"weight\": 7}");
		expect_status(c, "dry run", status, 200);
	}
}

/* An answer without end, or one that takes its time: read for a while, then let go. */
static void stream(struct client *c)
{
	static const char *const heads[] = {
		"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/trace?packets=50&seconds=1 HTTP/1.1\r\nHost: x\r\n\r\n"};
	const char *head = heads[prng_below(&c->random, 2)];
	struct timeval patience = {.tv_usec = 300000};
	char buf[4096];
	ssize_t n;
	int fd = http_connect(where);

	if (!http_send(fd, head, strlen(head)))
		complain("a stream was cut");
	for (unsigned i = 0; i < 20 && (n = recv(fd, buf, sizeof(buf), 0)) > 0; i++) {
		atomic_fetch_add(&n_streamed, (unsigned)n);
		/* the beginning of the answer may take what any answer takes */
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	}
	close(fd);
}

static void *be_client(void *arg)
{
	static void (*const acts[])(struct client *) = {increment,   increment,	  write_own,
							look_around, look_around, batch,
							turn_knobs,  stream};
	struct client c = {.number = (unsigned)(uintptr_t)arg, .fd = -1};

	c.random = (struct prng){seed + c.number};
	while (clock_now_ms() < atomic_load(&end_ms))
		acts[c.number % ARRAY_LEN(acts)](&c);
	if (c.fd >= 0)
		close(c.fd);
	free(c.body);
	return NULL;
}

/* --- the test -------------------------------------------------------------------------------- */

static void make_pool(struct client *c)
{
	char path[64], body[64];

	expect_status(c, "PUT",
		      ask(c, "PUT", "/v1/vips/web", NULL,
			  "{\"address\": \"10.9.0.100\", \"port\": 80, \"protocol\": \"tcp\"}"),
		      201);
	for (unsigned d = 1; d <= 8; d++) {
		snprintf(path, sizeof(path), "/v1/vips/web/dips/b%u", d);
		snprintf(body, sizeof(body), "{\"address\": \"10.9.0.%u\", \"weight\": 1}", d);
		expect_status(c, path, ask(c, "PUT", path, NULL, body), 201);
	}
}

START_TEST(sixty_four_clients)
{
	pthread_t threads[CLIENTS];
	struct client c = {.number = CLIENTS, .fd = -1};
	struct consistency k;
	struct audit a = {0};

	c.random = prng_new("load");
	seed = prng_u64(&c.random);
	make_pool(&c);
	atomic_store(&end_ms, clock_now_ms() + SECONDS * 1000);
	for (unsigned i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, be_client, (void *)(uintptr_t)i),
				 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	expect_status(&c, "GET", ask(&c, "GET", "/v1/vips/web/dips/b1", NULL, NULL), 200);
	ck_assert_uint_eq((uint64_t)weight_in(&c), 1 + atomic_load(&n_increments));
	close(c.fd);
	free(c.body);
	control_read_consistency(w->control, &k);
	ck_assert(control_audit(w->control, &a));
	printf("%u answers; %u increments, %u conflicts, %u other changes, %u bytes of streams; "
	       "%lu publishes, %lu flows, %lu packets\n",
	       atomic_load(&n_answers), atomic_load(&n_increments), atomic_load(&n_conflicts),
	       atomic_load(&n_changes), atomic_load(&n_streamed), (unsigned long)k.publishes_total,
	       (unsigned long)k.flows_known,
	       (unsigned long)counter_read(&w->workers[0]->counters->rx[0].packets));
	fflush(stdout);
	ck_assert_uint_eq(atomic_load(&n_faults), 0);
	ck_assert_uint_eq(k.violations_total, 0);
	ck_assert_uint_eq(a.flows_misplaced, 0);
	ck_assert_uint_gt(a.flows_checked, 0);
	ck_assert_uint_gt(atomic_load(&n_increments), 0);
	ck_assert_uint_gt(atomic_load(&n_changes), 0);
	ck_assert_uint_gt(atomic_load(&n_streamed), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("load");
	TCase *t = tcase_create("load");

	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, sixty_four_clients);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
