#include "tests/unit/world.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/port_mem.h"
#include "tests/unit/mem_store.h"

static uint64_t clock_ns = 1000ull * 3600 * 1000000;

static uint64_t world_now_ns(void)
{
	return clock_ns;
}

static int64_t wall_step_s;

void world_step_wall_s(int64_t seconds)
{
	wall_step_s += seconds;
}

static int64_t world_wall_s(void)
{
	return wall_step_s + 1700000000 + (int64_t)(clock_ns / 1000000000u);
}

void world_advance_ms(uint64_t ms)
{
	clock_ns += ms * 1000000u;
}

uint64_t world_now_ms(void)
{
	return clock_ns / 1000000u;
}

/* --- the store
 * ------------------------------------------------------------------------------------- */

static void store_submit(void *ctx, const struct persist_txn *txn)
{
	struct world *w = ctx;

	w->n_commits++;
	w->txn = txn;
	if (w->on_submit)
		w->on_submit(w);
	if (!w->fail_commit)
		mem_store_commit(&w->disk, txn);
}

static int store_poll(void *ctx, struct error *err)
{
	struct world *w = ctx;

	if (w->on_poll)
		w->on_poll(w);
	return w->fail_commit ? error_set(err, -w->fail_commit, "told to fail") : 1;
}

/* --- next hops and steering
 * ------------------------------------------------------------------------ */

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

static void hops_get(void *ctx, const struct ip_addr *a, struct next_hop *hop, bool *has_route)
{
	(void)ctx;
	*hop = (struct next_hop){.resolved = true,
				 .ifindex = 1,
				 .n_ports = 1,
				 .ports = {1},
				 .mtu = 1500,
				 .dst_mac = {2, 0xd1, 0, 0, a->b[14], a->b[15]},
				 .src_mac = {2, 0, 0, 0, 0, 2}};
	*has_route = true;
}

static bool hops_poll(void *ctx, uint64_t now_ms)
{
	(void)ctx;
	(void)now_ms;
	return false;
}

static void hops_resolve(void *ctx, int ifindex, const struct ip_addr *a)
{
	((struct world *)ctx)->hop_resolved = (struct back_hop){ifindex, *a};
}

static int steer_add(void *ctx, const struct vip_match *m, struct error *err)
{
	struct world *w = ctx;

	(void)m;
	if (w->n_steered == VIPS_MAX) /* so many its maps hold */
		return error_set(err, -E2BIG, "no room for more VIPs");
	w->n_steered++;
	return 0;
}

static int steer_del(void *ctx, const struct vip_match *m, struct error *err)
{
	(void)m;
	(void)err;
	((struct world *)ctx)->n_steered--;
	((struct world *)ctx)->n_unsteered_total++;
	return 0;
}

static unsigned find_way(const struct world *w, const struct back_key *key)
{
	unsigned i = 0;

	while (i < w->n_ways && memcmp(&w->ways[i].key, key, sizeof(*key)) != 0)
		i++;
	return i;
}

static int steer_add_back(void *ctx, const struct back_key *key, const struct ip_addr *vip,
			  struct error *err)
{
	struct world *w = ctx;
	unsigned i = find_way(w, key);

	(void)err;
	assert(i < ARRAY_LEN(w->ways));
	w->n_ways += i == w->n_ways;
	w->ways[i].key = *key;
	w->ways[i].vip = *vip;
	return 0;
}

static int steer_del_back(void *ctx, const struct back_key *key, struct error *err)
{
	struct world *w = ctx;
	unsigned i = find_way(w, key);

	(void)err;
	if (i < w->n_ways)
		w->ways[i] = w->ways[--w->n_ways];
	return 0;
}

static unsigned steer_take_hops(void *ctx, struct back_hop *hops, unsigned n)
{
	struct world *w = ctx;

	if (!n || !w->hop_wanted.ifindex)
		return 0;
	hops[0] = w->hop_wanted;
	w->hop_wanted.ifindex = 0;
	return 1;
}

/* --- life
 * ------------------------------------------------------------------------------------------ */

