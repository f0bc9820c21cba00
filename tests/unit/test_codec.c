/* The codec: what each member takes and refuses, null, merge, and that whatever is printed can be
 * read back. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/server/codec.h"
#include "tests/unit/random_health.h"

static unsigned seed;

static json_t *parse(const char *text)
{
	json_error_t err;
	json_t *body = json_loads(text, JSON_DECODE_ANY, &err);

	ck_assert_msg(body != NULL, "%s: %s", text, err.text);
	return body;
}

/* "pointer code" of every fault, separated by ", ". */
static const char *faults(const struct field_errors *errors)
{
	static char text[2048];
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < errors->n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %s", i ? ", " : "",
					errors->list[i].pointer, errors->list[i].code);
	return text;
}

static const char *vip_faults(const char *body, bool replace, struct vip_edit *edit)
{
	struct field_errors errors = {.n = 0};
	json_t *json = parse(body);
	bool ok = codec_parse_vip(json, "web", replace, edit, &errors);

	json_decref(json);
	ck_assert_int_eq(ok, errors.n == 0);
	return faults(&errors);
}

static const char *dip_faults(const char *body, bool replace, struct dip_edit *edit)
{
	struct field_errors errors = {.n = 0};
	json_t *json = parse(body);
	bool ok = codec_parse_dip(json, "b1", replace, edit, &errors);

	json_decref(json);
	ck_assert_int_eq(ok, errors.n == 0);
	return faults(&errors);
}

#define MATCH "\"address\": \"10.9.0.100\", \"port\": 80, \"protocol\": \"tcp\""

static const struct {
	bool replace;
	const char *body;
	const char *faults;
} vip_cases[] = {
	{true, "{" MATCH "}", ""},
	{true, "{\"id\": \"web\", " MATCH "}", ""},
	{true, "{\"id\": null, " MATCH "}", ""},
	{true, "{" MATCH ", \"change\": {\"x\": 1}, \"flows_remaining\": 3}", ""},
	{true, "{" MATCH ", \"flows\": \"whatever\", \"state\": 7, \"bytes\": null}", ""},
	{true, "{" MATCH ", \"mode\": null, \"idle_timeout_s\": null}", ""},
	{false, "{}", ""},
	{false, "{\"idle_timeout_s\": {}}", ""},
	{false, "{\"idle_timeout_s\": {\"udp\": null}}", ""},
	/* the whole */
	{true, "[]", " type"},
	{true, "3", " type"},
	{true, "\"x\"", " type"},
	{false, "null", " type"},
	/* required */
	{true, "{}", "/address required, /port required, /protocol required"},
	{true, "{\"address\": null, \"port\": 80, \"protocol\": \"tcp\"}", "/address required"},
	{false, "{\"port\": null}", "/port required"},
	/* unknown */
	{false, "{\"wieght\": 1}", "/wieght unknown"},
	{false, "{\"a/b~c\": 1}", "/a~1b~0c unknown"},
	{false, "{\"\": 1}", "/ unknown"},
	{false, "{\"idle_timeout_s\": {\"tcp\": 1}}", "/idle_timeout_s/tcp unknown"},
	{false, "{\"established\": 1}", "/established unknown"},
	/* types */
	{false, "{\"port\": \"80\"}", "/port type"},
	{false, "{\"port\": 80.0}", "/port type"},
	{false, "{\"port\": true}", "/port type"},
	{false, "{\"address\": 1}", "/address type"},
	{false, "{\"protocol\": 6}", "/protocol type"},
	{false, "{\"idle_timeout_s\": 7}", "/idle_timeout_s type"},
	{false, "{\"idle_timeout_s\": []}", "/idle_timeout_s type"},
	{false, "{\"idle_timeout_s\": {\"udp\": \"x\"}}", "/idle_timeout_s/udp type"},
	{false, "{\"id\": 5}", "/id type"},
	{false, "{\"id\": \"other\"}", "/id immutable"},
	/* values */
	{false, "{\"port\": -1}", "/port out_of_range"},
	{false, "{\"port\": 65536}", "/port out_of_range"},
	{false, "{\"closing_pin_s\": -1}", "/closing_pin_s out_of_range"},
	{false, "{\"closing_pin_s\": 4294967295}", "/closing_pin_s out_of_range"},
	{false, "{\"drain_timeout_s\": 4294967296}", "/drain_timeout_s out_of_range"},
	{false, "{\"idle_timeout_s\": {\"udp\": -9}}", "/idle_timeout_s/udp out_of_range"},
	{false, "{\"address\": \"10.9.0\"}", "/address bad_value"},
	{false, "{\"address\": \"10.9.0.1/24\"}", "/address bad_value"},
	{false, "{\"address\": \"\"}", "/address bad_value"},
	{false, "{\"protocol\": \"TCP\"}", "/protocol bad_value"},
	{false, "{\"mode\": \"\"}", "/mode bad_value"},
	{false, "{\"affinity\": \"source\"}", "/affinity bad_value"},
	{false, "{\"on_learn_overflow\": \"queue\"}", "/on_learn_overflow bad_value"},
	{false, "{\"quic\": \"server_id\"}", "/quic bad_value"},
	{false, "{\"fragments\": \"drop\"}", "/fragments bad_value"},
	{false, "{\"clamp_mss\": 1}", "/clamp_mss type"},
	{false, "{\"quic_config_rotation\": -1}", "/quic_config_rotation out_of_range"},
	/* all at once: the codec's and, of the members named, the model's */
	{true, "{\"port\": \"x\", \"protocol\": \"tcp\", \"mode\": \"l3\", \"nonsense\": 1}",
	 "/port type, /mode bad_value, /nonsense unknown, /address required"},
	{false, "{\"mode\": \"l3\", \"address\": \"224.0.0.1\", \"closing_pin_s\": 1000000}",
	 "/mode bad_value, /address bad_value, /closing_pin_s out_of_range"},
	{false, "{\"x\": 1, \"closing_pin_s\": -1, \"idle_timeout_s\": {\"udp\": 0}}",
	 "/x unknown, /closing_pin_s out_of_range, /idle_timeout_s/udp out_of_range"},
};

