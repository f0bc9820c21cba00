/* Transactions: all or nothing, with one publish, against a naive model; dry runs, which leave
 * nothing; changes that ask for what is there already; and preconditions. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define EDITS_MAX 12

static struct world *w;

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

/* --- making transactions ------------------------------------------------------------------- */

/* Edits and what they point at. */
struct script {
	struct control_request r;
	struct control_transaction t;
	unsigned n;
	struct control_edit edits[EDITS_MAX];
	char ids[EDITS_MAX][2][ID_LEN];
	struct vip_edit vips[EDITS_MAX];
	struct dip_edit dips[EDITS_MAX];
};

static struct script *script_new(void)
{
	struct script *s = calloc(1, sizeof(*s));

	s->r.transaction = &s->t;
	s->t.several = true;
	s->t.edits = s->edits;
	return s;
}

static struct control_edit *script_add(struct script *s, enum control_op op, const char *vip,
				       const char *dip)
{
	struct control_edit *e = &s->edits[s->n];

	snprintf(s->ids[s->n][0], ID_LEN, "%s", vip);
	snprintf(s->ids[s->n][1], ID_LEN, "%s", dip ? dip : "");
	vip_conf_defaults(&s->vips[s->n].conf);
	dip_conf_defaults(&s->dips[s->n].conf);
	*e = (struct control_edit){.op = op,
				   .vip = s->ids[s->n][0],
				   .dip = s->ids[s->n][1],
				   .vip_edit = &s->vips[s->n],
				   .dip_edit = &s->dips[s->n]};
	snprintf(e->pointer, sizeof(e->pointer), "/operations/%u/body", s->n);
	s->t.n_edits = ++s->n;
	return e;
}

static void add_put_vip(struct script *s, const char *vip, unsigned port)
{
	script_add(s, OP_VIP_PUT, vip, NULL);
	struct vip_edit *v = &s->vips[s->n - 1];
	v->members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	v->conf.match = (struct vip_match){frames_ip(WORLD_VIP_ADDRESS), (uint16_t)port, VIP_TCP};
}

static void add_put_dip(struct script *s, const char *vip, const char *dip, unsigned last,
			uint32_t weight)
{
	uint8_t address[4] = {10, 9, 0, (uint8_t)last};

	script_add(s, OP_DIP_PUT, vip, dip);
	struct dip_edit *d = &s->dips[s->n - 1];
	d->members = DIP_M_ADDRESS | DIP_M_WEIGHT;
	d->conf.address = ip_addr_v4(address);
	d->conf.weight = weight;
}

static void add_weight(struct script *s, const char *vip, const char *dip, uint32_t weight)
{
	script_add(s, OP_DIP_PATCH, vip, dip);
	s->dips[s->n - 1].members = DIP_M_WEIGHT;
	s->dips[s->n - 1].conf.weight = weight;
}

static enum control_status run(struct script *s)
{
	world_request(w, &s->r);
	return s->r.status;
}

static void script_free(struct script *s)
{
	control_transaction_clear(&s->t);
	free(s);
}

