/* What control makes of verdicts, overrides and time: who gets packets, what weight counts, what
 * outlives a restart; with flows beside it that must not move. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/agents.h"
#include "control/internal.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)
#define N_DIPS 6

static struct world *w;

static void set_checks(uint32_t min_up, uint32_t slow_start_s)
{
	struct control_request r = {.op = OP_VIP_PATCH, .vip = "web"};

	health_conf_defaults(&r.vip_edit.conf.health);
	r.vip_edit.conf.health.type = HEALTH_TCP;
	r.vip_edit.conf.health.min_up = min_up;
	r.vip_edit.conf.health.slow_start_s = slow_start_s;
	r.vip_edit.members = HEALTH_M_ALL;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
}

static void start(uint32_t min_up, uint32_t slow_start_s)
{
	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned d = 1; d <= N_DIPS; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
	set_checks(min_up, slow_start_s);
}

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

static const struct dip_version *dip(unsigned last)
{
	char id[16];

	snprintf(id, sizeof(id), "b%u", last);
	return vip_version_dip(control_find_vip(w->control, "web")->now, id);
}

static struct dip_info info(unsigned last)
{
	struct vip_runtime *v = control_find_vip(w->control, "web");
	struct dip_info out;

	control_fill_dip_info(w->control, v, dip(last), &out);
	return out;
}

static struct health_report report_of(unsigned last, enum health_verdict verdict)
{
	const struct vip_runtime *v = control_find_vip(w->control, "web");
	const struct dip_version *d = dip(last);

	return (struct health_report){
		.vip_slot = v->slot,
		.dip_index = d->index,
		.vip_uid = v->uid,
		.dip_uid = d->uid,
		.verdict = verdict,
		.stats = {.checks_total = 1, .consecutive = 3, .last_error = "told so"}};
}

static void say(unsigned last, enum health_verdict verdict)
{
	struct health_report r = report_of(last, verdict);

	control_set_health(w->control, &r, 1);
}

/* Time for what is due. */
static void pass(uint64_t ms)
{
	for (uint64_t t = 0; t < ms; t += 50) {
		world_advance_ms(50);
		world_settle(w);
	}
}

static void say_and_wait(unsigned last, enum health_verdict verdict)
{
	say(last, verdict);
	pass(200);
}

static enum control_status override_in_hold(unsigned last, enum health_override state,
					    uint32_t ttl_s, bool override_hold)
{
	struct health_request r = {.state = state,
				   .ttl_s = ttl_s,
				   .vip = "web",
				   .override_hold = override_hold,
				   .reason = "because"};
	bool done;

	snprintf(r.dip, sizeof(r.dip), "b%u", last);
	control_override_health_async(w->control, &r, &done);
	for (int i = 0; i < 100 && !done; i++)
		control_step(w->control);
	ck_assert(done);
	return (enum control_status)r.status;
}

static enum control_status override(unsigned last, enum health_override state, uint32_t ttl_s)
{
	return override_in_hold(last, state, ttl_s, false);
}

/* --- verdicts ------------------------------------------------------------------------------- */

START_TEST(a_dip_that_is_down_gets_no_packet_and_comes_back_to_its_own)
{
	uint8_t first[2000];
	uint16_t before[4096];
	unsigned n_down = 0;

	start(1, 0);
	for (uint32_t i = 0; i < ARRAY_LEN(first); i++)
		first[i] = (uint8_t)world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	const struct vip_view *view = control_find_vip(w->control, "web")->now->view;
	uint32_t n_dcodes = view->n_dcodes;
	ck_assert_uint_le(n_dcodes, ARRAY_LEN(before));
	for (uint32_t i = 0; i < n_dcodes; i++)
		before[i] = vip_view_home(view, i);

	uint64_t publishes = world_consistency(w).publishes_total;
	say(3, VERDICT_DOWN);
	world_settle(w); /* no time passes */
	ck_assert_uint_eq(world_consistency(w).publishes_total, publishes + 1);
	ck_assert_int_eq(info(3).state, DIP_DOWN);
	ck_assert_uint_eq(info(3).dcodes, 0);
	ck_assert_uint_eq(info(3).weight_in_use, 0);
	ck_assert_int_eq(info(3).conf.admin_state, ADMIN_UP);
	for (uint32_t i = 0; i < ARRAY_LEN(first); i++) {
		if (i % 2 && first[i] == 3)
			continue; /* idle meanwhile */
		unsigned now = world_tcp(w, 0, i, PSH_ACK, 10);
		ck_assert_uint_ne(now, 3);
		ck_assert(first[i] == 3 || now == first[i]);
		n_down += first[i] == 3;
		if (first[i] == 3)
			first[i] = (uint8_t)now; /* it lives there now */
	}
	ck_assert_uint_gt(n_down, 100);
	pass(2000);
	say_and_wait(3, VERDICT_UP);
	for (uint32_t i = 0; i < ARRAY_LEN(first); i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 10), first[i]);
	view = control_find_vip(w->control, "web")->now->view;
	ck_assert_uint_eq(view->n_dcodes, n_dcodes);
	for (uint32_t i = 0; i < n_dcodes; i++)
		ck_assert_uint_eq(vip_view_home(view, i), before[i]);
	end();
}
END_TEST

