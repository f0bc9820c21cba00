/* Control, workers and all between them, against a model that remembers each flow's first DIP. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/flows.h"
#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;

static void start(unsigned n_workers, uint64_t n_flows, enum vip_protocol protocol, unsigned n_dips)
{
	w = world_new(n_workers, n_flows);
	world_put_vip(w, "web", protocol, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void end(void)
{
	ck_assert_uint_eq(world_consistency(w).violations_total, 0);
	world_free(w);
}

START_TEST(shares_follow_weights)
{
	unsigned hits[5] = {0};

	start(1, 65536, VIP_TCP, 0);
	for (unsigned d = 1; d <= 4; d++)
		world_put_dip(w, "web", d, d == 3 ? 2 : d == 4 ? 4 : 1, CONTROL_CREATED);
	for (uint32_t i = 0; i < 16000; i++)
		hits[world_tcp(w, 0, i, FRAMES_SYN, 0)]++;
	ck_assert_uint_eq(hits[0], 0);
	for (unsigned d = 1; d <= 4; d++) {
		double want = 16000.0 * (d == 3 ? 2 : d == 4 ? 4 : 1) / 8;
		ck_assert_msg(abs((int)hits[d] - (int)want) < 300, "dip %u: %u, not %f", d, hits[d],
			      want);
	}
	world_settle(w);
	struct consistency c = world_consistency(w);
	ck_assert_uint_eq(c.flows_known, 16000);
	ck_assert_uint_eq(c.flows_opened_total, 16000);
	end();
}
END_TEST

/* Every mistake in planning, publishing or learning shows here: flows open all the time while the
 * pool changes at random, and each packet of each must go where the first went. */
static void random_changes(unsigned n_changes, uint32_t n_flows, bool with_down)
{
	uint64_t rng = frames_seed();
	uint8_t *first = calloc(n_flows, 1);
	uint32_t weight[32] = {0};
	bool exists[32] = {false}, down[32] = {false};
	uint32_t opened = 0;

	ck_assert(first != NULL);
	start(2, n_flows * 2, VIP_TCP, 0);
	for (unsigned d = 1; d <= 8; d++) {
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
		exists[d] = true;
		weight[d] = 10;
	}
	for (unsigned change = 0; change < n_changes; change++) {
		uint32_t batch = n_flows / n_changes + 1;
		for (uint32_t k = 0; k < batch && opened < n_flows; k++, opened++) {
			first[opened] = (uint8_t)world_tcp(w, opened & 1, opened, FRAMES_SYN, 0);
			ck_assert_uint_ne(first[opened], 0);
			world_tcp(w, opened & 1, opened, FRAMES_ACK, 0);
		}
		unsigned d = 1 + (unsigned)(frames_random(&rng) % 24);
		unsigned what = (unsigned)(frames_random(&rng) % 4);
		if (!exists[d]) {
			weight[d] = 1 + (uint32_t)(frames_random(&rng) % 100);
			struct control_request *r =
				world_put_dip(w, "web", d, weight[d], CONTROL_CREATED);
			ck_assert_uint_eq(r->change.flows_moved, 0);
			exists[d] = true;
		} else if (what == 0 && d > 2) {
			/* drains, or goes if it has no flow */
			world_delete_dip(w, "web", d, false);
			weight[d] = 0;
			if (world_dip_flows(w, "web", d) == UINT64_MAX)
				exists[d] = down[d] = false;
		} else if (what == 1 && with_down && d > 2) {
			down[d] = !down[d];
			world_set_admin(w, "web", d, down[d] ? ADMIN_DOWN : ADMIN_UP);
		} else {
			weight[d] = (uint32_t)(frames_random(&rng) % 100) + (d <= 2);
			world_set_weight(w, "web", d, weight[d]);
		}
		world_advance_ms(20);
		world_settle(w);
		for (unsigned k = 0; k < 64 && opened; k++) {
			uint32_t i = (uint32_t)(frames_random(&rng) % opened);
			if (down[first[i]])
				continue;
			unsigned now = world_tcp(w, i & 1, i, PSH_ACK, 10);
			ck_assert_msg(now == first[i], "change %u: flow %u went from %u to %u",
				      change, i, first[i], now);
		}
	}
	for (unsigned d = 1; d < 32; d++)
		if (down[d])
			world_set_admin(w, "web", d, ADMIN_UP);
	for (uint32_t i = 0; i < opened; i++)
		ck_assert_uint_eq(world_tcp(w, i & 1, i, PSH_ACK, 10), first[i]);
	struct consistency c = world_consistency(w);
	ck_assert_uint_eq(c.flows_forgotten_total, 0);
	ck_assert_uint_eq(c.flows_lost_total, 0);
	printf("%u changes, %u flows, %lu pinned, %lu accidents\n", n_changes, opened,
	       (unsigned long)c.flows_pinned, (unsigned long)c.accidents_pinned_total);
	free(first);
	end();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 10 };
