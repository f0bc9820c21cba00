/* Pages of known flows: every flow once, whatever comes and goes between two pages; filters against
 * looking at each flow; and the handler's answers. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/resources.h"
#include "base/clock.h"
#include "control/internal.h"
#include "tests/unit/prng.h"
#include "tests/unit/world.h"

#define PSH_ACK (FRAMES_PSH | FRAMES_ACK)

static struct world *w;

static void start(uint64_t n_flows, unsigned n_dips)
{
	w = world_new(1, n_flows);
	world_put_vip(w, "web", VIP_ANY, CONTROL_CREATED);
	for (unsigned d = 1; d <= n_dips; d++)
		world_put_dip(w, "web", d, 10, CONTROL_CREATED);
}

static void open_flows(uint32_t from, uint32_t to, uint8_t flags)
{
	for (uint32_t i = from; i < to; i++) {
		world_tcp(w, 0, i, flags, flags == PSH_ACK ? 10 : 0);
		if (i % 1000 == 0)
			control_step(w->control);
	}
	world_settle(w);
}

static void establish(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		world_tcp(w, 0, i, FRAMES_SYN, 0);
		world_tcp(w, 0, i, FRAMES_ACK, 0);
		if (i % 1000 == 0)
			control_step(w->control);
	}
	world_settle(w);
}

static struct flow_query all(unsigned limit)
{
	return (struct flow_query){.vip = "web", .pinned = -1, .state = -1, .limit = limit};
}

/* How often a flow was listed, by client address and port, which tell the world's flows apart. */
#define SEEN_MAX (1u << 17)
static struct {
	struct ip_addr client;
	uint16_t port;
	unsigned n;
} seen[SEEN_MAX];

static unsigned *seen_of(const struct ip_addr *client, uint16_t port)
{
	uint32_t h = port * 2654435761u;

	for (unsigned i = 0; i < sizeof(client->b); i++)
		h = (h ^ client->b[i]) * 16777619u;
	for (;; h++) {
		unsigned i = h % SEEN_MAX;
		if (!seen[i].n) {
			seen[i].client = *client;
			seen[i].port = port;
		}
		if (seen[i].port == port && ip_addr_equal(&seen[i].client, client))
			return &seen[i].n;
	}
}

static void see(const struct flow_page *page)
{
	for (unsigned i = 0; i < page->n; i++)
		++*seen_of(&page->list[i].client, page->list[i].client_port);
}

static void read_page(const struct flow_query *q, struct flow_page *page)
{
	control_read_flows(w->control, q, page);
	ck_assert(page->vip_found && page->dip_found && !page->failed);
	ck_assert_uint_le(page->n, q->limit);
}

/* All flows by pages of this size; how many there were. */
static unsigned read_all(struct flow_query q)
{
	struct flow_info list[FLOW_PAGE_MAX];
	struct flow_page page = {.list = list, .more = true};
	unsigned n = 0;

	for (q.from = 0; page.more; q.from = page.next) {
		read_page(&q, &page);
		ck_assert(!page.more || page.next > q.from);
		n += page.n;
	}
	return n;
}

START_TEST(a_flow_is_shown_as_it_is)
{
	struct flow_info list[8];
	struct flow_page page = {.list = list};
	struct flow_query q = all(8);

	start(4096, 1);
	world_tcp(w, 0, 1, FRAMES_SYN, 0);
	world_settle(w);
	world_advance_ms(20000);
	world_tcp(w, 0, 1, PSH_ACK, 10);
	world_settle(w);
	world_advance_ms(3000);
	read_page(&q, &page);
	ck_assert_uint_eq(page.n, 1);
	ck_assert(!page.more);
	ck_assert_uint_eq(list[0].client.b[12], 10);
	ck_assert_uint_eq(list[0].client.b[13], 1);
	ck_assert_uint_eq(list[0].port, 80);
	ck_assert_uint_eq(list[0].proto, IPPROTO_TCP);
	ck_assert_str_eq(list[0].dip, "b1");
	ck_assert_int_eq(list[0].state, FLOW_IS_ESTABLISHED);
	ck_assert(!list[0].pinned && !list[0].exact);
	ck_assert_uint_eq(list[0].age_s, 23);
	ck_assert_uint_eq(list[0].idle_s, 3);

	world_put_dip(w, "web", 2, 10, CONTROL_CREATED);
	world_set_weight(w, "web", 1, 0);
	world_udp(w, 0, 7);
	world_tcp(w, 0, 8, FRAMES_FIN | FRAMES_ACK, 0);
	world_tcp(w, 0, 9, FRAMES_SYN, 0);
	world_settle(w);
	read_page(&q, &page);
	ck_assert_uint_eq(page.n, 4);
	ck_assert(list[0].pinned);
	ck_assert_str_eq(list[0].dip, "b1");
	ck_assert_uint_eq(list[1].proto, IPPROTO_UDP);
	ck_assert_int_eq(list[1].state, FLOW_IS_UNPROVEN);
	ck_assert_str_eq(list[1].dip, "b2");
	ck_assert_int_eq(list[2].state, FLOW_IS_CLOSING);
	ck_assert_int_eq(list[3].state, FLOW_IS_HALF_OPEN);
	ck_assert_uint_eq(list[3].age_s, 0);

	/* Between a cut and the end of its flows, they have no DIP. */
	struct control_request r = {.op = OP_DIP_DELETE, .vip = "web", .dip = "b1", .force = true};
	bool done;
	control_change_async(w->control, &r, &done);
	while (!control_run_changes(w->control) || !done)
		;
	read_page(&q, &page);
	ck_assert_uint_eq(page.n, 4);
	ck_assert_str_eq(list[0].dip, "");
	world_free(w);
}
END_TEST

