/* What a pool change costs: plan, commit, and the workers' pause; and how fast control learns.
 *
 * One VIP of 50 equal DIPs, one of which is drained, so that 2% of the Dcodes move and 2% of the
 * known flows become pins; the real store on a real file. Flows are learned as in life, through a
 * ring. The pause is measured beside one worker that a port keeps saturated with known flows and
 * 20,000 openings a second. */
#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/priority.h"
#include "control/control.h"
#include "control/flow_page.h"
#include "control/internal.h"
#include "schema/store.h"
#include "tests/bench/bench.h"
#include "tests/bench/endless_port.h"

#define N_DIPS 50
#define N_PUBLISHES 200
#define ROUNDS_MAX 15
#define FLOWS_SPOKEN 100000u /* flows that the saturating port speaks for */
#define OPENINGS_PER_S 20000

struct rig {
	char dir[64];
	struct store *store;
	struct persist real; /* the store's interface, wrapped to time it */
	uint64_t submitted_ns;
	uint64_t persist_ns;
	struct state_file *state;
	struct port *port;
	struct worker *worker;
	struct control *control;
};

static void must(int rc, const struct error *err)
{
	if (rc) {
		fprintf(stderr, "%s (%d)\n", err->message, rc);
		exit(1);
	}
}

static void timed_submit(void *ctx, const struct persist_txn *txn)
{
	struct rig *r = ctx;

	r->submitted_ns = clock_now_ns();
	r->real.submit(r->real.ctx, txn);
}

static int timed_poll(void *ctx, struct error *err)
{
	struct rig *r = ctx;
	int rc = r->real.poll(r->real.ctx, err);

	if (rc)
		r->persist_ns = clock_now_ns() - r->submitted_ns;
	return rc;
}

static int hop_watch(void *ctx, const struct ip_addr *a)
{
	(void)ctx;
	(void)a;
	return 0;
}

static void hop_unwatch(void *ctx, const struct ip_addr *a)
{
	(void)ctx;
	(void)a;
}

static void hop_get(void *ctx, const struct ip_addr *a, struct next_hop *hop, bool *has_route)
{
	(void)ctx;
	(void)a;
	*hop = (struct next_hop){.resolved = true,
				 .ifindex = 1,
				 .n_ports = 1,
				 .ports = {1},
				 .mtu = 1500,
				 .dst_mac = {2},
				 .src_mac = {2}};
	*has_route = true;
}

static bool hop_poll(void *ctx, uint64_t now_ms)
{
	(void)ctx;
	(void)now_ms;
	return false;
}

static int no_steer(void *ctx, const struct vip_match *m, struct error *err)
{
	(void)ctx;
	(void)m;
	(void)err;
	return 0;
}

static struct ip_addr address(uint32_t host)
{
	uint32_t be = htonl(host);

	return ip_addr_v4(&be);
}

static void change(struct rig *r, struct control_request *q)
{
	bool done;

	control_change_async(r->control, q, &done);
	while (!done)
		control_step(r->control);
	if (q->status != CONTROL_OK && q->status != CONTROL_CREATED) {
		fprintf(stderr, "refused: %s\n", q->detail);
		exit(1);
	}
}

static void set_weight(struct rig *r, unsigned dip, uint32_t weight, struct control_request *q)
{
	*q = (struct control_request){.op = OP_DIP_PATCH, .vip = "web"};
	snprintf(q->dip, sizeof(q->dip), "d%u", dip);
	q->dip_edit.members = DIP_M_WEIGHT;
	q->dip_edit.conf.weight = weight;
	change(r, q);
}

static void make_vip(struct rig *r)
{
	struct control_request q = {.op = OP_VIP_PUT, .vip = "web"};

	q.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	vip_conf_defaults(&q.vip_edit.conf);
	q.vip_edit.conf.match =
		(struct vip_match){.address = address(0x0a090064), .port = 80, .protocol = VIP_TCP};
	change(r, &q);
	for (unsigned i = 0; i < N_DIPS; i++) {
		q = (struct control_request){.op = OP_DIP_PUT, .vip = "web"};
		snprintf(q.dip, sizeof(q.dip), "d%u", i);
		dip_conf_defaults(&q.dip_edit.conf);
		q.dip_edit.members = DIP_M_ADDRESS | DIP_M_WEIGHT;
		q.dip_edit.conf.address = address(0x0a090101 + i);
		q.dip_edit.conf.weight = 10;
		change(r, &q);
	}
}