#else
enum { SLOWER = 1 };
#endif

START_TEST(a_thousand_changes_misplace_no_flow)
{
	random_changes(1000 / SLOWER, 100000 / SLOWER, false);
}
END_TEST

START_TEST(false_alarms_lose_no_idle_flow)
{
	random_changes(300 / SLOWER, 20000 / SLOWER, true);
}
END_TEST

START_TEST(flows_survive_a_kill)
{
	enum { N = 5000 };
	static uint8_t first[N];

	start(2, 65536, VIP_TCP, 4);
	for (uint32_t i = 0; i < N; i++)
		first[i] = (uint8_t)world_tcp(w, i & 1, i, FRAMES_SYN, 0);
	/* not drained: the records are in the rings when the process dies */
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(world_consistency(w).flows_known, N);
	world_set_weight(w, "web", 1, 0);
	world_put_dip(w, "web", 9, 50, CONTROL_CREATED);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(world_tcp(w, i & 1, i, PSH_ACK, 1), first[i]);
	end();
}
END_TEST

START_TEST(pins_survive_a_reboot)
{
	enum { N = 5000 };
	static uint8_t first[N];

	start(1, 65536, VIP_TCP, 4);
	for (uint32_t i = 0; i < N; i++)
		first[i] = (uint8_t)world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_set_weight(w, "web", 1, 0);
	world_put_dip(w, "web", 9, 50, CONTROL_CREATED);
	uint64_t pinned = world_consistency(w).flows_pinned;
	ck_assert_uint_gt(pinned, N / 3);
	world_restart(w, WORLD_REBOOT);
	ck_assert_uint_eq(world_consistency(w).flows_known, pinned);
	for (uint32_t i = 0; i < N; i++) {
		world_advance_ms(i % 100 == 0); /* refresh records are rate-limited */
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), first[i]);
	}
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, N);
	end();
}
END_TEST

START_TEST(changes_are_held_after_a_reboot)
{
	start(1, 65536, VIP_TCP, 2);
	world_restart(w, WORLD_REBOOT);
	struct control_request r = {.op = OP_DIP_PATCH, .vip = "web", .dip = "b1"};
	r.dip_edit.members = DIP_M_WEIGHT;
	r.dip_edit.conf.weight = 3;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_UNAVAILABLE);
	ck_assert_uint_ge(r.retry_after_s, 1);
	r.override_hold = true;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
	world_advance_ms(6000);
	r.override_hold = false;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
	end();
}
END_TEST

START_TEST(a_failed_commit_changes_nothing)
{
	start(1, 65536, VIP_TCP, 2);
	uint64_t generation = world_consistency(w).generation;
	w->fail_commit = ENOSPC;
	struct control_request r = {.op = OP_DIP_PATCH, .vip = "web", .dip = "b1"};
	r.dip_edit.members = DIP_M_WEIGHT;
	r.dip_edit.conf.weight = 0;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_NO_STORAGE);
	r.op = OP_DIP_DELETE;
	r.force = true;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_NO_STORAGE);
	ck_assert_uint_eq(world_consistency(w).generation, generation);
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), 0);
	w->fail_commit = 0;
	unsigned hits[3] = {0};
	for (uint32_t i = 0; i < 100; i++)
		hits[world_tcp(w, 0, i, FRAMES_SYN, 0)]++;
	ck_assert_uint_gt(hits[1], 20);
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), UINT64_MAX);
	end();
}
END_TEST

START_TEST(a_cut_rehomes_and_counts)
{
	enum { N = 1000 };
	unsigned on_1 = 0;

	start(1, 65536, VIP_TCP, 2);
	for (uint32_t i = 0; i < N; i++)
		on_1 += world_tcp(w, 0, i, FRAMES_SYN, 0) == 1;
	world_settle(w);
	struct control_request *r = world_delete_dip(w, "web", 1, true);
	ck_assert_int_eq(r->status, CONTROL_OK);
	ck_assert_uint_eq(r->change.flows_moved, on_1);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), 2);
	world_advance_ms(200);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_lost_total, on_1);
	end();
}
END_TEST