START_TEST(each_flow_comes_once)
{
	enum { N = 20000 };

	start(65536, 3);
	establish(0, N);
	static const unsigned limits[] = {1000, 1, 7, 100};
	for (unsigned i = 0; i < ARRAY_LEN(limits); i++)
		ck_assert_uint_eq(read_all(all(limits[i])), N);
	/* The next process goes on where this one was. */
	struct flow_info list[FLOW_PAGE_MAX];
	struct flow_page page = {.list = list};
	struct flow_query q = all(1);
	memset(seen, 0, sizeof(seen));
	read_page(&q, &page);
	see(&page);
	world_restart(w, WORLD_KILL);
	q = all(FLOW_PAGE_MAX);
	for (q.from = page.next; page.more; q.from = page.next) {
		read_page(&q, &page);
		see(&page);
	}
	for (unsigned i = 0; i < SEEN_MAX; i++)
		ck_assert_uint_le(seen[i].n, 1);
	unsigned n = 0;
	for (unsigned i = 0; i < SEEN_MAX; i++)
		n += seen[i].n;
	ck_assert_uint_eq(n, N);
	world_free(w);
}
END_TEST

/* Flows end and open between two pages: those that stay come once all the same. */
START_TEST(flows_come_and_go_between_pages)
{
	struct prng p = prng_new("flows_come_and_go_between_pages");
	struct flow_info list[FLOW_PAGE_MAX];
	struct flow_page page = {.list = list, .more = true};
	enum { N = 30000 };
	uint32_t next = 1000000, removed = 0;

	start(65536, 3);
	memset(seen, 0, sizeof(seen));
	establish(0, N);
	struct flow_table *t = &w->control->flows;
	struct flow_set *f = &w->control->vips[0]->flows;
	static bool gone[65536];
	memset(gone, 0, sizeof(gone));
	struct flow_query q = all(500);
	for (q.from = 0; page.more; q.from = page.next) {
		read_page(&q, &page);
		see(&page);
		for (unsigned k = prng_below(&p, 300); k && f->n > 1000; k--, removed++) {
			uint32_t slot = flow_set_ref(f, prng_below(&p, f->n))->slot;
			gone[slot] = true;
			flow_table_remove(t, slot);
		}
		uint32_t to = next + prng_below(&p, 300);
		open_flows(next, to, FRAMES_SYN);
		next = to;
		if (prng_below(&p, 10) == 0)
			world_set_weight(w, "web", 1 + prng_below(&p, 3), prng_below(&p, 20));
	}
	ck_assert_uint_gt(removed, 1000);
	unsigned kept = 0;
	for (uint32_t slot = 0; slot < N; slot++) {
		const struct flow_slot *s = &t->slots[slot];
		if (gone[slot])
			continue;
		kept++;
		ck_assert_uint_eq(*seen_of(&s->key.src, ntohs(s->key.sport_be)), 1);
	}
	ck_assert_uint_gt(kept, 1000);
	world_free(w);
}
END_TEST

static bool naively_meant(const struct flow_query *q, uint32_t slot)
{
	struct flow_table *t = &w->control->flows;
	const struct flow_slot *s = &t->slots[slot];
	struct flow_meta m = flow_meta_get(s);
	char dip[8];

	if (m.phase == FLOW_FREE)
		return false;
	snprintf(dip, sizeof(dip), "b%u", m.dip);
	int state = m.phase == FLOW_CLOSING	     ? FLOW_IS_CLOSING
		    : m.phase == FLOW_HALF_OPEN	     ? FLOW_IS_HALF_OPEN
		    : (m.flags & FLOW_UNPROVEN) != 0 ? FLOW_IS_UNPROVEN
						     : FLOW_IS_ESTABLISHED;
	bool pinned = flow_table_ref(t, slot)->flags & REF_PINNED;
	return (!q->dip || !strcmp(q->dip, dip)) && (q->state < 0 || q->state == state) &&
	       (q->pinned < 0 || q->pinned == pinned) &&
	       (!q->has_client || ip_addr_equal(&q->client, &s->key.src));
}