static void world_start(struct world *w)
{
	struct state_file_config sc = {
		.dir = w->dir, .n_flows = w->n_flows, .n_workers = w->n_workers};
	struct port_mem_config pc = {.n_queues = 1,
				     .n_ifaces = 1,
				     .n_frames = 256,
				     .frame_size = 2048,
				     .headroom = 256,
				     .tx_ring = 256};
	struct error err;

	if (state_file_open(&sc, &w->state, &err)) {
		fprintf(stderr, "%s\n", err.message);
		abort();
	}
	w->fragments = fragment_cache_new();
	assert(w->fragments);
	for (unsigned i = 0; i < w->n_workers; i++) {
		struct worker_config wc = {
			.id = i, .cpu = -1, .checksum = CHECKSUM_AUTO, .fragments = w->fragments};
		w->ports[i] = port_mem_new(&pc);
		assert(w->ports[i]);
		wc.port = w->ports[i];
		for (int r = 0; r < N_LEARN_RINGS; r++)
			wc.rings[r] = state_file_ring(w->state, i, r);
		int rc = worker_new(&wc, &w->workers[i]);
		assert(rc == 0);
	}
	struct control_config cc = {
		.n_workers = w->n_workers,
		.workers = w->workers,
		.state = w->state,
		.persist = {.ctx = w, .submit = store_submit, .poll = store_poll, .done_fd = -1},
		.next_hops = {.ctx = w,
			      .fd = -1,
			      .watch = hops_watch,
			      .unwatch = hops_unwatch,
			      .get = hops_get,
			      .poll = hops_poll,
			      .resolve = hops_resolve},
		.steering = {.ctx = w,
			     .add = steer_add,
			     .del = steer_del,
			     .add_back = steer_add_back,
			     .del_back = steer_del_back,
			     .take_hops = steer_take_hops},
		.n_ifaces = 1,
		.ifindexes = {1},
	};
	struct persist_state boot = mem_store_read(&w->disk);
	w->n_steered = 0;
	w->n_ways = 0;
	if (control_new(&cc, &boot, &w->control, &err)) {
		fprintf(stderr, "%s\n", err.message);
		abort();
	}
}

static void world_stop(struct world *w)
{
	control_free(w->control);
	w->control = NULL;
	for (unsigned i = 0; i < w->n_workers; i++) {
		worker_free(w->workers[i]);
		port_mem_free(w->ports[i]);
	}
	fragment_cache_free(w->fragments);
	state_file_close(w->state);
}

static void remove_state(struct world *w)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", w->dir);
	int rc = system(cmd);
	assert(rc == 0);
}

struct world *world_new(unsigned n_workers, uint64_t n_flows)
{
	struct world *w = calloc(1, sizeof(*w));

	assert(w && n_workers <= WORLD_WORKERS_MAX);
	clock_set_source(world_now_ns, world_wall_s);
	log_set_level(LOG_WARNING);
	w->n_workers = n_workers;
	w->n_flows = n_flows;
	w->disk = (struct persist_state){.next_dip_uid = 1, .next_vip_uid = 1};
	snprintf(w->dir, sizeof(w->dir), "/dev/shm/concury-test.%d", getpid());
	remove_state(w);
	world_start(w);
	return w;
}

void world_free(struct world *w)
{
	world_stop(w);
	remove_state(w);
	persist_state_free(&w->disk);
	free(w);
	clock_set_source(NULL, NULL);
}

void world_restart(struct world *w, enum world_restart how)
{
	world_stop(w);
	if (how == WORLD_REBOOT)
		remove_state(w);
	world_start(w);
}

void world_settle(struct world *w)
{
	/* A publish that a step made due (a fold, a purge) may be due only after its interval. */
	for (int i = 0; i < 1000 && control_step(w->control); i++)
		;
}

/* --- packets
 * --------------------------------------------------------------------------------------- */

unsigned world_send(struct world *w, unsigned worker, const struct frames_spec *spec)
{
	static uint8_t buf[FRAMES_MAX];
	uint8_t out[2048];
	uint32_t len = frames_build(buf, spec);
	int rc = port_mem_inject(w->ports[worker], 0, 0, buf, len);

	assert(rc == 0);
	worker_round(w->workers[worker]);
	if (port_mem_take(w->ports[worker], 0, out, sizeof(out)) == 0)
		return 0;
	assert(out[1] == 0xd1);
	return out[5];
}

static struct frames_spec flow_spec(uint32_t i)
{
	uint8_t src[4] = {10, 1, (uint8_t)(i >> 18), (uint8_t)(i >> 10)};

	return (struct frames_spec){.src = ip_addr_v4(src),
				    .dst = frames_ip(WORLD_VIP_ADDRESS),
				    .sport = (uint16_t)(1024 + (i & 1023)),
				    .dport = 80};
}

