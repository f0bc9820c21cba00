/* The thread that checks, against real sockets and a control that only notes what it is told. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/health_engine.h"
#include "tests/unit/prng.h"

#define TARGETS_MAX 1000

/* --- control -------------------------------------------------------------------------------- */

struct control {
	pthread_mutex_t mutex;
	uint64_t epoch;
	struct health_vip vip;
	unsigned n;
	struct health_target list[TARGETS_MAX];
	unsigned n_reports[TARGETS_MAX + 1]; /* by uid, from 1 on */
	struct health_report last[TARGETS_MAX + 1];
	_Atomic unsigned n_calls;
};

static struct control control = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct health_engine *engine;

static void *copy(const void *p, size_t size)
{
	void *q = malloc(size + 1);

	ck_assert(q != NULL);
	memcpy(q, p, size);
	return q;
}

int control_list_health(struct control *c, struct health_targets *out)
{
	pthread_mutex_lock(&c->mutex);
	*out = (struct health_targets){.n = c->n,
				       .list = copy(c->list, c->n * sizeof(c->list[0])),
				       .n_vips = 1,
				       .vips = copy(&c->vip, sizeof(c->vip))};
	pthread_mutex_unlock(&c->mutex);
	return 0;
}

void health_targets_free(struct health_targets *t)
{
	free(t->list);
	free(t->vips);
}

uint64_t control_health_epoch(struct control *c)
{
	pthread_mutex_lock(&c->mutex);
	uint64_t epoch = c->epoch;
	pthread_mutex_unlock(&c->mutex);
	return epoch;
}

/* As the real one does, it hands out what it was told as the verdict to begin with. */
void control_set_health(struct control *c, const struct health_report *list, unsigned n)
{
	pthread_mutex_lock(&c->mutex);
	c->n_calls++;
	for (unsigned i = 0; i < n; i++) {
		c->last[list[i].dip_uid] = list[i];
		c->n_reports[list[i].dip_uid]++;
	}
	pthread_mutex_unlock(&c->mutex);
}

static struct health_report last(uint64_t uid)
{
	pthread_mutex_lock(&control.mutex);
	struct health_report r = control.last[uid];
	pthread_mutex_unlock(&control.mutex);
	return r;
}

static void change(void (*fn)(void))
{
	pthread_mutex_lock(&control.mutex);
	fn();
	control.epoch++;
	pthread_mutex_unlock(&control.mutex);
}

/* --- the rest of the world ------------------------------------------------------------------ */

static uint64_t now_ms(void)
{
	return clock_now_ms();
}

/* True once the condition is; fails after far longer than it can take. */
static void wait_for(bool (*condition)(void), const char *what)
{
	uint64_t until_ms = now_ms() + 20000;

	while (!condition()) {
		ck_assert_msg(now_ms() < until_ms, "%s: not within 20 s", what);
		usleep(2000);
	}
}

/* Connections are made by the kernel; nobody need accept them. */
static int listen_on(uint16_t *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(*port)};
	socklen_t len = sizeof(a);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(fd, 4096), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static void start(enum health_type type, uint16_t port, unsigned n, enum health_verdict verdict)
{
	struct error err;

	log_set_level(LOG_ERROR);
	memset(control.n_reports, 0, sizeof(control.n_reports));
	memset(control.last, 0, sizeof(control.last));
	control.n_calls = 0;
	health_conf_defaults(&control.vip.conf);
	control.vip.conf.type = type;
	control.vip.conf.interval_ms = 100;
	control.vip.conf.timeout_ms = 60;
	control.vip.port = port;
	control.n = n;
	for (unsigned i = 0; i < n; i++)
		control.list[i] = (struct health_target){
			.dip_uid = i + 1,
			.dip_index = (uint16_t)(i + 1),
			.verdict = verdict,
			.address = ip_addr_v4((uint8_t[]){127, 1, (uint8_t)(i >> 8), (uint8_t)i})};
	ck_assert_int_eq(health_engine_start(&control, &engine, &err), 0);
}

static void end(void)
{
	health_engine_stop(engine);
	engine = NULL;
}

static bool first_is_up(void)
{
	return last(1).verdict == VERDICT_UP;
}

static bool first_is_down(void)
{
	return last(1).verdict == VERDICT_DOWN;
}

static bool first_has_failed(void)
{
	return last(1).stats.failed_total >= 4;
}

static bool first_has_passed(void)
{
	return last(1).stats.checks_total >= 4;
}

/* --- tests ---------------------------------------------------------------------------------- */

