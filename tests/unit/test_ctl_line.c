/* concuryctl's command line: words, options and values; URLs and paths; and that help, man page and
 * completion are made of the table. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "api/client/ctl_args.h"
#include "api/client/ctl_commands.h"
#include "api/client/ctl_help.h"
#include "api/client/ctl_members.h"

static struct ctl_call call;
static struct error err;

static int parse(const char *line)
{
	static char copy[1024];
	char *argv[CTL_ARGS_MAX + 8] = {"concuryctl"};
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	err.message[0] = '\0';
	return ctl_args_parse(argc, argv, &call, &err);
}

START_TEST(words_and_options)
{
	ck_assert_int_eq(parse("vip list"), 0);
	ck_assert_ptr_eq(call.command->run, ctl_vip_list);
	ck_assert_uint_eq(call.n_args, 0);
	ck_assert_int_eq(parse("--url unix:/x -ojson dip set web b1 weight=2 mac=null -n"), 0);
	ck_assert_ptr_eq(call.command->run, ctl_dip_set);
	ck_assert_uint_eq(call.n_args, 4);
	ck_assert_str_eq(call.args[0], "web");
	ck_assert_str_eq(call.args[3], "mac=null");
	ck_assert_str_eq(ctl_option(&call, OPT_URL), "unix:/x");
	ck_assert_str_eq(ctl_option(&call, OPT_OUTPUT), "json");
	ck_assert_str_eq(ctl_option(&call, OPT_DRY_RUN), "");
	ck_assert_ptr_null(ctl_option(&call, OPT_IF_MATCH));
	ck_assert_int_eq(parse("dip drain web b1 --if-match=\"a\" --wait"), 0);
	ck_assert_str_eq(ctl_option(&call, OPT_IF_MATCH), "\"a\"");
	ck_assert_int_eq(parse("dip drain web -- --b1"), 0);
	ck_assert_str_eq(call.args[1], "--b1");
	ck_assert_int_eq(parse("explain web 10.0.0.1 80"), 0);
	ck_assert_int_eq(parse("explain web 10.0.0.1 80 443"), 0);
	ck_assert_uint_eq(call.n_args, 4);
	ck_assert_int_eq(parse("events -f"), 0);
	ck_assert_ptr_nonnull(ctl_option(&call, OPT_FOLLOW));
	/* Help needs nothing else to be right. */
	ck_assert_int_eq(parse("vip --help"), 0);
	ck_assert_ptr_null(call.command);
	ck_assert_int_eq(parse("vip set --help"), 0);
	ck_assert_ptr_eq(call.command->run, ctl_vip_set);
	ck_assert_int_eq(parse(""), 0);
	ck_assert_ptr_null(call.command);
}
END_TEST

static const struct {
	const char *line, *message;
} mistakes[] = {
	{"vips", "vips: not a command"},
	{"vip", "vip: which one?"},
	{"vip lst", "vip lst: not a command"},
	{"vip show", "VIP is needed"},
	{"vip show a b", "b: one argument too many"},
	{"status now", "now: one argument too many"},
	{"dip set web b1", "MEMBER=VALUE is needed"},
	{"dip add web b1", "ADDRESS is needed"},
	{"vip list --dry-run", "--dry-run: not an option of this command"},
	{"--dry-run vip list", "--dry-run: not an option before a command"},
	{"vip list --url", "--url: URL is needed"},
	{"vip list --yes=no", "--yes takes no value"},
	{"vip list --ur x", "--ur: not an option"},
	{"vip list --urls x", "--urls: not an option"},
	{"vip list -x", "-x: not an option"},
};

START_TEST(mistakes_are_named)
{
	struct ctl_call untouched;

	memset(&call, 0x5a, sizeof(call));
	untouched = call;
	for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
		ck_assert_msg(parse(mistakes[i].line) == -EINVAL, "'%s'", mistakes[i].line);
		ck_assert_msg(strstr(err.message, mistakes[i].message) != NULL, "'%s': %s",
			      mistakes[i].line, err.message);
		ck_assert_mem_eq(&call, &untouched, sizeof(call));
	}
	char *argv[CTL_ARGS_MAX + 8] = {"concuryctl", "dip", "set"};
	for (int i = 3; i < CTL_ARGS_MAX + 5; i++)
		argv[i] = "a=1";
	ck_assert_int_eq(ctl_args_parse(CTL_ARGS_MAX + 4, argv, &call, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.message, "too many arguments"));
}
END_TEST

