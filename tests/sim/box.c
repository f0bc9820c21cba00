#include "tests/sim/box.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "io/port_mem.h"
#include "tests/sim/disk.h"
#include "tests/sim/memory.h"

static uint64_t clock_ns;
static int64_t clock_shift_ns, wall_step_s;
static struct prng entropy;

static uint64_t now_ns(void)
{
	return clock_ns + (uint64_t)clock_shift_ns;
}

int64_t box_time_s(void)
{
	return (int64_t)(clock_ns / 1000000000u);
}

static int64_t wall_s(void)
{
	return 1700000000 + wall_step_s + box_time_s();
}

void box_step_wall_s(int64_t seconds)
{
	wall_step_s += seconds;
}

void box_shift_clock(int64_t ms)
{
	clock_shift_ns = ms * 1000000;
}

uint64_t box_now_ms(void)
{
	return clock_ns / 1000000u;
}

void box_advance_ms(uint64_t ms)
{
	clock_ns += ms * 1000000u;
}

static void fill(void *buf, size_t n)
{
	for (uint8_t *p = buf; n > 0; n--)
		*p++ = (uint8_t)prng_u64(&entropy);
}

/* --- next hops and steering ---------------------------------------------------------------- */

static int hops_watch(void *ctx, const struct ip_addr *a)
{
	(void)ctx;
	(void)a;
	return 0;
}

static void hops_unwatch(void *ctx, const struct ip_addr *a)
{
	(void)ctx;
	(void)a;
}

/* A DIP is its own next hop; its MAC address bears the last two bytes of its address. */
static void hops_get(void *ctx, const struct ip_addr *a, struct next_hop *hop, bool *has_route)
{
	const struct box *b = ctx;
	unsigned number = a->b[14] * 256u + a->b[15];
	unsigned fate = (number * 40503u + b->hops_salt) % 8;

	*hop = (struct next_hop){.resolved = !b->hops_salt || fate != 0,
				 .ifindex = 1,
				 .n_ports = 1,
				 .ports = {1},
				 .mtu = b->hops_salt && fate == 1 ? 1280 : 1500,
				 .dst_mac = {2, 0xd1, 0, 0, a->b[14], a->b[15]},
				 .src_mac = {2, 0, 0, 0, 0, 2}};
	*has_route = true;
}

static bool hops_poll(void *ctx, uint64_t now_ms)
{
	struct box *b = ctx;
	bool changed = b->hops_changed;

	(void)now_ms;
	b->hops_changed = false;
	return changed;
}

static int steer(void *ctx, const struct vip_match *m, struct error *err)
{
	(void)ctx;
	(void)m;
	(void)err;
	return 0;
}

/* --- one process --------------------------------------------------------------------------- */

/* A sleep ends when the scheduler says so: by a frame, a wake or its time-out. */
static void port_sleep_routine(struct port *p, int timeout_ms)
{
	(void)p;
	(void)timeout_ms;
	routine_yield();
}

static struct port *port_new(const struct box *b)
{
	static struct port_driver driver;
	struct port_mem_config pc = {.n_queues = 1,
				     .n_ifaces = 1,
				     .n_frames = 128,
				     .frame_size = 2048,
				     .headroom = b->headroom,
				     .tx_ring = b->tx_ring};
	struct port *p = port_mem_new(&pc);

	assert(p);
	driver = *p->driver;
	driver.sleep = port_sleep_routine;
	p->driver = &driver;
	return p;
}

static void control_main(void *arg)
{
	struct box *b = arg;
	struct control_config cc = {
		.n_workers = b->n_workers,
		.workers = b->workers,
		.state = b->state,
		.persist = disk_persist(b),
		.next_hops = {.ctx = b,
			      .fd = -1,
			      .watch = hops_watch,
			      .unwatch = hops_unwatch,
			      .get = hops_get,
			      .poll = hops_poll},
		.steering = {.add = steer, .del = steer},
		.n_ifaces = 1,
		.ifindexes = {1},
	};
	struct persist_state boot = disk_read(b);
	struct control *c;
	struct error err;

	b->generation_at_start = boot.generation;
	if (control_new(&cc, &boot, &c, &err)) {
		fprintf(stderr, "control does not start: %s\n", err.message);
		abort();
	}
	b->control = c;
	while (!b->stopping) {
		if (!control_step(c))
			b->n_idle++;
		b->at_rest = true;
		routine_yield();
		b->at_rest = false;
	}
}

static void worker_main(void *arg)
{
	worker_run(arg);
}