static void start(unsigned n_dips)
{
	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

/* --- the naive model ----------------------------------------------------------------------- */

enum { VIPS = 3, DIPS = 5 };

struct model_dip {
	bool exists, deleting;
	uint32_t weight;
};

struct model_vip {
	bool exists, deleting;
	struct model_dip dips[DIPS];
};

struct model {
	struct model_vip vips[VIPS];
};

static void names(unsigned v, unsigned d, char vip[8], char dip[8])
{
	snprintf(vip, 8, "v%u", v);
	snprintf(dip, 8, "d%u", d);
}

/* Of a flow: which VIP and DIP it lives on. DIP addresses tell both. */
static unsigned last_of(unsigned v, unsigned d)
{
	return 10 + v * DIPS + d;
}

static bool model_edit(struct model *m, const struct control_edit *e, unsigned v, unsigned d,
		       uint32_t weight)
{
	struct model_vip *vip = &m->vips[v];
	struct model_dip *dip = &vip->dips[d];

	if (!vip->exists && e->op != OP_VIP_PUT)
		return false;
	switch (e->op) {
	case OP_VIP_PUT:
		if (!vip->exists)
			*vip = (struct model_vip){.exists = true};
		vip->deleting = false;
		return true;
	case OP_VIP_PATCH:
		return true;
	case OP_VIP_DELETE:
		vip->deleting = true;
		if (e->force)
			*vip = (struct model_vip){.exists = false};
		return true;
	case OP_DIP_PUT:
		*dip = (struct model_dip){.exists = true, .weight = weight};
		return true;
	case OP_DIP_PATCH:
		dip->weight = weight;
		return dip->exists;
	default:
		if (!dip->exists)
			return false;
		dip->deleting = true;
		if (e->force)
			*dip = (struct model_dip){.exists = false};
		return true;
	}
}

/* What drains and has no flow is gone. */
static void model_settle(struct model *m)
{
	char vip[8], dip[8];

	for (unsigned v = 0; v < VIPS; v++) {
		names(v, 0, vip, dip);
		const struct vip_runtime *rt = control_find_vip(w->control, vip);
		uint32_t flows = rt ? rt->flows.n : 0; /* those of cut DIPs too */
		for (unsigned d = 0; d < DIPS; d++) {
			names(v, d, vip, dip);
			const struct dip_version *dv = rt ? vip_version_dip(rt->now, dip) : NULL;
			uint64_t n = dv ? rt->flows.dip_flows[dv->index] : 0;
			if (m->vips[v].dips[d].deleting && n == 0)
				m->vips[v].dips[d] = (struct model_dip){.exists = false};
		}
		if (m->vips[v].deleting && flows == 0)
			m->vips[v] = (struct model_vip){.exists = false};
	}
}

static void compare(const struct model *m)
{
	unsigned n_vips = 0, n_dips = 0;
	char vip[8], dip[8];

	for (unsigned v = 0; v < VIPS; v++) {
		names(v, 0, vip, dip);
		const struct vip_runtime *rt = control_find_vip(w->control, vip);
		expect((rt != NULL) == m->vips[v].exists);
		n_vips += rt != NULL;
		if (!rt)
			continue;
		expect(rt->now->deleting == m->vips[v].deleting);
		unsigned here = 0, used = 0;
		for (unsigned d = 0; d < DIPS; d++) {
			const struct model_dip *md = &m->vips[v].dips[d];
			names(v, d, vip, dip);
			const struct dip_version *dv = vip_version_dip(rt->now, dip);
			expect((dv != NULL) == md->exists);
			here += dv != NULL;
			expect(!dv ||
			       (dv->conf.weight == md->weight && dv->deleting == md->deleting));
		}
		expect(rt->now->n_dips == here);
		for (unsigned i = 0; i < rt->n_dips; i++)
			used += rt->dips[i].used;
		expect(used == here); /* no index is left behind */
		n_dips += here;
	}
	expect(w->control->n_vips == n_vips && w->disk.n_vips == n_vips);
	expect(w->control->n_free_counters == DIP_COUNTERS_MAX - n_dips);
	expect(w->n_steered == n_vips);
}

/* --- flows --------------------------------------------------------------------------------- */

enum { FLOWS = 300 };
static uint8_t lives[FLOWS]; /* last byte of its DIP's address; 0 = none */

static unsigned send_to(uint32_t i, uint8_t flags)
{
	uint8_t src[4] = {10, 1, (uint8_t)(i >> 8), (uint8_t)i};
	struct frames_spec s = {.src = ip_addr_v4(src),
				.dst = frames_ip(WORLD_VIP_ADDRESS),
				.sport = 1024,
				.dport = (uint16_t)(80 + i % VIPS),
				.tcp_flags = flags};

	return world_send(w, 0, &s);
}

static void open_some(struct prng *rng)
{
	for (unsigned n = prng_below(rng, 12); n; n--) {
		uint32_t i = prng_below(rng, FLOWS);
		if (!lives[i])
			lives[i] = (uint8_t)send_to(i, FRAMES_SYN);
	}
	world_settle(w);
}

/* What was cut lost its flows; every other one must be where it was. */
static void check_flows(const struct model *m)
{
	for (uint32_t i = 0; i < FLOWS; i++) {
		unsigned v = i % VIPS;
		if (!lives[i])
			continue;
		const struct model_vip *vip = &m->vips[v];
		bool there = vip->exists && vip->dips[(lives[i] - 10u) % DIPS].exists;
		if (!there)
			lives[i] = 0;
		else
			expect(send_to(i, FRAMES_ACK) == lives[i]);
	}
	world_settle(w);
}

/* A forced deletion with a creation of the same name after it makes another one, without the flows.
 */
static void forget_cut(const struct script *s)
{
	for (unsigned k = 0; k < s->n; k++) {
		const struct control_edit *e = &s->edits[k];
		if (!e->force || (e->op != OP_VIP_DELETE && e->op != OP_DIP_DELETE))
			continue;
		unsigned v = (unsigned)e->vip[1] - '0';
		for (uint32_t i = v; i < FLOWS; i += VIPS)
			if (lives[i] && (e->op == OP_VIP_DELETE ||
					 (lives[i] - 10u) % DIPS == (unsigned)e->dip[1] - '0'))
				lives[i] = 0;
	}
}

static bool random_edit(struct script *s, struct model *m, struct prng *rng)
{
	unsigned v = prng_below(rng, VIPS), d = prng_below(rng, DIPS);
	uint32_t weight = prng_below(rng, 6);
	char vip[8], dip[8];

	names(v, d, vip, dip);
	switch (prng_below(rng, 12)) {
	case 0:
	case 1:
		add_put_vip(s, vip, 80 + v);
		break;
	case 2:
		script_add(s, OP_VIP_DELETE, vip, NULL)->force = prng_below(rng, 2);
		break;
	case 3:
		script_add(s, OP_VIP_PATCH, vip, NULL);
		break;
	case 4:
	case 5:
		script_add(s, OP_DIP_DELETE, vip, dip)->force = prng_below(rng, 2);
		break;
	case 6:
	case 7:
		add_weight(s, vip, dip, weight);
		break;
	default:
		add_put_dip(s, vip, dip, last_of(v, d), weight);
	}
	return model_edit(m, &s->edits[s->n - 1], v, d, weight);
}

/* A word for each way in which it can go. */
static unsigned n_accepted, n_refused, n_planned;

static void random_transaction(struct model *m, struct prng *rng)
{
	struct model next = *m;
	struct script *s = script_new();
	unsigned n = 1 + prng_below(rng, EDITS_MAX - 1);
	bool fails = prng_below(rng, 10) == 0, ok = true;
	uint64_t generation = control_generation(w->control);
	uint64_t next_dip = w->control->next_dip_uid;

	for (unsigned i = 0; i < n; i++)
		ok &= random_edit(s, &next, rng);
	s->t.dry_run = prng_below(rng, 4) == 0;
	w->fail_commit = fails ? EIO : 0;
	unsigned n_commits = w->n_commits;
	enum control_status status = run(s);
	w->fail_commit = 0;
	if (!ok) {
		expect(status > CONTROL_ACCEPTED && field_errors_count(&s->r.errors) > 0);
		expect(strncmp(s->r.errors.list[0].pointer, "/operations/", 12) == 0);
	}
	bool done = ok && !s->t.dry_run && status <= CONTROL_ACCEPTED;
	if (done) {
		expect(w->n_commits - n_commits <= 1 &&
		       control_generation(w->control) - generation <= 1);
		forget_cut(s);
		*m = next;
		model_settle(m);
		n_accepted++;
	} else {
		expect(!ok || fails || s->t.dry_run);
		expect(control_generation(w->control) == generation);
		expect(w->control->next_dip_uid == next_dip);
		n_refused += !ok;
		n_planned += ok && s->t.dry_run;
	}
	world_settle(w);
	model_settle(m);
	compare(m);
	check_flows(m);
	script_free(s);
}

START_TEST(random_transactions_are_whole_or_not_at_all)
{
	struct prng rng = prng_new("transactions");
	struct model m = {0};

	w = world_new(1, 65536);
	memset(lives, 0, sizeof(lives));
	n_accepted = n_refused = n_planned = 0;
	for (unsigned i = 0; i < (SANITIZED ? 400 : 1500); i++) {
		random_transaction(&m, &rng);
		open_some(&rng);
		model_settle(&m);
		world_advance_ms(100 + prng_below(&rng, 6000)); /* indexes rest */
		world_settle(w);
		model_settle(&m);
	}
	printf("%u accepted, %u refused, %u planned\n", n_accepted, n_refused, n_planned);
	ck_assert(n_accepted > 50 && n_refused > 50 && n_planned > 10);
	end();
}
END_TEST

/* --- one thing at a time ------------------------------------------------------------------- */

START_TEST(all_faults_of_all_edits_are_told)
{
	struct script *s = script_new();

	start(2);
	add_weight(s, "web", "b1", WEIGHT_MAX + 1);
	add_weight(s, "web", "b2", 3);
	add_weight(s, "web", "b7", 1);
	add_put_vip(s, "new", 81);
	s->vips[3].members &= ~(uint64_t)VIP_M_PORT;
	s->vips[3].conf.drain_timeout_s = UINT32_MAX;
	add_put_dip(s, "new", "d1", 9, 1); /* of a VIP that was refused: nothing new */
	add_put_dip(s, "web", "b3", 1, 1);
	uint64_t generation = control_generation(w->control);
	ck_assert_int_eq(run(s), CONTROL_INVALID);
	ck_assert_uint_eq(s->r.errors.n, 4);
	ck_assert_str_eq(s->r.errors.list[0].pointer, "/operations/0/body/weight");
	ck_assert_str_eq(s->r.errors.list[1].pointer, "/operations/2/body");
	ck_assert_str_eq(s->r.errors.list[1].code, "not_found");
	ck_assert_str_eq(s->r.errors.list[2].pointer, "/operations/3/body/port");
	ck_assert_str_eq(s->r.errors.list[3].pointer, "/operations/5/body/address");
	ck_assert_uint_eq(control_generation(w->control), generation);
	ck_assert_uint_eq(w->control->n_vips, 1);
	script_free(s);
	end();
}
END_TEST

START_TEST(one_edit_after_another_in_one_publish)
{
	struct script *s = script_new();

	start(2);
	uint64_t generation = control_generation(w->control);
	uint16_t index = vip_version_dip(control_find_vip(w->control, "web")->now, "b1")->index;
	add_weight(s, "web", "b1", 7);
	script_add(s, OP_DIP_DELETE, "web", "b1")->force = true;
	add_put_dip(s, "web", "b1", 99, 2); /* even its address may be another */
	add_put_vip(s, "tmp", 81);
	add_put_dip(s, "tmp", "d1", 9, 1);
	script_add(s, OP_VIP_DELETE, "tmp", NULL);
	add_put_vip(s, "more", 82);
	add_put_dip(s, "more", "d1", 9, 1);
	script_add(s, OP_DIP_DELETE, "more", "d1"); /* without force: an edit may yet keep it */
	add_put_dip(s, "more", "d1", 9, 5);
	s->t.want_conf = true;
	ck_assert_int_eq(run(s), CONTROL_OK);
	ck_assert_uint_eq(control_generation(w->control), generation + 1);
	const struct vip_runtime *web = control_find_vip(w->control, "web");
	const struct dip_version *b1 = vip_version_dip(web->now, "b1");
	ck_assert_uint_eq(b1->conf.address.b[15], 99);
	ck_assert_uint_ne(b1->index, index);
	ck_assert(!control_find_vip(w->control, "tmp"));
	ck_assert_uint_eq(
		vip_version_dip(control_find_vip(w->control, "more")->now, "d1")->conf.weight, 5);
	ck_assert_int_eq(s->edits[2].status, CONTROL_CREATED);
	ck_assert_uint_eq(s->edits[2].dip_conf->weight, 2);
	ck_assert_int_eq(s->edits[5].status, CONTROL_OK);
	ck_assert_ptr_null(s->edits[5].vip_conf);
	ck_assert_int_eq(s->edits[9].status, CONTROL_OK);
	ck_assert_uint_eq(w->control->n_free_counters, DIP_COUNTERS_MAX - 3);
	script_free(s);
	end();
}
END_TEST

/* The packets of its match are never, not even for a moment, the host's own kernel's. */
START_TEST(a_vip_is_replaced_without_a_gap)
{
	struct script *s = script_new();

	start(2);
	unsigned was = world_tcp(w, 0, 1, FRAMES_SYN, 0);
	ck_assert_uint_ne(was, 0);
	world_settle(w);
	uint32_t uid = control_find_vip(w->control, "web")->uid;
	script_add(s, OP_VIP_DELETE, "web", NULL)->force = true;
	add_put_vip(s, "web", 80);
	add_put_dip(s, "web", "b7", 7, 1);
	ck_assert_int_eq(run(s), CONTROL_OK);
	ck_assert_uint_eq(w->n_unsteered_total, 0);
	ck_assert_uint_eq(w->n_steered, 1);
	ck_assert_uint_ne(control_find_vip(w->control, "web")->uid, uid);
	ck_assert_uint_eq(w->disk.n_vips, 1);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 0), 7);
	world_settle(w);
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 0), 7);
	script_free(s);
	world_settle(w);
	world_free(w); /* the cut connection is lost, as was asked for */
}
END_TEST

