/* How far a drain has come, against a model that remembers when each flow opened. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;

static void start(unsigned n_dips)
{
	w = world_new(1, 65536);
	world_put_vip(w, "web", VIP_TCP, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void open_flow(uint32_t i, unsigned *dip)
{
	*dip = world_tcp(w, 0, i, FRAMES_SYN, 0);
	ck_assert_uint_ne(*dip, 0);
	world_tcp(w, 0, i, FRAMES_ACK, 0);
}

/* As a GET would show it; nothing if it is gone. */
static struct drain_info dip_drain(unsigned last)
{
	size_t n;
	struct vip_info *v = control_read_vips(w->control, "web", true, &n);
	struct drain_info d = {0};
	char id[16];

	snprintf(id, sizeof(id), "b%u", last);
	for (unsigned i = 0; n && i < v->n_dips; i++)
		if (strcmp(v->dips[i].conf.id, id) == 0)
			d = v->dips[i].drain;
	vip_infos_free(v, n);
	return d;
}

static struct drain_info vip_drain(void)
{
	size_t n;
	struct vip_info *v = control_read_vips(w->control, "web", false, &n);
	struct drain_info d = n ? v->drain : (struct drain_info){0};

	vip_infos_free(v, n);
	return d;
}

static uint64_t age_s(uint64_t opened_ms)
{
	return (world_now_ms() - opened_ms) / 1000;
}

enum { N = 400 };

struct model {
	uint64_t opened_ms[N];
	unsigned dip[N];
	bool live[N];
};

/* Of the flows of a DIP (0: of any). */
static void assert_progress(const struct model *m, unsigned dip, const struct drain_info *d)
{
	uint64_t oldest = world_now_ms();
	uint64_t n = 0;

	for (unsigned i = 0; i < N; i++) {
		if (!m->live[i] || (dip && m->dip[i] != dip))
			continue;
		n++;
		if (m->opened_ms[i] < oldest)
			oldest = m->opened_ms[i];
	}
	ck_assert_uint_eq(d->flows_remaining, n);
	if (!n)
		return;
	ck_assert(d->on);
	ck_assert_uint_eq(d->oldest_age_s, age_s(oldest));
}

static unsigned oldest_of(const struct model *m, unsigned dip)
{
	unsigned best = N;

	for (unsigned i = 0; i < N; i++)
		if (m->live[i] && (!dip || m->dip[i] == dip) &&
		    (best == N || m->opened_ms[i] < m->opened_ms[best]))
			best = i;
	return best == N ? 0 : best;
}

/* Flows end one after another while all that live speak; now and then one opens anew. */
static void drain_down(struct model *m, uint64_t *rng, unsigned dip)
{
	for (unsigned round = 0; round < 60; round++) {
		for (unsigned k = 0; k < 8; k++) {
			unsigned i = k ? (unsigned)(frames_random(rng) % N) : oldest_of(m, dip);
			if (!m->live[i] || (dip && m->dip[i] != dip))
				continue;
			if (frames_random(rng) % 4 == 0) {
				world_tcp(w, 0, i, FRAMES_SYN, 0); /* dates its opening anew */
				world_tcp(w, 0, i, FRAMES_ACK, 0);
				m->opened_ms[i] = world_now_ms();
			} else {
				world_tcp(w, 0, i, FRAMES_RST, 0);
				m->live[i] = false;
			}
		}
		for (unsigned s = 0; s < 8; s++) {
			world_advance_ms(3000);
			for (unsigned i = 0; i < N; i++)
				if (m->live[i])
					world_tcp(w, 0, i, PSH_ACK, 1);
			world_settle(w);
		}
		/* closing_pin_s and a refresh interval have passed: what ended is gone */
		struct drain_info d = dip ? dip_drain(dip) : vip_drain();
		assert_progress(m, dip, &d);
	}
}

static void open_all(struct model *m)
{
	for (unsigned i = 0; i < N; i++) {
		world_advance_ms(77);
		m->opened_ms[i] = world_now_ms();
		m->live[i] = true;
		open_flow(i, &m->dip[i]);
	}
	world_settle(w);
}

/* Short times, so that what has ended is soon gone. */
static void hurry(void)
{
	struct control_request r = {.op = OP_VIP_PATCH, .vip = "web"};

	vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = VIP_M_CLOSING_PIN | VIP_M_IDLE_CLOSING;
	r.vip_edit.conf.closing_pin_s = 1;
	r.vip_edit.conf.idle_closing_s = 1;
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_OK);
}

START_TEST(a_dip_reports_its_own_flows)
{
	static struct model m;
	uint64_t rng = frames_seed();

	start(3);
	hurry();
	ck_assert(!dip_drain(2).on);
	open_all(&m);
	struct control_request *r = world_delete_dip(w, "web", 2, false);
	ck_assert_int_eq(r->status, CONTROL_ACCEPTED);
	assert_progress(&m, 2, &r->dip_info.drain);
	ck_assert_uint_eq(r->flows_remaining, r->dip_info.drain.flows_remaining);
	ck_assert(!dip_drain(1).on && !vip_drain().on);
	drain_down(&m, &rng, 2);
	world_free(w);
}
END_TEST

START_TEST(a_vip_reports_all_flows)
{
	static struct model m;
	uint64_t rng = frames_seed();

	start(3);
	hurry();
	open_all(&m);
	struct control_request r = {.op = OP_VIP_DELETE, .vip = "web"};
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_ACCEPTED);
	assert_progress(&m, 0, &r.vip_info.drain);
	drain_down(&m, &rng, 0);
	world_free(w);
}
END_TEST

START_TEST(the_deadline_is_kept)
{
	unsigned dip;
	uint32_t i = 0;

	start(2);
	do
		open_flow(i++, &dip);
	while (dip != 2);
	world_settle(w);
	struct control_request *r = world_delete_dip(w, "web", 2, false);
	ck_assert_int_eq(r->status, CONTROL_ACCEPTED);
	struct drain_info d = dip_drain(2);
	ck_assert_int_eq(d.deadline_s, r->dip_info.drain.deadline_s);
	ck_assert_int_eq(d.deadline_s, w->disk.vips[0].dips[1].drain_deadline_s);
	/* Asked for again, it does not begin anew; cancelled and asked for again, it does. */
	world_advance_ms(10000);
	world_delete_dip(w, "web", 2, false);
	ck_assert_int_eq(dip_drain(2).deadline_s, d.deadline_s);
	world_put_dip(w, "web", 2, 10, CONTROL_OK);
	ck_assert(!dip_drain(2).on);
	world_delete_dip(w, "web", 2, false);
	ck_assert_int_eq(dip_drain(2).deadline_s, d.deadline_s + 10);
	for (unsigned s = 0; s < 3590; s += 10) {
		world_advance_ms(10000);
		world_tcp(w, 0, i - 1, PSH_ACK, 1);
		world_settle(w);
		ck_assert_uint_eq(dip_drain(2).flows_remaining, 1);
		ck_assert_uint_eq(dip_drain(2).oldest_age_s, s + 20);
	}
	world_advance_ms(10100);
	world_settle(w);
	ck_assert_uint_eq(world_dip_flows(w, "web", 2), UINT64_MAX);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("progress");
	TCase *t = tcase_create("progress");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_dip_reports_its_own_flows);
	tcase_add_test(t, a_vip_reports_all_flows);
	tcase_add_test(t, the_deadline_is_kept);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
