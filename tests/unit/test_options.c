/* The command line, and what --check says of a machine. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/options.h"
#include "control/preflight.h"

/* Parse a line split at blanks. */
static int parse(const char *line, struct options *o, struct error *err)
{
	static char copy[1024];
	static char *argv[64];
	int argc = 0;
	char *rest;

	snprintf(copy, sizeof(copy), "concuryd %s", line);
	for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		argv[argc++] = w;
	argv[argc] = NULL;
	return options_parse(argc, argv, o, err);
}

START_TEST(defaults)
{
	struct options o;
	struct error err;

	ck_assert_int_eq(parse("--interface eth0", &o, &err), 0);
	ck_assert_int_eq(o.action, ACTION_RUN);
	ck_assert_uint_eq(o.n_ifaces, 1);
	ck_assert_str_eq(o.ifaces[0], "eth0");
	ck_assert_str_eq(o.database, "/var/lib/concury/concury.db");
	ck_assert_str_eq(o.state_dir, "/dev/shm/concury");
	ck_assert_ptr_null(o.web);
	ck_assert_uint_eq(o.n_listen, 1);
	ck_assert_str_eq(o.listen[0], "127.0.0.1:8080");
	ck_assert_uint_eq(o.n_workers, 0);
	ck_assert_uint_eq(o.n_flows, 0);
	ck_assert_int_eq(o.xdp_mode, XDP_MODE_AUTO);
	ck_assert_int_eq(o.checksum, CHECKSUM_AUTO);
}
END_TEST

START_TEST(every_option)
{
	struct options o;
	struct error err;

	ck_assert_int_eq(parse("--interface a --interface=b --database d --state-dir s --listen "
			       "127.0.0.1:1 --listen unix:/x --workers 64 --flows 4294967295 "
			       "--xdp-mode generic --checksum complete",
			       &o, &err),
			 0);
	ck_assert_uint_eq(o.n_ifaces, 2);
	ck_assert_str_eq(o.ifaces[1], "b");
	ck_assert_str_eq(o.database, "d");
	ck_assert_str_eq(o.state_dir, "s");
	ck_assert_uint_eq(o.n_listen, 2);
	ck_assert_str_eq(o.listen[1], "unix:/x");
	ck_assert_uint_eq(o.n_workers, 64);
	ck_assert_uint_eq(o.n_flows, STATE_FLOWS_MAX);
	ck_assert_int_eq(o.xdp_mode, XDP_MODE_GENERIC);
	ck_assert_int_eq(o.checksum, CHECKSUM_COMPLETE);

	ck_assert_int_eq(parse("--interface a --token-file t --tls-cert c --tls-key k "
			       "--tls-client-ca r --listen-read-only 127.0.0.1:2 --cors-origin "
			       "https://x --web w --keep-ipc-lock",
			       &o, &err),
			 0);
	ck_assert_str_eq(o.token_file, "t");
	ck_assert_str_eq(o.web, "w");
	ck_assert(o.keep_ipc_lock);
	ck_assert_str_eq(o.tls_cert, "c");
	ck_assert_str_eq(o.tls_key, "k");
	ck_assert_str_eq(o.tls_client_ca, "r");
	ck_assert_uint_eq(o.n_listen, 1); /* the default one stays */
	ck_assert_uint_eq(o.n_listen_read_only, 1);
	ck_assert_str_eq(o.listen_read_only[0], "127.0.0.1:2");
	ck_assert_uint_eq(o.n_cors_origins, 1);
	ck_assert_str_eq(o.cors_origins[0], "https://x");

	ck_assert_int_eq(parse("--init-token", &o, &err), 0);
	ck_assert_int_eq(o.action, ACTION_INIT_TOKEN);
	ck_assert_int_eq(parse("--check", &o, &err), 0);
	ck_assert_int_eq(o.action, ACTION_CHECK);
	ck_assert_int_eq(parse("--detach --interface a", &o, &err), 0);
	ck_assert_int_eq(o.action, ACTION_DETACH);
	ck_assert_int_eq(parse("--version", &o, &err), 0);
	ck_assert_int_eq(o.action, ACTION_VERSION);
	ck_assert_int_eq(parse("--help", &o, &err), 0);
	ck_assert_int_eq(o.action, ACTION_HELP);
}
END_TEST