/* --- dry runs ------------------------------------------------------------------------------ */

/* Everything that can be read. */
struct picture {
	struct consistency c;
	struct persist_state disk; /* its numbers */
	size_t n;
	struct vip_info *vips;
	uint64_t next_dip_uid;
	uint32_t next_vip_uid, n_free_counters;
	unsigned n_commits, n_steered;
};

static struct picture take_picture(void)
{
	struct picture p = {.disk = w->disk,
			    .next_dip_uid = w->control->next_dip_uid,
			    .next_vip_uid = w->control->next_vip_uid,
			    .n_free_counters = w->control->n_free_counters,
			    .n_commits = w->n_commits,
			    .n_steered = w->n_steered};

	p.c = world_consistency(w);
	p.vips = control_read_vips(w->control, NULL, true, &p.n);
	return p;
}

static void compare_pictures(struct picture *x, struct picture *y)
{
	ck_assert_mem_eq(&x->c, &y->c, sizeof(x->c));
	ck_assert_mem_eq(&x->disk, &y->disk, sizeof(x->disk));
	ck_assert(x->next_dip_uid == y->next_dip_uid && x->next_vip_uid == y->next_vip_uid);
	ck_assert(x->n_free_counters == y->n_free_counters && x->n_commits == y->n_commits);
	ck_assert(x->n == y->n && x->n_steered == y->n_steered);
	for (size_t i = 0; i < x->n; i++) {
		ck_assert_uint_eq(x->vips[i].n_dips, y->vips[i].n_dips);
		ck_assert_mem_eq(x->vips[i].dips, y->vips[i].dips,
				 x->vips[i].n_dips * sizeof(*x->vips[i].dips));
		x->vips[i].dips = (free(x->vips[i].dips), NULL);
		y->vips[i].dips = (free(y->vips[i].dips), NULL);
	}
	ck_assert_mem_eq(x->vips, y->vips, x->n * sizeof(*x->vips));
	vip_infos_free(x->vips, x->n);
	vip_infos_free(y->vips, y->n);
}

