/* What an agent says next: greeting, telling all in parts, in step; and what is sent again. */
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/client/agent_talk.h"
#include "base/clock.h"
#include "base/log.h"

#define FORWARDER_AHEAD 5000u /* its clock, of ours */
#define INTERVAL 1000u

static uint64_t clock_ms = 1000000;
static struct agent_talk t;
static unsigned n_conns; /* at the backend, ports from 1024 */
static unsigned n_looks;

static uint64_t now_ns(void)
{
	return clock_ms * 1000000u;
}

static int64_t wall_s(void)
{
	return 1700000000;
}

static struct agent_key key_of(unsigned i)
{
	return (struct agent_key){.src = {.b = {[10] = 0xff, 0xff, 10, 1, (uint8_t)(i >> 12), 1}},
				  .sport = (uint16_t)(1024 + i % 4096),
				  .dport = 80,
				  .proto = IPPROTO_TCP};
}

static bool is_gone(void *ctx, const struct agent_key *key, uint64_t cookie)
{
	(void)ctx;
	(void)key;
	return cookie > n_conns;
}

static void look(void *ctx)
{
	ck_assert_ptr_eq(ctx, &n_conns);
	n_looks++;
	agent_table_dump_begin(t.table);
	for (unsigned i = 0; i < n_conns; i++) {
		struct agent_key key = key_of(i);
		ck_assert(agent_table_seen(t.table, &key, i + 1, clock_now_ms()));
	}
	agent_table_dump_end(t.table, is_gone, NULL);
}

static void start(unsigned n)
{
	struct agent_options o = {.url = "test", .interval_ms = INTERVAL};

	clock_set_source(now_ns, wall_s);
	log_set_level(LOG_ERROR);
	n_conns = n;
	n_looks = 0;
	ck_assert_int_eq(agent_talk_init(&t, &o, look, &n_conns), 0);
}

static void end(void)
{
	agent_talk_destroy(&t);
	clock_set_source(NULL, NULL);
}

static void reply(uint64_t ack, bool resync, const char *instance)
{
	struct agent_reply r = {.status = 200,
				.ack = ack,
				.resync = resync,
				.clock_ms = clock_ms + FORWARDER_AHEAD,
				.n_vips = 1,
				.vips = {{.port = 80, .proto = IPPROTO_TCP}}};

	snprintf(r.instance, sizeof(r.instance), "%s", instance);
	agent_talk_reply(&t, &r, clock_ms + INTERVAL);
}

static void no_reply(long status)
{
	struct agent_reply r = {.status = status};

	agent_talk_reply(&t, &r, clock_ms + INTERVAL);
}

/* Greeted, and told of all. */
static void get_in_step(void)
{
	const struct agent_outgoing *r = agent_talk_next(&t);

	ck_assert(!r->full && r->n == 0);
	ck_assert_uint_eq(agent_talk_clock_ms(r, &t.state), 0); /* unknown yet */
	reply(0, true, "f1");
	do {
		r = agent_talk_next(&t);
		ck_assert(r->full);
		reply(r->sequence, false, "f1");
	} while (r->more);
	ck_assert_int_eq(t.mode, AGENT_IN_STEP);
}

START_TEST(all_is_told_in_parts)
{
	enum { N = 2 * AGENT_NEWS_MAX + 10 };
	static bool told[N];
	const struct agent_outgoing *r;
	unsigned n = 0, part = 0;

	start(N);
	agent_talk_next(&t);
	reply(0, true, "f1");
	ck_assert_uint_eq(t.send_ms, clock_ms); /* at once */
	do {
		r = agent_talk_next(&t);
		ck_assert(r->full);
		ck_assert_uint_eq(r->part, part++);
		ck_assert_uint_eq(r->sequence, part);
		ck_assert_uint_eq(agent_talk_clock_ms(r, &t.state), clock_ms + FORWARDER_AHEAD);
		for (unsigned i = 0; i < r->n; i++) {
			const struct agent_key *k = &r->news[i].key;
			unsigned number = k->src.b[14] * 4096u + k->sport - 1024u;
			ck_assert(number < N && !told[number] && !r->news[i].ended);
			told[number] = true;
			n++;
		}
		clock_ms += 7;
		reply(r->sequence, false, "f1");
	} while (r->more);
	ck_assert_uint_eq(n, N);
	ck_assert_uint_eq(part, 3);
	ck_assert_int_eq(t.mode, AGENT_IN_STEP);
	ck_assert_uint_gt(t.send_ms, clock_ms); /* nothing to tell */
	end();
}
END_TEST

/* However late it is sent again: what has opened since is not in it, and must not look ended. */
START_TEST(what_is_sent_again_keeps_its_date)
{
	start(3);
	agent_talk_next(&t);
	reply(0, true, "f1");
	clock_ms += 100;
	const struct agent_outgoing *r = agent_talk_next(&t);
	uint64_t date = agent_talk_clock_ms(r, &t.state), sequence = r->sequence;
	uint32_t age = agent_talk_age_ms(r, &r->news[0]);
	ck_assert_uint_eq(date, clock_ms + FORWARDER_AHEAD);
	for (unsigned i = 0; i < 5; i++) {
		clock_ms += 2000;
		n_conns++;
		no_reply(i == 3 ? 503 : 0);
		r = agent_talk_next(&t);
		ck_assert_uint_eq(r->sequence, sequence);
		ck_assert(r->full && r->part == 0 && r->n == 3);
		ck_assert_uint_eq(agent_talk_clock_ms(r, &t.state), date);
		ck_assert_uint_eq(agent_talk_age_ms(r, &r->news[0]), age);
	}
	end();
}
END_TEST