START_TEST(a_drained_dip_goes_with_its_last_flow)
{
	uint32_t i = 0;

	start(1, 65536, VIP_TCP, 2);
	while (world_tcp(w, 0, i, FRAMES_SYN, 0) != 1)
		i++;
	world_tcp(w, 0, i, FRAMES_ACK, 0);
	world_settle(w);
	struct control_request *r = world_delete_dip(w, "web", 1, false);
	ck_assert_int_eq(r->status, CONTROL_ACCEPTED);
	ck_assert_uint_eq(r->flows_remaining, 1);
	for (uint32_t k = 1000; k < 1200; k++)
		ck_assert_uint_eq(world_tcp(w, 0, k, FRAMES_SYN, 0), 2);
	world_advance_ms(5100);
	ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), 1);
	world_tcp(w, 0, i, FRAMES_FIN | FRAMES_ACK, 0);
	world_settle(w);
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), 1);
	world_advance_ms(15000 + 5000 + 100);
	world_settle(w);
	world_advance_ms(1100);
	world_settle(w);
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), UINT64_MAX);
	end();
}
END_TEST

static void open_during_commit(struct world *world)
{
	uint8_t *first = world->user;

	world->on_submit = NULL;
	for (uint32_t i = 0; i < 200; i++)
		first[i] = (uint8_t)world_tcp(world, 0, i, FRAMES_SYN, 0);
}

/* The publish itself must place what opened after the plan's check. */
START_TEST(flows_opened_during_the_commit_stay)
{
	static uint8_t first[200];
	unsigned on_1 = 0;

	start(1, 65536, VIP_TCP, 2);
	w->user = first;
	w->on_submit = open_during_commit;
	world_set_weight(w, "web", 1, 0);
	ck_assert_uint_gt(world_consistency(w).flows_known, 0);
	for (uint32_t i = 0; i < 200; i++) {
		on_1 += first[i] == 1;
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), first[i]);
	}
	ck_assert_uint_gt(on_1, 50);
	/* and be folded into the arrays by the next one */
	world_advance_ms(1100);
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_exact, 0);
	ck_assert_uint_ge(world_consistency(w).flows_pinned, on_1);
	for (uint32_t i = 0; i < 200; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), first[i]);
	end();
}
END_TEST

START_TEST(pins_of_ended_flows_are_purged)
{
	start(1, 65536, VIP_TCP, 2);
	for (uint32_t i = 0; i < 1000; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_set_weight(w, "web", 1, 0);
	ck_assert_uint_gt(world_consistency(w).pin_bytes, 0);
	for (uint32_t i = 0; i < 1000; i++)
		world_tcp(w, 0, i, FRAMES_FIN | FRAMES_ACK, 0);
	world_settle(w);
	world_advance_ms(20100);
	world_settle(w);
	world_advance_ms(1100);
	world_settle(w);
	struct consistency c = world_consistency(w);
	ck_assert_uint_eq(c.flows_pinned, 0);
	ck_assert_uint_eq(c.pin_bytes, 0);
	end();
}
END_TEST

START_TEST(floods_push_out_only_their_like)
{
	enum { LIVE = 1000, CAPACITY = 8192 };
	static uint8_t first[LIVE];
	uint64_t rng = frames_seed();

	start(1, CAPACITY, VIP_ANY, 4);
	for (uint32_t i = 0; i < LIVE; i++) {
		first[i] = (uint8_t)world_tcp(w, 0, i, FRAMES_SYN, 0);
		world_tcp(w, 0, i, FRAMES_ACK, 0);
	}
	world_settle(w);
	for (uint32_t k = 0; k < 60000; k++) {
		uint32_t i = 100000 + (uint32_t)(frames_random(&rng) % 10000000);
		static const uint8_t kinds[] = {FRAMES_SYN, FRAMES_ACK, FRAMES_RST, FRAMES_FIN};
		if (k % 5 == 4)
			world_udp(w, 0, i);
		else
			world_tcp(w, 0, i, kinds[k % 5], 0);
		if (k % 1000 == 0) {
			world_advance_ms(50);
			world_settle(w);
		}
	}
	world_settle(w);
	ck_assert_uint_gt(world_consistency(w).flows_forgotten_total, 10000);
	ck_assert_uint_le(world_consistency(w).flows_known, CAPACITY);
	world_set_weight(w, "web", 1, 0);
	world_put_dip(w, "web", 9, 50, CONTROL_CREATED);
	for (uint32_t i = 0; i < LIVE; i++)
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), first[i]);
	end();
}
END_TEST