/* --- the tables ----------------------------------------------------------------------------------
 */

static char *text_of(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	ck_assert_ptr_nonnull(out);
	print(out);
	fclose(out);
	return text;
}

static void print_help(FILE *out)
{
	ctl_help_print(&call, out);
}

/* What the table says of options must be options; each command is found, and is in help and man
 * page. */
START_TEST(table_is_whole)
{
	ck_assert_int_eq(parse("--help"), 0);
	char *help = text_of(print_help);
	char *man = text_of(ctl_man_print);
	char *to = man;

	for (const char *from = man; *from; from++)
		if (from[0] != '\\' || from[1] != '-')
			*to++ = *from;
	*to = '\0';

	for (size_t i = 0; i < ctl_n_commands; i++) {
		const struct ctl_command *k = &ctl_commands[i];
		char words[128], *save = NULL;
		snprintf(words, sizeof(words), "%s", k->options);
		for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
			unsigned id = 0;
			while (id < N_CTL_OPTIONS && strcmp(ctl_options[id].id, w) != 0)
				id++;
			ck_assert_msg(id > OPT_HELP && id < N_CTL_OPTIONS, "%s %s: %s", k->group,
				      k->verb, w);
		}
		ck_assert_ptr_eq(ctl_args_find(k->group, k->verb), k);
		ck_assert(!*k->group || !ctl_args_find("", k->group));
		snprintf(words, sizeof(words), "  %s%s%s %s", k->group, *k->group ? " " : "",
			 k->verb, k->args);
		ck_assert_msg(strstr(help, words) != NULL, "%s", words);
		snprintf(words, sizeof(words), "\\fB%s%s%s\\fR", k->group, *k->group ? " " : "",
			 k->verb);
		ck_assert_msg(strstr(man, words) != NULL, "%s", words);
		ck_assert_msg(k->summary[strlen(k->summary) - 1] == '.', "%s", k->summary);
	}
	for (const char *line = help; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		ck_assert_msg(strcspn(line, "\n") <= 98, "%.*s", (int)strcspn(line, "\n"), line);
	}
	for (unsigned i = 0; i < N_CTL_OPTIONS; i++)
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(ctl_options[i].name, ctl_options[k].name);
	free(help);
	free(man);
}
END_TEST

START_TEST(patterns)
{
	const struct ctl_command c = {
		.args = "VIP ADDRESS:PORT[/PROTOCOL] [DIP] [MEMBER=VALUE]..."};
	const struct ctl_command some = {.args = "VIP MEMBER=VALUE..."};
	struct ctl_pattern p;

	ck_assert(ctl_args_pattern(&c, 1, &p));
	ck_assert_str_eq(p.name, "ADDRESS:PORT[/PROTOCOL]");
	ck_assert(!p.optional);
	ck_assert(ctl_args_pattern(&c, 2, &p));
	ck_assert_str_eq(p.name, "DIP");
	ck_assert(p.optional);
	ck_assert(ctl_args_pattern(&c, 9, &p));
	ck_assert_str_eq(p.name, "MEMBER=VALUE");
	ck_assert(ctl_args_pattern(&some, 1, &p));
	ck_assert(!p.optional);
	ck_assert(ctl_args_pattern(&some, 2, &p));
	ck_assert(p.optional);
	ck_assert(!ctl_args_pattern(&(struct ctl_command){.args = "VIP"}, 1, &p));
	ck_assert(!ctl_args_pattern(&(struct ctl_command){.args = ""}, 0, &p));
}
END_TEST

/* --- completion ----------------------------------------------------------------------------------
 */