START_TEST(vip_members)
{
	struct vip_edit edit;

	for (size_t i = 0; i < ARRAY_LEN(vip_cases); i++) {
		const char *got = vip_faults(vip_cases[i].body, vip_cases[i].replace, &edit);
		ck_assert_msg(!strcmp(got, vip_cases[i].faults), "%s: '%s'", vip_cases[i].body,
			      got);
	}
}
END_TEST

static const struct {
	bool replace;
	const char *body;
	const char *faults;
} dip_cases[] = {
	{true, "{\"address\": \"10.9.0.11\"}", ""},
	{true, "{\"address\": \"2001:db8::1\", \"weight\": 0, \"mac\": null}", ""},
	{true, "{\"address\": \"10.9.0.11\", \"mac\": \"02:00:00:00:00:0A\"}", ""},
	{true,
	 "{\"id\": \"b1\", \"address\": \"10.9.0.11\", \"state\": \"draining\", \"dcodes\": -1}",
	 ""},
	{false, "{\"weight\": 65535}", ""},
	{false, "{\"weight\": null, \"admin_state\": null}", ""},
	{true, "{}", "/address required"},
	{false, "{\"weight\": 65536}", "/weight out_of_range"},
	{false, "{\"weight\": -1}", "/weight out_of_range"},
	{false, "{\"weight\": 1.5}", "/weight type"},
	{false, "{\"weight\": \"2\"}", "/weight type"},
	{false, "{\"mac\": \"02:00:00:00:00\"}", "/mac bad_value"},
	{false, "{\"mac\": \"01:00:00:00:00:01\"}", "/mac bad_value"},
	{false, "{\"mac\": \"00:00:00:00:00:00\"}", "/mac bad_value"},
	{false, "{\"mac\": 5}", "/mac type"},
	{false, "{\"admin_state\": \"draining\"}", "/admin_state bad_value"},
	{false, "{\"admin_state\": false}", "/admin_state type"},
	{false, "{\"port\": 80}", ""},
	{false, "{\"port\": null}", ""},
	{false, "{\"port\": 65536}", "/port out_of_range"},
	{false, "{\"port\": \"http\"}", "/port type"},
	{false, "{\"ports\": 80}", "/ports unknown"},
	{false, "{\"server_id\": \"00ffA1\"}", ""},
	{false, "{\"server_id\": null}", ""},
	{false, "{\"server_id\": \"\"}", "/server_id bad_value"},
	{false, "{\"server_id\": \"abc\"}", "/server_id bad_value"},
	{false, "{\"server_id\": \"00112233445566778899aabbccddeeff\"}", "/server_id bad_value"},
	{false, "{\"server_id\": 12}", "/server_id type"},
	{false, "{\"address\": \"0.0.0.0\", \"weight\": -1, \"mac\": \"\"}",
	 "/weight out_of_range, /mac bad_value, /address bad_value"},
};