START_TEST(indexes_rest_before_they_are_used_again)
{
	start(1, 65536, VIP_TCP, 2);
	world_delete_dip(w, "web", 2, false);
	ck_assert_uint_eq(world_dip_flows(w, "web", 2), UINT64_MAX);
	world_put_dip(w, "web", 3, 10, CONTROL_CREATED);
	/* seen in the committed rows: the removed DIP's index 2 is not the new one's yet */
	ck_assert_uint_eq(w->disk.vips[0].n_dips, 2);
	ck_assert_uint_eq(w->disk.vips[0].dips[1].index, 3);
	world_advance_ms(6000);
	world_put_dip(w, "web", 4, 10, CONTROL_CREATED);
	ck_assert_uint_eq(w->disk.vips[0].dips[2].index, 2);
	end();
}
END_TEST

START_TEST(requests_are_refused_by_name)
{
	start(1, 65536, VIP_TCP, 2);
	world_put_vip(w, "other", VIP_TCP, CONTROL_CONFLICT);
	world_put_vip(w, "other", VIP_UDP, CONTROL_CREATED);
	struct control_request r = {.op = OP_DIP_PUT, .vip = "web", .dip = "b1"};
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_INVALID);
	ck_assert_str_eq(r.errors.list[0].pointer, "/address");
	r = (struct control_request){.op = OP_DIP_PUT, .vip = "web", .dip = "b7"};
	dip_conf_defaults(&r.dip_edit.conf);
	r.dip_edit.members = DIP_M_ADDRESS | DIP_M_WEIGHT;
	r.dip_edit.conf.address = frames_ip("10.9.0.1");
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_CONFLICT);
	ck_assert_str_eq(r.errors.list[0].code, "duplicate");
	r.dip_edit.conf.address = frames_ip("10.9.0.7");
	r.dip_edit.conf.weight = 70000;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_INVALID);
	ck_assert_str_eq(r.errors.list[0].pointer, "/weight");
	r = (struct control_request){.op = OP_DIP_PATCH, .vip = "web", .dip = "b7"};
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_NOT_FOUND);
	r = (struct control_request){.op = OP_VIP_DELETE, .vip = "nobody"};
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_NOT_FOUND);
	r = (struct control_request){.op = OP_VIP_DELETE, .vip = "other"};
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
	ck_assert_uint_eq(w->n_steered, 1);
	end();
}
END_TEST

static enum control_status put_dip_again(const char *dip, const char *address)
{
	struct control_request r = {.op = OP_DIP_PUT, .vip = "web"};

	snprintf(r.dip, sizeof(r.dip), "%s", dip);
	dip_conf_defaults(&r.dip_edit.conf);
	r.dip_edit.members = DIP_M_ADDRESS;
	r.dip_edit.conf.address = frames_ip(address);
	world_request(w, &r);
	return r.status;
}

/* While a DIP drains another one may have its address; both at a time may not. */
START_TEST(a_drain_is_not_ended_beside_another_dip_of_the_address)
{
	start(1, 65536, VIP_TCP, 2);
	for (uint32_t i = 0; i < 100; i++)
		world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_settle(w);
	ck_assert_int_eq(world_delete_dip(w, "web", 1, false)->status, CONTROL_ACCEPTED);
	ck_assert_int_eq(put_dip_again("other", "10.9.0.1"), CONTROL_CREATED);
	ck_assert_int_eq(put_dip_again("b1", "10.9.0.1"), CONTROL_CONFLICT);
	ck_assert_int_eq(put_dip_again("other", "10.9.0.1"), CONTROL_OK);
	struct control_request r = {
		.op = OP_DIP_DELETE, .vip = "web", .dip = "other", .force = true};
	world_request(w, &r);
	ck_assert_int_eq(put_dip_again("b1", "10.9.0.1"), CONTROL_OK);
	ck_assert_uint_gt(world_dip_flows(w, "web", 1), 0);
	end();
}
END_TEST

static void put_match(const char *id, uint16_t port, enum vip_protocol protocol, bool force,
		      enum control_status want)
{
	struct control_request r = {.op = OP_VIP_PUT, .force = force};