static void rig_open(struct rig *r, uint64_t n_flows)
{
	struct error err;
	char db[256], flows[96];

	snprintf(r->dir, sizeof(r->dir), "/var/tmp/concury-bench.%d", getpid());
	snprintf(flows, sizeof(flows), "/dev/shm/concury-bench.%d", getpid());
	snprintf(db, sizeof(db), "mkdir -p %s && rm -rf %s/* %s", r->dir, r->dir, flows);
	must(system(db), &err);
	snprintf(db, sizeof(db), "%s/concury.db", r->dir);
	must(store_open(db, &r->store, &err), &err);
	struct persist_state boot;
	must(store_load(r->store, &boot, &err), &err);
	struct state_file_config sc = {.dir = flows, .n_flows = n_flows, .n_workers = 1};
	memcpy(sc.database_id, boot.database_id, sizeof(sc.database_id));
	must(state_file_open(&sc, &r->state, &err), &err);
	r->port = endless_port_new(FLOWS_SPOKEN, OPENINGS_PER_S, 0x0a090064);
	struct worker_config wc = {.cpu = -1, .port = r->port, .checksum = CHECKSUM_AUTO};
	for (int i = 0; i < N_LEARN_RINGS; i++)
		wc.rings[i] = state_file_ring(r->state, 0, i);
	must(worker_new(&wc, &r->worker), &err);
	r->real = store_persist(r->store);
	struct control_config cc = {
		.n_workers = 1,
		.workers = &r->worker,
		.state = r->state,
		.persist = {r, timed_submit, timed_poll, r->real.done_fd},
		.next_hops = {.fd = -1,
			      .watch = hop_watch,
			      .unwatch = hop_unwatch,
			      .get = hop_get,
			      .poll = hop_poll},
		.steering = {.add = no_steer, .del = no_steer},
		.n_ifaces = 1,
		.ifindexes = {1},
	};
	must(control_new(&cc, &boot, &r->control, &err), &err);
	make_vip(r);
}

static void rig_close(struct rig *r)
{
	char cmd[160];

	control_free(r->control);
	worker_free(r->worker);
	endless_port_free(r->port);
	state_file_close(r->state);
	store_close(r->store);
	snprintf(cmd, sizeof(cmd), "rm -rf %s /dev/shm/concury-bench.%d", r->dir, getpid());
	if (system(cmd))
		fprintf(stderr, "could not remove %s\n", r->dir);
}

/* --- learning
 * -------------------------------------------------------------------------------------- */

/* Put n new flows into the opening ring and drain them; returns control's seconds. */
static double learn_flows(struct rig *r, uint32_t first, uint32_t n)
{
	const struct vip_view *view = r->control->snapshot->vips[0];
	struct learn_ring *ring = state_file_ring(r->state, 0, RING_OPENING);
	static uint64_t seq;
	uint64_t spent = 0;

	for (uint32_t i = first; i < first + n;) {
		for (uint32_t k = 0; k < 16384 && i < first + n; k++, i++) {
			struct learn_record rec = {.vip_uid = view->uid,
						   .kind = LEARN_SYN,
						   .time_ms = (uint32_t)clock_now_ms(),
						   .generation = r->control->generation};
			struct ip_addr src = address(0x0b000000 + (i >> 10));
			flow_key_of(view, &src, htons((uint16_t)(1024 + (i & 1023))), htons(80),
				    IPPROTO_TCP, &rec.key);
			rec.hash = flow_key_hash(&rec.key, view->seed);
			rec.dip = vip_view_lookup(view, rec.hash);
			rec.seq = ++seq;
			bool pushed = learn_ring_push(ring, &rec);
			assert(pushed);
			rec.kind = LEARN_ACK;
			rec.seq = ++seq;
			pushed = learn_ring_push(ring, &rec);
			assert(pushed);
		}
		uint64_t start = clock_now_ns();
		control_drain(r->control, UINT64_MAX);
		spent += clock_now_ns() - start;
	}
	return (double)spent / 1e9;
}