START_TEST(ends_are_dated)
{
	start(3);
	get_in_step();
	clock_ms += 500;
	uint64_t ended_ms = clock_ms;
	struct agent_key key = key_of(2);
	n_conns = 2;
	ck_assert(agent_table_ended(t.table, &key, 3, ended_ms));
	clock_ms += 300;
	for (unsigned i = 0; i < 3; i++) {
		const struct agent_outgoing *r = agent_talk_next(&t);
		ck_assert(!r->full && r->n == 1 && r->news[0].ended);
		ck_assert_uint_eq(agent_talk_clock_ms(r, &t.state) -
					  agent_talk_age_ms(r, &r->news[0]),
				  ended_ms + FORWARDER_AHEAD);
		clock_ms += 1000;
		no_reply(0);
	}
	/* What comes while a report is made is not older than it. */
	struct agent_outgoing late = {.made_ms = 100};
	struct agent_news n = {.at_ms = 105};
	ck_assert_uint_eq(agent_talk_age_ms(&late, &n), 0);
	n.at_ms = 0;
	late.made_ms = 1000000000;
	ck_assert_uint_eq(agent_talk_age_ms(&late, &n), 604800000);
	end();
}
END_TEST

START_TEST(whatever_may_differ_is_told_anew)
{
	start(5);
	get_in_step();
	const struct agent_outgoing *r = agent_talk_next(&t);
	ck_assert(!r->full && r->n == 0);
	reply(r->sequence, true, "f1"); /* asked for */
	ck_assert(agent_talk_next(&t)->full);
	reply(t.out.sequence, false, "f1");
	ck_assert(!agent_talk_next(&t)->full);
	reply(0, false, "f2"); /* it has restarted: it knows of no report */
	r = agent_talk_next(&t);
	ck_assert(r->full && r->part == 0 && r->n == 5);
	reply(r->sequence, false, "f2");
	r = agent_talk_next(&t);
	uint64_t sequence = r->sequence;
	no_reply(422); /* no report at all: sending it again would not help */
	r = agent_talk_next(&t);
	ck_assert(r->full && r->sequence > sequence);
	end();
}
END_TEST

/* So that it knows all within an interval of its return, however many there are to tell of it. */
START_TEST(who_is_away_is_tried_four_times_an_interval)
{
	start(0);
	get_in_step();
	for (unsigned i = 0; i < 30; i++) {
		clock_ms = t.send_ms;
		agent_talk_next(&t);
		no_reply(i % 2 ? 503 : 0);
		ck_assert_uint_eq(t.send_ms - clock_ms, INTERVAL / 4);
	}
	/* What was waited for an answer counts. */
	agent_talk_next(&t);
	clock_ms += INTERVAL;
	no_reply(0);
	ck_assert_uint_le(t.send_ms, clock_ms);
	end();
}
END_TEST

START_TEST(who_hangs_up_is_asked_soon)
{
	start(0);
	get_in_step();
	agent_talk_next(&t);
	reply(t.out.sequence, false, "f1");
	ck_assert_uint_eq(t.send_ms - clock_ms, INTERVAL);
	agent_talk_hung_up(&t);
	ck_assert_uint_eq(t.send_ms - clock_ms, INTERVAL / 4);
	clock_ms = t.send_ms;
	agent_talk_next(&t);
	reply(t.out.sequence, false, "f1");
	clock_ms = t.send_ms - 1;
	agent_talk_hung_up(&t);
	ck_assert_uint_eq(t.send_ms, clock_ms - INTERVAL + 1 + INTERVAL / 4);
	/* One that refuses us may hang up as often as it likes. */
	clock_ms = t.send_ms;
	agent_talk_next(&t);
	no_reply(401);
	agent_talk_hung_up(&t);
	ck_assert_uint_eq(t.send_ms - clock_ms, INTERVAL);
	end();
}
END_TEST

/* The forwarder may want another list, for what fell silent just before this one. */
START_TEST(a_list_is_confirmed_soon)
{
	start(3);
	get_in_step();
	ck_assert_uint_gt(t.send_ms - clock_ms, 250);
	ck_assert_uint_lt(t.send_ms - clock_ms, INTERVAL / 2);
	clock_ms = t.send_ms;
	const struct agent_outgoing *r = agent_talk_next(&t);
	ck_assert(!r->full);
	reply(r->sequence, true, "f1");
	r = agent_talk_next(&t);
	ck_assert(r->full && r->n == 3);
	end();
}
END_TEST

START_TEST(refusals_back_off)
{
	uint64_t delay = 0;

	start(0);
	get_in_step();
	agent_talk_next(&t);
	for (unsigned i = 0; i < 30; i++) {
		no_reply(401);
		uint64_t next = t.send_ms - clock_ms;
		ck_assert(next >= delay && next <= 30000);
		ck_assert(i > 9 || next == INTERVAL);
		delay = next;
	}
	ck_assert_uint_eq(delay, 30000);
	reply(t.out.sequence, false, "f1");
	agent_talk_next(&t);
	no_reply(401);
	ck_assert_uint_eq(t.send_ms - clock_ms, INTERVAL);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agent_talk");
	TCase *tc = tcase_create("agent_talk");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, all_is_told_in_parts);
	tcase_add_test(tc, what_is_sent_again_keeps_its_date);
	tcase_add_test(tc, ends_are_dated);
	tcase_add_test(tc, whatever_may_differ_is_told_anew);
	tcase_add_test(tc, who_is_away_is_tried_four_times_an_interval);
	tcase_add_test(tc, who_hangs_up_is_asked_soon);
	tcase_add_test(tc, a_list_is_confirmed_soon);
	tcase_add_test(tc, refusals_back_off);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
