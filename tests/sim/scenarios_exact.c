/* Scenarios about flows that only the exact table places. */
#include <arpa/inet.h>

#include "tests/sim/scene.h"

/* --- learned late -------------------------------------------------------------------------- */

static struct scene *late;

static void open_late(struct world *w)
{
	w->on_submit = NULL;
	for (unsigned i = 500; i < 506; i++)
		late->dips[i] = (uint8_t)world_tcp(w, 0, i, FRAMES_SYN, 0);
	control_drain(w->control, UINT64_MAX);
}

/* A plan drains D1; flows open on D1 and are drained from the rings while it is committed. */
void scenario_late_flow_stays(void)
{
	struct scene s;

	scene_open(&s, 1, 4096, VIP_TCP, NULL, 2);
	scene_connect(&s, 0, 100);
	late = &s;
	s.w->on_submit = open_late;
	scene_shake(&s, 1, 0);
	scene_must_stay(&s, 0, 100);
	scene_must_stay(&s, 500, 6);
	scene_close(&s);
}

/* Flows that only exact entries place are forgotten, and speak again; then another VIP is planned,
 * but not yet theirs. */
void scenario_exact_flow_again(void)
{
	struct vip_conf conf;
	struct scene s;

	vip_conf_defaults(&conf);
	conf.idle_half_open_s = 20;
	scene_open(&s, 1, 4096, VIP_TCP, &conf, 2);
	late = &s;
	s.w->on_submit = open_late;
	scene_shake(&s, 1, 0);
	MUST(s.w->control->snapshot->n_exact != 0, "late flows are exact");
	control_find_vip(s.w->control, "v")->refold = false;
	control_find_vip(s.w->control, "v")->purge_after_ms = UINT64_MAX;
	world_advance_ms(40000);
	control_step(s.w->control);
	MUST(world_consistency(s.w).flows_known == 0, "they have timed out");
	for (unsigned i = 400; i < 410; i++) /* the slots are others' now */
		world_tcp(s.w, 0, i, FRAMES_SYN, 0);
	scene_must_stay(&s, 500, 6);
	world_put_vip(s.w, "other", VIP_UDP, CONTROL_CREATED);
	scene_must_stay(&s, 500, 6);
	scene_close(&s);
}

/* --- equal hashes -------------------------------------------------------------------------- */

/* Two flows whose hashes are equal, and so name the same Dcode. */
static void equal_pair(struct scene *s, unsigned *x, unsigned *y)
{
	static unsigned first[1 << 14]; /* number + 1, by the bits that are left of a hash */
	struct vip_runtime *v = control_find_vip(s->w->control, "v");

	for (unsigned i = 0; i < SCENE_FLOWS; i++) {
		struct flow_key key = {
			.src = frames_ip("10.1.0.0"), .dport_be = htons(80), .proto = IPPROTO_TCP};
		unsigned port = 1024 + (i & 1023);
		key.sport_be = htons((uint16_t)port);
		uint64_t hash = flow_key_hash(&key, v->seed);
		unsigned small = (unsigned)(hash >> 60 << 10 | (hash & 1023));
		if (first[small]) {
			*x = first[small] - 1;
			*y = i;
			return;
		}
		first[small] = i + 1;
	}
	MUST(false, "two hashes are equal");
}

void scenario_equal_hashes(void)
{
	struct scene s;
	unsigned x = 0, y = 0;

	fault_hash_mask = 0xf0000000000003ff;
	scene_open(&s, 1, 4096, VIP_TCP, NULL, 3);
	equal_pair(&s, &x, &y);
	scene_connect(&s, x, 1);
	world_set_admin(s.w, "v", s.dips[x], ADMIN_DOWN);
	scene_connect(&s, y, 1);
	MUST(s.dips[x] != s.dips[y], "they are on two DIPs");
	world_set_admin(s.w, "v", s.dips[x], ADMIN_UP);
	for (unsigned round = 0; round < 3; round++) {
		scene_must_stay(&s, x, 1);
		scene_must_stay(&s, y, 1);
		scene_shake(&s, 1 + round, 3);
	}
	MUST(world_consistency(s.w).flows_exact > 0, "one of them is an exact entry");
	scene_close(&s);
}