static void fill_script(struct script *s)
{
	add_weight(s, "web", "b1", 30);
	script_add(s, OP_DIP_DELETE, "web", "b2")->force = true;
	add_put_dip(s, "web", "b9", 9, 20);
	add_put_vip(s, "new", 81);
	add_put_dip(s, "new", "d1", 9, 1);
}

START_TEST(a_dry_run_leaves_nothing_and_tells_the_truth)
{
	struct script *dry = script_new(), *wet = script_new();

	start(4);
	for (uint32_t i = 0; i < 20000; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	fill_script(dry);
	dry->t.dry_run = true;
	struct picture before = take_picture();
	ck_assert_int_eq(run(dry), CONTROL_OK);
	struct picture after = take_picture();
	compare_pictures(&before, &after);
	ck_assert_uint_eq(dry->t.n_plans, 2);
	const struct plan_info *web = &dry->t.plans[0], *new = &dry->t.plans[1];
	ck_assert(!web->created && new->created && !new->removed);
	ck_assert_uint_gt(web->flows_moved, 1000);
	ck_assert_uint_gt(web->flows_pinned, 1000);
	ck_assert_uint_gt(web->pin_bytes, 1000);

	fill_script(wet);
	ck_assert_int_eq(run(wet), CONTROL_OK);
	ck_assert_uint_eq(wet->r.change.dcodes_moved, dry->r.change.dcodes_moved);
	ck_assert_uint_eq(wet->r.change.flows_moved, dry->r.change.flows_moved);
	ck_assert_uint_eq(wet->r.change.flows_pinned, dry->r.change.flows_pinned);
	size_t n;
	struct vip_info *v = control_read_vips(w->control, "web", true, &n);
	ck_assert_uint_eq(web->n_dips, v->n_dips + 1);
	for (unsigned i = 0; i < v->n_dips; i++) {
		ck_assert_str_eq(web->dips[i].id, v->dips[i].conf.id);
		ck_assert_uint_eq(web->dips[i].dcodes, v->dips[i].dcodes);
		ck_assert(web->dips[i].created == (strcmp(web->dips[i].id, "b9") == 0));
	}
	ck_assert_str_eq(web->dips[v->n_dips].id, "b2");
	ck_assert(web->dips[v->n_dips].removed && web->dips[v->n_dips].dcodes == 0);
	vip_infos_free(v, n);
	script_free(dry);
	script_free(wet);
	world_settle(w);
	world_free(w);
}
END_TEST

/* Learning goes on while a dry run plans: no record is lost, none is forgotten. */
static unsigned n_opened_meanwhile;

static void open_meanwhile(struct world *world)
{
	for (unsigned i = 0; i < 50; i++)
		world_tcp(world, 0, 40000 + n_opened_meanwhile++, FRAMES_SYN, 0);
}

static enum control_status open_in_prepare(void *ctx, struct control_view *view,
					   struct control_transaction *t)
{
	(void)view;
	(void)t;
	open_meanwhile(ctx);
	return CONTROL_OK;
}

START_TEST(flows_open_during_a_dry_run)
{
	struct script *s = script_new();

	start(4);
	for (uint32_t i = 0; i < 10000; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	add_weight(s, "web", "b1", 30);
	s->t.dry_run = true;
	s->t.ctx = w;
	s->t.prepare = open_in_prepare;
	ck_assert_int_eq(run(s), CONTROL_OK);
	ck_assert_uint_gt(n_opened_meanwhile, 0);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, 10000 + n_opened_meanwhile);
	s->t.dry_run = false;
	control_transaction_clear(&s->t);
	ck_assert_int_eq(run(s), CONTROL_OK);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, 10000 + n_opened_meanwhile);
	script_free(s);
	end();
}
END_TEST