START_TEST(many_verdicts_are_one_publish_and_publishes_keep_their_distance)
{
	start(1, 0);
	pass(1000);
	uint64_t publishes = world_consistency(w).publishes_total;
	struct health_report all[N_DIPS - 1];
	for (unsigned d = 2; d <= N_DIPS; d++)
		all[d - 2] = report_of(d, VERDICT_DOWN);
	control_set_health(w->control, all, ARRAY_LEN(all));
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).publishes_total, publishes + 1);
	for (unsigned d = 2; d <= N_DIPS; d++)
		ck_assert_int_eq(info(d).state, DIP_DOWN);

	/* A verdict that turns a hundred times a second: no more than ten publishes. */
	publishes = world_consistency(w).publishes_total;
	for (unsigned i = 0; i < 100; i++) {
		say(2, i % 2 ? VERDICT_DOWN : VERDICT_UP);
		world_advance_ms(10);
		world_settle(w);
	}
	uint64_t made = world_consistency(w).publishes_total - publishes;
	ck_assert_msg(made >= 5 && made <= 11, "%llu publishes in a second",
		      (unsigned long long)made);
	end();
}
END_TEST

START_TEST(reports_of_others_are_dropped)
{
	start(1, 0);
	struct health_report r = report_of(2, VERDICT_DOWN);
	struct health_report bad[] = {r, r, r, r, r};
	bad[0].vip_slot = 17;
	bad[1].vip_slot = UINT16_MAX;
	bad[2].vip_uid++;
	bad[3].dip_uid++;
	bad[4].dip_index = UINT16_MAX;
	control_set_health(w->control, bad, ARRAY_LEN(bad));
	pass(200);
	for (unsigned d = 1; d <= N_DIPS; d++)
		ck_assert_int_eq(info(d).state, DIP_UP);

	/* Nor is one heeded that was under way when checks were turned off. */
	struct control_request q = {.op = OP_VIP_PATCH, .vip = "web"};
	health_conf_defaults(&q.vip_edit.conf.health);
	q.vip_edit.members = HEALTH_M_ALL;
	world_request(w, &q);
	ck_assert_int_eq(q.status, CONTROL_OK);
	control_set_health(w->control, &r, 1);
	pass(200);
	ck_assert_int_eq(info(2).state, DIP_UP);
	ck_assert(!info(2).health.checked);
	end();
}
END_TEST

START_TEST(a_new_dip_waits_for_its_first_check)
{
	start(1, 0);
	world_put_dip(w, "web", 9, 10, CONTROL_CREATED);
	ck_assert_int_eq(info(9).state, DIP_DOWN);
	ck_assert_int_eq(info(9).health.now.verdict, VERDICT_UNKNOWN);
	say_and_wait(9, VERDICT_UP);
	ck_assert_int_eq(info(9).state, DIP_UP);
	ck_assert_uint_gt(info(9).dcodes, 0);
	end();
}
END_TEST

START_TEST(of_a_new_vip_all_are_used_until_one_has_passed)
{
	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	set_checks(1, 0);
	world_put_dip(w, "web", 1, 10, CONTROL_CREATED);
	world_put_dip(w, "web", 2, 10, CONTROL_CREATED);
	ck_assert_int_eq(info(1).state, DIP_UP);
	ck_assert_int_eq(info(2).state, DIP_UP);
	ck_assert(info(2).health.ignored);
	say_and_wait(1, VERDICT_UP);
	ck_assert_int_eq(info(1).state, DIP_UP);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	end();
}
END_TEST

/* --- min_up --------------------------------------------------------------------------------- */