START_TEST(dip_members)
{
	struct dip_edit edit;

	for (size_t i = 0; i < ARRAY_LEN(dip_cases); i++) {
		const char *got = dip_faults(dip_cases[i].body, dip_cases[i].replace, &edit);
		ck_assert_msg(!strcmp(got, dip_cases[i].faults), "%s: '%s'", dip_cases[i].body,
			      got);
	}
}
END_TEST

START_TEST(ranges_are_said)
{
	struct field_errors errors = {.n = 0};
	struct dip_edit edit;
	json_t *body = parse("{\"weight\": -1}");

	ck_assert(!codec_parse_dip(body, "b1", false, &edit, &errors));
	ck_assert_str_eq(errors.list[0].detail, "0 to 65535");
	json_decref(body);
}
END_TEST

START_TEST(edits_name_what_was_named)
{
	struct vip_edit e;
	struct dip_edit d;

	ck_assert_str_eq(
		vip_faults("{\"closing_pin_s\": 7, \"idle_timeout_s\": {\"udp\": 9}}", false, &e),
		"");
	ck_assert_uint_eq(e.members, VIP_M_CLOSING_PIN | VIP_M_IDLE_UDP);
	ck_assert_uint_eq(e.conf.closing_pin_s, 7);
	ck_assert_uint_eq(e.conf.idle_udp_s, 9);

	/* null is the default, and named. */
	struct vip_conf defaults;
	vip_conf_defaults(&defaults);
	ck_assert_str_eq(vip_faults("{\"idle_timeout_s\": null, \"mode\": null}", false, &e), "");
	ck_assert_uint_eq(e.members, VIP_M_MODE | VIP_M_IDLE_ESTABLISHED | VIP_M_IDLE_HALF_OPEN |
					     VIP_M_IDLE_CLOSING | VIP_M_IDLE_UDP);
	ck_assert_uint_eq(e.conf.idle_established_s, defaults.idle_established_s);
	ck_assert_uint_eq(e.conf.idle_udp_s, defaults.idle_udp_s);
	ck_assert_uint_eq(e.conf.mode, defaults.mode);

	ck_assert_str_eq(dip_faults("{\"mac\": \"02:00:00:00:00:0a\"}", false, &d), "");
	ck_assert_uint_eq(d.members, DIP_M_MAC);
	ck_assert(d.conf.has_mac);
	ck_assert_uint_eq(d.conf.mac[5], 10);
	ck_assert_str_eq(dip_faults("{\"mac\": null}", false, &d), "");
	ck_assert_uint_eq(d.members, DIP_M_MAC);
	ck_assert(!d.conf.has_mac);
	ck_assert_str_eq(dip_faults("{\"server_id\": \"2a07\"}", false, &d), "");
	ck_assert_uint_eq(d.members, DIP_M_SERVER_ID);
	ck_assert_uint_eq(d.conf.server_id_len, 2);
	ck_assert_uint_eq(d.conf.server_id[1], 7);
	ck_assert_str_eq(dip_faults("{\"server_id\": null}", false, &d), "");
	ck_assert_uint_eq(d.members, DIP_M_SERVER_ID);
	ck_assert_uint_eq(d.conf.server_id_len, 0);
}
END_TEST

START_TEST(many_faults_are_cut_not_overrun)
{
	struct field_errors errors = {.n = 0};
	struct vip_edit edit;
	json_t *body = json_object();
	char name[80];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%070d", i);
		json_object_set_new(body, name, json_integer(i));
	}
	ck_assert(!codec_parse_vip(body, "web", false, &edit, &errors));
	ck_assert_uint_eq(errors.n, FIELD_ERRORS_MAX);
	json_decref(body);
}
END_TEST

/* --- round trips ---------------------------------------------------------------------------------
 */

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)rand_r(&seed) % n;
}

static struct ip_addr random_address(void)
{
	struct ip_addr a;

	for (size_t i = 0; i < sizeof(a.b); i++)
		a.b[i] = (uint8_t)rnd(256);
	return rnd(2) ? ip_addr_v4(&a.b[12]) : a;
}

static unsigned rnd_below(unsigned n)
{
	return (unsigned)rnd(n);
}

