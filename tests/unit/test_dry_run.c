/* Dry runs, which leave nothing, and changes that ask for what is there already. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"
#include "tests/unit/edits.h"

static struct world *w;

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

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

static void fill_script(struct edits *s)
{
	edits_weight(s, "web", "b1", 30);
	edits_add(s, OP_DIP_DELETE, "web", "b2")->force = true;
	edits_put_dip(s, "web", "b9", 9, 20);
	edits_put_vip(s, "new", 81);
	edits_put_dip(s, "new", "d1", 9, 1);
}

/* The only DIP has all Dcodes whatever its weight, and is changed all the same; its neighbours are
 * not. */
START_TEST(a_dry_run_names_what_is_configured_otherwise)
{
	w = edits_world(1);
	for (unsigned round = 0; round < 2; round++) {
		struct edits *dry = edits_new();
		dry->t.dry_run = true;
		edits_weight(dry, "web", "b1", round ? 77 : 30);
		if (round)
			edits_weight(dry, "web", "b2", 0);
		ck_assert_int_eq(edits_run(dry, w), CONTROL_OK);
		ck_assert_uint_eq(dry->t.n_plans, 1);
		const struct plan_info *p = &dry->t.plans[0];
		ck_assert_uint_eq(p->n_dips, round + 1);
		ck_assert(p->dips[0].changed && p->dips[0].dcodes == p->dips[0].dcodes_before);
		ck_assert(!p->dips[0].created && !p->dips[0].removed);
		ck_assert(!round || !p->dips[1].changed);
		edits_free(dry);
		if (!round)
			world_put_dip(w, "web", 2, 0, CONTROL_CREATED);
	}
	end();
}
END_TEST