START_TEST(a_server_that_stops_is_down_and_up_again)
{
	uint16_t port = 0;
	int fd = listen_on(&port);

	start(HEALTH_TCP, port, 1, VERDICT_UNKNOWN);
	wait_for(first_is_up, "up");
	ck_assert_uint_eq(last(1).stats.failed_total, 0);
	ck_assert_uint_gt(last(1).stats.last_check_ms, 0);
	uint64_t stopped_ms = now_ms();
	close(fd);
	wait_for(first_is_down, "down");
	uint64_t took_ms = now_ms() - stopped_ms;
	struct health_report r = last(1);
	ck_assert_uint_eq(r.stats.consecutive, 3);
	ck_assert(!r.stats.last_ok);
	ck_assert_str_eq(r.stats.last_error, "cannot connect: Connection refused");
	ck_assert_uint_ge(took_ms, 150); /* not before the third failure */
	fd = listen_on(&port);
	wait_for(first_is_up, "up again");
	ck_assert_uint_ge(last(1).stats.consecutive, 2);
	printf("down was decided %llu ms after the stop\n", (unsigned long long)took_ms);
	end();
	close(fd);
}
END_TEST

START_TEST(silence_is_a_failure)
{
	uint16_t port = 0;
	int fd = listen_on(&port);

	start(HEALTH_HTTP, port, 1, VERDICT_UP);
	wait_for(first_is_down, "down");
	ck_assert_str_eq(last(1).stats.last_error, "no answer within 60 ms");
	ck_assert_uint_ge(last(1).stats.latency_us, 58000); /* deadlines are in whole ms */
	end();
	close(fd);
}
END_TEST

static void allow_many_failures(void)
{
	control.vip.conf.fall = 100;
}

static void change_what_is_not_asked(void)
{
	control.vip.conf.rise = 9;
	control.vip.conf.min_up = 4;
	control.vip.conf.slow_start_s = 30;
	control.vip.conf.interval_ms = 120;
	control.list[1] = control.list[0];
	control.list[1].dip_uid = 2;
	control.list[1].verdict = VERDICT_UNKNOWN;
	control.n = 2;
}

static uint16_t other_port;

static void ask_another_port(void)
{
	control.vip.conf.port = other_port;
	control.vip.port = other_port;
}

static bool second_was_checked(void)
{
	return last(2).stats.checks_total > 0;
}

static bool first_was_begun_anew(void)
{
	struct health_report r = last(1);

	return r.stats.last_ok && r.stats.consecutive > 0;
}

START_TEST(checks_survive_changes_of_the_configuration)
{
	uint16_t closed = 0;
	int fd = listen_on(&closed);

	close(fd);
	fd = listen_on(&other_port);
	start(HEALTH_TCP, closed, 1, VERDICT_UP);
	change(allow_many_failures);
	wait_for(first_has_failed, "four failures");
	uint32_t before = last(1).stats.consecutive;
	change(change_what_is_not_asked);
	wait_for(second_was_checked, "the new DIP's check");
	struct health_report r = last(1);
	ck_assert_uint_ge(r.stats.consecutive, before);
	ck_assert_uint_eq(r.stats.consecutive, r.stats.failed_total);
	ck_assert_int_eq(r.verdict, VERDICT_UP);
	ck_assert_int_eq(last(2).verdict, VERDICT_DOWN); /* new there: one check decided */
	uint64_t total = r.stats.checks_total;
	change(ask_another_port);
	wait_for(first_was_begun_anew, "a check of the other port");
	ck_assert_uint_gt(last(1).stats.checks_total, total);
	ck_assert_int_eq(last(1).verdict, VERDICT_UP);
	end();
	close(fd);
}
END_TEST

static void drop_all(void)
{
	control.n = 0;
}

/* Amidst their checks: nothing is told of them any more, and nothing is left (ASan looks). */
START_TEST(dips_that_are_gone_are_not_checked)
{
	static const enum health_type types[] = {HEALTH_HTTP, HEALTH_TCP, HEALTH_UDP};

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		uint16_t port = 0;
		int fd = listen_on(&port);
		snprintf(control.vip.conf.send, sizeof(control.vip.conf.send), "x");
		start(types[i], port, 50, VERDICT_UP);
		usleep(400000);
		change(drop_all);
		usleep(300000);
		pthread_mutex_lock(&control.mutex);
		unsigned n_calls = control.n_calls;
		pthread_mutex_unlock(&control.mutex);
		usleep(300000);
		pthread_mutex_lock(&control.mutex);
		ck_assert_uint_eq(control.n_calls, n_calls);
		pthread_mutex_unlock(&control.mutex);
		end();
		close(fd);
	}
}
END_TEST

static bool all_are_up(void)
{
	unsigned n = 0;

	for (unsigned i = 1; i <= TARGETS_MAX; i++)
		n += last(i).verdict == VERDICT_UP;
	return n == TARGETS_MAX;
}