	snprintf(r.vip, sizeof(r.vip), "%s", id);
	vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL;
	r.vip_edit.conf.match = (struct vip_match){
		.address = frames_ip(WORLD_VIP_ADDRESS), .port = port, .protocol = protocol};
	world_request(w, &r);
	ck_assert_msg(r.status == want, "%s: status %d, not %d", id, r.status, want);
}

/* Only a VIP that would take packets away from known flows is refused. */
START_TEST(an_overlap_is_refused_only_where_it_could_move_flows)
{
	w = world_new(1, 65536);
	put_match("port-any", 80, VIP_ANY, false, CONTROL_CREATED);
	world_put_dip(w, "port-any", 1, 10, CONTROL_CREATED);
	world_tcp(w, 0, 1, FRAMES_SYN, 0);
	world_settle(w);
	put_match("any-any", 0, VIP_ANY, false, CONTROL_CREATED);
	put_match("any-tcp", 0, VIP_TCP, false, CONTROL_CREATED);
	put_match("other", 81, VIP_TCP, false, CONTROL_CREATED);
	put_match("port-tcp", 80, VIP_TCP, false, CONTROL_CONFLICT);
	put_match("port-tcp", 80, VIP_TCP, true, CONTROL_CREATED);
	end();
}
END_TEST

static bool taken_over;

static void open_taken_flow(struct world *world)
{
	world->on_submit = NULL;
	ck_assert_uint_eq(world_tcp(world, 0, 1, FRAMES_SYN, 0), 1);
	taken_over = true;
}

/* A flow that opens on the overlapped VIP after the request was looked at. */
START_TEST(a_takeover_is_refused_up_to_the_swap)
{
	w = world_new(1, 65536);
	put_match("any", 0, VIP_ANY, false, CONTROL_CREATED);
	world_put_dip(w, "any", 1, 10, CONTROL_CREATED);
	w->on_submit = open_taken_flow;
	put_match("web", 80, VIP_TCP, false, CONTROL_CONFLICT);
	ck_assert(taken_over);
	ck_assert_uint_eq(w->disk.n_vips, 1);
	ck_assert_uint_eq(w->n_steered, 1);
	ck_assert_uint_eq(world_tcp(w, 0, 1, PSH_ACK, 1), 1);
	world_settle(w);
	put_match("dns", 53, VIP_UDP, true, CONTROL_CREATED); /* its slot serves again */
	ck_assert_uint_eq(w->disk.n_vips, 2);
	end();
}
END_TEST

START_TEST(the_hold_covers_vips_that_would_be_taken_from)
{
	w = world_new(1, 65536);
	put_match("any", 0, VIP_ANY, false, CONTROL_CREATED);
	world_put_dip(w, "any", 1, 10, CONTROL_CREATED);
	world_restart(w, WORLD_REBOOT);
	put_match("web", 80, VIP_TCP, false, CONTROL_UNAVAILABLE);
	world_advance_ms(6000);
	put_match("web", 80, VIP_TCP, false, CONTROL_CREATED);
	end();
}
END_TEST

static enum control_status patch_weight(uint32_t weight)
{
	static struct control_request r;

	r = (struct control_request){.op = OP_DIP_PATCH, .vip = "any", .dip = "b1"};
	r.dip_edit.members = DIP_M_WEIGHT;
	r.dip_edit.conf.weight = weight;
	world_request(w, &r);
	if (r.status == CONTROL_UNAVAILABLE)
		ck_assert(r.retry_after_s >= 1 && r.retry_after_s <= 5);
	return r.status;
}

static void settle_for_ms(unsigned ms)
{
	for (; ms > 0; ms -= 100) {
		world_advance_ms(100);
		world_settle(w);
	}
}

START_TEST(the_hold_lasts_until_one_process_has_listened_for_all_of_it)
{
	w = world_new(1, 65536);
	put_match("any", 0, VIP_ANY, false, CONTROL_CREATED);
	world_put_dip(w, "any", 1, 10, CONTROL_CREATED);
	world_restart(w, WORLD_KILL);
	ck_assert_int_eq(patch_weight(11), CONTROL_OK);
	world_restart(w, WORLD_REBOOT);
	for (unsigned kill = 0; kill < 3; kill++) {
		settle_for_ms(4800);
		ck_assert_int_eq(patch_weight(12), CONTROL_UNAVAILABLE);
		world_restart(w, WORLD_KILL);
		ck_assert_int_eq(patch_weight(13), CONTROL_UNAVAILABLE);
	}
	settle_for_ms(5200);
	world_restart(w, WORLD_KILL);
	ck_assert_int_eq(patch_weight(14), CONTROL_OK);
	end();
}
END_TEST

