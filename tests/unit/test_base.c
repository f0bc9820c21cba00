/* base/: addresses as text, clocks and entropy that can be replaced, the log's rate limit, large
 * memory, errors. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/entropy.h"
#include "base/error.h"
#include "base/hugemem.h"
#include "base/log.h"
#include "base/priority.h"
#include "tests/unit/prng.h"
#include "tests/unit/scarce_space.h"

/* --- addresses -----------------------------------------------------------------------------------
 */

START_TEST(test_addresses)
{
	const struct {
		const char *text;
		const char *canonical; /* NULL: refused */
		bool v4;
		bool host;
	} cases[] = {
		{"10.0.0.1", "10.0.0.1", true, true},
		{"255.255.255.255", "255.255.255.255", true, false},
		{"0.0.0.0", "0.0.0.0", true, false},
		{"127.0.0.1", "127.0.0.1", true, false},
		{"224.0.0.1", "224.0.0.1", true, false},
		{"::ffff:10.0.0.1", "10.0.0.1", true, true},
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1", false, true},
		{"::1", "::1", false, false},
		{"::", "::", false, false},
		{"ff02::1", "ff02::1", false, false},
		{"10.0.0", NULL, false, false},
		{"10.0.0.256", NULL, false, false},
		{"10.0.0.1/8", NULL, false, false},
		{"10.0.0.1:80", NULL, false, false},
		{"fe80::1%eth0", NULL, false, false},
		{" 10.0.0.1", NULL, false, false},
		{"", NULL, false, false},
		{"1:2:3:4:5:6:7:8:9", NULL, false, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ip_addr a = {.b = {42}}, untouched = a;
		char buf[IP_ADDR_STRLEN];
		int rc = ip_addr_parse(cases[i].text, &a);
		ck_assert_msg(rc == (cases[i].canonical ? 0 : -EINVAL), "'%s'", cases[i].text);
		if (rc) {
			ck_assert(ip_addr_equal(&a, &untouched));
			continue;
		}
		ck_assert_str_eq(ip_addr_format(&a, buf), cases[i].canonical);
		ck_assert_msg(ip_addr_is_v4(&a) == cases[i].v4, "'%s'", cases[i].text);
		ck_assert_msg(ip_addr_is_host(&a) == cases[i].host, "'%s'", cases[i].text);
	}
}
END_TEST

START_TEST(test_addresses_round_trip)
{
	struct prng rng = prng_new("addresses_round_trip");

	for (int t = 0; t < 20000; t++) {
		struct ip_addr a, back;
		char buf[IP_ADDR_STRLEN];
		uint64_t w[2] = {prng_u64(&rng), prng_u64(&rng)};
		for (uint32_t i = prng_below(&rng, 16); i > 0; i--) /* runs of zeros */
			((uint8_t *)w)[prng_below(&rng, 16)] = 0;
		memcpy(&a, w, sizeof(a));
		if (t % 2)
			a = ip_addr_v4(w);
		expect(ip_addr_parse(ip_addr_format(&a, buf), &back) == 0);
		expect(ip_addr_equal(&a, &back));
	}
}
END_TEST

START_TEST(test_prefixes)
{
	static const struct {
		const char *text;
		int rc;
		unsigned host_bits;
		const char *canonical; /* NULL: text */
	} cases[] = {
		{"10.9.0.0/24", 0, 8, NULL},
		{"10.9.0.7/32", 0, 0, "10.9.0.7"},
		{"10.9.0.7", 0, 0, NULL},
		{"0.0.0.0/0", 0, 32, NULL},
		{"10.9.0.4/30", 0, 2, NULL},
		{"2001:db8::/64", 0, 64, NULL},
		{"2001:DB8:0::/48", 0, 80, "2001:db8::/48"},
		{"::/0", 0, 128, NULL},
		{"2001:db8::1/128", 0, 0, "2001:db8::1"},
		{"::ffff:10.0.0.0", 0, 0, "10.0.0.0"},
		{"::ffff:10.0.0.0/24", -EINVAL, 0, NULL},
		{"::ffff:10.0.0.0/120", -EINVAL, 0, NULL},
		{"2001:db8::/048", -EINVAL, 0, NULL},
		{"10.9.0.0/00", -EINVAL, 0, NULL},
		{"10.9.0.1/24", -EDOM, 0, NULL},
		{"2001:db8::1/64", -EDOM, 0, NULL},
		{"10.9.0.0/33", -EINVAL, 0, NULL},
		{"::/129", -EINVAL, 0, NULL},
		{"10.9.0.0/", -EINVAL, 0, NULL},
		{"10.9.0.0/-1", -EINVAL, 0, NULL},
		{"10.9.0.0/24 ", -EINVAL, 0, NULL},
		{"10.9.0.0/1000", -EINVAL, 0, NULL},
		{"10.9.0/24", -EINVAL, 0, NULL},
		{"/24", -EINVAL, 0, NULL},
		{"", -EINVAL, 0, NULL},
		{"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/0", -EINVAL, 0, NULL},
	};
	char buf[IP_PREFIX_STRLEN];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ip_addr a = {.b = {1}};
		uint8_t host_bits = 99;
		ck_assert_msg(ip_prefix_parse(cases[i].text, &a, &host_bits) == cases[i].rc, "'%s'",
			      cases[i].text);
		if (cases[i].rc) {
			ck_assert(a.b[0] == 1 && host_bits == 99);
			continue;
		}
		ck_assert_uint_eq(host_bits, cases[i].host_bits);
		ck_assert_str_eq(ip_prefix_format(&a, host_bits, buf),
				 cases[i].canonical ? cases[i].canonical : cases[i].text);
	}
}
END_TEST

