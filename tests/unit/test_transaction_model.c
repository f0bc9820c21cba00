/* Random transactions, on a naive model: all or nothing, no known flow moves, nothing is left
 * behind. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"
#include "tests/unit/edits.h"
#include "tests/unit/prng.h"

static struct world *w;

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
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

enum { FLOWS = 300, TURNS = SANITIZED ? 400 : 1500 };
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
static void forget_cut(const struct edits *s)
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

static bool random_edit(struct edits *s, struct model *m, struct prng *rng)
{
	unsigned v = prng_below(rng, VIPS), d = prng_below(rng, DIPS);
	uint32_t weight = prng_below(rng, 6);
	char vip[8], dip[8];

	names(v, d, vip, dip);
	switch (prng_below(rng, 12)) {
	case 0:
	case 1:
		edits_put_vip(s, vip, 80 + v);
		break;
	case 2:
		edits_add(s, OP_VIP_DELETE, vip, NULL)->force = prng_below(rng, 2);
		break;
	case 3:
		edits_add(s, OP_VIP_PATCH, vip, NULL);
		break;
	case 4:
	case 5:
		edits_add(s, OP_DIP_DELETE, vip, dip)->force = prng_below(rng, 2);
		break;
	case 6:
	case 7:
		edits_weight(s, vip, dip, weight);
		break;
	default:
		edits_put_dip(s, vip, dip, last_of(v, d), weight);
	}
	return model_edit(m, &s->edits[s->n - 1], v, d, weight);
}

/* A word for each way in which it can go. */
static unsigned n_accepted, n_refused, n_planned;

static bool all_ways_gone(void)
{
	return n_accepted > 50 && n_refused > 50 && n_planned > 10;
}

static void random_transaction(struct model *m, struct prng *rng)
{
	struct model next = *m;
	struct edits *s = edits_new();
	unsigned n = 1 + prng_below(rng, EDITS_MAX - 1);
	bool fails = prng_below(rng, 10) == 0, ok = true;
	uint64_t generation = control_generation(w->control);
	uint64_t next_dip = w->control->next_dip_uid;

	for (unsigned i = 0; i < n; i++)
		ok &= random_edit(s, &next, rng);
	s->t.dry_run = prng_below(rng, 4) == 0;
	w->fail_commit = fails ? EIO : 0;
	unsigned n_commits = w->n_commits;
	enum control_status status = edits_run(s, w);
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
	edits_free(s);
}

START_TEST(random_transactions_are_whole_or_not_at_all)
{
	struct prng rng = prng_new("transactions");
	struct model m = {0};

	w = world_new(1, 65536);
	memset(lives, 0, sizeof(lives));
	n_accepted = n_refused = n_planned = 0;
	/* Long enough that each way was gone, whatever the seed; most edits together are refused.
	 */
	for (unsigned i = 0; i < TURNS || (i < 50 * TURNS && !all_ways_gone()); i++) {
		random_transaction(&m, &rng);
		open_some(&rng);
		model_settle(&m);
		world_advance_ms(100 + prng_below(&rng, 6000)); /* indexes rest */
		world_settle(w);
		model_settle(&m);
	}
	printf("%u accepted, %u refused, %u planned\n", n_accepted, n_refused, n_planned);
	ck_assert(all_ways_gone()); /* else the seed shows nothing */
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transaction_model");
	TCase *t = tcase_create("transaction_model");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, random_transactions_are_whole_or_not_at_all);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
