/* The experiment over real AF_XDP. Runs in a namespace of a segment that experiment.py has laid:
 *
 *	client ---- bridge ---- lb (concuryd)      b1 .. b4: backends
 *	               +------- b5 (this process, and the baseline's AF_XDP socket on its eth0)
 *
 * Real frames leave the client's interface, pass one of the two forwarders, each in its own
 *namespace on its own interface, and are seen on the backends' interfaces. Changes of Concury's
 *pool are made over its API by experiment.py: a line "!before CHANGE" or "!after CHANGE" asks for
 *it, any line is the answer. Usage: wire PREFIX [--check]; stdout is the table. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "io/port_xsk.h"
#include "tests/experiment/tap.h"

#define HOST_LB 2
#define HOST_PAPER 15
#define ATTEMPTS 25
#define PATIENCE_MS 200u

struct paper_host {
	struct xsk *xsk;
	struct paper_lb *lb;
	pthread_t thread;
	pthread_mutex_t lock; /* over lb */
	bool stop;
};

struct run {
	const struct cell *cell;
	struct tap *tap;
	struct paper_host *paper; /* NULL: Concury is under test */
	struct watch watch;
	struct reports reports;
	struct outcome *outcome;
	bool *here; /* by flow: a packet of this round has arrived */
	uint32_t n_here;
	uint64_t changed_ms;
};

/* --- the baseline's host
 * -------------------------------------------------------------------------- */

static void *paper_main(void *arg)
{
	struct paper_host *p = arg;
	struct port *port = xsk_port(p->xsk, 0);

	for (;;) {
		pthread_mutex_lock(&p->lock);
		bool stop = p->stop;
		unsigned n = p->lb && !stop ? paper_lb_round(p->lb) : 0;
		pthread_mutex_unlock(&p->lock);
		if (stop)
			return NULL;
		if (n == 0)
			port_sleep(port, 1);
	}
}

static void paper_open(struct paper_host *p)
{
	struct xsk_config c = {.n_ifaces = 1, .ifaces = {"eth0"}, .n_workers = 1};
	struct vip_match m = {.address = frames_ip(CELL_VIP), .port = 80, .protocol = VIP_TCP};
	struct error err;

	*p = (struct paper_host){.lock = PTHREAD_MUTEX_INITIALIZER};
	int rc = xsk_open(&c, &p->xsk, &err);
	if (!rc) {
		struct steering s = xsk_steering(p->xsk);
		rc = s.add(s.ctx, &m, &err);
	}
	if (!rc)
		rc = xsk_attach(p->xsk, &err);
	if (rc || pthread_create(&p->thread, NULL, paper_main, p)) {
		fprintf(stderr, "AF_XDP: %s\n", rc ? err.message : "no thread");
		exit(EXIT_FAILURE);
	}
}

static void paper_close(struct paper_host *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	paper_lb_free(p->lb);
	xsk_close(p->xsk);
}

/* A new pool without any flow. */
static void paper_reset(struct paper_host *p, const struct cell *c)
{
	uint32_t weights[PAPER_DIPS_MAX + 1];
	struct flow_key *flows = cell_flows(c->n_flows);
	struct paper_lb_config lc = {.port = xsk_port(p->xsk, 0),
				     .vip = frames_ip(CELL_VIP),
				     .n_flows = c->n_flows,
				     .flows = flows};

	tap_mac(lc.src_mac, HOST_PAPER);
	for (unsigned d = 1; d <= PAPER_DIPS_MAX; d++)
		tap_mac(lc.macs[d], 10 + d);
	cell_weights(c->change, false, weights);
	struct paper_lb *lb = paper_lb_new(&lc, weights);
	free(flows);
	pthread_mutex_lock(&p->lock);
	paper_lb_free(p->lb);
	p->lb = lb;
	pthread_mutex_unlock(&p->lock);
}

/* --- a change of the pool
 * ------------------------------------------------------------------------- */

static void ask_concury(const char *when, const struct cell *c)
{
	char answer[64];

	printf("!%s %s\n", when, pool_change_names[c->change]);
	fflush(stdout);
	if (!fgets(answer, sizeof(answer), stdin))
		exit(EXIT_FAILURE);
}

static void change_pool(struct run *r)
{
	uint32_t weights[PAPER_DIPS_MAX + 1];

	if (!r->paper) {
		ask_concury("after", r->cell);
		return;
	}
	cell_weights(r->cell->change, true, weights);
	pthread_mutex_lock(&r->paper->lock);
	r->outcome->paper = paper_lb_change(r->paper->lb, weights);
	pthread_mutex_unlock(&r->paper->lock);
}

/* --- packets
 * --------------------------------------------------------------------------------------- */

static void arrived(void *ctx, uint32_t i, unsigned dip)
{
	struct run *r = ctx;
	uint64_t now = clock_now_ms();

	if (i >= r->cell->n_flows)
		return;
	if (!r->watch.first[i])
		reports_send(&r->reports, i, now);
	r->n_here += !r->here[i];
	r->here[i] = true;
	watch_packet(&r->watch, i, dip, r->changed_ms ? (uint32_t)(now - r->changed_ms) : 0);
}