static void once_a_second(void)
{
	control.vip.conf.interval_ms = 1000;
	control.vip.conf.timeout_ms = 900;
}

static uint64_t total_checks(void)
{
	uint64_t sum = 0;

	for (unsigned i = 1; i <= TARGETS_MAX; i++)
		sum += last(i).stats.checks_total;
	return sum;
}

static void *accept_all(void *arg)
{
	struct pollfd p = {.fd = *(int *)arg, .events = POLLIN};

	while (poll(&p, 1, 3000) > 0 && !(p.revents & POLLHUP)) {
		int fd = accept(p.fd, NULL, NULL);
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static uint64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

START_TEST(a_thousand_dips_each_second)
{
	enum { SECONDS = 2 };
	uint16_t port = 0;
	int fd = listen_on(&port);
	pthread_t acceptor;

	ck_assert_int_eq(pthread_create(&acceptor, NULL, accept_all, &fd), 0);
	start(HEALTH_TCP, port, TARGETS_MAX, VERDICT_UNKNOWN);
	change(once_a_second);
	wait_for(all_are_up, "all up");
	uint64_t before = total_checks(), cpu_before = cpu_us();
	uint64_t calls = control.n_calls;
	usleep(SECONDS * 1000000);
	uint64_t made = total_checks() - before, used_us = cpu_us() - cpu_before;
	ck_assert_uint_gt(made, TARGETS_MAX * SECONDS / 2);
	ck_assert_uint_lt(made, TARGETS_MAX * SECONDS * 2);
	ck_assert_uint_le(control.n_calls - calls, SECONDS * 11 + 2);
	printf("%llu checks a second, %llu ms of CPU a second, the server's included\n",
	       (unsigned long long)made / SECONDS, (unsigned long long)used_us / SECONDS / 1000);
	end();
	shutdown(fd, SHUT_RDWR);
	pthread_join(acceptor, NULL);
	close(fd);
}
END_TEST

static void hear_of_agent(void)
{
	control.list[0].agent_ms = clock_now_ms();
}

START_TEST(agents_are_up_while_they_are_heard_of)
{
	start(HEALTH_AGENT, 0, 1, VERDICT_UNKNOWN);
	wait_for(first_is_down, "down");
	ck_assert_str_eq(last(1).stats.last_error, "no agent has reported for it");
	uint64_t until_ms = now_ms() + 20000;
	while (last(1).verdict != VERDICT_UP) {
		change(hear_of_agent);
		usleep(20000);
		ck_assert_uint_lt(now_ms(), until_ms);
	}
	wait_for(first_is_down, "down again"); /* it is silent now */
	ck_assert_ptr_nonnull(strstr(last(1).stats.last_error, "its agent was last heard of "));
	end();
}
END_TEST

START_TEST(a_verdict_from_before_is_where_it_begins)
{
	uint16_t port = 0;
	int fd = listen_on(&port);

	start(HEALTH_TCP, port, 1, VERDICT_DOWN);
	wait_for(first_is_up, "up");
	ck_assert_uint_ge(last(1).stats.checks_total, 2); /* rise, not the first one */
	end();
	start(HEALTH_TCP, port, 1, VERDICT_UP);
	wait_for(first_has_passed, "four checks");
	ck_assert_int_eq(last(1).verdict, VERDICT_UP);
	end();
	close(fd);
}
END_TEST

START_TEST(it_cannot_start_without_descriptors)
{
	struct rlimit was, low;
	struct error err = {""};
	int fds[64], n = 0;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	low = (struct rlimit){.rlim_cur = 32, .rlim_max = was.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	while (n < (int)ARRAY_LEN(fds) && (fds[n] = dup(0)) >= 0)
		n++;
	ck_assert_int_eq(health_engine_start(&control, &engine, &err), -EMFILE);
	ck_assert_ptr_nonnull(strstr(err.message, "health checks: "));
	while (n > 0)
		close(fds[--n]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	engine = NULL;
	health_engine_stop(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("health_engine");
	TCase *tc = tcase_create("health_engine");
	SRunner *runner = srunner_create(suite);

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_server_that_stops_is_down_and_up_again);
	tcase_add_test(tc, silence_is_a_failure);
	tcase_add_test(tc, checks_survive_changes_of_the_configuration);
	tcase_add_test(tc, dips_that_are_gone_are_not_checked);
	tcase_add_test(tc, a_thousand_dips_each_second);
	tcase_add_test(tc, agents_are_up_while_they_are_heard_of);
	tcase_add_test(tc, a_verdict_from_before_is_where_it_begins);
	tcase_add_test(tc, it_cannot_start_without_descriptors);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