START_TEST(the_last_ones_are_never_taken_out)
{
	start(3, 0);
	for (unsigned d = 1; d <= 3; d++)
		say_and_wait(d, VERDICT_DOWN);
	for (unsigned d = 1; d <= N_DIPS; d++)
		ck_assert_int_eq(info(d).state, d <= 3 ? DIP_DOWN : DIP_UP);
	say_and_wait(4, VERDICT_DOWN); /* two are left: fewer than three */
	for (unsigned d = 1; d <= N_DIPS; d++) {
		ck_assert_int_eq(info(d).state, DIP_UP);
		ck_assert(info(d).health.ignored);
		ck_assert_int_eq(info(d).health.now.verdict, d <= 4 ? VERDICT_DOWN : VERDICT_UP);
	}
	/* What an operator says is heeded all the same. */
	ck_assert_int_eq(override(1, OVERRIDE_DOWN, 0), CONTROL_OK);
	world_set_admin(w, "web", 2, ADMIN_DOWN);
	ck_assert_int_eq(info(1).state, DIP_DOWN);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	ck_assert_int_eq(info(3).state, DIP_UP);
	say_and_wait(4, VERDICT_UP);
	ck_assert_int_eq(info(3).state, DIP_DOWN);
	ck_assert(!info(3).health.ignored);
	end();
}
END_TEST

/* Random verdicts, overrides, weights and admin states, against the rule written down once more. */
START_TEST(who_is_up_follows_the_rule)
{
	struct prng p = prng_new("health_control");
	enum health_verdict verdict[N_DIPS + 1];
	enum health_override forced[N_DIPS + 1] = {OVERRIDE_NONE};
	bool admin_down[N_DIPS + 1] = {false};
	uint32_t weight[N_DIPS + 1];
	unsigned n_ignored = 0;
	uint32_t min_up = 2;

	start(min_up, 0);
	for (unsigned d = 1; d <= N_DIPS; d++) {
		verdict[d] = VERDICT_UP;
		weight[d] = 10;
	}
	for (unsigned step = 0; step < 400; step++) {
		unsigned d = 1 + prng_below(&p, N_DIPS);
		switch (prng_below(&p, 6)) {
		case 0:
			forced[d] = (enum health_override)prng_below(&p, 3);
			ck_assert_int_eq(override(d, forced[d], 0), CONTROL_OK);
			break;
		case 1:
			admin_down[d] = prng_below(&p, 3) == 0;
			world_set_admin(w, "web", d, admin_down[d] ? ADMIN_DOWN : ADMIN_UP);
			break;
		case 2:
			weight[d] = prng_below(&p, 3);
			world_set_weight(w, "web", d, weight[d]);
			break;
		case 3:
			min_up = prng_below(&p, 5);
			set_checks(min_up, 0);
			break;
		default:
			verdict[d] = prng_below(&p, 2) ? VERDICT_UP : VERDICT_DOWN;
			say(d, verdict[d]);
		}
		pass(150);
		unsigned n_wanted = 0, n_up = 0;
		for (d = 1; d <= N_DIPS; d++) {
			bool wanted = weight[d] && !admin_down[d] && forced[d] != OVERRIDE_DOWN;
			n_wanted += wanted;
			n_up += wanted && (forced[d] == OVERRIDE_UP || verdict[d] == VERDICT_UP);
		}
		bool ignored = n_up < n_wanted && n_up < min_up;
		n_ignored += ignored;
		for (d = 1; d <= N_DIPS; d++) {
			bool up =
				forced[d] == OVERRIDE_UP || (forced[d] == OVERRIDE_NONE &&
							     (verdict[d] == VERDICT_UP || ignored));
			up &= !admin_down[d];
			expect(dip(d)->use.up == up);
			expect(dip(d)->use.weight == weight[d] * HEALTH_STEPS);
			expect((info(d).dcodes > 0) == (up && weight[d] > 0));
		}
	}
	ck_assert_uint_gt(n_ignored, 20);
	end();
}
END_TEST

/* --- slow start ----------------------------------------------------------------------------- */

