/* Entity tags: of the desired state alone, all of it, and the same in every process; and the lists
 * of them in headers. */
#include <check.h>
#include <stdlib.h>

#include "api/server/codec.h"
#include "api/server/etag.h"
#include "tests/unit/prng.h"

/* The first half of SHA-256 of
 * dip{"id":"b1","address":"10.9.0.11","weight":1,"mac":null,"admin_state":"up"}+ and a new line. */
#define DIP_TAG "\"901c4d4feb588229a4b373b497c304c0\""

static struct vip_conf web(void)
{
	struct vip_conf c;

	vip_conf_defaults(&c);
	snprintf(c.id, sizeof(c.id), "web");
	ck_assert_int_eq(ip_addr_parse("10.9.0.100", &c.match.address), 0);
	c.match.port = 80;
	return c;
}

static struct dip_conf b1(void)
{
	struct dip_conf c;

	dip_conf_defaults(&c);
	snprintf(c.id, sizeof(c.id), "b1");
	ck_assert_int_eq(ip_addr_parse("10.9.0.11", &c.address), 0);
	return c;
}

/* Members at random; twice the same chance makes them differ from what they were. */
static void shake_vip(struct vip_conf *c, struct prng *rng)
{
	switch (prng_below(rng, 12)) {
	case 0:
		c->match.port = (uint16_t)(80 + prng_below(rng, 2));
		break;
	case 1:
		c->match.protocol = (enum vip_protocol)prng_below(rng, 3);
		break;
	case 2:
		c->mode = (enum vip_mode)prng_below(rng, 3);
		break;
	case 3:
		c->affinity = (enum vip_affinity)prng_below(rng, 2);
		break;
	case 4:
		c->on_learn_overflow = (enum learn_overflow)prng_below(rng, 2);
		break;
	case 5:
		c->drain_timeout_s = prng_below(rng, 2);
		break;
	case 6:
		c->idle_udp_s = 1 + prng_below(rng, 2);
		break;
	case 7:
		c->quic = (enum vip_quic)prng_below(rng, 2);
		break;
	case 8:
		c->quic_config_rotation = prng_below(rng, 2);
		break;
	case 9:
		c->fragments = (enum vip_fragments)prng_below(rng, 2);
		break;
	case 10:
		c->clamp_mss = prng_below(rng, 2);
		break;
	default:
		c->match.address.b[15] = (uint8_t)(1 + prng_below(rng, 2));
	}
}

static void shake_dip(struct dip_conf *c, struct prng *rng)
{
	switch (prng_below(rng, 5)) {
	case 0:
		c->weight = prng_below(rng, 3);
		break;
	case 1:
		c->has_mac = prng_below(rng, 2);
		c->mac[0] = 2;
		c->mac[5] = (uint8_t)(c->has_mac ? prng_below(rng, 2) : prng_below(rng, 200));
		break;
	case 2:
		c->admin_state = (enum admin_state)prng_below(rng, 2);
		break;
	case 3:
		c->server_id_len = (uint8_t)prng_below(rng, 3);
		memset(c->server_id, 0, sizeof(c->server_id));
		for (unsigned i = 0; i < c->server_id_len; i++)
			c->server_id[i] = (uint8_t)prng_below(rng, 2);
		break;
	default:
		c->address.b[15] = (uint8_t)(1 + prng_below(rng, 2));
	}
}

START_TEST(tags_differ_exactly_with_the_desired_state)
{
	struct prng rng = prng_new("tags");
	char x[ETAG_LEN], y[ETAG_LEN];
	unsigned n_same = 0, n_other = 0;

	for (unsigned i = 0; i < 3000; i++) {
		struct vip_conf v = web(), u;
		struct dip_conf d = b1(), e;
		bool deleting = prng_below(&rng, 2),
		     also = prng_below(&rng, 4) ? deleting : !deleting;
		for (unsigned k = 0; k < 4; k++) {
			shake_vip(&v, &rng);
			shake_dip(&d, &rng);
		}
		u = v;
		e = d;
		shake_vip(&u, &rng);
		shake_dip(&e, &rng);
		ck_assert(etag_of_vip(&v, deleting, x) && etag_of_vip(&u, also, y));
		bool same = vip_conf_equal(&v, &u) && deleting == also;
		expect(same == (strcmp(x, y) == 0));
		n_same += same;
		n_other += !same;
		ck_assert(etag_of_dip(&d, deleting, x) && etag_of_dip(&e, also, y));
		expect((dip_conf_equal(&d, &e) && deleting == also) == (strcmp(x, y) == 0));
	}
	ck_assert(n_same > 300 && n_other > 300);
}
END_TEST

static void expect_same_text(const struct dip_conf *c)
{
	char text[CODEC_DIP_TEXT];
	json_t *body = codec_print_dip_conf(c);
	char *dumped = json_dumps(body, JSON_COMPACT);
	size_t n = codec_text_dip_conf(c, text);

	if (strcmp(text, dumped) != 0 || n != strlen(dumped))
		ck_abort_msg("%s is not %s", text, dumped);
	free(dumped);
	json_decref(body);
}