void box_start(struct box *b)
{
	struct state_file_config sc = {
		.dir = b->dir, .n_flows = b->n_flows, .n_workers = b->n_workers};
	struct error err;

	assert(!b->alive);
	disk_open(b);
	if (state_file_open(&sc, &b->state, &err)) {
		fprintf(stderr, "%s\n", err.message);
		abort();
	}
	memory_of_process(true);
	b->fragments = fragment_cache_new();
	assert(b->fragments);
	for (unsigned i = 0; i < b->n_workers; i++) {
		struct worker_config wc = {
			.id = i, .cpu = -1, .checksum = CHECKSUM_KEEP, .fragments = b->fragments};
		b->ports[i] = port_new(b);
		wc.port = b->ports[i];
		for (int r = 0; r < N_LEARN_RINGS; r++)
			wc.rings[r] = state_file_ring(b->state, i, r);
		int rc = worker_new(&wc, &b->workers[i]);
		assert(rc == 0);
	}
	memory_of_process(false);
	b->stopping = false;
	b->alive = true;
	b->control_routine = routine_new(control_main, b);
}

static void routines_free(struct box *b)
{
	routine_free(b->control_routine);
	b->control_routine = NULL;
	for (unsigned i = 0; i < BOX_WORKERS_MAX; i++) {
		routine_free(b->worker_routines[i]);
		b->worker_routines[i] = NULL;
	}
}

static void box_end(struct box *b)
{
	routines_free(b);
	state_file_close(b->state);
	b->state = NULL;
	b->control = NULL;
	b->at_rest = b->alive = false;
	disk_close(b);
}

void box_stop(struct box *b)
{
	box_settle(b);
	for (unsigned i = 0; i < b->n_workers; i++) {
		atomic_fetch_or(&b->workers[i]->state, WORKER_QUIT);
		while (!routine_ended(b->worker_routines[i]))
			routine_resume(b->worker_routines[i], 1000);
	}
	b->stopping = true;
	while (!routine_ended(b->control_routine))
		routine_resume(b->control_routine, 1000);
	control_free(b->control);
	for (unsigned i = 0; i < b->n_workers; i++) {
		worker_free(b->workers[i]);
		port_mem_free(b->ports[i]);
	}
	fragment_cache_free(b->fragments);
	/* (That fault keeps snapshots that a worker may still read.) */
	if (memory_held() != 0 && !FAULT(swap_unparked)) {
		fprintf(stderr, "%zu blocks or descriptors leaked\n", memory_held());
		abort();
	}
	box_end(b);
}

static void remove_state(const struct box *b)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/flows", b->dir);
	unlink(path);
	for (unsigned i = 0; i < BOX_WORKERS_MAX; i++) {
		snprintf(path, sizeof(path), "%s/rings.%u", b->dir, i);
		unlink(path);
	}
}

void box_kill(struct box *b, bool reboot)
{
	box_end(b);
	memory_release();
	if (reboot)
		remove_state(b);
}

void box_run_control(struct box *b, unsigned fuel)
{
	routine_resume(b->control_routine, fuel);
	for (unsigned i = 0; b->control && i < b->n_workers; i++)
		if (!b->worker_routines[i])
			b->worker_routines[i] = routine_new(worker_main, b->workers[i]);
}

void box_run_worker(struct box *b, unsigned i, unsigned fuel)
{
	if (b->worker_routines[i])
		routine_resume(b->worker_routines[i], fuel);
}

void box_call(struct box *b, struct queued_call *q)
{
	struct control *c = b->control;

	pthread_mutex_lock(&c->mutex);
	q->done = false;
	q->next = c->calls;
	c->calls = q;
	control_wake(c);
	pthread_mutex_unlock(&c->mutex);
}

void box_settle(struct box *b)
{
	uint64_t idle = b->n_idle;

	for (unsigned n = 0; !b->control || b->n_idle < idle + 2; n++) {
		assert(n < 100000);
		box_run_control(b, 1000);
		for (unsigned i = 0; i < b->n_workers; i++)
			box_run_worker(b, i, 1000);
	}
}

struct box *box_new(uint64_t seed)
{
	struct box *b = calloc(1, sizeof(*b));

	assert(b);
	clock_ns = 1000ull * 3600 * 1000000;
	entropy = (struct prng){seed ^ 0x656e74726f7079u};
	clock_shift_ns = wall_step_s = 0;
	clock_set_source(now_ns, wall_s);
	entropy_set_source(fill);
	b->n_workers = 1;
	b->n_flows = 4096;
	b->tx_ring = 64;
	b->headroom = 128;
	b->polls_max = 2;
	b->random = (struct prng){seed ^ 0x626f78u};
	snprintf(b->dir, sizeof(b->dir), "/dev/shm/concury-sim.%d", getpid());
	remove_state(b);
	disk_init(b);
	return b;
}

void box_free(struct box *b)
{
	if (b->alive)
		box_stop(b);
	remove_state(b);
	rmdir(b->dir);
	disk_remove(b);
	free(b);
	clock_set_source(NULL, NULL);
	entropy_set_source(NULL);
}