START_TEST(a_dip_that_comes_up_gets_its_weight_in_steps)
{
	uint8_t first[1000];
	uint32_t seen = 0, share = 0;

	start(1, 20);
	for (uint32_t i = 0; i < ARRAY_LEN(first); i++)
		first[i] = (uint8_t)world_tcp(w, 0, i, FRAMES_SYN, 0);
	say_and_wait(2, VERDICT_DOWN);
	uint64_t publishes = world_consistency(w).publishes_total;
	say(2, VERDICT_UP);
	uint64_t began_ms = world_now_ms();
	for (unsigned t = 0; t < 22000; t += 100) {
		pass(100);
		struct dip_info d = info(2);
		uint64_t step = (world_now_ms() - began_ms) / 2000 + 1;
		uint32_t want = step < HEALTH_STEPS ? 10 * (uint32_t)step : 10 * HEALTH_STEPS;
		uint32_t before = step > 1 ? want - 10 : want;
		/* A step may be some tenths of a second late, never early. */
		ck_assert(d.weight_in_use == want || d.weight_in_use == before);
		ck_assert_uint_eq(d.conf.weight, 10);
		ck_assert_uint_ge(d.weight_in_use, seen);
		ck_assert_uint_ge(d.dcodes, share);
		seen = d.weight_in_use;
		share = d.dcodes;
		for (uint32_t i = 0; i < ARRAY_LEN(first); i += 50)
			if (first[i] != 2)
				ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 10), first[i]);
	}
	ck_assert_uint_eq(seen, 10 * HEALTH_STEPS);
	ck_assert_uint_le(world_consistency(w).publishes_total - publishes, 2 * HEALTH_STEPS);
	uint32_t n = control_find_vip(w->control, "web")->now->view->n_dcodes;
	ck_assert_uint_ge(share, n / N_DIPS - 1);
	/* Those that did not speak while it was down are where they were. */
	for (uint32_t i = 0; i < ARRAY_LEN(first); i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 10), first[i]);
	end();
}
END_TEST

START_TEST(a_slow_start_goes_on_after_a_restart)
{
	start(1, 100);
	say_and_wait(2, VERDICT_DOWN);
	say(2, VERDICT_UP);
	pass(32000);
	ck_assert_uint_eq(info(2).weight_in_use, 40);
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(info(2).weight_in_use, 40);
	pass(30000);
	ck_assert_uint_eq(info(2).weight_in_use, 70);
	pass(41000);
	ck_assert_uint_eq(info(2).weight_in_use, 100);
	end();
}
END_TEST

/* --- overrides, and what outlives a restart ------------------------------------------------- */

START_TEST(an_override_ends_by_itself_or_when_told)
{
	struct health_history h;

	start(1, 0);
	say_and_wait(2, VERDICT_DOWN);
	ck_assert_int_eq(override(2, OVERRIDE_UP, 10), CONTROL_OK);
	ck_assert_int_eq(info(2).state, DIP_UP);
	ck_assert_str_eq(info(2).health.now.reason, "because");
	ck_assert_int_eq(info(2).health.now.verdict, VERDICT_DOWN);
	pass(9800);
	ck_assert_int_eq(info(2).state, DIP_UP);
	pass(500);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	ck_assert_int_eq(info(2).health.now.override, OVERRIDE_NONE);

	ck_assert_int_eq(override(3, OVERRIDE_DOWN, 0), CONTROL_OK);
	pass(100000);
	ck_assert_int_eq(info(3).state, DIP_DOWN);
	ck_assert_int_eq(override(3, OVERRIDE_NONE, 0), CONTROL_OK);
	ck_assert_int_eq(info(3).state, DIP_UP);
	ck_assert_str_eq(info(3).health.now.reason, "");

	ck_assert_int_eq(override(17, OVERRIDE_DOWN, 0), CONTROL_NOT_FOUND);
	control_read_health_history(w->control, "web", "b2", &h);
	ck_assert(h.found);
	ck_assert_uint_eq(h.n, 3);
	ck_assert_str_eq(h.list[2].state, "down");
	ck_assert_str_eq(h.list[2].cause, "3 checks in a row failed, the last: told so");
	ck_assert_str_eq(h.list[1].state, "up");
	ck_assert_str_eq(h.list[1].cause, "override: because");
	ck_assert_str_eq(h.list[0].state, "down");
	control_read_health_history(w->control, "web", "b17", &h);
	ck_assert(!h.found);
	end();
}
END_TEST

START_TEST(without_checks_an_override_is_the_only_judge)
{
	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	world_put_dip(w, "web", 1, 10, CONTROL_CREATED);
	world_put_dip(w, "web", 2, 10, CONTROL_CREATED);
	ck_assert_int_eq(override(1, OVERRIDE_DOWN, 0), CONTROL_OK);
	ck_assert_int_eq(override(2, OVERRIDE_DOWN, 0), CONTROL_OK);
	ck_assert_int_eq(info(1).state, DIP_DOWN);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	ck_assert_uint_eq(world_tcp(w, 0, 1, FRAMES_SYN, 0), 0);
	ck_assert_int_eq(override(1, OVERRIDE_NONE, 0), CONTROL_OK);
	ck_assert_uint_eq(world_tcp(w, 0, 2, FRAMES_SYN, 0), 1);
	end();
}
END_TEST