START_TEST(a_step_of_the_wall_clock_ends_no_drain)
{
	uint32_t i = 0;

	start(1, 65536, VIP_TCP, 2);
	while (world_tcp(w, 0, i, FRAMES_SYN, 0) != 1)
		i++;
	world_tcp(w, 0, i, FRAMES_ACK, 0);
	world_settle(w);
	ck_assert_int_eq(world_delete_dip(w, "web", 1, false)->status, CONTROL_ACCEPTED);
	world_step_wall_s(7200);
	world_advance_ms(1100);
	world_settle(w);
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), 1);
	world_restart(w, WORLD_KILL);
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), 1);
	world_step_wall_s(-2 * 7200); /* cannot keep it longer than its time-out either */
	for (unsigned s = 0; s < 3700; s += 4) {
		world_advance_ms(4000);
		world_tcp(w, 0, i, PSH_ACK, 1);
		world_settle(w);
	}
	ck_assert_uint_eq(world_dip_flows(w, "web", 1), UINT64_MAX);
	end();
}
END_TEST

START_TEST(damaged_slots_are_no_flows_and_hold_changes)
{
	enum { N = 300 };
	static uint8_t first[N];

	start(1, 4096, VIP_TCP, 4);
	for (uint32_t i = 0; i < N; i++)
		first[i] = (uint8_t)world_tcp(w, 0, i, FRAMES_SYN, 0);
	world_set_weight(w, "web", 1, 0);
	struct flow_slot *slots = state_file_slots(w->state);
	slots[3000] = slots[0]; /* twice */
	slots[3001] = slots[1];
	slots[3001].hash ^= 1;
	memset(&slots[3002], 0xa5, sizeof(slots[3002]));
	for (unsigned k = 0; k < N; k += 3) /* known only by their pins now, or by nothing */
		slots[k].hash ^= 2;
	world_restart(w, WORLD_KILL);
	for (uint32_t i = 0; i < N; i++) {
		world_advance_ms(i % 100 == 0);
		ck_assert_uint_eq(world_tcp(w, 0, i, PSH_ACK, 1), first[i]);
	}
	world_settle(w);
	ck_assert_uint_eq(world_consistency(w).flows_known, N);
	struct control_request r = {.op = OP_DIP_PATCH, .vip = "web", .dip = "b2"};
	r.dip_edit.members = DIP_M_WEIGHT;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_UNAVAILABLE);
	world_restart(w, WORLD_KILL);
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_UNAVAILABLE);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control");
	TCase *t = tcase_create("control");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, shares_follow_weights);
	tcase_add_test(t, a_thousand_changes_misplace_no_flow);
	tcase_add_test(t, false_alarms_lose_no_idle_flow);
	tcase_add_test(t, flows_survive_a_kill);
	tcase_add_test(t, pins_survive_a_reboot);
	tcase_add_test(t, changes_are_held_after_a_reboot);
	tcase_add_test(t, a_failed_commit_changes_nothing);
	tcase_add_test(t, a_cut_rehomes_and_counts);
	tcase_add_test(t, a_drained_dip_goes_with_its_last_flow);
	tcase_add_test(t, flows_opened_during_the_commit_stay);
	tcase_add_test(t, pins_of_ended_flows_are_purged);
	tcase_add_test(t, floods_push_out_only_their_like);
	tcase_add_test(t, indexes_rest_before_they_are_used_again);
	tcase_add_test(t, requests_are_refused_by_name);
	tcase_add_test(t, a_drain_is_not_ended_beside_another_dip_of_the_address);
	tcase_add_test(t, an_overlap_is_refused_only_where_it_could_move_flows);
	tcase_add_test(t, a_takeover_is_refused_up_to_the_swap);
	tcase_add_test(t, the_hold_covers_vips_that_would_be_taken_from);
	tcase_add_test(t, the_hold_lasts_until_one_process_has_listened_for_all_of_it);
	tcase_add_test(t, a_step_of_the_wall_clock_ends_no_drain);
	tcase_add_test(t, damaged_slots_are_no_flows_and_hold_changes);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