/* --- what is there already ----------------------------------------------------------------- */

START_TEST(what_is_there_already_is_no_change)
{
	struct script *s = script_new();

	start(2);
	struct picture before = take_picture();
	struct control_request *r = world_set_weight(w, "web", 1, 10);
	ck_assert_uint_eq(r->change.generation, before.c.generation);
	ck_assert_uint_eq(r->change.dcodes_moved, 0);
	world_put_dip(w, "web", 2, 10, CONTROL_OK);
	world_put_vip(w, "web", VIP_TCP, CONTROL_OK);
	add_weight(s, "web", "b1", 77);
	add_weight(s, "web", "b1", 10); /* there and back */
	add_put_vip(s, "tmp", 81);
	script_add(s, OP_VIP_DELETE, "tmp", NULL)->force = true;
	ck_assert_int_eq(run(s), CONTROL_OK);
	struct picture after = take_picture();
	after.next_vip_uid = before.next_vip_uid; /* numbers that were used are not used again */
	compare_pictures(&before, &after);
	script_free(s);
	s = script_new();
	ck_assert_int_eq(run(s), CONTROL_OK); /* nothing at all */
	script_free(s);
	end();
}
END_TEST

/* --- preconditions ------------------------------------------------------------------------- */

/* Go on only if the DIP has the weight that was read. */
struct expectation {
	uint32_t weight, seen;
};