START_TEST(filters_are_those_of_a_naive_look)
{
	static const char *const dips[] = {NULL, "b1", "b2", "b3"};
	enum { N = 6000 };

	start(65536, 3); /* indexes 1, 2, 3: b1, b2, b3 */
	open_flows(0, N / 4, FRAMES_SYN);
	open_flows(N / 4, N / 2, FRAMES_SYN);
	open_flows(N / 4, N / 2, PSH_ACK);
	open_flows(N / 2, 3 * N / 4, PSH_ACK);
	open_flows(3 * N / 4, N, FRAMES_FIN | FRAMES_ACK);
	world_set_weight(w, "web", 1, 0);
	struct flow_table *t = &w->control->flows;
	unsigned n_cases = 0, n_hits = 0;
	for (unsigned d = 0; d < ARRAY_LEN(dips); d++) {
		for (int state = -1; state <= FLOW_IS_UNPROVEN; state++) {
			for (int pinned = -1; pinned <= 1; pinned++) {
				for (int client = 0; client <= 1; client++) {
					struct flow_query q = all(100);
					unsigned want = 0;
					q.dip = dips[d];
					q.state = state;
					q.pinned = pinned;
					q.has_client = client;
					q.client = t->slots[N / 3].key.src;
					for (uint32_t slot = 0; slot < 65536; slot++)
						want += naively_meant(&q, slot);
					ck_assert_uint_eq(read_all(q), want);
					n_cases++;
					n_hits += want > 0;
				}
			}
		}
	}
	ck_assert_uint_eq(n_cases, 4 * 5 * 3 * 2);
	ck_assert_uint_gt(n_hits, n_cases / 3);
	world_free(w);
}
END_TEST

/* --- the handler ---------------------------------------------------------------------------------
 */

static void live_read_flows(void *ctx, const struct flow_query *q, struct flow_page *page)
{
	(void)ctx;
	control_read_flows(w->control, q, page);
}

static struct api_context api = {.backend = {.read_flows = live_read_flows}};

/* GET /v1/vips/{vip}/flows with pairs of parameters; the answer's body is the caller's. */
static json_t *get(unsigned want, const char *vip, const char *const *query,
		   struct api_response *resp)
{
	struct api_request req = {.api = &api,
				  .method = "GET",
				  .target = "/v1/vips/web/flows?x=y",
				  .path_args = {vip}};

	for (; query && *query; query += 2) {
		req.query[req.n_query].name = query[0];
		req.query[req.n_query++].value = query[1];
	}
	memset(resp, 0, sizeof(*resp));
	flows_list(&req, resp);
	ck_assert_uint_eq(resp->status, want);
	return resp->body;
}

#define Q(...) ((const char *const[]){__VA_ARGS__, NULL})

START_TEST(answers_are_pages)
{
	struct api_response resp;

	start(65536, 2);
	json_t *body = get(200, "web", NULL, &resp);
	ck_assert_uint_eq(json_array_size(json_object_get(body, "items")), 0);
	ck_assert_ptr_null(json_object_get(body, "next"));
	ck_assert_str_eq(resp.link, "");
	json_decref(body);
	open_flows(0, 250, FRAMES_SYN);
	body = get(200, "web", NULL, &resp);
	json_t *items = json_object_get(body, "items");
	ck_assert_uint_eq(json_array_size(items), 100);
	ck_assert_str_eq(json_string_value(json_object_get(body, "next")), "100");
	ck_assert_str_eq(resp.link, "</v1/vips/web/flows?cursor=100>; rel=\"next\"");
	json_t *f = json_array_get(items, 0);
	ck_assert_uint_eq(json_object_size(f), 10);
	ck_assert_str_eq(json_string_value(json_object_get(f, "state")), "half_open");
	ck_assert_str_eq(json_string_value(json_object_get(f, "protocol")), "tcp");
	ck_assert_int_eq(json_integer_value(json_object_get(f, "port")), 80);
	json_decref(body);

	body = get(200, "web", Q("limit", "200", "pinned", "false", "cursor", "100"), &resp);
	ck_assert_uint_eq(json_array_size(json_object_get(body, "items")), 150);
	ck_assert_ptr_null(json_object_get(body, "next"));
	json_decref(body);
	body = get(200, "web", Q("limit", "9", "state", "half_open", "cursor", "0"), &resp);
	ck_assert_str_eq(resp.link, "</v1/vips/web/flows?cursor=9&limit=9&state=half_open>; "
				    "rel=\"next\"");
	json_decref(body);
	body = get(200, "web", Q("client", "192.0.2.1"), &resp);
	ck_assert_uint_eq(json_array_size(json_object_get(body, "items")), 0);
	json_decref(body);
	body = get(200, "web", Q("cursor", "4294967295"), &resp); /* behind all */
	ck_assert_uint_eq(json_array_size(json_object_get(body, "items")), 0);
	json_decref(body);

	json_decref(get(404, "other", NULL, &resp));
	json_decref(get(404, "web", Q("dip", "b3"), &resp));
	static const char *const bad[][2] = {
		{"limit", "0"},	   {"limit", "1001"},	     {"limit", "-1"},
		{"limit", ""},	   {"limit", "9999999999"},  {"cursor", ""},
		{"cursor", "x"},   {"cursor", "4294967296"}, {"cursor", "99999999999"},
		{"pinned", "yes"}, {"state", "open"},	     {"client", "10.0.0"},
	};
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		body = get(400, "web", Q(bad[i][0], bad[i][1]), &resp);
		json_t *e = json_array_get(json_object_get(body, "errors"), 0);
		ck_assert_str_eq(json_string_value(json_object_get(e, "parameter")), bad[i][0]);
		json_decref(body);
	}
	world_free(w);
}
END_TEST

