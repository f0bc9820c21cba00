/* Filters and pages of lists, against picking by hand. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/selection.h"
#include "tests/unit/prng.h"

#define N 60u

static struct vip_info vips[N];
static struct dip_info dips[N];

static void make_lists(struct prng *p)
{
	memset(vips, 0, sizeof(vips));
	memset(dips, 0, sizeof(dips));
	for (unsigned i = 0; i < N; i++) {
		const uint8_t a[4] = {10, 0, 0, (uint8_t)prng_below(p, 4)};
		snprintf(vips[i].conf.id, ID_LEN, "v%02u", i);
		vips[i].conf.match.address = ip_addr_v4(a);
		vips[i].conf.match.port = (uint16_t)(80 + prng_below(p, 3));
		if (prng_below(p, 3) == 0)
			vips[i].conf.match.port_end = (uint16_t)(vips[i].conf.match.port + 1);
		if (prng_below(p, 3) == 0) {
			vips[i].conf.match.host_bits = 1;
			vips[i].conf.match.address.b[15] &= 0xfe;
		}
		vips[i].conf.match.protocol = (enum vip_protocol)prng_below(p, 3);
		vips[i].deleting = prng_below(p, 2);
		snprintf(dips[i].conf.id, ID_LEN, "d%02u", i);
		dips[i].conf.address = ip_addr_v4(a);
		dips[i].state = (enum dip_state)prng_below(p, 4);
	}
}

static void put(struct api_request *req, const char *name, const char *value)
{
	req->query[req->n_query].name = name;
	req->query[req->n_query++].value = value;
}

START_TEST(vips_are_those_picked_by_hand)
{
	static const char *const protocols[] = {"tcp", "udp", "any"};
	struct prng p = prng_new("vips_are_those_picked_by_hand");

	for (unsigned round = 0; round < 500; round++) {
		struct api_request filter = {.target = "/v1/vips"};
		struct api_response resp = {.status = 0};
		unsigned mask = prng_below(&p, 16), port = 80 + prng_below(&p, 3);
		unsigned protocol = prng_below(&p, 3), limit = 1 + prng_below(&p, 20);
		bool draining = prng_below(&p, 2), prefix = prng_below(&p, 2);
		char text[8], limit_text[8], cursor[ID_LEN] = "", next[ID_LEN];
		char want[N * 5] = "", got[N * 5] = "";
		make_lists(&p);
		snprintf(text, sizeof(text), "%u", port);
		snprintf(limit_text, sizeof(limit_text), "%u", limit);
		if (mask & 1)
			put(&filter, "address", prefix ? "10.0.0.2/31" : "10.0.0.3");
		if (mask & 2)
			put(&filter, "port", text);
		if (mask & 4)
			put(&filter, "protocol", protocols[protocol]);
		if (mask & 8)
			put(&filter, "state", draining ? "draining" : "up");
		put(&filter, "limit", limit_text);
		for (unsigned i = 0; i < N; i++) {
			const struct vip_match *m = &vips[i].conf.match;
			bool one = m->address.b[15] == 3, two = m->address.b[15] == 2;
			if ((!(mask & 1) || (m->host_bits ? two : one && !prefix)) &&
			    (!(mask & 2) || m->port == port ||
			     (m->port_end && port == m->port + 1u)) &&
			    (!(mask & 4) || m->protocol == protocol) &&
			    (!(mask & 8) || vips[i].deleting == draining))
				strcat(strcat(want, vips[i].conf.id), " ");
		}
		do {
			struct api_request req = filter;
			struct vip_info list[N];
			size_t n = N;
			if (*cursor)
				put(&req, "cursor", cursor);
			memcpy(list, vips, sizeof(list));
			ck_assert(select_vips(&req, list, &n, next, &resp));
			ck_assert(n <= limit && (!*next || n == limit));
			for (size_t i = 0; i < n; i++)
				strcat(strcat(got, list[i].conf.id), " ");
			memcpy(cursor, next, sizeof(cursor));
		} while (*next);
		ck_assert_str_eq(got, want);
	}
}
END_TEST

START_TEST(dips_are_those_picked_by_hand)
{
	struct prng p = prng_new("dips_are_those_picked_by_hand");

	for (unsigned round = 0; round < 500; round++) {
		struct api_request filter = {.target = "/v1/vips/web/dips"};
		struct api_response resp = {.status = 0};
		unsigned mask = prng_below(&p, 4), state = prng_below(&p, 4);
		char cursor[ID_LEN] = "", next[ID_LEN];
		char want[N * 5] = "", got[N * 5] = "";
		make_lists(&p);
		if (mask & 1)
			put(&filter, "address", "10.0.0.1");
		if (mask & 2)
			put(&filter, "state", dip_state_names[state]);
		put(&filter, "limit", "7");
		for (unsigned i = 0; i < N; i++)
			if ((!(mask & 1) || dips[i].conf.address.b[15] == 1) &&
			    (!(mask & 2) || dips[i].state == state))
				strcat(strcat(want, dips[i].conf.id), " ");
		do {
			struct api_request req = filter;
			struct dip_info list[N];
			struct vip_info vip = {.n_dips = N, .dips = list};
			if (*cursor)
				put(&req, "cursor", cursor);
			memcpy(list, dips, sizeof(list));
			ck_assert(select_dips(&req, &vip, next, &resp));
			ck_assert(vip.n_dips <= 7 && (!*next || vip.n_dips == 7));
			for (unsigned i = 0; i < vip.n_dips; i++)
				strcat(strcat(got, list[i].conf.id), " ");
			memcpy(cursor, next, sizeof(cursor));
		} while (*next);
		ck_assert_str_eq(got, want);
	}
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
	static const char *const bad[][2] = {
		{"address", "10.0.0"}, {"port", "65536"},    {"port", ""},   {"port", "-1"},
		{"protocol", "sctp"},  {"state", "resting"}, {"limit", "0"}, {"limit", "4097"},
		{"limit", "x"},	       {"cursor", ""},
	};
	struct prng p = prng_new("what_cannot_be_is_refused");

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		struct api_request req = {.target = "/v1/vips"};
		struct api_response resp = {.status = 0};
		char next[ID_LEN];
		size_t n = N;
		make_lists(&p);
		put(&req, bad[i][0], bad[i][1]);
		ck_assert(!select_vips(&req, vips, &n, next, &resp));
		ck_assert_uint_eq(resp.status, 400);
		json_t *e = json_array_get(json_object_get(resp.body, "errors"), 0);
		ck_assert_str_eq(json_string_value(json_object_get(e, "parameter")), bad[i][0]);
		json_decref(resp.body);
	}
	struct api_request req = {.target = "/v1/vips/web/dips"};
	struct api_response resp = {.status = 0};
	struct vip_info vip = {.n_dips = N, .dips = dips};
	char next[ID_LEN];
	put(&req, "state", "resting");
	ck_assert(!select_dips(&req, &vip, next, &resp));
	ck_assert_uint_eq(resp.status, 400);
	json_decref(resp.body);
}
END_TEST

START_TEST(a_page_says_how_to_go_on)
{
	struct api_request req = {.target = "/v1/vips?limit=2&address=x"};
	struct api_response resp = {.status = 0};

	put(&req, "limit", "2");
	put(&req, "address", "fd09::1");
	put(&req, "cursor", "v01");
	listing_answer(&req, json_array(), "v03", &resp);
	ck_assert_uint_eq(resp.status, 200);
	ck_assert_str_eq(json_string_value(json_object_get(resp.body, "next")), "v03");
	ck_assert_str_eq(resp.link, "</v1/vips?cursor=v03&limit=2&address=fd09::1>; rel=\"next\"");
	json_decref(resp.body);
	resp = (struct api_response){.status = 0};
	listing_answer(&req, json_array(), NULL, &resp);
	ck_assert_ptr_null(json_object_get(resp.body, "next"));
	ck_assert_str_eq(resp.link, "");
	json_decref(resp.body);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("selection");
	TCase *tc = tcase_create("selection");

	tcase_add_test(tc, vips_are_those_picked_by_hand);
	tcase_add_test(tc, dips_are_those_picked_by_hand);
	tcase_add_test(tc, what_cannot_be_is_refused);
	tcase_add_test(tc, a_page_says_how_to_go_on);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(s, tc);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