static enum control_status check_weight(void *ctx, struct control_view *view,
					struct control_transaction *t)
{
	struct expectation *e = ctx;
	struct control_view_vip v;
	bool deleting = true;

	(void)t;
	ck_assert(control_view_find(view, "web", &v));
	ck_assert(!control_view_find(view, "nobody", &v));
	ck_assert(control_view_find(view, "web", &v));
	const struct dip_conf *d = control_view_find_dip(&v, "b1", &deleting);
	ck_assert(d && !deleting);
	ck_assert_ptr_null(control_view_find_dip(&v, "b77", &deleting));
	e->seen = d->weight;
	return d->weight == e->weight ? CONTROL_OK : CONTROL_PRECONDITION;
}

/* Requests that wait together see what the ones before them will have made: of ten that all read
 * the same weight, one goes through. */
START_TEST(waiting_together_loses_no_update)
{
	enum { N = 10 };
	struct control_request r[N];
	struct control_transaction t[N];
	struct expectation e[N];
	bool done[N];
	unsigned n_ok = 0;

	start(2);
	for (unsigned i = 0; i < N; i++) {
		e[i] = (struct expectation){.weight = 10};
		t[i] = (struct control_transaction){.ctx = &e[i], .prepare = check_weight};
		r[i] = (struct control_request){
			.op = OP_DIP_PATCH, .vip = "web", .dip = "b1", .transaction = &t[i]};
		r[i].dip_edit.members = DIP_M_WEIGHT;
		r[i].dip_edit.conf.weight = 11 + i;
		control_change_async(w->control, &r[i], &done[i]);
	}
	unsigned n_commits = w->n_commits;
	world_settle(w);
	for (unsigned i = 0; i < N; i++) {
		ck_assert(done[i]);
		n_ok += r[i].status == CONTROL_OK;
		ck_assert(r[i].status == CONTROL_OK || r[i].status == CONTROL_PRECONDITION);
		ck_assert_uint_eq(e[i].seen, i ? 11 : 10);
	}
	ck_assert_uint_eq(n_ok, 1);
	ck_assert_uint_eq(w->n_commits, n_commits + 1);
	end();
}
END_TEST