START_TEST(test_macs)
{
	const char *const bad[] = {"",
				   "02:00:00:00:00",
				   "02:00:00:00:00:01:02",
				   "02:00:00:00:00:0g",
				   "02-00-00-00-00-01x",
				   "00:00:00:00:00:00",
				   "01:00:5e:00:00:01",
				   "ff:ff:ff:ff:ff:ff",
				   "02:00:00:00:00:01 "};
	uint8_t mac[6] = {1, 2, 3, 4, 5, 6};
	char buf[MAC_STRLEN];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		ck_assert_msg(mac_parse(bad[i], mac) == -EINVAL, "'%s'", bad[i]);
		ck_assert_uint_eq(mac[0], 1);
	}
	ck_assert_int_eq(mac_parse("02:AB:cd:00:10:fF", mac), 0);
	ck_assert_str_eq(mac_format(mac, buf), "02:ab:cd:00:10:ff");
}
END_TEST

/* --- time and chance -----------------------------------------------------------------------------
 */

static uint64_t fake_now_ns;

static uint64_t fake_ns(void)
{
	return fake_now_ns;
}

static int64_t fake_wall(void)
{
	return 1234;
}

START_TEST(test_clock)
{
	uint64_t before = clock_now_ns();

	ck_assert_uint_gt(before, 0);
	ck_assert_uint_ge(clock_now_ns(), before);
	ck_assert_int_gt(clock_wall_s(), 1600000000);
	clock_set_source(fake_ns, fake_wall);
	fake_now_ns = 5999999;
	ck_assert_uint_eq(clock_now_ns(), 5999999);
	ck_assert_uint_eq(clock_now_ms(), 5);
	ck_assert_int_eq(clock_wall_s(), 1234);
	clock_set_source(NULL, NULL);
	ck_assert_uint_ge(clock_now_ns(), before);
}
END_TEST

static void sevens(void *buf, size_t n)
{
	memset(buf, 7, n);
}

START_TEST(test_entropy)
{
	uint8_t a[300] = {0}, b[300] = {0};

	entropy_fill(a, sizeof(a));
	entropy_fill(b, sizeof(b));
	ck_assert_mem_ne(a, b, sizeof(a));
	ck_assert_mem_ne(a + 256, b + 256, 44); /* to the end */
	ck_assert_uint_ne(entropy_u64(), entropy_u64());
	entropy_set_source(sevens);
	ck_assert_uint_eq(entropy_u64(), 0x0707070707070707u);
	entropy_set_source(NULL);
	ck_assert_uint_ne(entropy_u64(), 0x0707070707070707u);
}
END_TEST

/* Whatever a client puts into its texts, it is one line, and moves no terminal's cursor. */
START_TEST(test_log_line)
{
	char text[2048];
	int fds[2], own = dup(STDERR_FILENO);

	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_ge(dup2(fds[1], STDERR_FILENO), 0);
	log_info("who", "reason: %s", "a\nwho: error: forged\r\x1b[2J\x7f\tb \xc3\xa4");
	log_info("who", "%01500d", 0);
	ck_assert_int_ge(dup2(own, STDERR_FILENO), 0);
	close(own);
	close(fds[1]);
	ssize_t n = read(fds[0], text, sizeof(text) - 1);
	close(fds[0]);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	const char wanted[] = "who: reason: a?who: error: forged??[2J??b \xc3\xa4\n";
	ck_assert_uint_eq((size_t)n, sizeof(wanted) - 1 + 1023);
	ck_assert_int_eq(strncmp(text, wanted, sizeof(wanted) - 1), 0);
	ck_assert_ptr_eq(strchr(text + sizeof(wanted) - 1, '\n'), text + n - 1);
}
END_TEST