static void poll_all(struct run *r)
{
	tap_flush(r->tap);
	tap_poll(r->tap, arrived, r);
	if (!r->paper)
		return;
	pthread_mutex_lock(&r->paper->lock);
	for (uint32_t i; (i = reports_take(&r->reports, clock_now_ms())) != UINT32_MAX;) {
		struct flow_key key = cell_flow(i);
		paper_lb_report(r->paper->lb, &key, r->watch.first[i]);
	}
	pthread_mutex_unlock(&r->paper->lock);
}

static void poll_until(struct run *r, uint64_t until_ms)
{
	static const struct timespec nap = {.tv_nsec = 1000000};

	for (poll_all(r); clock_now_ms() < until_ms; poll_all(r))
		nanosleep(&nap, NULL);
}

/* Send for every flow of which nothing has arrived in this round, as a client's stack would again
 * and again; what a full queue on the way lost does not count. */
static void repeat_round(struct run *r, uint8_t flags, uint32_t payload)
{
	const struct cell *c = r->cell;

	for (unsigned attempt = 0; attempt < ATTEMPTS && r->n_here < c->n_flows; attempt++) {
		for (uint32_t i = 0, k = 0; i < c->n_flows; i++) {
			if (r->here[i])
				continue;
			tap_send(r->tap, i, flags, payload);
			if (++k % 64 == 0)
				poll_all(r);
		}
		uint64_t end = clock_now_ms() + PATIENCE_MS;
		while (r->n_here < c->n_flows && clock_now_ms() < end)
			poll_until(r, clock_now_ms() + 1);
	}
	r->outcome->n_silent += c->n_flows - r->n_here;
	memset(r->here, 0, c->n_flows * sizeof(*r->here));
	r->n_here = 0;
}

static void open_flows(struct run *r)
{
	const struct cell *c = r->cell;
	const uint32_t steps = CELL_OPEN_MS / 10;
	uint64_t start = clock_now_ms();

	for (uint32_t step = 0; step < steps; step++) {
		uint32_t end = (uint32_t)((uint64_t)c->n_flows * (step + 1) / steps);
		for (uint32_t i = (uint32_t)((uint64_t)c->n_flows * step / steps); i < end; i++) {
			tap_send(r->tap, i, FRAMES_SYN, 0);
			if (i % 64 == 0)
				poll_all(r);
		}
		poll_until(r, start + (step + 1) * 10);
	}
	repeat_round(r, FRAMES_SYN, 0);
}

static void run_cell(struct tap *tap, struct paper_host *paper, const struct cell *c,
		     struct outcome *o)
{
	struct run r = {.cell = c, .tap = tap, .paper = paper, .outcome = o};

	tap_mac(tap->gateway, paper ? HOST_PAPER : HOST_LB);
	r.here = calloc(c->n_flows, sizeof(*r.here));
	if (!r.here)
		exit(EXIT_FAILURE);
	watch_init(&r.watch, c, o);
	reports_init(&r.reports, c);
	if (paper)
		paper_reset(paper, c);
	else
		ask_concury("before", c);
	open_flows(&r);
	r.changed_ms = clock_now_ms();
	change_pool(&r);
	repeat_round(&r, FRAMES_PSH | FRAMES_ACK, 10);
	poll_until(&r, r.changed_ms + c->delay_ms + 500);
	repeat_round(&r, FRAMES_PSH | FRAMES_ACK, 10);
	reports_destroy(&r.reports);
	watch_destroy(&r.watch);
	free(r.here);
}

static bool compare(struct tap *tap, struct paper_host *host, const struct cell *c)
{
	struct outcome paper, concury;

	run_cell(tap, host, c, &paper);
	run_cell(tap, NULL, c, &concury);
	return cell_print(c, &paper, &concury);
}

/* Every loss with every delay; the kind of the change takes turns, to bound the time. */
static bool whole_matrix(struct tap *tap, struct paper_host *host)
{
	static const unsigned losses[] = {0, 10, 50, 100};
	static const uint32_t delays[] = {0, 1000, 10000};
	static const uint32_t sizes[] = {10000, 100000};
	unsigned turn = 0;
	bool ok = true;

	for (unsigned n = 0; n < 2; n++)
		for (unsigned d = 0; d < 3; d++)
			for (unsigned l = 0; l < 4; l++) {
				struct cell c = {turn++ % N_POOL_CHANGES, sizes[n], losses[l],
						 delays[d]};
				ok &= compare(tap, host, &c);
			}
	return ok;
}

int main(int argc, char **argv)
{
	static const struct cell check = {CHANGE_WEIGHT, 10000, 50, 0};
	struct paper_host host;
	struct tap tap;

	if (argc < 2) {
		fprintf(stderr, "usage: wire PREFIX [--check]\n");
		return EXIT_FAILURE;
	}
	tap_open(&tap, argv[1]);
	paper_open(&host);
	cell_print_head("on the wire: AF_XDP between network namespaces");
	bool ok = argc > 2 ? compare(&tap, &host, &check) : whole_matrix(&tap, &host);
	paper_close(&host);
	tap_close(&tap);
	printf("%sok - experiment, on the wire: Concury moves no flow, the paper's protocol what "
	       "its "
	       "reports missed\n",
	       ok ? "" : "not ");
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