unsigned world_tcp(struct world *w, unsigned worker, uint32_t i, uint8_t flags, uint32_t payload)
{
	struct frames_spec s = flow_spec(i);

	s.tcp_flags = flags;
	s.payload_len = payload;
	return world_send(w, worker, &s);
}

unsigned world_udp(struct world *w, unsigned worker, uint32_t i)
{
	struct frames_spec s = flow_spec(i);

	s.proto = IPPROTO_UDP;
	return world_send(w, worker, &s);
}

/* --- requests
 * -------------------------------------------------------------------------------------- */

struct control_request *world_request(struct world *w, struct control_request *r)
{
	bool done;

	control_change_async(w->control, r, &done);
	for (int i = 0; i < 100 && !done; i++)
		control_step(w->control);
	assert(done);
	return r;
}

static struct control_request *expect(struct world *w, struct control_request *r,
				      enum control_status want)
{
	world_request(w, r);
	if (r->status != want) {
		fprintf(stderr, "status %d, not %d: %s %s %s\n", r->status, want, r->detail,
			r->errors.n ? r->errors.list[0].pointer : "",
			r->errors.n ? r->errors.list[0].detail : "");
		abort();
	}
	return r;
}

static struct control_request request;

struct control_request *world_put_vip(struct world *w, const char *id, enum vip_protocol protocol,
				      enum control_status want)
{
	request = (struct control_request){.op = OP_VIP_PUT};
	snprintf(request.vip, sizeof(request.vip), "%s", id);
	vip_conf_defaults(&request.vip_edit.conf);
	request.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	request.vip_edit.conf.match = (struct vip_match){
		.address = frames_ip(WORLD_VIP_ADDRESS), .port = 80, .protocol = protocol};
	return expect(w, &request, want);
}

static struct control_request *dip_request(enum control_op op, const char *vip, unsigned last)
{
	uint8_t address[4] = {10, 9, 0, (uint8_t)last};

	request = (struct control_request){.op = op};
	snprintf(request.vip, sizeof(request.vip), "%s", vip);
	snprintf(request.dip, sizeof(request.dip), "b%u", last);
	dip_conf_defaults(&request.dip_edit.conf);
	request.dip_edit.conf.address = ip_addr_v4(address);
	return &request;
}

struct control_request *world_put_dip(struct world *w, const char *vip, unsigned last,
				      uint32_t weight, enum control_status want)
{
	struct control_request *r = dip_request(OP_DIP_PUT, vip, last);

	r->dip_edit.members = DIP_M_ADDRESS | DIP_M_WEIGHT;
	r->dip_edit.conf.weight = weight;
	return expect(w, r, want);
}

struct control_request *world_set_weight(struct world *w, const char *vip, unsigned last,
					 uint32_t weight)
{
	struct control_request *r = dip_request(OP_DIP_PATCH, vip, last);

	r->dip_edit.members = DIP_M_WEIGHT;
	r->dip_edit.conf.weight = weight;
	return expect(w, r, CONTROL_OK);
}

struct control_request *world_set_admin(struct world *w, const char *vip, unsigned last,
					enum admin_state state)
{
	struct control_request *r = dip_request(OP_DIP_PATCH, vip, last);

	r->dip_edit.members = DIP_M_ADMIN_STATE;
	r->dip_edit.conf.admin_state = state;
	return expect(w, r, CONTROL_OK);
}

struct control_request *world_delete_dip(struct world *w, const char *vip, unsigned last,
					 bool force)
{
	struct control_request *r = dip_request(OP_DIP_DELETE, vip, last);

	r->force = force;
	return world_request(w, r);
}

struct consistency world_consistency(struct world *w)
{
	struct consistency c;

	control_read_consistency(w->control, &c);
	return c;
}

uint64_t world_dip_flows(struct world *w, const char *vip, unsigned last)
{
	size_t n;
	struct vip_info *v = control_read_vips(w->control, vip, true, &n);
	uint64_t flows = UINT64_MAX;
	char id[16];

	snprintf(id, sizeof(id), "b%u", last);
	for (unsigned i = 0; n && i < v->n_dips; i++)
		if (strcmp(v->dips[i].conf.id, id) == 0)
			flows = v->dips[i].flows;
	vip_infos_free(v, n);
	return flows;
}
