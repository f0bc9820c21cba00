/* The desired state: defaults, edits against a member-by-member oracle, every limit from both
 * sides, and matches against all packets of a small world. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control/model.h"

static unsigned seed;

static struct ip_addr addr(const char *text)
{
	struct ip_addr a;

	ck_assert_msg(ip_addr_parse(text, &a) == 0, "%s", text);
	return a;
}

static struct vip_conf good_vip(void)
{
	struct vip_conf c;

	vip_conf_defaults(&c);
	strcpy(c.id, "web");
	c.match = (struct vip_match){.address = addr("10.9.0.100"), .port = 80};
	return c;
}

static struct dip_conf good_dip(void)
{
	struct dip_conf c;

	dip_conf_defaults(&c);
	strcpy(c.id, "b1");
	c.address = addr("10.9.0.11");
	return c;
}

/* Exactly one fault, at pointer, with this code and detail (part of it). */
static void check_one(const struct field_errors *e, const char *pointer, const char *code,
		      const char *detail)
{
	ck_assert_msg(e->n == 1, "%s: %u errors", pointer, e->n);
	ck_assert_str_eq(e->list[0].pointer, pointer);
	ck_assert_str_eq(e->list[0].code, code);
	ck_assert_msg(strstr(e->list[0].detail, detail) != NULL, "%s: %s", pointer,
		      e->list[0].detail);
}

static void check_vip_fault(const struct vip_conf *c, const char *pointer, const char *code,
			    const char *detail)
{
	struct field_errors e = {0};

	ck_assert(!vip_conf_validate(c, &e));
	check_one(&e, pointer, code, detail);
}

static void check_dip_fault(const struct dip_conf *c, const struct vip_conf *vip,
			    const char *pointer, const char *code, const char *detail)
{
	struct field_errors e = {0};

	ck_assert(!dip_conf_validate(c, vip, &e));
	check_one(&e, pointer, code, detail);
}

START_TEST(test_ids)
{
	static const char *const good[] = {"a", "0", "web", "a-b_c.d", "0.", "z--", "x9"};
	static const char *const bad[] = {"",	 ".a",	"-a",  "_a", "A",   "aB",
					  "a b", "a/b", "a%b", "ä",  "a\n", "a\t"};
	char id[80];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		ck_assert_msg(model_id_valid(good[i]), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		ck_assert_msg(!model_id_valid(bad[i]), "%s", bad[i]);
	for (size_t n = 1; n < sizeof(id); n++) {
		memset(id, 'a', n);
		id[n] = '\0';
		ck_assert_int_eq(model_id_valid(id), n <= 63);
	}
	for (int c = 1; c < 256; c++) {
		bool first = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		ck_assert_int_eq(model_id_valid((char[]){(char)c, '\0'}), first);
		ck_assert_int_eq(model_id_valid((char[]){'x', (char)c, '\0'}),
				 first || c == '.' || c == '_' || c == '-');
	}
}
END_TEST

START_TEST(test_defaults)
{
	struct field_errors e = {0};
	struct vip_conf v = good_vip();
	struct dip_conf d = good_dip();

	ck_assert_uint_eq(v.drain_timeout_s, 3600);
	ck_assert_uint_eq(v.closing_pin_s, 15);
	ck_assert_uint_eq(v.idle_established_s, 7200);
	ck_assert_uint_eq(v.idle_half_open_s, 30);
	ck_assert_uint_eq(v.idle_closing_s, 60);
	ck_assert_uint_eq(v.idle_udp_s, 60);
	ck_assert_uint_eq(v.gue_port, 6080);
	ck_assert_str_eq(vip_mode_names[v.mode], "l2");
	ck_assert_str_eq(vip_affinity_names[v.affinity], "flow");
	ck_assert_str_eq(vip_fragments_names[v.fragments], "flow");
	ck_assert_str_eq(learn_overflow_names[v.on_learn_overflow], "forward");
	ck_assert_str_eq(admin_state_names[d.admin_state], "up");
	ck_assert_uint_eq(d.weight, 1);
	ck_assert(!d.has_mac);
	ck_assert(vip_conf_validate(&v, &e));
	ck_assert(dip_conf_validate(&d, &v, &e));
	ck_assert_uint_eq(e.n, 0);
}
END_TEST

/* Each number at its limits and beyond; nothing else may be complained of. */
START_TEST(test_vip_numbers)
{
	static const struct {
		const char *pointer;
		size_t offset;
		uint32_t min, max;
	} numbers[] = {
		{"/drain_timeout_s", offsetof(struct vip_conf, drain_timeout_s), 0, 604800},
		{"/closing_pin_s", offsetof(struct vip_conf, closing_pin_s), 0, 3600},
		{"/idle_timeout_s/established", offsetof(struct vip_conf, idle_established_s), 1,
		 604800},
		{"/idle_timeout_s/half_open", offsetof(struct vip_conf, idle_half_open_s), 1,
		 604800},
		{"/idle_timeout_s/closing", offsetof(struct vip_conf, idle_closing_s), 1, 604800},
		{"/idle_timeout_s/udp", offsetof(struct vip_conf, idle_udp_s), 1, 604800},
		{"/gue_port", offsetof(struct vip_conf, gue_port), 1, 65535},
	};

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		uint32_t values[] = {numbers[i].min, numbers[i].max, numbers[i].max + 1, UINT32_MAX,
				     numbers[i].min - 1};
		char detail[32];

		snprintf(detail, sizeof(detail), "%u to %u", numbers[i].min, numbers[i].max);
		for (size_t k = 0; k < ARRAY_LEN(values); k++) {
			struct vip_conf c = good_vip();
			struct field_errors e = {0};

			memcpy((char *)&c + numbers[i].offset, &values[k], sizeof(values[k]));
			if (k < 2)
				ck_assert(vip_conf_validate(&c, &e) && e.n == 0);
			else
				check_vip_fault(&c, numbers[i].pointer, "out_of_range", detail);
		}
	}
}
END_TEST