static void random_vip(struct vip_info *v)
{
	memset(v, 0, sizeof(*v));
	snprintf(v->conf.id, sizeof(v->conf.id), "web");
	v->conf.match.address = random_address();
	v->conf.match.port = (uint16_t)rnd(65536);
	if (rnd(2))
		v->conf.match.port_end = (uint16_t)rnd(65536);
	if (v->conf.match.port_end == v->conf.match.port)
		v->conf.match.port_end = 0; /* a range of one is the port alone */
	v->conf.match.host_bits = (uint8_t)rnd(ip_addr_is_v4(&v->conf.match.address) ? 33 : 129);
	v->conf.match.address = ip_addr_mask(&v->conf.match.address, v->conf.match.host_bits);
	v->conf.match.protocol = (enum vip_protocol)rnd(3);
	v->conf.mode = (enum vip_mode)rnd(3);
	v->conf.affinity = (enum vip_affinity)rnd(2);
	v->conf.on_learn_overflow = (enum learn_overflow)rnd(2);
	v->conf.quic = (enum vip_quic)(v->conf.match.protocol == VIP_TCP ? 0 : rnd(2));
	v->conf.quic_config_rotation = rnd(SERVER_ID_ROTATION_MAX + 1);
	v->conf.fragments = (enum vip_fragments)(v->conf.match.protocol == VIP_TCP ? 0 : rnd(2));
	v->conf.clamp_mss = v->conf.match.protocol != VIP_UDP && rnd(2);
	v->conf.drain_timeout_s = rnd(100000);
	v->conf.closing_pin_s = rnd(3600);
	v->conf.idle_established_s = 1 + rnd(100000);
	v->conf.idle_half_open_s = 1 + rnd(1000);
	v->conf.idle_closing_s = 1 + rnd(1000);
	v->conf.idle_udp_s = 1 + rnd(1000);
	v->conf.gue_port = 1 + rnd(65535);
	random_health(&v->conf.health, rnd_below);
	v->flows = rnd(1000);
	v->bytes = UINT64_C(1) << rnd(63);
	v->deleting = rnd(2);
}

START_TEST(what_was_printed_can_be_put_back)
{
	for (int round = 0; round < 20000; round++) {
		struct vip_info v;
		struct vip_edit e;
		struct vip_conf back = {.id = "web"};
		struct field_errors errors = {.n = 0};
		struct change_info change = {.generation = 3};

		random_vip(&v);
		json_t *text = codec_print_vip(&v);
		json_object_set_new(text, "change", codec_print_change(&change));
		if (!codec_parse_vip(text, "web", true, &e, &errors))
			ck_abort_msg("%s", faults(&errors));
		vip_conf_apply(&back, &e, true);
		if (memcmp(&back, &v.conf, sizeof(back)) != 0)
			ck_abort_msg("%s comes back otherwise", json_dumps(text, 0));
		json_decref(text);
	}
}
END_TEST

START_TEST(what_was_printed_of_a_dip_can_be_put_back)
{
	for (int round = 0; round < 20000; round++) {
		struct dip_info d = {.conf = {.id = "b1"}};
		struct dip_edit e;
		struct dip_conf back = {.id = "b1"};
		struct field_errors errors = {.n = 0};

		d.conf.address = random_address();
		d.conf.port = rnd(2) ? rnd(65536) : 0;
		d.conf.weight = rnd(WEIGHT_MAX + 1);
		d.conf.admin_state = (enum admin_state)rnd(2);
		d.conf.has_mac = rnd(2);
		for (int i = 0; d.conf.has_mac && i < 6; i++)
			d.conf.mac[i] = (uint8_t)(rnd(127) * 2 + 2);
		d.conf.server_id_len = (uint8_t)rnd(SERVER_ID_MAX + 1);
		for (unsigned i = 0; i < d.conf.server_id_len; i++)
			d.conf.server_id[i] = (uint8_t)rnd(256);
		d.state = (enum dip_state)rnd(4);
		d.dcodes = rnd(65536);
		json_t *text = codec_print_dip(&d);
		if (!codec_parse_dip(text, "b1", true, &e, &errors))
			ck_abort_msg("%s", faults(&errors));
		dip_conf_apply(&back, &e, true);
		if (memcmp(&back, &d.conf, sizeof(back)) != 0)
			ck_abort_msg("%s comes back otherwise", json_dumps(text, 0));
		json_decref(text);
	}
}
END_TEST

