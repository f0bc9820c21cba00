/* The set of ends that may be in use, and what stands on it: which DIPs of a transaction are
 * refused because another has their address, or in mode nat their end, against a search through
 * all. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static int callocs_left = -1; /* < 0: any number */

static void *scarce_calloc(size_t n, size_t size)
{
	if (callocs_left == 0)
		return NULL;
	callocs_left -= callocs_left > 0;
	return calloc(n, size);
}

#define calloc scarce_calloc
#include "control/end_set.c"
#undef calloc

#include "tests/unit/edits.h"
#include "tests/unit/prng.h"

#define KEYS 3000u

static struct end_key random_key(struct prng *rng)
{
	uint8_t ip[4] = {10, 9, (uint8_t)prng_below(rng, 2), (uint8_t)prng_below(rng, 20)};

	return (struct end_key){.address = ip_addr_v4(ip),
				.port = (uint16_t)prng_below(rng, 20),
				.proto = (uint8_t)prng_below(rng, 3),
				.kind = (uint8_t)(1 + prng_below(rng, 2))};
}

static bool is_among(const struct end_key *keys, unsigned n, const struct end_key *key)
{
	for (unsigned i = 0; i < n; i++)
		if (memcmp(&keys[i], key, sizeof(*key)) == 0)
			return true;
	return false;
}

START_TEST(has_what_was_added)
{
	static struct end_key added[KEYS];
	struct prng rng = prng_new("ends");
	struct end_set s = {.failed = false};

	for (unsigned n = 0; n < KEYS; n++) {
		struct end_key other = random_key(&rng);
		if (end_set_may_have(&s, &other) != is_among(added, n, &other))
			ck_abort_msg("key %u", n);
		added[n] = random_key(&rng);
		end_set_add(&s, &added[n]);
		if (!end_set_may_have(&s, &added[n]))
			ck_abort_msg("key %u is not there", n);
	}
	ck_assert(!s.failed);
	end_set_free(&s);
}
END_TEST

/* Whatever could not be kept may be there. */
START_TEST(without_memory_anything_may_be_there)
{
	for (int left = 0; left < 3; left++) {
		struct prng rng = prng_new("scarce");
		struct end_set s = {.failed = false};
		callocs_left = left;
		for (unsigned n = 0; n < 400; n++) {
			struct end_key key = random_key(&rng), other = random_key(&rng);
			end_set_add(&s, &key);
			ck_assert(end_set_may_have(&s, &key));
			ck_assert(!s.failed || end_set_may_have(&s, &other));
		}
		ck_assert(s.failed);
		callocs_left = -1;
		end_set_free(&s);
	}
}
END_TEST

/* --- transactions -------------------------------------------------------------------------- */

static const struct {
	const char *id;
	unsigned port;
	enum vip_protocol protocol;
	enum vip_mode mode;
} vips[] = {
	{"all", 0, VIP_ANY, VIP_NAT},	   {"dns", 53, VIP_UDP, VIP_NAT},
	{"other", 443, VIP_TCP, VIP_NAT},  {"web", 80, VIP_TCP, VIP_NAT},
	{"direct", 8080, VIP_TCP, VIP_L2}, /* until it becomes one of mode nat, too */
};
#define DIRECT 4u
#define N_VIPS 5u

static const unsigned dip_ports[] = {0, 80, 8080};

/* What has been made. */
struct made {
	unsigned vip, last, port; /* port: where it is sent to, 0 = any */
};

static struct {
	bool direct_is_nat;
	unsigned n, n_refused;
	struct made made[EDITS_MAX];
} model;

static bool is_nat(unsigned vip)
{
	return vip != DIRECT || model.direct_is_nat;
}

static bool share_protocol(unsigned v, unsigned w)
{
	return vips[v].protocol == VIP_ANY || vips[w].protocol == VIP_ANY ||
	       vips[v].protocol == vips[w].protocol;
}

/* nat: the VIPs are both of that mode. */
static bool collide(const struct made *x, const struct made *y, bool nat)
{
	if (x->last != y->last)
		return false;
	if (x->vip == y->vip)
		return true;
	return nat && share_protocol(x->vip, y->vip) &&
	       (x->port == y->port || !x->port || !y->port);
}

static void add_dip(struct edits *s, struct prng *rng, const char *id)
{
	unsigned vip = prng_below(rng, N_VIPS), last = 11 + prng_below(rng, 4);
	unsigned port = vip == DIRECT || !vips[vip].port ? 0 : dip_ports[prng_below(rng, 3)];
	struct made m = {.vip = vip, .last = last, .port = port ? port : vips[vip].port};
	bool refused = false;

	edits_put_dip(s, vips[vip].id, id, last, 1);
	s->dips[s->n - 1].members |= DIP_M_PORT;
	s->dips[s->n - 1].conf.port = port;
	for (unsigned i = 0; i < model.n; i++)
		refused |= collide(&m, &model.made[i], is_nat(vip) && is_nat(model.made[i].vip));
	model.n_refused += refused;
	if (!refused)
		model.made[model.n++] = m;
}

static void make_direct_nat(struct edits *s)
{
	bool refused = false;

	edits_add(s, OP_VIP_PATCH, "direct", NULL);
	s->vips[s->n - 1].members = VIP_M_MODE;
	s->vips[s->n - 1].conf.mode = VIP_NAT;
	for (unsigned i = 0; i < model.n; i++)
		for (unsigned k = 0; k < model.n; k++)
			refused |= model.made[i].vip == DIRECT && model.made[k].vip != DIRECT &&
				   collide(&model.made[i], &model.made[k], true);
	model.n_refused += refused && !model.direct_is_nat;
	model.direct_is_nat |= !refused;
}

static void put_vips(struct world *w)
{
	struct edits *s = edits_new();

	for (unsigned i = 0; i < N_VIPS; i++) {
		edits_put_vip(s, vips[i].id, vips[i].port);
		s->vips[i].conf.match.protocol = vips[i].protocol;
		s->vips[i].members |= VIP_M_MODE;
		s->vips[i].conf.mode = vips[i].mode;
	}
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	edits_free(s);
}

START_TEST(refuses_what_a_search_would)
{
	struct prng rng = prng_new("transactions");
	struct world *w = world_new(1, 1024);
	unsigned n_whole = 0, n_refused = 0;

	put_vips(w);
	for (unsigned round = 0; round < 4000; round++) {
		struct edits *s = edits_new();
		unsigned n = 2 + prng_below(&rng, EDITS_MAX - 1);
		memset(&model, 0, sizeof(model));
		s->t.dry_run = true;
		while (s->n < n) {
			char id[16];
			snprintf(id, sizeof(id), "d%u", s->n);
			if (prng_below(&rng, 6))
				add_dip(s, &rng, id);
			else
				make_direct_nat(s);
		}
		enum control_status status = edits_run(s, w);
		if ((status == CONTROL_OK) != (model.n_refused == 0) ||
		    s->r.errors.n != model.n_refused)
			ck_abort_msg("round %u: status %d (%s), %u refused, not %u", round, status,
				     s->r.detail, s->r.errors.n, model.n_refused);
		n_whole += status == CONTROL_OK;
		n_refused += model.n_refused;
		edits_free(s);
	}
	ck_assert_uint_gt(n_whole, 200);
	ck_assert_uint_gt(n_refused, 2000);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ends");
	TCase *tc = tcase_create("ends");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, has_what_was_added);
	tcase_add_test(tc, without_memory_anything_may_be_there);
	tcase_add_test(tc, refuses_what_a_search_would);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
