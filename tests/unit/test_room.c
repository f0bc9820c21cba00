/* Limits hold for what there is when a change is done, however it gets there: at each of them
 * everything can be replaced in one publish, and one more is refused with nothing half done. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/internal.h"
#include "tests/unit/world.h"

#define MANY (3 * VIPS_MAX)

static struct world *w;
static struct vip_edit *vip_edits;
static struct dip_edit *dip_edits;
static struct control_edit *edits;
static char (*ids)[2][ID_LEN];
static unsigned n_edits;

static void set_up(void)
{
	w = world_new(1, 65536);
	vip_edits = calloc(MANY, sizeof(*vip_edits));
	dip_edits = calloc(MANY, sizeof(*dip_edits));
	edits = calloc(MANY, sizeof(*edits));
	ids = calloc(MANY, sizeof(*ids));
	n_edits = 0;
}

static void tear_down(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
	free(vip_edits);
	free(dip_edits);
	free(edits);
	free(ids);
}

static struct control_edit *add(enum control_op op, const char *vip, const char *dip)
{
	struct control_edit *e = &edits[n_edits];

	ck_assert_uint_lt(n_edits, MANY);
	snprintf(ids[n_edits][0], ID_LEN, "%s", vip);
	snprintf(ids[n_edits][1], ID_LEN, "%s", dip);
	vip_conf_defaults(&vip_edits[n_edits].conf);
	dip_conf_defaults(&dip_edits[n_edits].conf);
	vip_edits[n_edits].members = dip_edits[n_edits].members = 0;
	*e = (struct control_edit){.op = op,
				   .vip = ids[n_edits][0],
				   .dip = ids[n_edits][1],
				   .vip_edit = &vip_edits[n_edits],
				   .dip_edit = &dip_edits[n_edits]};
	snprintf(e->pointer, sizeof(e->pointer), "/operations/%u", n_edits++);
	return e;
}

/* VIP v<i>, of port 1 + i. */
static void put_vip(unsigned i)
{
	char id[ID_LEN];

	snprintf(id, sizeof(id), "v%u", i);
	add(OP_VIP_PUT, id, "");
	struct vip_edit *v = &vip_edits[n_edits - 1];
	v->members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	v->conf.match = (struct vip_match){.address = frames_ip(WORLD_VIP_ADDRESS),
					   .port = (uint16_t)(1 + i),
					   .protocol = VIP_TCP};
}

static void delete_vip(unsigned i, bool force)
{
	char id[ID_LEN];

	snprintf(id, sizeof(id), "v%u", i);
	add(OP_VIP_DELETE, id, "")->force = force;
}

/* DIP d<i> of "web", of address 10.10.x.y. */
static void put_dip(unsigned i)
{
	char id[ID_LEN];

	snprintf(id, sizeof(id), "d%u", i);
	add(OP_DIP_PUT, "web", id);
	struct dip_edit *d = &dip_edits[n_edits - 1];
	d->members = DIP_M_ADDRESS;
	d->conf.address = ip_addr_v4((const uint8_t[]){10, 10, (uint8_t)(i >> 8), (uint8_t)i});
}

static void delete_dip(unsigned i, bool force)
{
	char id[ID_LEN];

	snprintf(id, sizeof(id), "d%u", i);
	add(OP_DIP_DELETE, "web", id)->force = force;
}

static struct control_request r;

/* What was put together, as one; the next begins anew. */
static enum control_status run(void)
{
	struct control_transaction t = {.several = true, .n_edits = n_edits, .edits = edits};

	memset(&r, 0, sizeof(r));
	r.transaction = &t;
	world_request(w, &r);
	control_transaction_clear(&t);
	n_edits = 0;
	r.transaction = NULL;
	return r.status;
}

static void make(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_vip(i);
	ck_assert_int_eq(run(), CONTROL_OK);
	ck_assert_uint_eq(w->control->n_vips, n);
}

/* What a refused change must leave as it was. */
struct seen {
	uint64_t generation;
	unsigned n_vips, n_free_slots, n_steered, n_on_disk, n_commits;
	uint32_t n_free_counters;
};

static struct seen look(void)
{
	const struct control *c = w->control;

	return (struct seen){.generation = c->generation,
			     .n_vips = c->n_vips,
			     .n_free_slots = c->index.n_free_slots,
			     .n_steered = w->n_steered,
			     .n_on_disk = w->disk.n_vips,
			     .n_commits = w->n_commits,
			     .n_free_counters = c->n_free_counters};
}

static void expect_same(const struct seen *x)
{
	struct seen y = look();

	ck_assert(x->generation == y.generation && x->n_vips == y.n_vips &&
		  x->n_free_slots == y.n_free_slots && x->n_steered == y.n_steered &&
		  x->n_on_disk == y.n_on_disk && x->n_commits == y.n_commits &&
		  x->n_free_counters == y.n_free_counters);
}