START_TEST(test_vip_faults)
{
	static const char *const no_host[] = {
		"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1"};
	struct vip_conf c;

	for (size_t i = 0; i < ARRAY_LEN(no_host); i++) {
		c = good_vip();
		c.match.address = addr(no_host[i]);
		check_vip_fault(&c, "/address", "bad_value", "address of one host");
	}
	c = good_vip();
	c.match.protocol = (enum vip_protocol)3;
	check_vip_fault(&c, "/protocol", "bad_value", "one of tcp, udp, any");
	c = good_vip();
	c.mode = (enum vip_mode)7;
	check_vip_fault(&c, "/mode", "bad_value", "one of l2, ipip, gue");
	c = good_vip();
	c.affinity = (enum vip_affinity)7;
	check_vip_fault(&c, "/affinity", "bad_value", "one of flow, client");
	c = good_vip();
	c.on_learn_overflow = (enum learn_overflow)2;
	check_vip_fault(&c, "/on_learn_overflow", "bad_value", "one of forward, drop");
	c = good_vip();
	c.quic = (enum vip_quic)2;
	check_vip_fault(&c, "/quic", "bad_value", "one of flow, server-id");
	c = good_vip();
	c.match.protocol = VIP_TCP;
	c.quic = QUIC_SERVER_ID;
	check_vip_fault(&c, "/quic", "bad_value", "flow, unless");
	c = good_vip();
	c.match.protocol = VIP_UDP;
	c.clamp_mss = true;
	check_vip_fault(&c, "/clamp_mss", "bad_value", "false, unless");
	c = good_vip();
	c.fragments = (enum vip_fragments)2;
	check_vip_fault(&c, "/fragments", "bad_value", "one of flow, client");
	c = good_vip();
	c.match.protocol = VIP_TCP;
	c.fragments = FRAGMENTS_CLIENT;
	check_vip_fault(&c, "/fragments", "bad_value", "flow, unless");
	c = good_vip();
	strcpy(c.id, "Web");
	check_vip_fault(&c, "/id", "bad_value", "1 to 63");
	c = good_vip();
	c.quic = QUIC_SERVER_ID;
	c.fragments = FRAGMENTS_CLIENT;
	for (c.match.protocol = VIP_UDP; c.match.protocol <= VIP_ANY; c.match.protocol++)
		ck_assert(vip_conf_validate(&c, &(struct field_errors){0}));
	c = good_vip();
	c.match.port = 0; /* any */
	struct field_errors e = {0};
	ck_assert(vip_conf_validate(&c, &e));
}
END_TEST

