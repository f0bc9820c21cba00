/* Transactions: what is told of faults, one edit after another, preconditions, flows that open up
 * to the swap, and the record for the log. */
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

/* --- one thing at a time ------------------------------------------------------------------- */

START_TEST(all_faults_of_all_edits_are_told)
{
	struct edits *s = edits_new();

	w = edits_world(2);
	edits_weight(s, "web", "b1", WEIGHT_MAX + 1);
	edits_weight(s, "web", "b2", 3);
	edits_weight(s, "web", "b7", 1);
	edits_put_vip(s, "new", 81);
	s->vips[3].members &= ~(uint64_t)VIP_M_PORT;
	s->vips[3].conf.drain_timeout_s = UINT32_MAX;
	edits_put_dip(s, "new", "d1", 9, 1); /* of a VIP that was refused: nothing new */
	edits_put_dip(s, "web", "b3", 1, 1);
	uint64_t generation = control_generation(w->control);
	ck_assert_int_eq(edits_run(s, w), CONTROL_INVALID);
	ck_assert_uint_eq(s->r.errors.n, 4);
	ck_assert_str_eq(s->r.errors.list[0].pointer, "/operations/0/body/weight");
	ck_assert_str_eq(s->r.errors.list[1].pointer, "/operations/2/body");
	ck_assert_str_eq(s->r.errors.list[1].code, "not_found");
	ck_assert_str_eq(s->r.errors.list[2].pointer, "/operations/3/body/port");
	ck_assert_str_eq(s->r.errors.list[3].pointer, "/operations/5/body/address");
	ck_assert_uint_eq(control_generation(w->control), generation);
	ck_assert_uint_eq(w->control->n_vips, 1);
	edits_free(s);
	end();
}
END_TEST

START_TEST(one_edit_after_another_in_one_publish)
{
	struct edits *s = edits_new();

	w = edits_world(2);
	uint64_t generation = control_generation(w->control);
	uint16_t index = vip_version_dip(control_find_vip(w->control, "web")->now, "b1")->index;
	edits_weight(s, "web", "b1", 7);
	edits_add(s, OP_DIP_DELETE, "web", "b1")->force = true;
	edits_put_dip(s, "web", "b1", 99, 2); /* even its address may be another */
	edits_put_vip(s, "tmp", 81);
	edits_put_dip(s, "tmp", "d1", 9, 1);
	edits_add(s, OP_VIP_DELETE, "tmp", NULL);
	edits_put_vip(s, "more", 82);
	edits_put_dip(s, "more", "d1", 9, 1);
	edits_add(s, OP_DIP_DELETE, "more", "d1"); /* without force: an edit may yet keep it */
	edits_put_dip(s, "more", "d1", 9, 5);
	s->t.want_conf = true;
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
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
	edits_free(s);
	end();
}
END_TEST

