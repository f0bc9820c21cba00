/* The scheduler: what happens next is drawn from the seed. */
#include "tests/sim/backends.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fault.h"
#include "io/port_mem.h"

static struct sim *noting; /* who is told of forgotten flows */

void fault_note_forgotten(const void *flow_slot)
{
	const struct flow_slot *slot = flow_slot;

	if (noting)
		noting->n_forgotten++;
	for (unsigned i = 0; noting && i < noting->n_tuples; i++) {
		struct model_flow *f = &noting->flows[i];
		if (flow_key_equal(&f->key, &slot->key))
			model_forgotten(f, 5000);
	}
}

/* --- telling ------------------------------------------------------------------------------- */

static void print_event(const struct sim_event *e)
{
	printf("  step %lu: ", (unsigned long)e->step);
	/* The formats are the literals of the callers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	printf(e->what, e->a, e->b, e->c, e->d);
#pragma GCC diagnostic pop
	printf("\n");
}

void sim_event(struct sim *s, const char *what, long a, long b, long c, long d)
{
	struct sim_event *e = &s->events[s->n_events++ % SIM_TRACE];

	*e = (struct sim_event){.step = s->step, .what = what, .a = a, .b = b, .c = c, .d = d};
	if (s->trace)
		print_event(e);
}

void sim_print_events(const struct sim *s)
{
	uint64_t first = s->n_events > SIM_TRACE ? s->n_events - SIM_TRACE : 0;

	for (uint64_t i = first; i < s->n_events; i++)
		print_event(&s->events[i % SIM_TRACE]);
}

void sim_explain(const struct sim *s)
{
	const struct model_flow *f = s->model->culprit;
	const struct control *c = s->box->control;

	for (unsigned i = 0; f && c && i < VIP_SLOTS; i++) {
		const struct vip_runtime *v = c->vips[i];
		if (!v || v->uid != f->vip_uid)
			continue;
		uint64_t hash = flow_key_hash(&f->key, v->seed);
		uint32_t slot = flow_table_find(&c->flows, &v->flows, &f->key, hash);
		printf("  VIP %s, generation %lu, refresh %u ms: ", v->now->conf.id,
		       (unsigned long)c->generation, v->now->view->refresh_ms);
		if (slot == FLOW_NONE) {
			printf("control does not know the flow\n");
			continue;
		}
		struct flow_meta m = flow_meta_get(&c->flows.slots[slot]);
		printf("known at DIP %u (index %u), phase %u, flags %x, reference flags %x, heard "
		       "of "
		       "%u ms ago\n",
		       model_dip_number(v->now->view, m.dip), m.dip, m.phase, m.flags,
		       flow_table_ref(&c->flows, slot)->flags, (uint32_t)box_now_ms() - m.seen_ms);
	}
}

void sim_wrong(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (s->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(s->fault, sizeof(s->fault), fmt, ap);
	va_end(ap);
}

/* --- what control published ---------------------------------------------------------------- */

static void check_flows(struct sim *s, const struct snapshot *snapshot)
{
	for (unsigned i = 0; i < s->n_tuples; i++) {
		const struct sim_tuple *t = &s->tuples[i];
		struct model_flow *f = &s->flows[t->flow];
		if (!f->dip || t->flow != i)
			continue;
		const struct vip_view *v = traffic_view(s, snapshot, t);
		struct sim_vip *vip = traffic_vip(s, v);
		const struct sim_vip *last = &s->vips[f->vip];
		if (!v && last->uid == f->vip_uid && last->may_go_s > box_time_s())
			model_vip_gone(s->model, f, s->n_publishes, &s->vips[f->vip].conf);
		if (vip)
			model_published(s->model, f, snapshot, v, s->n_publishes, &vip->conf);
	}
}

/* A VIP that was acknowledged is there until somebody asked for its end. */
static void check_vips(struct sim *s, const struct snapshot *snapshot)
{
	for (unsigned i = 0; i < SIM_VIPS; i++) {
		struct sim_vip *v = &s->vips[i];
		bool found = false;
		for (unsigned k = 0; k < 2 * SIM_VIPS && !found; k++) {
			found = snapshot->vips[k] &&
				vip_match_equal(&snapshot->vips[k]->match, &v->conf.match);
			if (found)
				v->uid = snapshot->vips[k]->uid;
		}
		if (!found && v->exists && !v->busy && !v->deleting && v->may_go_s > box_time_s())
			sim_wrong(s, "VIP %s is gone, and nobody asked for it", v->id);
	}
}

void sim_check_published(struct sim *s)
{
	const struct snapshot *snapshot = atomic_load(&s->box->workers[0]->snapshot);

	if (!s->box->control || !snapshot || snapshot->generation == s->generation)
		return;
	s->generation = snapshot->generation;
	s->n_publishes++;
	sim_event(s, "generation %ld is published", (long)snapshot->generation, 0, 0, 0);
	check_flows(s, snapshot);
	check_vips(s, snapshot);
	quic_published(s, snapshot);
	if (s->box->control->stats.violations_total)
		sim_wrong(s, "the forwarder itself counts a violation");
}

/* --- steps --------------------------------------------------------------------------------- */

static unsigned draw_fuel(struct sim *s)
{
	switch (prng_below(&s->random, 4)) {
	case 0:
		return prng_below(&s->random, 4);
	case 1:
		return prng_below(&s->random, 40);
	default:
		return 1000;
	}
}

static void run_control(struct sim *s)
{
	box_run_control(s->box, draw_fuel(s));
	if (s->box->at_rest && s->resync) {
		operator_resync(s);
		backends_resync(s->backends);
	}
	sim_check_published(s);
	operator_answers(s);
	verdicts_answers(s);
	verdicts_check(s, false);
	counters_ask(s);
}

static void run_worker(struct sim *s, unsigned w, unsigned fuel)
{
	box_run_worker(s->box, w, fuel);
	exits_collect(s, w);
}

/* Time may pass only between bursts: no burst takes seconds. */
static void finish_bursts(struct sim *s)
{
	for (unsigned w = 0; w < s->box->n_workers; w++)
		for (int i = 0; i < 100 && port_mem_n_held(s->box->ports[w]); i++)
			run_worker(s, w, 1000);
}

static void leap(struct sim *s)
{
	static const unsigned scales[] = {100, 1000, 4000, 10000, 30000};
	unsigned ms = prng_below(&s->random, scales[prng_below(&s->random, 5)]);

	finish_bursts(s);
	sim_event(s, "%ld ms pass", ms, 0, 0, 0);
	box_advance_ms(ms);
}

static void kill_process(struct sim *s, bool reboot)
{
	struct box *b = s->box;

	/* What it is told last it may have heard, or heeded, or not. */
	if (s->mood.health && sim_chance(s, 2)) {
		verdicts_step(s);
		run_control(s);
	}
	sim_event(s, reboot ? "the machine reboots" : "the process is killed", 0, 0, 0, 0);
	if (b->control && b->control->stats.violations_total)
		sim_wrong(s, "the forwarder itself counts a violation");
	box_kill(b, reboot);
	s->n_kills += !reboot;
	s->n_reboots += reboot;
	exits_killed(s, reboot);
	operator_killed(s);
	counters_killed(s);
	checks_killed(s);
	verdicts_killed(s);
	backends_killed(s->backends);
	if (sim_chance(s, 3))
		box_advance_ms(prng_below(&s->random, 60000));
	if (sim_chance(s, 3))
		b->n_workers = 1 + prng_below(&s->random, BOX_WORKERS_MAX);
	s->lane_salt = prng_below(&s->random, 16);
	s->generation = 0;
	box_start(b);
}

static void set_disk(struct sim *s)
{
	static const int errors[] = {0, 0, 0, 28 /* ENOSPC */, 30 /* EROFS */, 5 /* EIO */};

	s->box->fail_commits = errors[prng_below(&s->random, ARRAY_LEN(errors))];
	s->box->polls_max = prng_below(&s->random, 8);
	if (s->box->fail_commits)
		verdicts_disk_fails(s);
	sim_event(s, "the disk: error %ld, at most %ld polls", s->box->fail_commits,
		  s->box->polls_max, 0, 0);
}

static void step_wall(struct sim *s)
{
	int64_t seconds = (int64_t)prng_below(&s->random, 20000) - 10000;

	sim_event(s, "the wall clock is stepped by %ld s", seconds, 0, 0, 0);
	box_step_wall_s(seconds);
	operator_wall_stepped(s, seconds);
}

static void set_hops(struct sim *s)
{
	s->box->hops_salt = prng_below(&s->random, 3) * prng_below(&s->random, 1000);
	s->box->hops_changed = true;
	sim_event(s, "next hops: salt %ld", s->box->hops_salt, 0, 0, 0);
}

bool sim_step(struct sim *s)
{
	const struct sim_mood *m = &s->mood;
	unsigned dice = prng_below(&s->random, 10000);

	s->step++;
	if (dice < m->clients)
		traffic_send(s);
	else if ((dice -= m->clients) < m->control)
		run_control(s);
	else if ((dice -= m->control) < m->request)
		operator_request(s);
	else if ((dice -= m->request) < m->tick)
		box_advance_ms(1);
	else if ((dice -= m->tick) < m->leap)
		leap(s);
	else if ((dice -= m->leap) < m->kill)
		kill_process(s, false);
	else if ((dice -= m->kill) < m->reboot)
		kill_process(s, true);
	else if ((dice -= m->reboot) < m->disk)
		set_disk(s);
	else if ((dice -= m->disk) < m->hops)
		set_hops(s);
	else if ((dice -= m->hops) < m->audit)
		counters_audit(s);
	else if ((dice -= m->audit) < m->agents)
		backends_step(s->backends);
	else if ((dice -= m->agents) < m->wall)
		step_wall(s);
	else if ((dice -= m->wall) < m->health)
		verdicts_step(s);
	else
		run_worker(s, prng_below(&s->random, s->box->n_workers), draw_fuel(s));
	if (s->model->fault[0])
		sim_wrong(s, "%s", s->model->fault);
	return !s->fault[0];
}

/* --- life ---------------------------------------------------------------------------------- */

static void draw_mood(struct sim *s)
{
	struct prng *r = &s->random;

	s->mood = (struct sim_mood){.clients = 800 + prng_below(r, 800),
				    .control = sim_chance(s, 4) ? 60 : 500 + prng_below(r, 3000),
				    .request = 40 + prng_below(r, 200),
				    .tick = 50 + prng_below(r, 400),
				    .leap = 5 + prng_below(r, 60),
				    .kill = sim_chance(s, 3) ? 0 : prng_below(r, 12),
				    .reboot = sim_chance(s, 2) ? 0 : prng_below(r, 4),
				    .disk = sim_chance(s, 2) ? 0 : prng_below(r, 20),
				    .hops = sim_chance(s, 2) ? 0 : prng_below(r, 20),
				    .audit = 1 + prng_below(r, 20),
				    .agents = sim_chance(s, 3) ? 0 : 400 + prng_below(r, 1200),
				    .wall = sim_chance(s, 2) ? 0 : prng_below(r, 8),
				    .health = sim_chance(s, 3) ? 0 : 20 + prng_below(r, 200)};
	s->burst_max = sim_chance(s, 4) ? 2 : 1 + prng_below(r, 24);
	s->box->n_workers = 1 + prng_below(r, BOX_WORKERS_MAX);
	s->odd_share = 8 + prng_below(r, 40);
	s->fragment_share = 4 + prng_below(r, 60);
	s->box->tx_ring = sim_chance(s, 4) ? 8 : 64;
	s->box->headroom = sim_chance(s, 8) ? 24 : 128; /* room for an outer IPv4 header alone */
	s->box->n_flows = sim_chance(s, 4) ? 64 + prng_below(r, 128) : 1024;
}

/* In one run of four hashes have so few bits that several flows have the same one all the time, and
 * nearly every one meets another's fingerprint: 3 of it, 3 of the loss bucket, the rest names the
 * home Dcode and the place in the seen cache. */
static void narrow_hashes(struct sim *s)
{
	unsigned bits = 12 + prng_below(&s->random, 9);

	if (s->seed % 4 == 1)
		fault_hash_mask = 7ull << 61 | 7ull << 32 | ((1ull << (bits - 6)) - 1);
}

struct sim *sim_new(uint64_t seed)
{
	struct sim *s = calloc(1, sizeof(*s));

	assert(s);
	s->seed = seed;
	s->random = (struct prng){seed};
	s->model = malloc(sizeof(*s->model));
	assert(s->model);
	model_init(s->model);
	s->model->down_by_health = verdicts_may_be_down;
	s->model->ctx = s;
	s->box = box_new(seed);
	draw_mood(s);
	narrow_hashes(s);
	operator_init(s);
	traffic_init(s);
	s->backends = backends_new(s);
	noting = s;
	box_start(s->box);
	return s;
}

void sim_run_all(struct sim *s)
{
	run_control(s);
	for (unsigned w = 0; w < s->box->n_workers; w++)
		run_worker(s, w, 1000);
}

void sim_end(struct sim *s)
{
	for (unsigned i = 0; (i < 200 || !s->box->at_rest) && !s->fault[0]; i++)
		sim_run_all(s);
	agreement_reach(s);
	for (unsigned i = 0; (i < 200 || !s->box->at_rest) && !s->fault[0]; i++) {
		if (s->mood.health && i < 150)
			box_advance_ms(1000); /* publishes keep a distance */
		sim_run_all(s);
	}
	verdicts_check(s, true);
	if (s->box->control->stats.violations_total)
		sim_wrong(s, "the forwarder itself counts a violation");
	if (!s->fault[0])
		box_stop(s->box);
}

void sim_free(struct sim *s)
{
	noting = NULL;
	fault_hash_mask = UINT64_MAX;
	if (s->fault[0] && s->box->alive)
		box_kill(s->box, false);
	box_free(s->box);
	backends_free(s->backends);
	free(s->model);
	free(s);
}