/* The text that is written without a tree is what comes of the tree. */
START_TEST(texts_of_dips_are_those_of_trees)
{
	struct prng rng = prng_new("texts");
	struct dip_conf longest = {.port = UINT16_MAX,
				   .weight = WEIGHT_MAX,
				   .has_mac = true,
				   .server_id_len = SERVER_ID_MAX,
				   .admin_state = ADMIN_DOWN};

	memset(longest.id, 'a', sizeof(longest.id) - 1);
	memset(&longest.address, 0xfe, sizeof(longest.address));
	expect_same_text(&longest);
	for (unsigned i = 0; i < 5000; i++) {
		struct dip_conf d = b1();
		for (unsigned k = 0; k < 4; k++)
			shake_dip(&d, &rng);
		for (unsigned k = 0; k < 16 && i & 1; k++)
			d.address.b[k] = (uint8_t)(prng_below(&rng, 2) * prng_below(&rng, 256));
		d.port = prng_below(&rng, 2) * prng_below(&rng, UINT16_MAX + 1);
		d.weight = prng_below(&rng, WEIGHT_MAX + 1) >> prng_below(&rng, 16);
		expect_same_text(&d);
	}
}
END_TEST

/* What a client keeps must still match after a restart: these are those of another process, and
 * change only with the members that a VIP or DIP has. */
START_TEST(tags_are_the_same_in_every_process)
{
	struct dip_conf d = b1();
	char tag[ETAG_LEN];

	ck_assert(etag_of_dip(&d, false, tag));
	ck_assert_str_eq(tag, DIP_TAG);
	ck_assert_uint_eq(strlen(tag), ETAG_LEN - 2u);
	ck_assert(etag_of_dip(&d, true, tag));
	ck_assert_str_ne(tag, DIP_TAG);
}
END_TEST

START_TEST(tags_of_lists_tell_order_and_kind)
{
	struct dip_conf d = b1(), e = b1();
	char x[ETAG_LEN], y[ETAG_LEN], none[ETAG_LEN];
	struct etag t;

	snprintf(e.id, sizeof(e.id), "b2");
	etag_begin(&t);
	ck_assert(etag_end(&t, none));
	etag_begin(&t);
	etag_add_dip(&t, &d, false);
	ck_assert(etag_end(&t, x));
	ck_assert(etag_of_dip(&d, false, y)); /* a list of one reads as the one */
	ck_assert_str_eq(x, y);
	ck_assert_str_ne(x, none);
	etag_begin(&t);
	etag_add_dip(&t, &d, false);
	etag_add_dip(&t, &e, false);
	ck_assert(etag_end(&t, y));
	ck_assert_str_ne(x, y);
}
END_TEST

START_TEST(lists_in_headers)
{
	static const struct {
		const char *list;
		bool valid, strong, weak; /* does it name "a"? */
	} cases[] = {
		{"*", true, true, true},
		{"\"a\"", true, true, true},
		{"\"b\"", true, false, false},
		{"\"b\", \"a\"", true, true, true},
		{"\"b\",\t\"a\" ,", true, true, true},
		{"W/\"a\"", true, false, true},
		{"W/\"a\", \"a\"", true, true, true},
		{"\"\"", true, false, false},
		{"\"aa\"", true, false, false},
		{"", false, false, false},
		{" , ", false, false, false},
		{"a", false, false, false},
		{"\"a", false, false, false},
		{"\"a\"\"b\"", false, true, true},
		{"w/\"a\"", false, false, false},
		{"*, \"a\"", false, false, false},
		{"\"a b\"", false, false, false},
		{"\"b\" a", false, false, false},
		{"\"b\" \"a\"", false, true, true}, /* no comma: no list */
		{"\"a\"\t\"b\"", false, true, true},
		{"\"b\" , , \"a\" \t", true, true, true},
		{"\"b\" ,\"c\"W/\"a\"", false, false, true},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ck_assert_msg(etag_list_valid(cases[i].list) == cases[i].valid, "%s",
			      cases[i].list);
		ck_assert_msg(etag_list_has(cases[i].list, "\"a\"", false) == cases[i].strong, "%s",
			      cases[i].list);
		ck_assert_msg(etag_list_has(cases[i].list, "\"a\"", true) == cases[i].weak, "%s",
			      cases[i].list);
		ck_assert(!etag_list_has(cases[i].list, "", true)); /* what is not there */
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("etag");
	TCase *t = tcase_create("etag");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, tags_differ_exactly_with_the_desired_state);
	tcase_add_test(t, texts_of_dips_are_those_of_trees);
	tcase_add_test(t, tags_are_the_same_in_every_process);
	tcase_add_test(t, tags_of_lists_tell_order_and_kind);
	tcase_add_test(t, lists_in_headers);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