/* DIPs of either family, of VIPs of either, in the modes that bridge them. */
START_TEST(test_mixed_families)
{
	static const char *const vips[] = {"10.9.0.100", "2001:db8::100"};
	static const char *const dips[] = {"10.9.0.1", "2001:db8::1"};
	static const enum vip_mode modes[] = {VIP_L2, VIP_IPIP, VIP_GUE};

	for (unsigned i = 0; i < 4 * ARRAY_LEN(modes); i++) {
		struct vip_conf vip = good_vip();
		struct dip_conf dip = good_dip();
		struct field_errors e = {0};

		vip.mode = modes[i / 4];
		vip.match.address = addr(vips[i % 2]);
		dip.address = addr(dips[i / 2 % 2]);
		ck_assert(dip_conf_validate(&dip, &vip, &e));
	}
}
END_TEST

START_TEST(test_dip_faults)
{
	struct vip_conf l2 = good_vip();
	struct field_errors e = {0};
	struct dip_conf c = good_dip();

	c.address = addr("0.0.0.0");
	check_dip_fault(&c, &l2, "/address", "bad_value", "one host");
	c.address = l2.match.address;
	check_dip_fault(&c, &l2, "/address", "bad_value", "of the VIP itself");
	c = good_dip();
	c.weight = 65535;
	ck_assert(dip_conf_validate(&c, &l2, &e));
	c.weight = 0;
	ck_assert(dip_conf_validate(&c, &l2, &e));
	c.weight = 65536;
	check_dip_fault(&c, &l2, "/weight", "out_of_range", "0 to 65535");
	c = good_dip();
	c.has_mac = true; /* still all zero */
	check_dip_fault(&c, &l2, "/mac", "bad_value", "unicast");
	c.mac[0] = 1;
	check_dip_fault(&c, &l2, "/mac", "bad_value", "unicast");
	c.mac[0] = 2;
	ck_assert(dip_conf_validate(&c, &l2, &e));
	c.admin_state = (enum admin_state)2;
	check_dip_fault(&c, &l2, "/admin_state", "bad_value", "one of up, down");
	c = good_dip();
	c.server_id_len = SERVER_ID_MAX;
	ck_assert(dip_conf_validate(&c, &l2, &e));
	c.server_id_len = SERVER_ID_MAX + 1;
	check_dip_fault(&c, &l2, "/server_id", "bad_value", "1 to 15 octets");
	c = good_dip();
	c.id[0] = '\0';
	check_dip_fault(&c, &l2, "/id", "bad_value", "1 to 63");
	ck_assert_uint_eq(e.n, 0);
}
END_TEST