START_TEST(flows_of_clients_have_no_ports)
{
	struct control_request r = {.op = OP_VIP_PUT, .vip = "web"};
	struct api_response resp;

	w = world_new(1, 4096);
	vip_conf_defaults(&r.vip_edit.conf);
	r.vip_edit.members = VIP_M_ADDRESS | VIP_M_PORT | VIP_M_PROTOCOL | VIP_M_AFFINITY;
	r.vip_edit.conf.match.port = 80;
	r.vip_edit.conf.match.protocol = VIP_TCP;
	r.vip_edit.conf.affinity = AFFINITY_CLIENT;
	ck_assert_int_eq(ip_addr_parse(WORLD_VIP_ADDRESS, &r.vip_edit.conf.match.address), 0);
	world_request(w, &r);
	ck_assert_int_eq(r.status, CONTROL_CREATED);
	world_put_dip(w, "web", 1, 10, CONTROL_CREATED);
	open_flows(0, 1, FRAMES_SYN);
	json_t *body = get(200, "web", NULL, &resp);
	json_t *f = json_array_get(json_object_get(body, "items"), 0);
	ck_assert(json_is_null(json_object_get(f, "client_port")));
	ck_assert(json_is_null(json_object_get(f, "port")));
	ck_assert(json_is_null(json_object_get(f, "protocol")));
	ck_assert_str_eq(json_string_value(json_object_get(f, "dip")), "b1");
	json_decref(body);
	world_free(w);
}
END_TEST

/* Few of many are meant: a page takes several pieces, and ends when that is enough. */
START_TEST(a_page_is_bounded_work)
{
	struct api_response resp;
	unsigned pages = 0, n = 0;
	char cursor[16] = "0";

	start(1u << 20, 2);
	struct flow_table *t = &w->control->flows;
	struct vip_runtime *v = w->control->vips[0];
	for (uint32_t i = 0; i < 600000; i++) {
		struct flow_key key = {.sport_be = (uint16_t)i, .dport_be = htons(80), .proto = 6};
		uint32_t client_be = htonl(0x0a000000 + (i >> 16));
		key.src = ip_addr_v4(&client_be);
		struct flow_meta m = {.dip = 1, .phase = FLOW_ESTABLISHED, .seen_ms = 1};
		ck_assert_uint_ne(
			flow_table_insert(t, &v->flows, &key, flow_key_hash(&key, v->seed), m, 1),
			FLOW_NONE);
	}
	for (; *cursor; pages++) {
		json_t *body =
			get(200, "web", Q("client", "10.0.0.9", "cursor", cursor, "limit", "1000"),
			    &resp);
		n += (unsigned)json_array_size(json_object_get(body, "items"));
		const char *next = json_string_value(json_object_get(body, "next"));
		snprintf(cursor, sizeof(cursor), "%s", next ? next : "");
		json_decref(body);
	}
	ck_assert_uint_eq(n, 600000 - 9 * 65536);
	ck_assert_uint_ge(pages, 2 + n / 1000);
	ck_assert_uint_le(pages, 4 + n / 1000);
	v->flows.n = 0; /* not one by one */
	t->n = 0;
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("flow_page");
	TCase *tc = tcase_create("flow_page");

	tcase_add_test(tc, a_flow_is_shown_as_it_is);
	tcase_add_test(tc, each_flow_comes_once);
	tcase_add_test(tc, flows_come_and_go_between_pages);
	tcase_add_test(tc, filters_are_those_of_a_naive_look);
	tcase_add_test(tc, answers_are_pages);
	tcase_add_test(tc, flows_of_clients_have_no_ports);
	tcase_add_test(tc, a_page_is_bounded_work);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(s, tc);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