/* --- up to the swap ------------------------------------------------------------------------ */

static void open_taken_flow(struct world *world)
{
	world->on_submit = NULL;
	ck_assert_uint_eq(world_tcp(world, 0, 1, FRAMES_SYN, 0), 1);
}

/* A flow that a new VIP would take over opens after the commit: nothing of the transaction stays,
 * in memory or on disk, and that is so too where the disk fails just then. */
START_TEST(a_takeover_undoes_the_whole_transaction)
{
	struct script *s = script_new();

	w = world_new(1, 65536);
	struct control_request any = {.op = OP_VIP_PUT, .vip = "any"};
	vip_conf_defaults(&any.vip_edit.conf);
	any.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	any.vip_edit.conf.match = (struct vip_match){frames_ip(WORLD_VIP_ADDRESS), 0, VIP_TCP};
	ck_assert_int_eq(world_request(w, &any)->status, CONTROL_CREATED);
	world_put_dip(w, "any", 1, 10, CONTROL_CREATED);
	add_weight(s, "any", "b1", 3);
	add_put_vip(s, "web", 80);
	w->on_submit = open_taken_flow;
	ck_assert_int_eq(run(s), CONTROL_CONFLICT);
	ck_assert_str_eq(s->r.errors.list[0].pointer, "/operations/1/body/address");
	ck_assert_str_eq(s->r.errors.list[0].code, "overlap");
	world_settle(w);
	ck_assert_uint_eq(w->control->n_vips, 1);
	ck_assert_uint_eq(w->disk.n_vips, 1);
	ck_assert_uint_eq(w->disk.vips[0].dips[0].conf.weight, 10);
	ck_assert_uint_eq(w->n_steered, 1);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 1), 1);
	world_settle(w);
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 1), 1);
	script_free(s);
	end();
}
END_TEST

static void fail_after(struct world *world)
{
	ck_assert_uint_eq(world_tcp(world, 0, 1, FRAMES_SYN, 0), 1);
	world->on_submit = NULL;
	world->user = world;
}

/* poll is asked after submit has written: only later commits fail. */
static void fail_later(struct world *world)
{
	if (world->user && world->n_commits > 3)
		world->fail_commit = EIO;
}

START_TEST(a_takeover_is_undone_on_disk_once_it_writes_again)
{
	w = world_new(1, 65536);
	struct control_request any = {.op = OP_VIP_PUT, .vip = "any"};
	vip_conf_defaults(&any.vip_edit.conf);
	any.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	any.vip_edit.conf.match = (struct vip_match){frames_ip(WORLD_VIP_ADDRESS), 0, VIP_TCP};
	ck_assert_int_eq(world_request(w, &any)->status, CONTROL_CREATED);
	world_put_dip(w, "any", 1, 10, CONTROL_CREATED);
	w->on_submit = fail_after;
	w->on_poll = fail_later;
	world_put_vip(w, "web", VIP_TCP, CONTROL_CONFLICT);
	ck_assert_uint_eq(w->control->n_vips, 1);
	w->on_poll = NULL;
	w->fail_commit = 0;
	world_advance_ms(2000);
	world_settle(w);
	ck_assert_uint_eq(w->disk.n_vips, 1);
	ck_assert_uint_eq(w->control->n_stale, 0);
	end();
}
END_TEST

/* What may leave only empty stays if a flow opens on it after the commit. */
START_TEST(a_flow_up_to_the_swap_keeps_what_would_leave)
{
	struct script *s = script_new();

	start(1);
	world_put_dip(w, "web", 2, 10, CONTROL_CREATED);
	world_set_weight(w, "web", 2, 0);
	script_add(s, OP_DIP_DELETE, "web", "b1");
	add_put_dip(s, "web", "b3", 3, 1);
	w->on_submit = open_taken_flow;
	ck_assert_int_eq(run(s), CONTROL_OK);
	ck_assert_int_eq(s->edits[0].status, CONTROL_ACCEPTED);
	ck_assert_uint_eq(s->edits[0].flows_remaining, 1);
	ck_assert(s->edits[0].deleting);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 1), 1);
	world_settle(w);
	script_free(s);
	end();
}
END_TEST

/* --- the record ---------------------------------------------------------------------------- */

static char told[4096];
static unsigned n_told;

static void tell_begin(void *ctx)
{
	(void)ctx;
	told[0] = '\0';
	n_told = 0;
}