START_TEST(test_server_id_text)
{
	static const char *const bad[] = {
		"",	   "1",	  "123", "0x12", "1g",
		"g1",	   " 12", "12 ", "-1",	 "00112233445566778899aabbccddeeff",
		"\xc3\xa9"};
	char text[SERVER_ID_STRLEN], back[SERVER_ID_STRLEN];

	for (unsigned round = 0; round < 3000; round++) {
		struct dip_conf c = good_dip(), was = c;
		was.server_id_len = (uint8_t)(1 + rand() % SERVER_ID_MAX);
		for (unsigned i = 0; i < was.server_id_len; i++)
			was.server_id[i] = (uint8_t)rand();
		dip_conf_format_server_id(&was, text);
		ck_assert_uint_eq(strlen(text), 2u * was.server_id_len);
		for (char *p = text; round % 2 && *p; p++)
			*p = (char)(*p >= 'a' ? *p - 'a' + 'A' : *p);
		ck_assert_int_eq(dip_conf_parse_server_id(&c, text), 0);
		ck_assert(dip_conf_equal(&c, &was));
		ck_assert_mem_eq(c.server_id, was.server_id, sizeof(c.server_id));
		dip_conf_format_server_id(&c, back);
		ck_assert_int_eq(strcasecmp(back, text), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct dip_conf c = good_dip(), was = c;
		ck_assert_int_eq(dip_conf_parse_server_id(&c, bad[i]), -EINVAL);
		ck_assert_mem_eq(&c, &was, sizeof(c));
	}
	struct dip_conf none = good_dip();
	ck_assert_str_eq(dip_conf_format_server_id(&none, text), "");
}
END_TEST

/* Prefixes and ranges of ports, and what goes with them. */
START_TEST(test_wide_matches)
{
	static const struct {
		const char *address;
		uint8_t host_bits;
		uint16_t port, port_end;
		const char *pointer; /* of the fault; NULL: there is none */
	} cases[] = {
		{"10.9.0.0", 8, 80, 0, NULL},	      {"10.9.0.0", 8, 80, 81, NULL},
		{"10.9.0.1", 0, 1, 65535, NULL},      {"0.0.0.0", 32, 0, 0, NULL},
		{"0.0.0.0", 25, 0, 0, NULL},	      {"::", 128, 0, 0, NULL},
		{"2001:db8::", 64, 0, 0, NULL},	      {"0.0.0.0", 24, 0, 0, "/address"},
		{"127.0.0.0", 24, 0, 0, "/address"},  {"224.0.0.0", 28, 0, 0, "/address"},
		{"ff02::", 64, 0, 0, "/address"},     {"::", 1, 0, 0, "/address"},
		{"10.9.0.1", 8, 80, 0, "/address"}, /* host bits are set */
		{"10.0.0.0", 33, 80, 0, "/address"},  {"10.9.0.1", 0, 0, 80, "/port_end"},
		{"10.9.0.1", 0, 80, 79, "/port_end"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct vip_conf c = good_vip();
		struct field_errors e = {0};
		c.match = (struct vip_match){.address = addr(cases[i].address),
					     .host_bits = cases[i].host_bits,
					     .port = cases[i].port,
					     .port_end = cases[i].port_end};
		ck_assert_int_eq(vip_conf_validate(&c, &e), cases[i].pointer == NULL);
		if (cases[i].pointer)
			ck_assert_str_eq(e.list[0].pointer, cases[i].pointer);
	}

	struct vip_conf net = good_vip();
	struct dip_conf dip = good_dip();
	struct field_errors e = {0};
	net.match.address = addr("10.9.0.0");
	net.match.host_bits = 8;
	dip.address = addr("10.9.0.200");
	check_dip_fault(&dip, &net, "/address", "bad_value", "of the VIP itself");
	dip.address = addr("10.9.1.200");
	ck_assert(dip_conf_validate(&dip, &net, &e));
	net.mode = VIP_NAT; /* the way back could not tell the addresses apart */
	ck_assert(!vip_conf_validate(&net, &e));
	ck_assert_str_eq(e.list[0].pointer, "/mode");
}
END_TEST

/* A range of one port is that port, so that what was written so can be put back. */
START_TEST(test_range_of_one)
{
	struct vip_conf c = good_vip();
	struct vip_edit edit = {.members = VIP_M_PORT | VIP_M_PORT_END};

	edit.conf.match.port = edit.conf.match.port_end = 90;
	vip_conf_apply(&c, &edit, false);
	ck_assert_uint_eq(c.match.port, 90);
	ck_assert_uint_eq(c.match.port_end, 0);
	edit.conf.match.port_end = 91;
	vip_conf_apply(&c, &edit, false);
	ck_assert_uint_eq(c.match.port_end, 91);
}
END_TEST

START_TEST(test_all_faults_are_told)
{
	struct field_errors e = {0};
	struct vip_conf c;

	memset(&c, 0xff, sizeof(c));
	c.clamp_mss = true;
	c.id[0] = '\0';
	ck_assert(!vip_conf_validate(&c, &e));
	ck_assert_uint_eq(e.n, 18); /* each member but port */
	for (unsigned i = e.n; i < 2 * FIELD_ERRORS_MAX; i++)
		field_errors_add(&e, "/x", "y", "%u", i);
	ck_assert_uint_eq(e.n, FIELD_ERRORS_MAX);
	ck_assert_str_eq(e.list[17].pointer, "/health/type");
	ck_assert_str_eq(e.list[18].detail, "18");
	ck_assert_str_eq(e.list[FIELD_ERRORS_MAX - 1].detail, "63");
	ck_assert_uint_eq(e.n_more, FIELD_ERRORS_MAX);

	/* What is too long is cut, not written past its end. */
	char text[400];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	e.n = 0;
	field_errors_add(&e, text, text, "%s", text);
	ck_assert_uint_eq(strlen(e.list[0].pointer), sizeof(e.list[0].pointer) - 1);
	ck_assert_uint_eq(strlen(e.list[0].code), sizeof(e.list[0].code) - 1);
	ck_assert_uint_eq(strlen(e.list[0].detail), sizeof(e.list[0].detail) - 1);
}
END_TEST

/* --- edits --------------------------------------------------------------- */

static struct vip_conf random_vip(void)
{
	struct vip_conf c;

	memset(&c, 0, sizeof(c));
	snprintf(c.id, sizeof(c.id), "v%d", rand() % 100);
	c.match.address = ip_addr_v4((uint8_t[]){10, (uint8_t)rand(), 0, 1});
	c.match.port = (uint16_t)rand();
	c.match.protocol = (enum vip_protocol)(rand() % 3);
	c.mode = (enum vip_mode)(rand() % 3);
	c.affinity = (enum vip_affinity)(rand() % 2);
	c.on_learn_overflow = (enum learn_overflow)(rand() % 2);
	c.drain_timeout_s = (uint32_t)rand();
	c.closing_pin_s = (uint32_t)rand();
	c.idle_established_s = (uint32_t)rand();
	c.idle_half_open_s = (uint32_t)rand();
	c.idle_closing_s = (uint32_t)rand();
	c.idle_udp_s = (uint32_t)rand();
	c.gue_port = (uint32_t)rand();
	c.quic = (enum vip_quic)(rand() % 2);
	c.quic_config_rotation = (uint32_t)rand();
	c.fragments = (enum vip_fragments)(rand() % 2);
	c.clamp_mss = rand() % 2;
	return c;
}

START_TEST(test_vip_edits)
{
	for (int i = 0; i < 3000; i++) {
		struct vip_conf was = random_vip(), now = was, base;
		struct vip_edit e = {.members = (uint32_t)rand() & 0x37fff, .conf = random_vip()};
		bool replace = rand() % 2;

		base = was;
		if (replace) {
			vip_conf_defaults(&base);
			base.match = (struct vip_match){0};
		}
		vip_conf_apply(&now, &e, replace);
		ck_assert_str_eq(now.id, was.id);
#define TAKEN(bit) (e.members & (bit) ? &e.conf : &base)
		ck_assert(ip_addr_equal(&now.match.address, &TAKEN(VIP_M_ADDRESS)->match.address));
		ck_assert_uint_eq(now.match.port, TAKEN(VIP_M_PORT)->match.port);
		ck_assert_uint_eq(now.match.protocol, TAKEN(VIP_M_PROTOCOL)->match.protocol);
		ck_assert_uint_eq(now.mode, TAKEN(VIP_M_MODE)->mode);
		ck_assert_uint_eq(now.affinity, TAKEN(VIP_M_AFFINITY)->affinity);
		ck_assert_uint_eq(now.on_learn_overflow,
				  TAKEN(VIP_M_ON_LEARN_OVERFLOW)->on_learn_overflow);
		ck_assert_uint_eq(now.drain_timeout_s, TAKEN(VIP_M_DRAIN_TIMEOUT)->drain_timeout_s);
		ck_assert_uint_eq(now.closing_pin_s, TAKEN(VIP_M_CLOSING_PIN)->closing_pin_s);
		ck_assert_uint_eq(now.idle_established_s,
				  TAKEN(VIP_M_IDLE_ESTABLISHED)->idle_established_s);
		ck_assert_uint_eq(now.idle_half_open_s,
				  TAKEN(VIP_M_IDLE_HALF_OPEN)->idle_half_open_s);
		ck_assert_uint_eq(now.idle_closing_s, TAKEN(VIP_M_IDLE_CLOSING)->idle_closing_s);
		ck_assert_uint_eq(now.idle_udp_s, TAKEN(VIP_M_IDLE_UDP)->idle_udp_s);
		ck_assert_uint_eq(now.gue_port, TAKEN(VIP_M_GUE_PORT)->gue_port);
		ck_assert_uint_eq(now.quic, TAKEN(VIP_M_QUIC)->quic);
		ck_assert_uint_eq(now.quic_config_rotation,
				  TAKEN(VIP_M_QUIC_CONFIG_ROTATION)->quic_config_rotation);
		ck_assert_uint_eq(now.fragments, TAKEN(VIP_M_FRAGMENTS)->fragments);
		ck_assert_int_eq(now.clamp_mss, TAKEN(VIP_M_CLAMP_MSS)->clamp_mss);
#undef TAKEN
		struct field_errors errors = {0};
		unsigned differ = !ip_addr_equal(&was.match.address, &now.match.address) +
				  (was.match.port != now.match.port) +
				  (was.match.protocol != now.match.protocol) +
				  (was.affinity != now.affinity);
		ck_assert_int_eq(vip_conf_same_identity(&was, &now, &errors), differ == 0);
		ck_assert_uint_eq(errors.n, differ);
		for (unsigned k = 0; k < errors.n; k++)
			ck_assert_str_eq(errors.list[k].code, "immutable");
	}
}
END_TEST

static struct dip_conf random_dip(void)
{
	struct dip_conf c;

	memset(&c, 0, sizeof(c));
	snprintf(c.id, sizeof(c.id), "d%d", rand() % 100);
	c.address = ip_addr_v4((uint8_t[]){10, (uint8_t)rand(), 0, 2});
	c.weight = (uint32_t)rand();
	c.has_mac = rand() % 2;
	c.mac[5] = (uint8_t)rand();
	c.admin_state = (enum admin_state)(rand() % 2);
	c.server_id_len = (uint8_t)(rand() % (SERVER_ID_MAX + 1));
	c.server_id[0] = (uint8_t)rand();
	return c;
}

START_TEST(test_dip_edits)
{
	for (int i = 0; i < 3000; i++) {
		struct dip_conf was = random_dip(), now = was, base = was;
		struct dip_edit e = {.members = (uint32_t)rand() & 0x3f, .conf = random_dip()};
		bool replace = rand() % 2;

		if (replace)
			dip_conf_defaults(&base);
		dip_conf_apply(&now, &e, replace);
		ck_assert_str_eq(now.id, was.id);
#define TAKEN(bit) (e.members & (bit) ? &e.conf : &base)
		ck_assert(ip_addr_equal(&now.address, &TAKEN(DIP_M_ADDRESS)->address));
		ck_assert_uint_eq(now.weight, TAKEN(DIP_M_WEIGHT)->weight);
		ck_assert_uint_eq(now.has_mac, TAKEN(DIP_M_MAC)->has_mac);
		ck_assert_mem_eq(now.mac, TAKEN(DIP_M_MAC)->mac, 6);
		ck_assert_uint_eq(now.admin_state, TAKEN(DIP_M_ADMIN_STATE)->admin_state);
		ck_assert_uint_eq(now.server_id_len, TAKEN(DIP_M_SERVER_ID)->server_id_len);
		ck_assert_mem_eq(now.server_id, TAKEN(DIP_M_SERVER_ID)->server_id, SERVER_ID_MAX);
#undef TAKEN
		struct field_errors errors = {0};
		bool same = ip_addr_equal(&was.address, &now.address);
		ck_assert_int_eq(dip_conf_same_identity(&was, &now, &errors), same);
		if (!same)
			check_one(&errors, "/address", "immutable", "cannot change");
	}
}
END_TEST

START_TEST(test_required)
{
	for (uint32_t members = 0; members < 0x1000; members++) {
		struct vip_edit v = {.members = members};
		struct dip_edit d = {.members = members};
		struct field_errors e = {0};
		unsigned missing = !(members & VIP_M_ADDRESS) + !(members & VIP_M_PORT) +
				   !(members & VIP_M_PROTOCOL);

		ck_assert_int_eq(vip_edit_complete(&v, &e), missing == 0);
		ck_assert_uint_eq(e.n, missing);
		for (unsigned i = 0; i < e.n; i++)
			ck_assert_str_eq(e.list[i].code, "required");
		e.n = 0;
		ck_assert_int_eq(dip_edit_complete(&d, &e), (members & DIP_M_ADDRESS) != 0);
		if (!(members & DIP_M_ADDRESS))
			check_one(&e, "/address", "required", "");
	}
}
END_TEST

/* --- matches ------------------------------------------------------------- */

static bool takes(const struct vip_match *m, const struct ip_addr *dst, unsigned port, int proto)
{
	return ip_addr_equal(&m->address, dst) && (!m->port || m->port == port) &&
	       (m->protocol == VIP_ANY || (m->protocol == VIP_TCP) == (proto == IPPROTO_TCP));
}

/* Two overlap if and only if some packet of the small world is taken by both. */
START_TEST(test_overlap)
{
	struct ip_addr dst[] = {addr("10.0.0.1"), addr("2001:db8::1")};
	struct vip_match all[2 * 3 * 3];
	unsigned n = 0;

	for (unsigned a = 0; a < 2; a++)
		for (unsigned port = 0; port < 3; port++)
			for (unsigned proto = 0; proto < 3; proto++)
				all[n++] = (struct vip_match){.address = dst[a],
							      .port = (uint16_t)port,
							      .protocol = (enum vip_protocol)proto};
	for (unsigned x = 0; x < n; x++) {
		for (unsigned y = 0; y < n; y++) {
			bool both = false;

			for (unsigned a = 0; a < 2; a++)
				for (unsigned port = 1; port < 4; port++)
					for (int p = 0; p < 2; p++) {
						int proto = p ? IPPROTO_TCP : IPPROTO_UDP;
						both |= takes(&all[x], &dst[a], port, proto) &&
							takes(&all[y], &dst[a], port, proto);
					}
			ck_assert_int_eq(vip_match_overlaps(&all[x], &all[y]), both);
			ck_assert_int_eq(vip_match_equal(&all[x], &all[y]), x == y);
		}
	}
}
END_TEST

START_TEST(test_refresh)
{
	struct vip_conf c = good_vip();

	ck_assert_uint_eq(vip_conf_refresh_ms(&c), 5000);
	c.closing_pin_s = 0; /* no idle time-out */
	ck_assert_uint_eq(vip_conf_refresh_ms(&c), 5000);
	c.idle_udp_s = 1;
	ck_assert_uint_eq(vip_conf_refresh_ms(&c), 250);
	for (int i = 0; i < 3000; i++) {
		uint64_t shortest = UINT64_MAX;
		uint32_t *t[] = {&c.idle_established_s, &c.idle_half_open_s, &c.idle_closing_s,
				 &c.idle_udp_s};

		for (size_t k = 0; k < ARRAY_LEN(t); k++) {
			*t[k] = 1 + (uint32_t)rand() % (rand() % 2 ? 40 : 604800);
			if (*t[k] < shortest)
				shortest = *t[k];
		}
		ck_assert_uint_eq(vip_conf_refresh_ms(&c),
				  shortest * 250 < 5000 ? shortest * 250 : 5000);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("model");
	TCase *tc = tcase_create("model");
	const char *given = getenv("SEED");

	seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
	printf("seed %u (SEED=%u repeats it)\n", seed, seed);
	srand(seed);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_ids);
	tcase_add_test(tc, test_defaults);
	tcase_add_test(tc, test_vip_numbers);
	tcase_add_test(tc, test_vip_faults);
	tcase_add_test(tc, test_dip_faults);
	tcase_add_test(tc, test_mixed_families);
	tcase_add_test(tc, test_server_id_text);
	tcase_add_test(tc, test_wide_matches);
	tcase_add_test(tc, test_range_of_one);
	tcase_add_test(tc, test_all_faults_are_told);
	tcase_add_test(tc, test_vip_edits);
	tcase_add_test(tc, test_dip_edits);
	tcase_add_test(tc, test_required);
	tcase_add_test(tc, test_overlap);
	tcase_add_test(tc, test_refresh);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