START_TEST(a_restart_does_not_start_from_all_up)
{
	start(1, 0);
	say_and_wait(2, VERDICT_DOWN);
	say_and_wait(4, VERDICT_DOWN);
	say_and_wait(4, VERDICT_UP);
	ck_assert_int_eq(override(3, OVERRIDE_DOWN, 60), CONTROL_OK);
	ck_assert_int_eq(override(5, OVERRIDE_DOWN, 0), CONTROL_OK);
	world_put_dip(w, "web", 9, 10, CONTROL_CREATED);
	int64_t since_s = info(2).health.now.since_s;
	for (unsigned i = 0; i < 2; i++) {
		world_restart(w, i ? WORLD_REBOOT : WORLD_KILL);
		ck_assert_int_eq(info(1).state, DIP_UP);
		ck_assert_int_eq(info(2).state, DIP_DOWN);
		ck_assert_int_eq(info(2).health.now.since_s, since_s);
		ck_assert_int_eq(info(3).state, DIP_DOWN);
		ck_assert_int_eq(info(4).state, DIP_UP);
		ck_assert_int_eq(info(5).state, DIP_DOWN);
		ck_assert_int_eq(info(9).state, DIP_DOWN);
		ck_assert_int_eq(info(9).health.now.verdict, VERDICT_UNKNOWN);
		pass(20000);
	}
	ck_assert_int_eq(info(3).state, DIP_DOWN);
	pass(21000);
	ck_assert_int_eq(info(3).state, DIP_UP);
	ck_assert_int_eq(info(5).state, DIP_DOWN);
	end();
}
END_TEST

/* --- the disk, the hold, the configuration -------------------------------------------------- */

START_TEST(a_full_disk_keeps_no_dead_dip_in_use)
{
	start(1, 0);
	w->fail_commit = ENOSPC;
	say_and_wait(2, VERDICT_DOWN);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	/* An operator's word is durable or refused: then nothing comes of it, not even a publish.
	 */
	uint64_t generation = control_generation(w->control);
	ck_assert_int_eq(override(3, OVERRIDE_DOWN, 0), CONTROL_NO_STORAGE);
	pass(300);
	ck_assert_uint_eq(control_generation(w->control), generation);
	ck_assert_int_eq(info(3).state, DIP_UP);
	ck_assert_int_eq(info(3).health.now.override, OVERRIDE_NONE);
	w->fail_commit = 0;
	say_and_wait(4, VERDICT_DOWN);
	world_restart(w, WORLD_KILL);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	ck_assert_int_eq(info(4).state, DIP_DOWN);
	end();
}
END_TEST

static enum control_status bound;

static int put_no_agent(void *ctx, const struct persist_agent *a, struct error *err)
{
	(void)ctx;
	(void)a;
	return error_set(err, -ENOSPC, "no space");
}

static void bind_agent(struct control *c, void *arg)
{
	const uint8_t token[32] = {1};
	struct error err;
	bool created;

	(void)arg;
	bound = control_agent_put(c, "a", "web", "b1", token, &created, &err);
}

/* Asked for when the commit fails, and answered by the publish that does without it. */
static void bind_soon(struct world *world)
{
	static struct queued_call call;

	world->on_submit = NULL;
	call = (struct queued_call){.fn = bind_agent, .next = world->control->calls};
	world->control->calls = &call;
}

START_TEST(nobody_else_does_without_the_disk)
{
	start(1, 0);
	w->control->conf.persist.put_agent = put_no_agent;
	world_tcp(w, 0, 1, FRAMES_SYN, 0); /* a plan breathes between flows */
	world_settle(w);
	bound = CONTROL_FAILED;
	w->fail_commit = ENOSPC;
	w->on_submit = bind_soon;
	say_and_wait(2, VERDICT_DOWN);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	ck_assert_int_eq(bound, CONTROL_NO_STORAGE);
	end();
}
END_TEST