static const struct {
	const char *line;
	const char *says;
} mistakes[] = {
	{"", "--interface is needed"},
	{"--detach", "--interface is needed"},
	{"eth0", "eth0: not an option"},
	{"--interface a b", "b: not an option"},
	{"--interface", "--interface: the option needs a value"},
	{"--interface a --wide /x", "--wide: not an option"},
	{"--interface a --web", "--web: the option needs a value"},
	{"--interface a --tls-cert /x", "--tls-cert and --tls-key go together"},
	{"--interface a --tls-key /x", "--tls-cert and --tls-key go together"},
	{"--interface a --tls-client-ca /x", "and --tls-client-ca with them"},
	{"--interface a --listen-read-only x --listen-read-only x", "named twice"},
	{"--interface a -x", "-x: not an option"},
	{"--interface a --check=yes", "--check=yes: not an option"},
	{"--interface a --interface a", "named twice"},
	{"--interface a --listen x --listen x", "named twice"},
	{"--interface a --workers 0", "1 to 64"},
	{"--interface a --workers 65", "1 to 64"},
	{"--interface a --workers -1", "1 to 64"},
	{"--interface a --workers two", "1 to 64"},
	{"--interface a --flows 0", "1 to 4294967295"},
	{"--interface a --flows 1M", "1 to 4294967295"},
	{"--interface a --flows 4294967296", "1 to 4294967295"},
	{"--interface a --flows 99999999999999999999999", "1 to 4294967295"},
	{"--interface a --xdp-mode native", "one of auto, zerocopy, copy, generic"},
	{"--interface a --checksum none", "one of auto, keep, complete"},
	{"--interface 1 --interface 2 --interface 3 --interface 4 --interface 5 --interface 6 "
	 "--interface 7 --interface 8 --interface 9 --interface 10 --interface 11 --interface 12 "
	 "--interface 13 --interface 14 --interface 15 --interface 16 --interface 17",
	 "at most 16"},
	{"--listen 1 --listen 2 --listen 3 --listen 4 --listen 5 --listen 6 --listen 7 --listen 8 "
	 "--listen 9",
	 "at most 8"},
};

START_TEST(mistakes_are_named)
{
	struct options o = {.database = "untouched"};
	struct error err;

	for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
		ck_assert_msg(parse(mistakes[i].line, &o, &err) == -EINVAL, "%s", mistakes[i].line);
		ck_assert_msg(strstr(err.message, mistakes[i].says) != NULL, "%s: %s",
			      mistakes[i].line, err.message);
		ck_assert_msg(!strchr(err.message, '\n'), "%s: more than a line", mistakes[i].line);
		ck_assert_str_eq(o.database, "untouched");
	}
}
END_TEST

START_TEST(help_names_every_option)
{
	static const char *const names[] = {
		"--interface", "--database", "--state-dir", "--listen", "--workers", "--flows",
		"--xdp-mode",  "--checksum", "--check",	    "--detach", "--version", "--help"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		ck_assert_ptr_nonnull(strstr(options_help, names[i]));
}
END_TEST

/* --- preflight -----------------------------------------------------------------------------------
 */

static char *run(const struct preflight *p, unsigned *n_blocking)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	ck_assert_ptr_nonnull(out);
	*n_blocking = preflight_run(p, out);
	fclose(out);
	return text;
}

static unsigned count(const char *text, const char *rank)
{
	unsigned n = 0;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		n += !strncmp(line, rank, strlen(rank));
	}
	return n;
}

static void assert_each_block_has_a_fix(const char *text)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "blocks ", 7) != 0)
			continue;
		const char *next = strchr(line, '\n');
		ck_assert_msg(next && !strncmp(next + 1, "        mend: ", 14), "%s", line);
	}
}