START_TEST(prints_the_documented_members)
{
	static const char *const vip[] = {"id",
					  "address",
					  "port",
					  "protocol",
					  "mode",
					  "affinity",
					  "on_learn_overflow",
					  "fragments",
					  "clamp_mss",
					  "quic",
					  "quic_config_rotation",
					  "drain_timeout_s",
					  "closing_pin_s",
					  "idle_timeout_s",
					  "gue_port",
					  "health",
					  "dips_up",
					  "dips_down",
					  "dips_draining",
					  "dips_unresolved"};
	static const char *const dip[] = {
		"id",	       "address",	 "weight",	     "mac",
		"admin_state", "state",		 "dcodes",	     "flows",
		"packets",     "bytes",		 "effective_weight", "health",
		"port",	       "return_packets", "return_bytes",     "server_id",
		"flows_opened"};
	struct vip_info v;
	struct dip_info d = {.conf = {.id = "b1", .address = random_address()}, .state = DIP_UP};

	random_vip(&v);
	json_t *text = codec_print_vip(&v);
	for (size_t i = 0; i < ARRAY_LEN(vip); i++)
		ck_assert_msg(json_object_get(text, vip[i]) != NULL, "no %s", vip[i]);
	json_decref(text);
	text = codec_print_dip(&d);
	for (size_t i = 0; i < ARRAY_LEN(dip); i++)
		ck_assert_msg(json_object_get(text, dip[i]) != NULL, "no %s", dip[i]);
	ck_assert(json_is_null(json_object_get(text, "mac")));
	ck_assert_uint_eq(json_object_size(text), ARRAY_LEN(dip));
	json_decref(text);
}
END_TEST

/* Random JSON made of known and unknown names: never a crash, and either an edit or a fault. */
static json_t *random_value(int depth)
{
	static const char *const words[] = {"tcp",  "up",  "10.0.0.1", "l2",
					    "flow", "x",   "",	       "02:00:00:00:00:01",
					    "http", "udp", "hex:0g",   "200-299,301"};
	static const char *const names[] = {
		"id",	  "address",	    "port",   "protocol",      "mode",
		"mac",	  "weight",	    "change", "udp",	       "admin_state",
		"nope",	  "idle_timeout_s", "health", "type",	       "path",
		"expect", "send",	    "verify", "expect_status", "interval_ms",
		"rise"};
	json_t *o;

	switch (rnd(depth ? 7 : 5)) {
	case 0:
		return json_null();
	case 1:
		return json_integer((json_int_t)rnd(70000) - 100);
	case 2:
		return json_real(rnd(10));
	case 3:
		return json_string(words[rnd(ARRAY_LEN(words))]);
	case 4:
		return json_boolean(rnd(2));
	case 5:
		o = json_array();
		json_array_append_new(o, random_value(depth - 1));
		return o;
	default:
		o = json_object();
		for (uint32_t n = rnd(8); n > 0; n--)
			json_object_set_new(o, names[rnd(ARRAY_LEN(names))],
					    random_value(depth - 1));
		return o;
	}
}

START_TEST(random_documents)
{
	for (int round = 0; round < 50000; round++) {
		struct field_errors errors = {.n = 0};
		struct vip_edit v = {.members = 0};
		struct dip_edit d = {.members = 0};
		json_t *body = random_value(3);

		bool vip = codec_parse_vip(body, "web", rnd(2), &v, &errors);
		if (vip != (errors.n == 0))
			ck_abort_msg("%s: %d", json_dumps(body, JSON_ENCODE_ANY), vip);
		errors.n = 0;
		bool dip = codec_parse_dip(body, "b1", rnd(2), &d, &errors);
		if (dip != (errors.n == 0))
			ck_abort_msg("%s: %d", json_dumps(body, JSON_ENCODE_ANY), dip);
		json_decref(body);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("codec");
	TCase *tc = tcase_create("codec");

	seed = (unsigned)time(NULL);
	printf("seed %u\n", seed);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, vip_members);
	tcase_add_test(tc, dip_members);
	tcase_add_test(tc, ranges_are_said);
	tcase_add_test(tc, edits_name_what_was_named);
	tcase_add_test(tc, many_faults_are_cut_not_overrun);
	tcase_add_test(tc, what_was_printed_can_be_put_back);
	tcase_add_test(tc, what_was_printed_of_a_dip_can_be_put_back);
	tcase_add_test(tc, prints_the_documented_members);
	tcase_add_test(tc, random_documents);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