START_TEST(during_the_hold_dips_go_down_but_not_up)
{
	start(1, 0);
	say_and_wait(2, VERDICT_DOWN);
	pass(6000);
	world_restart(w, WORLD_REBOOT);
	say_and_wait(2, VERDICT_UP);
	say_and_wait(3, VERDICT_DOWN);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	ck_assert_int_eq(info(3).state, DIP_DOWN);
	ck_assert_int_eq(override(4, OVERRIDE_DOWN, 0), CONTROL_UNAVAILABLE);
	ck_assert_int_eq(info(4).state, DIP_UP);
	/* Who says that it is to be so all the same is not answered OK for nothing. */
	ck_assert_int_eq(override_in_hold(3, OVERRIDE_UP, 0, true), CONTROL_OK);
	ck_assert_int_eq(info(3).state, DIP_UP);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	pass(5500);
	ck_assert_int_eq(info(2).state, DIP_UP);
	end();
}
END_TEST

START_TEST(health_survives_changes_of_the_configuration)
{
	start(1, 0);
	say_and_wait(2, VERDICT_DOWN);
	ck_assert_int_eq(override(3, OVERRIDE_DOWN, 0), CONTROL_OK);
	world_set_weight(w, "web", 2, 77);
	world_set_weight(w, "web", 1, 3);
	set_checks(2, 5);
	world_put_dip(w, "web", 2, 5, CONTROL_OK);
	ck_assert_int_eq(info(2).state, DIP_DOWN);
	ck_assert_int_eq(info(3).state, DIP_DOWN);
	/* A DIP that is made anew is another one. */
	world_delete_dip(w, "web", 2, true);
	pass(6000);
	world_put_dip(w, "web", 2, 5, CONTROL_CREATED);
	ck_assert_int_eq(info(2).health.now.verdict, VERDICT_UNKNOWN);
	end();
}
END_TEST

START_TEST(the_list_is_what_there_is_to_check)
{
	struct health_targets t;

	start(1, 0);
	uint64_t epoch = control_health_epoch(w->control);
	ck_assert_int_eq(control_list_health(w->control, &t), 0);
	ck_assert_uint_eq(t.n, N_DIPS);
	ck_assert_uint_eq(t.n_vips, 1);
	ck_assert_uint_eq(t.vips[0].port, 80);
	for (unsigned i = 0; i < t.n; i++) {
		ck_assert_int_eq(t.list[i].verdict, VERDICT_UP);
		ck_assert(i == 0 || t.list[i - 1].dip_uid < t.list[i].dip_uid);
	}
	health_targets_free(&t);
	say_and_wait(2, VERDICT_DOWN);
	world_set_weight(w, "web", 1, 3);
	ck_assert_uint_eq(control_health_epoch(w->control), epoch);
	world_delete_dip(w, "web", 2, true);
	ck_assert_uint_ne(control_health_epoch(w->control), epoch);
	epoch = control_health_epoch(w->control);
	set_checks(4, 0);
	ck_assert_uint_ne(control_health_epoch(w->control), epoch);
	ck_assert_int_eq(control_list_health(w->control, &t), 0);
	ck_assert_uint_eq(t.n, N_DIPS - 1);
	ck_assert_uint_eq(t.vips[0].conf.min_up, 4);
	health_targets_free(&t);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("health_control");
	TCase *tc = tcase_create("health_control");
	SRunner *runner = srunner_create(suite);

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_dip_that_is_down_gets_no_packet_and_comes_back_to_its_own);
	tcase_add_test(tc, many_verdicts_are_one_publish_and_publishes_keep_their_distance);
	tcase_add_test(tc, reports_of_others_are_dropped);
	tcase_add_test(tc, a_new_dip_waits_for_its_first_check);
	tcase_add_test(tc, of_a_new_vip_all_are_used_until_one_has_passed);
	tcase_add_test(tc, the_last_ones_are_never_taken_out);
	tcase_add_test(tc, who_is_up_follows_the_rule);
	tcase_add_test(tc, a_dip_that_comes_up_gets_its_weight_in_steps);
	tcase_add_test(tc, a_slow_start_goes_on_after_a_restart);
	tcase_add_test(tc, an_override_ends_by_itself_or_when_told);
	tcase_add_test(tc, without_checks_an_override_is_the_only_judge);
	tcase_add_test(tc, a_restart_does_not_start_from_all_up);
	tcase_add_test(tc, a_full_disk_keeps_no_dead_dip_in_use);
	tcase_add_test(tc, nobody_else_does_without_the_disk);
	tcase_add_test(tc, during_the_hold_dips_go_down_but_not_up);
	tcase_add_test(tc, health_survives_changes_of_the_configuration);
	tcase_add_test(tc, the_list_is_what_there_is_to_check);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