static int double_order(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static double percentile(double *values, unsigned n, unsigned percent)
{
	qsort(values, n, sizeof(*values), double_order);
	return values[(n - 1) * percent / 100];
}

/* --- cases
 * ----------------------------------------------------------------------------------------- */

/* The middle and the 99th percentile of the pause that publishes cost a saturated worker, and of
 * the time from a change's request to its answer: planned, on disk, published. The change goes back
 * and forth, so that each publish plans and checks all flows and writes pins or none. */
static void bench_pause(struct rig *r, const char *name, unsigned n_publishes)
{
	static double pause_ms[N_PUBLISHES], change_ms[N_PUBLISHES];
	struct control_request q;

	if (worker_start(r->worker))
		exit(1);
	for (unsigned i = 0; i < n_publishes; i++) {
		uint64_t start = bench_now_ns();
		set_weight(r, 0, i & 1 ? 10 : 0, &q);
		change_ms[i] = (double)(bench_now_ns() - start) / 1e6;
		pause_ms[i] = (double)q.change.pause_us / 1000;
		for (uint64_t until = clock_now_ms() + 5; clock_now_ms() < until;)
			if (!control_step(r->control))
				usleep(1000);
	}
	worker_stop(r->worker);
	bench_result("publish", name, "pause_p50", percentile(pause_ms, n_publishes, 50), "ms");
	bench_result("publish", name, "pause_p99", percentile(pause_ms, n_publishes, 99), "ms");
	bench_result("change", name, "p50", percentile(change_ms, n_publishes, 50), "ms");
	bench_result("change", name, "p99", percentile(change_ms, n_publishes, 99), "ms");
	struct consistency c;
	control_read_consistency(r->control, &c);
	if (c.violations_total || c.flows_unlearned_total || endless_port_dropped(r->port))
		printf("  %s: %lu violations, %lu unlearned, %lu dropped\n", name,
		       (unsigned long)c.violations_total, (unsigned long)c.flows_unlearned_total,
		       (unsigned long)endless_port_dropped(r->port));
}

/* How long control is kept from its other work by one call of those that page through all flows,
 * beside a saturated worker: for pages of 1,000, and where no flow is meant and the most is looked
 * at. */
static void bench_pages(struct rig *r, const char *name, bool no_hits)
{
	static struct flow_info list[FLOW_PAGE_MAX];
	static double call_us[1u << 16];
	struct flow_query q = {.vip = "web", .has_client = no_hits, .pinned = -1, .state = -1};
	struct flow_page page = {.list = list, .more = true};
	uint64_t start = bench_now_ns(), n_flows = 0;
	unsigned n = 0;

	if (worker_start(r->worker))
		exit(1);
	for (q.limit = FLOW_PAGE_MAX; page.more && n < ARRAY_LEN(call_us); q.from = page.next) {
		uint64_t before = bench_cpu_ns();
		control_read_flows(r->control, &q, &page);
		call_us[n++] = (double)(bench_cpu_ns() - before) / 1000;
		n_flows += page.n;
		control_step(r->control);
	}
	worker_stop(r->worker);
	const char *which = no_hits ? "flows_skip" : "flows_page";
	printf("  %s: %s: %lu flows in %u calls\n", name, which, (unsigned long)n_flows, n);
	bench_result(which, name, "all", (double)(bench_now_ns() - start) / 1e6, "ms");
	bench_result(which, name, "call_p50", percentile(call_us, n, 50), "us");
	bench_result(which, name, "call_max", percentile(call_us, n, 100), "us");
}

static void bench_case(const char *name, uint32_t n_flows, unsigned rounds, unsigned n_publishes)
{
	struct rig r = {0};
	double plan[ROUNDS_MAX], persist[ROUNDS_MAX];
	struct control_request q;

	rig_open(&r, n_flows + n_flows / 2);
	double seconds = learn_flows(&r, 0, n_flows);
	bench_result("learn", name, "control", n_flows / seconds, "flows/s");
	for (unsigned i = 0; i < rounds; i++) {
		set_weight(&r, 0, 0, &q);
		plan[i] = (double)q.change.build_us / 1000;
		persist[i] = (double)r.persist_ns / 1e6;
		if (i == 0)
			printf("  %s: %lu of %lu flows pinned, %lu Dcodes moved\n", name,
			       (unsigned long)q.change.flows_pinned,
			       (unsigned long)q.change.flows_known,
			       (unsigned long)q.change.dcodes_moved);
		set_weight(&r, 0, 10, &q);
	}
	bench_result("publish", name, "plan", bench_median(plan, rounds), "ms");
	bench_result("publish", name, "persist", bench_median(persist, rounds), "ms");
	bench_pause(&r, name, n_publishes);
	bench_pages(&r, name, false);
	bench_pages(&r, name, true);
	rig_close(&r);
}

/* With an argument, that case alone; with $BENCH_QUICK none of 10M, and less often. */
int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		uint32_t n_flows;
		unsigned rounds, n_publishes;
	} cases[] = {
		{"100K", 100000, 15, N_PUBLISHES},
		{"1M", 1000000, 15, N_PUBLISHES},
		{"10M", 10000000, 5, 20},
	};

	log_set_level(LOG_WARNING);
	(void)priority_raise(); /* as the control thread and the worker do */
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++)
		if (argc < 2 ? !bench_quick() || cases[i].n_flows <= 1000000
			     : strcmp(argv[1], cases[i].name) == 0)
			bench_case(cases[i].name, cases[i].n_flows,
				   bench_quick() ? 5 : cases[i].rounds,
				   bench_quick() ? 20 : cases[i].n_publishes);
	return 0;
}