static void tell(void *ctx, const struct control_seen *s)
{
	size_t n = strlen(told);
	const void *before = s->dip ? (const void *)s->dip_before : (const void *)s->vip_before;
	const void *after = s->dip ? (const void *)s->dip_after : (const void *)s->vip_after;

	(void)ctx;
	n_told++;
	snprintf(told + n, sizeof(told) - n, "%s/%s:%s%s%s ", s->vip, s->dip ? s->dip : "",
		 before ? "was" : "", after ? "is" : "", s->draining ? "drains" : "");
}

static const char *tell_text(void *ctx, unsigned *n)
{
	*n = n_told;
	return ctx ? told : NULL;
}

static unsigned n_entries;
static char first_entry[512];

static void see_log(struct world *world)
{
	n_entries += world->txn->n_log;
	if (world->txn->n_log)
		snprintf(first_entry, sizeof(first_entry), "%s %s %u %llu-%llu",
			 world->txn->log[0].author, world->txn->log[0].action,
			 world->txn->log[0].n_edits,
			 (unsigned long long)world->txn->log[0].generation_before,
			 (unsigned long long)world->txn->log[0].generation);
}

static void record(struct script *s)
{
	s->t.ctx = w;
	s->t.begin = tell_begin;
	s->t.edited = tell;
	s->t.text = tell_text;
	s->t.action = "POST /x";
	snprintf(s->r.author, sizeof(s->r.author), "me");
	n_entries = 0;
	w->on_submit = see_log;
}

START_TEST(the_log_goes_with_the_change)
{
	struct script *s = script_new();
	char want[64];

	start(2);
	world_tcp(w, 0, 1, FRAMES_SYN, 0);
	world_tcp(w, 0, 2, FRAMES_SYN, 0);
	world_tcp(w, 0, 4, FRAMES_SYN, 0);
	world_settle(w);
	unsigned long long generation = control_generation(w->control);
	add_weight(s, "web", "b1", 10); /* is no edit */
	add_weight(s, "web", "b1", 11);
	add_put_dip(s, "web", "b3", 3, 1);
	script_add(s, OP_VIP_DELETE, "web", NULL);
	add_put_vip(s, "web", 80);
	record(s);
	ck_assert_int_eq(run(s), CONTROL_OK);
	ck_assert_str_eq(told, "web/b1:wasis web/b3:is web/b1:wasdrains web/b2:wasdrains "
			       "web/b3:wasdrains web/:wasdrains web/:is web/b1:is web/b2:is "
			       "web/b3:is ");
	ck_assert_uint_eq(n_entries, 1);
	snprintf(want, sizeof(want), "me POST /x 10 %llu-%llu", generation, generation + 1);
	ck_assert_str_eq(first_entry, want);
	script_free(s);

	s = script_new(); /* no change, no entry */
	add_weight(s, "web", "b1", 11);
	record(s);
	ck_assert_int_eq(run(s), CONTROL_OK);
	ck_assert_uint_eq(n_entries, 0);
	script_free(s);

	s = script_new(); /* without memory for the record there is no change either */
	add_weight(s, "web", "b1", 12);
	record(s);
	s->t.ctx = NULL;
	ck_assert_int_eq(run(s), CONTROL_FAILED);
	ck_assert_uint_eq(n_entries, 0);
	ck_assert_uint_eq(
		vip_version_dip(control_find_vip(w->control, "web")->now, "b1")->conf.weight, 11);
	w->on_submit = NULL;
	script_free(s);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transaction");
	TCase *t = tcase_create("transaction");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, random_transactions_are_whole_or_not_at_all);
	tcase_add_test(t, all_faults_of_all_edits_are_told);
	tcase_add_test(t, one_edit_after_another_in_one_publish);
	tcase_add_test(t, a_vip_is_replaced_without_a_gap);
	tcase_add_test(t, a_dry_run_leaves_nothing_and_tells_the_truth);
	tcase_add_test(t, flows_open_during_a_dry_run);
	tcase_add_test(t, what_is_there_already_is_no_change);
	tcase_add_test(t, waiting_together_loses_no_update);
	tcase_add_test(t, a_takeover_undoes_the_whole_transaction);
	tcase_add_test(t, a_takeover_is_undone_on_disk_once_it_writes_again);
	tcase_add_test(t, a_flow_up_to_the_swap_keeps_what_would_leave);
	tcase_add_test(t, the_log_goes_with_the_change);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