START_TEST(a_dry_run_leaves_nothing_and_tells_the_truth)
{
	struct edits *dry = edits_new(), *wet = edits_new();

	w = edits_world(4);
	for (uint32_t i = 0; i < 20000; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	fill_script(dry);
	dry->t.dry_run = true;
	struct picture before = take_picture();
	ck_assert_int_eq(edits_run(dry, w), CONTROL_OK);
	struct picture after = take_picture();
	compare_pictures(&before, &after);
	ck_assert_uint_eq(dry->t.n_plans, 2);
	const struct plan_info *web = &dry->t.plans[0], *new = &dry->t.plans[1];
	ck_assert(!web->created && new->created && !new->removed);
	ck_assert_uint_gt(web->flows_moved, 1000);
	ck_assert_uint_gt(web->flows_pinned, 1000);
	ck_assert_uint_gt(web->pin_bytes, 1000);

	fill_script(wet);
	ck_assert_int_eq(edits_run(wet, w), CONTROL_OK);
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
	edits_free(dry);
	edits_free(wet);
	world_settle(w);
	world_free(w);
}
END_TEST

/* Plan it; then ask for it, and see whether it comes to just that. */
static void plan_and_say(unsigned last, enum health_override state, struct control_transaction *t,
			 struct change_info *change)
{
	struct health_request r = {
		.vip = "web", .state = state, .reason = "x", .plan = t, .change = change};
	bool done;

	snprintf(r.dip, sizeof(r.dip), "b%u", last);
	control_override_health_async(w->control, &r, &done);
	while (!done)
		control_step(w->control);
	ck_assert_int_eq(r.status, last > 4 ? CONTROL_NOT_FOUND : CONTROL_OK);
	if (last > 4)
		return;
	struct picture before = take_picture();
	r.plan = NULL;
	control_override_health_async(w->control, &r, &done);
	while (!done)
		control_step(w->control);
	ck_assert_int_eq(r.status, CONTROL_OK);
	struct picture after = take_picture();
	ck_assert_uint_eq(after.c.flows_pinned, change->flows_pinned);
	for (unsigned i = 0; i < t->plans[0].n_dips; i++) {
		ck_assert_str_eq(t->plans[0].dips[i].id, after.vips[0].dips[i].conf.id);
		ck_assert_uint_eq(t->plans[0].dips[i].dcodes, after.vips[0].dips[i].dcodes);
		ck_assert_uint_eq(t->plans[0].dips[i].dcodes_before, before.vips[0].dips[i].dcodes);
	}
	vip_infos_free(before.vips, before.n);
	vip_infos_free(after.vips, after.n);
}

/* What an operator asks before a DIP is marked down, or up again. */
START_TEST(overrides_are_planned_too)
{
	struct control_transaction t = {.dry_run = true};
	struct change_info change;

	w = edits_world(4);
	for (uint32_t i = 0; i < 20000; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	struct picture before = take_picture();
	plan_and_say(5, OVERRIDE_DOWN, &t, &change);
	struct picture after = take_picture();
	compare_pictures(&before, &after);
	plan_and_say(3, OVERRIDE_DOWN, &t, &change);
	ck_assert_uint_eq(t.plans[0].dips[2].dcodes, 0);
	ck_assert_uint_gt(t.plans[0].dips[2].dcodes_before, 0);
	control_transaction_clear(&t);
	plan_and_say(3, OVERRIDE_NONE, &t, &change);
	ck_assert_uint_gt(t.plans[0].dips[2].dcodes, 0);
	control_transaction_clear(&t);
	world_settle(w);
	world_free(w);
}
END_TEST

/* A plan alone leaves nothing behind. */
START_TEST(a_planned_override_leaves_nothing)
{
	struct control_transaction t = {.dry_run = true};
	struct change_info change;
	struct health_request r = {.vip = "web",
				   .dip = "b2",
				   .state = OVERRIDE_DOWN,
				   .ttl_s = 60,
				   .reason = "x",
				   .plan = &t,
				   .change = &change};
	bool done;

	w = edits_world(4);
	for (uint32_t i = 0; i < 5000; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	struct picture before = take_picture();
	control_override_health_async(w->control, &r, &done);
	while (!done)
		control_step(w->control);
	ck_assert_int_eq(r.status, CONTROL_OK);
	ck_assert_uint_eq(t.plans[0].dips[1].dcodes, 0);
	ck_assert_uint_gt(t.plans[0].dips[1].dcodes_before, 0);
	world_settle(w);
	struct picture after = take_picture();
	compare_pictures(&before, &after);
	control_transaction_clear(&t);
	end();
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
	struct edits *s = edits_new();

	w = edits_world(4);
	for (uint32_t i = 0; i < 10000; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	edits_weight(s, "web", "b1", 30);
	s->t.dry_run = true;
	s->t.ctx = w;
	s->t.prepare = open_in_prepare;
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	ck_assert_uint_gt(n_opened_meanwhile, 0);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, 10000 + n_opened_meanwhile);
	s->t.dry_run = false;
	control_transaction_clear(&s->t);
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, 10000 + n_opened_meanwhile);
	edits_free(s);
	end();
}
END_TEST

/* --- what is there already ----------------------------------------------------------------- */

START_TEST(what_is_there_already_is_no_change)
{
	struct edits *s = edits_new();

	w = edits_world(2);
	struct picture before = take_picture();
	struct control_request *r = world_set_weight(w, "web", 1, 10);
	ck_assert_uint_eq(r->change.generation, before.c.generation);
	ck_assert_uint_eq(r->change.dcodes_moved, 0);
	world_put_dip(w, "web", 2, 10, CONTROL_OK);
	world_put_vip(w, "web", VIP_TCP, CONTROL_OK);
	edits_weight(s, "web", "b1", 77);
	edits_weight(s, "web", "b1", 10); /* there and back */
	edits_put_vip(s, "tmp", 81);
	edits_add(s, OP_VIP_DELETE, "tmp", NULL)->force = true;
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	struct picture after = take_picture();
	after.next_vip_uid = before.next_vip_uid; /* numbers that were used are not used again */
	compare_pictures(&before, &after);
	edits_free(s);
	s = edits_new();
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK); /* nothing at all */
	edits_free(s);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dry_run");
	TCase *t = tcase_create("dry_run");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, a_dry_run_names_what_is_configured_otherwise);
	tcase_add_test(t, a_dry_run_leaves_nothing_and_tells_the_truth);
	tcase_add_test(t, overrides_are_planned_too);
	tcase_add_test(t, a_planned_override_leaves_nothing);
	tcase_add_test(t, flows_open_during_a_dry_run);
	tcase_add_test(t, what_is_there_already_is_no_change);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