static void expect_limit(const char *limit, unsigned i, const char *pointer)
{
	ck_assert_str_eq(r.errors.list[i].code, "limit");
	ck_assert_str_eq(r.errors.list[i].pointer, pointer);
	ck_assert_ptr_nonnull(strstr(r.errors.list[i].detail, limit));
}

/* --- VIPs ---------------------------------------------------------------------------------- */

/* What each of thousands of edits looks for is found in a few steps. */
static void expect_short_chains(void)
{
	const struct vip_index *x = &w->control->index;
	unsigned longest = 0, n = 0;

	for (unsigned i = 0; i < VIPS_MAX; i++) {
		unsigned of_id = 0, of_match = 0, of_uid = 0;
		for (const struct vip_runtime *v = x->by_id[i]; v; v = v->next_of_id)
			of_id++;
		for (const struct vip_runtime *v = x->by_match[i]; v; v = v->next_of_match)
			of_match++;
		for (const struct vip_runtime *v = x->by_uid[i]; v; v = v->next_of_uid)
			of_uid++;
		n += of_id;
		longest = of_id > longest ? of_id : longest;
		longest = of_match > longest ? of_match : longest;
		longest = of_uid > longest ? of_uid : longest;
	}
	ck_assert_uint_eq(n, VIPS_MAX);
	ck_assert_uint_lt(longest, 20); /* of 4,096 in as many: 6 or 7 */
}

START_TEST(all_vips_are_replaced_at_once)
{
	make(VIPS_MAX);
	expect_short_chains();
	uint64_t generation = w->control->generation;
	for (unsigned i = 0; i < VIPS_MAX; i++)
		put_vip(VIPS_MAX + i); /* what comes first must not have to wait for what goes */
	for (unsigned i = 0; i < VIPS_MAX; i++)
		delete_vip(i, i % 2); /* idle ones leave at once without force, too */
	ck_assert_int_eq(run(), CONTROL_OK);
	ck_assert_uint_eq(w->control->generation, generation + 1);
	ck_assert_uint_eq(w->control->n_vips, VIPS_MAX);
	ck_assert_uint_eq(w->disk.n_vips, VIPS_MAX);
	ck_assert_uint_eq(w->n_steered, VIPS_MAX);
	ck_assert_uint_eq(w->control->index.n_free_slots, VIP_SLOTS - VIPS_MAX);
	ck_assert_ptr_null(control_find_vip(w->control, "v0"));
	ck_assert_ptr_nonnull(control_find_vip(w->control, "v8191"));
	expect_short_chains();
}
END_TEST

/* More than both tables can hold at all. */
START_TEST(far_too_many_vips)
{
	struct seen before = look();

	for (unsigned i = 0; i < VIP_SLOTS + 2; i++)
		put_vip(i);
	ck_assert_int_eq(run(), CONTROL_INVALID);
	expect_limit("vips: 4096", 0, "/operations/8192");
	expect_same(&before);
	make(1);
}
END_TEST

static void open_port_80(void)
{
	struct control_request d = {.op = OP_DIP_PUT, .vip = "v79", .dip = "b1"};

	dip_conf_defaults(&d.dip_edit.conf);
	d.dip_edit.members = DIP_M_ADDRESS;
	d.dip_edit.conf.address = frames_ip("10.9.0.1");
	ck_assert_int_eq(world_request(w, &d)->status, CONTROL_CREATED);
}

static void open_flow(struct world *world)
{
	world->on_submit = NULL;
	ck_assert_uint_eq(world_tcp(world, 0, 1, FRAMES_SYN, 0), 1);
}

static void expect_one_too_many(void)
{
	struct seen before = look();
	put_vip(VIPS_MAX);
	put_vip(VIPS_MAX + 1);
	put_vip(VIPS_MAX + 2);
	delete_vip(7, true);
	ck_assert_int_eq(run(), CONTROL_INVALID);
	ck_assert_uint_eq(r.errors.n, 1);
	expect_limit("vips: 4096", 0, "/operations/2");
	expect_same(&before);

	struct control_request one = {.op = OP_VIP_PUT, .vip = "one"};
	put_vip(VIPS_MAX); /* for its members */
	n_edits = 0;
	one.vip_edit = vip_edits[0];
	ck_assert_int_eq(world_request(w, &one)->status, CONTROL_CREATED);
	before = look();
	strcpy(one.vip, "two");
	one.vip_edit.conf.match.port++;
	ck_assert_int_eq(world_request(w, &one)->status, CONTROL_INVALID);
	expect_same(&before);
}

/* It was idle when the change was looked at, and has a connection when it is to leave: it stays, so
 * there is no room for the other one, which is taken off the disk again. */