START_TEST(test_log_limit)
{
	struct log_limit limit = {.interval_ms = 1000, .burst = 3};
	uint64_t suppressed = 99;

	clock_set_source(fake_ns, fake_wall);
	fake_now_ns = (uint64_t)5000 * 1000000;
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(log_limit_pass(&limit, &suppressed), 1);
	ck_assert_uint_eq(suppressed, 0);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(log_limit_pass(&limit, &suppressed), 0);
	fake_now_ns += (uint64_t)999 * 1000000;
	ck_assert_int_eq(log_limit_pass(&limit, &suppressed), 0);
	fake_now_ns += 1000000;
	ck_assert_int_eq(log_limit_pass(&limit, &suppressed), 1);
	ck_assert_uint_eq(suppressed, 6);
	ck_assert_int_eq(log_limit_pass(&limit, &suppressed), 1);
	ck_assert_uint_eq(suppressed, 0);
	clock_set_source(NULL, NULL);
}
END_TEST

/* --- memory and errors ---------------------------------------------------------------------------
 */

START_TEST(test_hugemem)
{
	const size_t sizes[] = {1, 64, 65, 4096, (1 << 20) - 1, 1 << 20, (5 << 20) + 7};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		enum hugemem_kind kind = HUGEMEM_RESERVED;
		uint8_t *p = hugemem_alloc(sizes[i], &kind);
		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % CACHE_LINE, 0);
		for (size_t at = 0; at < sizes[i]; at++)
			expect(p[at] == 0);
		memset(p, 0xff, sizes[i]);
		if (sizes[i] < 1 << 20)
			ck_assert_int_eq(kind, HUGEMEM_NONE);
		else
			ck_assert_int_eq(kind, hugemem_probe());
		hugemem_free(p, sizes[i]);
	}
	hugemem_free(NULL, 100);
	ck_assert_str_eq(hugemem_kind_name(HUGEMEM_NONE), "none");
	ck_assert_str_eq(hugemem_kind_name(HUGEMEM_TRANSPARENT), "transparent");
	ck_assert_str_eq(hugemem_kind_name(HUGEMEM_RESERVED), "reserved");
	if (SANITIZED)
		return;
	space_limit(1 << 20);
	void *none = hugemem_alloc((size_t)1 << 30, NULL);
	space_unlimit();
	ck_assert_ptr_null(none);
}
END_TEST

START_TEST(test_error)
{
	struct error err;
	char longer[600];

	ck_assert_int_eq(error_set(&err, -ENOENT, "%s: no file %d", "x", 7), -ENOENT);
	ck_assert_str_eq(err.message, "x: no file 7");
	memset(longer, 'y', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	ck_assert_int_eq(error_set(&err, -EINVAL, "%s", longer), -EINVAL);
	ck_assert_uint_eq(strlen(err.message), sizeof(err.message) - 1);
	ck_assert_int_eq(error_set(NULL, -EIO, "nobody reads this"), -EIO);
}
END_TEST

static int niceness(void)
{
	return getpriority(PRIO_PROCESS, 0);
}

/* What a child finds wrong, by number; 0: nothing. It is raised before it loses its privileges, or
 * not. */
static int try_priority(bool raised)
{
	static const struct rlimit none = {0, 0};

	if (setpriority(PRIO_PROCESS, 0, 0))
		return 1;
	if (raised && (priority_raise() || niceness() != PRIORITY_NICE))
		return 2;
	if (setrlimit(RLIMIT_NICE, &none) || setuid(65534))
		return 3;
	if (priority_raise() != (raised ? 0 : -EACCES))
		return 4;
	if (niceness() != (raised ? PRIORITY_NICE : 0))
		return 5;
	priority_drop();
	return niceness() ? 6 : 0;
}

START_TEST(test_priority)
{
	for (int raised = 0; raised < 2; raised++) {
		int status;
		pid_t child = fork();
		ck_assert_int_ge(child, 0);
		if (child == 0)
			_exit(try_priority(raised));
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_int_eq(status, 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("base");
	TCase *tc = tcase_create("base");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_addresses);
	tcase_add_test(tc, test_addresses_round_trip);
	tcase_add_test(tc, test_prefixes);
	tcase_add_test(tc, test_macs);
	tcase_add_test(tc, test_clock);
	tcase_add_test(tc, test_entropy);
	tcase_add_test(tc, test_log_line);
	tcase_add_test(tc, test_log_limit);
	tcase_add_test(tc, test_hugemem);
	tcase_add_test(tc, test_error);
	tcase_add_test(tc, test_priority);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
