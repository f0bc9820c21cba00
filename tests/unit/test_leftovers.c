/* Records that a killed process left in its rings, met by the next one before it has planned
 * anything: of known flows, of flows that moved, of DIPs that the commit before the kill has cut.
 */
#include <check.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/unit/world.h"

enum { CAPACITY = 64, FLOWS = 48 };

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;

static void start(unsigned n_dips)
{
	w = world_new(1, CAPACITY);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

/* A record of a flow that is known but unproven waits in a ring at the kill. */
START_TEST(a_record_of_an_unproven_flow_is_left)
{
	start(2);
	unsigned dip = world_tcp(w, 0, 0, FRAMES_ACK, 0);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_unproven, 1);
	world_advance_ms(6000);
	ck_assert_uint_eq(world_tcp(w, 0, 0, PSH_ACK, 1), dip);
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(world_consistency(w).flows_known, 1);
	ck_assert_uint_eq(world_consistency(w).flows_unproven, 0);
	world_free(w);
}
END_TEST

/* The DIP was down, a packet went elsewhere, its record waits at the kill: the flow lives there,
 * even if its old DIP is back in the configuration that the kill left unpublished. */
START_TEST(a_move_is_left)
{
	for (int back = 0; back < 2; back++) {
		start(2);
		uint32_t i = 0;
		while (world_tcp(w, 0, i, FRAMES_SYN, 0) != 1)
			i++;
		world_settle(w);
		world_set_admin(w, "web", 1, ADMIN_DOWN);
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), 2);
		if (back) {
			w->disk.generation++;
			w->disk.vips[0].dips[0].conf.admin_state = ADMIN_UP;
		}
		world_restart(w, WORLD_KILL);
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), 2);
		world_settle(w);
		ck_assert_uint_eq(world_consistency(w).flows_lost_total, 1);
		if (!back)
			world_set_admin(w, "web", 1, ADMIN_UP);
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), 2);
		ck_assert_uint_eq(world_consistency(w).violations_total, 0);
		world_free(w);
	}
}
END_TEST

/* Commit of a cut done, killed before the swap: records name a DIP that the next process has never
 * heard of, with an index beyond all that it has. */
START_TEST(records_of_a_cut_dip_are_left)
{
	enum { DIPS = 40 };
	unsigned n = 0;

	start(DIPS);
	for (uint32_t i = 0; i < FLOWS; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	uint64_t known = world_dip_flows(w, "web", 1);
	for (unsigned d = 2; d < DIPS; d++)
		world_set_admin(w, "web", d, ADMIN_DOWN);
	for (uint32_t i = 0; i < FLOWS; i++)
		n += world_tcp(w, 0, i, PSH_ACK, 1) == DIPS;
	ck_assert_uint_gt(n, 0);
	struct persist_vip *v = &w->disk.vips[0];
	unsigned kept = 0;
	for (unsigned k = 0; k < v->n_dips; k++)
		if (v->dips[k].index < 3)
			v->dips[kept++] = v->dips[k];
	v->n_dips = kept;
	for (uint32_t c = 0; c < v->n_dcodes; c++)
		if (v->dcodes[c] >= 3)
			v->dcodes[c] = 1;
	w->disk.generation++;
	world_restart(w, WORLD_KILL);
	ck_assert_uint_ge(world_dip_flows(w, "web", 1), known);
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("leftovers");
	TCase *tc = tcase_create("leftovers");

	log_set_level(LOG_ERROR);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_record_of_an_unproven_flow_is_left);
	tcase_add_test(tc, a_move_is_left);
	tcase_add_test(tc, records_of_a_cut_dip_are_left);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