/* Without a daemon: words by commas that may follow those of the line. */
static void assert_completed(const char *line, const char *wanted)
{
	char *text = NULL;
	size_t n;
	struct ctl c = {.out = open_memstream(&text, &n)};
	char copy[256];

	call = (struct ctl_call){.n_args = 0};
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = copy; word; call.n_args++) {
		char *blank = strchr(word, ' ');
		if (blank)
			*blank++ = '\0';
		call.args[call.n_args] = word;
		word = blank;
	}
	ck_assert_int_eq(ctl_complete(&c, &call), CTL_OK);
	fclose(c.out);
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\n')
			text[i] = i + 1 == n ? '\0' : ',';
	ck_assert_msg(!strcmp(text, wanted), "'%s': %s, not %s", line, text, wanted);
	free(text);
}

START_TEST(completion)
{
	assert_completed("v", "vip");
	assert_completed("exp", "explain");
	assert_completed("vip s", "show,set");
	assert_completed("vip nothing ", "");
	assert_completed("--output ", "table,json");
	assert_completed("--output=j", "--output=json");
	assert_completed("-o json expl", "explain");
	assert_completed("vip set web m", "mode=");
	assert_completed("vip set web mode=", "mode=l2,mode=ipip,mode=gue,mode=nat");
	assert_completed("vip set web mode=i", "mode=ipip");
	assert_completed("dip set web b1 weight=2 a", "admin_state=");
	assert_completed("dip drain web b1 --w", "--wait");
	assert_completed("vip list --w", "");
	assert_completed("completion ", "bash");
	assert_completed("vip list ", "");
}
END_TEST

/* --- values --------------------------------------------------------------------------------------
 */

static char *members(unsigned n, const char *const *words)
{
	json_t *object = json_object();
	int rc = ctl_members_read(words, n, object, &err);
	char *text = rc ? NULL : json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);

	json_decref(object);
	return text;
}

START_TEST(member_values)
{
	static const struct {
		const char *words[3];
		const char *json; /* NULL: refused */
	} cases[] = {
		{{"weight=2"}, "{\"weight\":2}"},
		{{"weight=-2"}, "{\"weight\":-2}"},
		{{"mac=null", "a=true", "b=false"}, "{\"a\":true,\"b\":false,\"mac\":null}"},
		{{"server_id=07"}, "{\"server_id\":\"07\"}"},
		{{"server_id=null"}, "{\"server_id\":null}"},
		{{"mac=02:00:00:00:00:01"}, "{\"mac\":\"02:00:00:00:00:01\"}"},
		{{"a=10.0.0.1"}, "{\"a\":\"10.0.0.1\"}"},
		{{"a="}, "{\"a\":\"\"}"},
		{{"a=b=c"}, "{\"a\":\"b=c\"}"},
		{{"a=\"2\""}, "{\"a\":\"2\"}"},
		{{"a=[200,204]"}, "{\"a\":[200,204]}"},
		{{"t.udp=120", "t.tcp=1"}, "{\"t\":{\"tcp\":1,\"udp\":120}}"},
		{{"t={\"a\":1}", "t.b=2"}, "{\"t\":{\"a\":1,\"b\":2}}"},
		{{"a=1", "a=2"}, "{\"a\":2}"},
		{{"a=1", "a.b=2"}, NULL},
		{{"weight"}, NULL},
		{{"=2"}, NULL},
		{{"a={\"b\":"}, NULL},
		{{"a={\"b\":1,\"b\":2}"}, NULL},
		{{"a=012"}, NULL},
		{{"a=\xff"}, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned n = 0;
		while (n < 3 && cases[i].words[n])
			n++;
		char *text = members(n, cases[i].words);
		ck_assert_msg(!text == !cases[i].json, "%s", cases[i].words[0]);
		if (text)
			ck_assert_str_eq(text, cases[i].json);
		else
			ck_assert_str_ne(err.message, "");
		free(text);
	}
}
END_TEST

START_TEST(services)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
		{"10.9.0.100:80", "{\"address\":\"10.9.0.100\",\"port\":80,\"protocol\":\"tcp\"}"},
		{"10.9.0.100:53/udp",
		 "{\"address\":\"10.9.0.100\",\"port\":53,\"protocol\":\"udp\"}"},
		{"[fd09::1]:443/any",
		 "{\"address\":\"fd09::1\",\"port\":443,\"protocol\":\"any\"}"},
		{"10.9.0.100:any", "{\"address\":\"10.9.0.100\",\"port\":0,\"protocol\":\"tcp\"}"},
		{"10.9.0.100", NULL},
		{"10.9.0.100:", NULL},
		{"10.9.0.100:http", NULL},
		{"10.9.0.100:123456", NULL},
		{":80", NULL},
		{"fd09::1:443", NULL},
		{"[fd09::1:443", NULL},
		{"[]:443", NULL},
		{"", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *object = json_object();
		int rc = ctl_members_service(cases[i].text, object, &err);
		char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
		ck_assert_msg(rc == (cases[i].json ? 0 : -EINVAL), "'%s'", cases[i].text);
		ck_assert_str_eq(text, cases[i].json ? cases[i].json : "{}");
		free(text);
		json_decref(object);
	}
}
END_TEST