static void expect_late_flow_takes_room(void)
{
	struct seen before = look();
	delete_vip(79, false);
	put_vip(5000);
	w->on_submit = open_flow;
	ck_assert_int_eq(run(), CONTROL_INVALID);
	expect_limit("vips: 4096", 0, "/operations/1");
	world_settle(w);
	ck_assert_uint_eq(w->control->n_vips, before.n_vips);
	ck_assert_uint_eq(w->disk.n_vips, VIPS_MAX);
	ck_assert_uint_eq(w->control->index.n_free_slots, before.n_free_slots);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 1), 1);
	world_settle(w);
	world_restart(w, WORLD_KILL);
	ck_assert_ptr_nonnull(control_find_vip(w->control, "v79"));
	ck_assert_ptr_null(control_find_vip(w->control, "v5000"));
	ck_assert_uint_eq(w->control->index.n_free_slots, VIP_SLOTS - VIPS_MAX);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 1), 1);
	world_settle(w);
}

/* A VIP that drains is still there. */
static void expect_draining_makes_no_room(void)
{
	struct seen before = look();
	delete_vip(79, false);
	put_vip(5000);
	ck_assert_int_eq(run(), CONTROL_INVALID);
	expect_limit("vips: 4096", 0, "/operations/1");
	expect_same(&before);
	ck_assert(!control_find_vip(w->control, "v79")->now->deleting);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_ACK, 1), 1);
	world_settle(w);
}

START_TEST(one_vip_too_many)
{
	make(VIPS_MAX - 1);
	expect_one_too_many();
	open_port_80();
	expect_late_flow_takes_room();
	expect_draining_makes_no_room();
}
END_TEST

/* --- DIPs ---------------------------------------------------------------------------------- */

START_TEST(all_dips_of_a_vip_are_replaced_at_once)
{
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned i = 0; i < DIPS_PER_VIP_MAX; i++)
		put_dip(i);
	ck_assert_int_eq(run(), CONTROL_OK);
	uint64_t generation = w->control->generation;
	for (unsigned i = 0; i < DIPS_PER_VIP_MAX; i++)
		put_dip(DIPS_PER_VIP_MAX + i);
	for (unsigned i = 0; i < DIPS_PER_VIP_MAX; i++)
		delete_dip(i, i % 2);
	ck_assert_int_eq(run(), CONTROL_OK);
	ck_assert_uint_eq(w->control->generation, generation + 1);
	const struct vip_version *web = control_find_vip(w->control, "web")->now;
	ck_assert_uint_eq(web->n_dips, DIPS_PER_VIP_MAX);
	ck_assert_uint_eq(w->disk.vips[0].n_dips, DIPS_PER_VIP_MAX);
	ck_assert_uint_eq(w->control->n_free_counters, DIP_COUNTERS_MAX - DIPS_PER_VIP_MAX);
	ck_assert_ptr_null(vip_version_dip(web, "d0"));
	ck_assert_ptr_nonnull(vip_version_dip(web, "d8191"));
	struct seen before = look();
	put_dip(1);
	put_dip(2);
	delete_dip(DIPS_PER_VIP_MAX, true);
	ck_assert_int_eq(run(), CONTROL_INVALID);
	ck_assert_uint_eq(r.errors.n, 1);
	expect_limit("dips_per_vip: 4096", 0, "/operations/1");
	expect_same(&before);
	world_put_dip(w, "web", 1, 1, CONTROL_INVALID);
	expect_same(&before);
}
END_TEST

/* Of all VIPs together. The world has few; it is told that others have the rest. */
START_TEST(dips_of_all_vips)
{
	const unsigned n_elsewhere = DIPS_MAX - 4;

	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	w->control->n_free_counters -= n_elsewhere;
	for (unsigned i = 0; i < 4; i++)
		put_dip(i);
	ck_assert_int_eq(run(), CONTROL_OK);
	for (unsigned i = 0; i < 4; i++)
		put_dip(10 + i);
	for (unsigned i = 0; i < 4; i++)
		delete_dip(i, i % 2);
	ck_assert_int_eq(run(), CONTROL_OK);
	struct seen before = look();
	put_dip(1);
	put_dip(2);
	delete_dip(10, true);
	ck_assert_int_eq(run(), CONTROL_INVALID);
	ck_assert_uint_eq(r.errors.n, 1);
	expect_limit("dips: 131072", 0, "/operations/1");
	expect_same(&before);
	world_put_dip(w, "web", 1, 1, CONTROL_INVALID);
	expect_same(&before);
	w->control->n_free_counters += n_elsewhere;
}
END_TEST

int main(void)
{
	Suite *s = suite_create("room");
	TCase *t = tcase_create("room");

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, all_vips_are_replaced_at_once);
	tcase_add_test(t, one_vip_too_many);
	tcase_add_test(t, far_too_many_vips);
	tcase_add_test(t, all_dips_of_a_vip_are_replaced_at_once);
	tcase_add_test(t, dips_of_all_vips);
	suite_add_tcase(s, t);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