START_TEST(check_names_what_blocks)
{
	static const char *const ifaces[] = {"no-such-if", "lo"};
	char dir[] = "/tmp/test_options.XXXXXX";
	struct vip_conf vips[2] = {{.id = "here"}, {.id = "away"}};
	struct preflight p = {
		.n_ifaces = 2, .ifaces = ifaces, .state_dir = "/tmp", .n_vips = 2, .vips = vips};
	char database[64];
	unsigned n, with_more;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(database, sizeof(database), "%s/c.db", dir);
	p.database = database;
	ck_assert_int_eq(ip_addr_parse("127.0.0.1", &vips[0].match.address), 0);
	ck_assert_int_eq(ip_addr_parse("2001:db8::77", &vips[1].match.address), 0);
	char *text = run(&p, &n);
	ck_assert_uint_eq(count(text, "blocks "), n);
	ck_assert_ptr_nonnull(strstr(text, "no-such-if: no such interface"));
	ck_assert_ptr_nonnull(strstr(text, "lo: not an Ethernet interface"));
	ck_assert_ptr_nonnull(strstr(text, "VIP here: 127.0.0.1 is on an interface"));
	ck_assert_ptr_nonnull(
		strstr(text, "mend: ip -6 address add 2001:db8::77/128 dev IF nodad"));
	ck_assert_ptr_nonnull(strstr(text, "c.db: the start makes it"));
	assert_each_block_has_a_fix(text);
	free(text);
	FILE *f = fopen(database, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	text = run(&p, &with_more);
	ck_assert_uint_eq(with_more, n);
	ck_assert_ptr_nonnull(strstr(text, "c.db: 2 VIPs"));
	free(text);

	/* Each further fault is one more that blocks. */
	p.database = "/no-such-dir/c.db";
	text = run(&p, &with_more);
	ck_assert_uint_eq(with_more, n + 1);
	ck_assert_ptr_nonnull(strstr(text, "mend: mkdir -p /no-such-dir"));
	free(text);
	p.database = database;
	p.database_fault = "it is damaged";
	text = run(&p, &with_more);
	ck_assert_uint_eq(with_more, n + 1);
	ck_assert_ptr_nonnull(strstr(text, "it is damaged"));
	assert_each_block_has_a_fix(text);
	free(text);
	p.database_in_use = true; /* by another concuryd: to be noted, no more */
	p.listen = "unix:/run/c.sock";
	text = run(&p, &with_more);
	ck_assert_uint_eq(with_more, n);
	ck_assert_ptr_nonnull(
		strstr(text, "mend: curl --unix-socket /run/c.sock http://localhost/v1/status"));
	free(text);
	p.listen = "127.0.0.1:8080";
	text = run(&p, &with_more);
	ck_assert_ptr_nonnull(strstr(text, "mend: curl http://127.0.0.1:8080/v1/status"));
	free(text);
	unlink(database);
	rmdir(dir);
}
END_TEST

/* What the start makes or takes by itself must not block, what it does not must. */
START_TEST(check_of_directories)
{
	char dir[] = "/tmp/test_options.XXXXXX";
	char state[64], below[80], file[64];
	struct preflight p = {.database = "/tmp/c.db", .n_flows = 1};
	unsigned n, n_without;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(below, sizeof(below), "%s/below", state);
	snprintf(file, sizeof(file), "%s/file", dir);
	FILE *f = fopen(file, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	p.state_dir = dir;
	free(run(&p, &n_without));
	p.state_dir = state;
	char *text = run(&p, &n);
	ck_assert_uint_eq(n, n_without);
	ck_assert_ptr_nonnull(strstr(text, "the start makes it"));
	free(text);
	p.state_dir = below;
	text = run(&p, &n);
	ck_assert_uint_eq(n, n_without + 1);
	ck_assert_ptr_nonnull(strstr(text, "mend: mkdir -p"));
	assert_each_block_has_a_fix(text);
	free(text);
	p.state_dir = file;
	text = run(&p, &n);
	ck_assert_uint_eq(n, n_without + 1);
	ck_assert_ptr_nonnull(strstr(text, "is not a directory"));
	assert_each_block_has_a_fix(text);
	free(text);
	p.state_dir = state;
	p.n_flows = 1ull << 50;
	text = run(&p, &n);
	ck_assert_uint_eq(n, n_without + 1);
	ck_assert_ptr_nonnull(strstr(text, "MiB free are too little"));
	assert_each_block_has_a_fix(text);
	free(text);
	if (access(OPTIONS_DATABASE_DIR, F_OK)) {
		p.n_flows = 1;
		p.database = OPTIONS_DATABASE;
		free(run(&p, &n));
		ck_assert_uint_eq(n, n_without);
	}
	unlink(file);
	rmdir(dir);
}
END_TEST

START_TEST(check_without_interface)
{
	struct preflight p = {.database = "/tmp/c.db", .state_dir = "/tmp", .n_workers = 64};
	unsigned n;
	char *text = run(&p, &n);

	ck_assert_ptr_nonnull(strstr(text, "interfaces: none is named"));
	ck_assert_ptr_nonnull(strstr(text, "for 64 workers"));
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("options");
	TCase *tc = tcase_create("options");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, defaults);
	tcase_add_test(tc, every_option);
	tcase_add_test(tc, mistakes_are_named);
	tcase_add_test(tc, help_names_every_option);
	tcase_add_test(tc, check_names_what_blocks);
	tcase_add_test(tc, check_of_directories);
	tcase_add_test(tc, check_without_interface);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