/* --- URLs ----------------------------------------------------------------------------------------
 */

START_TEST(urls)
{
	static const struct {
		const char *url, *base, *path; /* base NULL: refused */
	} cases[] = {
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", NULL},
		{"http://[::1]:8080/", "http://[::1]:8080", NULL},
		{"https://lb.example//", "https://lb.example", NULL},
		{"unix:/run/c.sock", "http://localhost", "/run/c.sock"},
		{"unix:///run/c.sock", "http://localhost", "/run/c.sock"},
		{"unix:run/c.sock", NULL, NULL},
		{"unix:", NULL, NULL},
		{"http://", NULL, NULL},
		{"https:///", NULL, NULL},
		{"http://host/v1", NULL, NULL},
		{"http://user@host", NULL, NULL},
		{"ftp://host", NULL, NULL},
		{"127.0.0.1:8080", NULL, NULL},
		{"", NULL, NULL},
	};
	struct ctl_target t = {.base = ""};
	char longer[600] = "http://";

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int rc = ctl_target_parse(cases[i].url, &t, &err);
		ck_assert_msg(rc == (cases[i].base ? 0 : -EINVAL), "'%s'", cases[i].url);
		if (rc)
			continue;
		ck_assert_str_eq(t.base, cases[i].base);
		ck_assert_pstr_eq(t.unix_path, cases[i].path);
	}
	memset(longer + 7, 'a', sizeof(longer) - 8);
	ck_assert_int_eq(ctl_target_parse(longer, &t, &err), -EINVAL);
}
END_TEST

START_TEST(paths)
{
	struct ctl_path p;
	char longer[4096];

	ctl_path_set(&p, "/v1/vips/%s/dips/%s", "web", "a/b?c=d&e%\xc3\xa4");
	ctl_path_query(&p, "force", "true");
	ctl_path_query(&p, "nothing", NULL);
	ctl_path_query(&p, "if", "a b+c");
	ck_assert(!p.bad);
	ck_assert_str_eq(p.text,
			 "/v1/vips/web/dips/a%2Fb%3Fc%3Dd%26e%25%C3%A4?force=true&if=a%20b%2Bc");
	ctl_path_set(&p, "/v1/vips/%s", "..");
	ck_assert(p.bad);
	ctl_path_set(&p, "/v1/vips/%s", "");
	ck_assert(p.bad);
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	ctl_path_set(&p, "/v1/vips/%s", longer);
	ck_assert(p.bad);
	ctl_path_set(&p, "/v1/events");
	ck_assert(!p.bad);
	ctl_path_query(&p, "since", longer);
	ck_assert(p.bad);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("concuryctl's command line");
	TCase *tc = tcase_create("line");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, words_and_options);
	tcase_add_test(tc, mistakes_are_named);
	tcase_add_test(tc, table_is_whole);
	tcase_add_test(tc, patterns);
	tcase_add_test(tc, completion);
	tcase_add_test(tc, member_values);
	tcase_add_test(tc, services);
	tcase_add_test(tc, urls);
	tcase_add_test(tc, paths);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