/* The packets of its match are never, not even for a moment, the host's own kernel's. */
START_TEST(a_vip_is_replaced_without_a_gap)
{
	struct edits *s = edits_new();

	w = edits_world(2);
	unsigned was = world_tcp(w, 0, 1, FRAMES_SYN, 0);
	ck_assert_uint_ne(was, 0);
	world_settle(w);
	uint32_t uid = control_find_vip(w->control, "web")->uid;
	edits_add(s, OP_VIP_DELETE, "web", NULL)->force = true;
	edits_put_vip(s, "web", 80);
	edits_put_dip(s, "web", "b7", 7, 1);
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	ck_assert_uint_eq(w->n_unsteered_total, 0);
	ck_assert_uint_eq(w->n_steered, 1);
	ck_assert_uint_ne(control_find_vip(w->control, "web")->uid, uid);
	ck_assert_uint_eq(w->disk.n_vips, 1);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 0), 7);
	world_settle(w);
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 0), 7);
	edits_free(s);
	world_settle(w);
	world_free(w); /* the cut connection is lost, as was asked for */
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

	w = edits_world(2);
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
	struct edits *s = edits_new();

	w = world_new(1, 65536);
	struct control_request any = {.op = OP_VIP_PUT, .vip = "any"};
	vip_conf_defaults(&any.vip_edit.conf);
	any.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	any.vip_edit.conf.match = (struct vip_match){
		.address = frames_ip(WORLD_VIP_ADDRESS), .port = 0, .protocol = VIP_TCP};
	ck_assert_int_eq(world_request(w, &any)->status, CONTROL_CREATED);
	world_put_dip(w, "any", 1, 10, CONTROL_CREATED);
	edits_weight(s, "any", "b1", 3);
	edits_put_vip(s, "web", 80);
	w->on_submit = open_taken_flow;
	ck_assert_int_eq(edits_run(s, w), CONTROL_CONFLICT);
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
	edits_free(s);
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
	any.vip_edit.conf.match = (struct vip_match){
		.address = frames_ip(WORLD_VIP_ADDRESS), .port = 0, .protocol = VIP_TCP};
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
	struct edits *s = edits_new();

	w = edits_world(1);
	world_put_dip(w, "web", 2, 10, CONTROL_CREATED);
	world_set_weight(w, "web", 2, 0);
	edits_add(s, OP_DIP_DELETE, "web", "b1");
	edits_put_dip(s, "web", "b3", 3, 1);
	w->on_submit = open_taken_flow;
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	ck_assert_int_eq(s->edits[0].status, CONTROL_ACCEPTED);
	ck_assert_uint_eq(s->edits[0].flows_remaining, 1);
	ck_assert(s->edits[0].deleting);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 1), 1);
	world_settle(w);
	edits_free(s);
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

static void record(struct edits *s)
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
	struct edits *s = edits_new();
	char want[64];

	w = edits_world(2);
	world_tcp(w, 0, 1, FRAMES_SYN, 0);
	world_tcp(w, 0, 2, FRAMES_SYN, 0);
	world_tcp(w, 0, 4, FRAMES_SYN, 0);
	world_settle(w);
	unsigned long long generation = control_generation(w->control);
	edits_weight(s, "web", "b1", 10); /* is no edit */
	edits_weight(s, "web", "b1", 11);
	edits_put_dip(s, "web", "b3", 3, 1);
	edits_add(s, OP_VIP_DELETE, "web", NULL);
	edits_put_vip(s, "web", 80);
	record(s);
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	ck_assert_str_eq(told, "web/b1:wasis web/b3:is web/b1:wasdrains web/b2:wasdrains "
			       "web/b3:wasdrains web/:wasdrains web/:is web/b1:is web/b2:is "
			       "web/b3:is ");
	ck_assert_uint_eq(n_entries, 1);
	snprintf(want, sizeof(want), "me POST /x 10 %llu-%llu", generation, generation + 1);
	ck_assert_str_eq(first_entry, want);
	edits_free(s);

	s = edits_new(); /* no change, no entry */
	edits_weight(s, "web", "b1", 11);
	record(s);
	ck_assert_int_eq(edits_run(s, w), CONTROL_OK);
	ck_assert_uint_eq(n_entries, 0);
	edits_free(s);

	s = edits_new(); /* without memory for the record there is no change either */
	edits_weight(s, "web", "b1", 12);
	record(s);
	s->t.ctx = NULL;
	ck_assert_int_eq(edits_run(s, w), CONTROL_FAILED);
	ck_assert_uint_eq(n_entries, 0);
	ck_assert_uint_eq(
		vip_version_dip(control_find_vip(w->control, "web")->now, "b1")->conf.weight, 11);
	w->on_submit = NULL;
	edits_free(s);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transaction");
	TCase *t = tcase_create("transaction");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, all_faults_of_all_edits_are_told);
	tcase_add_test(t, one_edit_after_another_in_one_publish);
	tcase_add_test(t, a_vip_is_replaced_without_a_gap);
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
