/* concury-agent's parts: its table against a naive model, its options, and the kernel's sockets in
 * a network namespace. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/client/agent_options.h"
#include "api/client/agent_orphans.h"
#include "api/client/agent_sockets.h"
#include "base/clock.h"
#include "tests/unit/netns.h"
#include "tests/unit/prng.h"

/* --- the table -----------------------------------------------------------------------------------
 */

static uint64_t clock_ms = 1000000;

static uint64_t fixed_ns(void)
{
	return clock_ms * 1000000u;
}

static int64_t fixed_s(void)
{
	return 1700000000;
}

static struct agent_key key_number(uint32_t i)
{
	uint8_t src[4] = {10, 0, (uint8_t)(i >> 8), (uint8_t)i};

	return (struct agent_key){
		.src = ip_addr_v4(src), .sport = (uint16_t)i, .dport = 80, .proto = IPPROTO_TCP};
}

enum { KEYS = 600 };

/* What is, and what the listener believes. */
struct naive {
	uint64_t cookie[KEYS]; /* 0: no connection */
	uint64_t opened_ms[KEYS];
	bool believed[KEYS];
	uint64_t next_cookie;
};

static bool naive_gone(void *ctx, const struct agent_key *key, uint64_t cookie)
{
	return ((const struct naive *)ctx)->cookie[key->sport] != cookie;
}

static void hear(struct naive *n, struct agent_table *t, unsigned max)
{
	struct agent_news news[64];
	unsigned count = agent_table_take(t, news, max);

	expect(count <= max);
	for (unsigned i = 0; i < count; i++) {
		uint32_t k = news[i].key.sport;
		struct agent_key key = key_number(k);
		expect(memcmp(&key, &news[i].key, sizeof(key)) == 0);
		expect(news[i].at_ms <= clock_ms);
		/* An end is never said to be later than the opening of the next connection. */
		if (news[i].ended && n->cookie[k])
			expect(news[i].at_ms <= n->opened_ms[k]);
		n->believed[k] = !news[i].ended;
	}
}

static void dump(struct naive *n, struct agent_table *t, struct prng *rng)
{
	agent_table_dump_begin(t);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct agent_key key = key_number(i);
		/* One in eight is passed by. */
		if (n->cookie[i] && prng_below(rng, 8))
			expect(agent_table_seen(t, &key, n->cookie[i], clock_ms));
	}
	clock_ms += prng_below(rng, 3);
	agent_table_dump_end(t, naive_gone, n);
}

/* Connections come and go, some events are lost, dumps pass some by: when it is quiet, two dumps
 * and the news make the listener believe what is. */
START_TEST(the_table_tells_what_is)
{
	struct prng rng = prng_new("table");
	struct agent_table *t = agent_table_new();
	static struct naive n;

	memset(&n, 0, sizeof(n));
	clock_set_source(fixed_ns, fixed_s);
	for (int step = 0; step < 60000; step++) {
		uint32_t i = prng_below(&rng, KEYS);
		struct agent_key key = key_number(i);
		clock_ms += prng_below(&rng, 2);
		if (!n.cookie[i]) {
			n.cookie[i] = ++n.next_cookie;
			n.opened_ms[i] = clock_ms;
		} else if (prng_below(&rng, 2)) {
			uint64_t cookie = n.cookie[i];
			n.cookie[i] = 0;
			if (prng_below(&rng, 4))
				expect(agent_table_ended(t, &key, cookie, clock_ms));
		}
		if (prng_below(&rng, 50) == 0)
			dump(&n, t, &rng);
		if (prng_below(&rng, 20) == 0)
			hear(&n, t, prng_below(&rng, 64) + 1);
		if (prng_below(&rng, 5000) == 0) {
			memset(n.believed, 0, sizeof(n.believed)); /* all is told anew */
			agent_table_all_news(t);
		}
		if (step % 10000)
			continue;
		for (int k = 0; k < 20; k++)
			dump(&n, t, &rng);
		while (agent_table_has_news(t))
			hear(&n, t, 64);
		uint64_t n_open = 0;
		for (uint32_t k = 0; k < KEYS; k++) {
			expect(n.believed[k] == (n.cookie[k] != 0));
			n_open += n.cookie[k] != 0;
		}
		expect(agent_table_open(t) == n_open);
	}
	agent_table_free(t);
	clock_set_source(NULL, NULL);
}
END_TEST

START_TEST(the_table_is_bounded_while_nobody_listens)
{
	struct agent_table *t = agent_table_new();
	struct agent_news news;
	struct agent_key key = key_number(0);

	key.proto = IPPROTO_TCP;
	for (uint32_t i = 0; i < AGENT_ENDS_MAX + 1000; i++) {
		ck_assert(agent_table_overflowed(t) == (i > AGENT_ENDS_MAX));
		memcpy(key.src.b, &i, sizeof(i));
		expect(agent_table_ended(t, &key, i, 1));
	}
	expect(agent_table_seen(t, &key, 5, 7)); /* and one that is open */
	agent_table_all_news(t);
	ck_assert(!agent_table_overflowed(t));
	ck_assert_uint_eq(agent_table_take(t, &news, 1), 1);
	ck_assert(!news.ended && news.at_ms == 7);
	ck_assert(!agent_table_has_news(t));
	ck_assert_uint_eq(agent_table_open(t), 1);
	/* A connection that was never told and has ended is told as an end, once. */
	expect(agent_table_ended(t, &key, 5, 9));
	expect(agent_table_ended(t, &key, 5, 11));
	ck_assert_uint_eq(agent_table_take(t, &news, 1), 1);
	ck_assert(news.ended && news.at_ms == 9);
	ck_assert(!agent_table_has_news(t));
	agent_table_clear(t);
	ck_assert_uint_eq(agent_table_open(t), 0);
	agent_table_free(t);
}
END_TEST

/* --- the kernel ----------------------------------------------------------------------------------
 */

struct pair {
	int client, server;
	uint16_t sport;
};

static struct pair connect_pair(int listener, int family, const void *address, socklen_t len)
{
	struct pair p = {.client = socket(family, SOCK_STREAM, 0)};
	struct sockaddr_in6 own;
	socklen_t own_len = sizeof(own);

	ck_assert_int_eq(connect(p.client, address, len), 0);
	p.server = accept(listener, NULL, NULL);
	ck_assert_int_ge(p.server, 0);
	ck_assert_int_eq(getsockname(p.client, (struct sockaddr *)&own, &own_len), 0);
	p.sport = ntohs(own.sin6_port); /* at the same place for both families */
	return p;
}

static void wait_event(const struct agent_sockets *s)
{
	struct pollfd fd = {.fd = agent_sockets_fd(s), .events = POLLIN};

	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
}

/* Connections to two addresses of a prefix from one client port are two, each with its address; of
 * other prefixes and ports they are none. */
START_TEST(sockets_of_a_prefix)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(8080), .sin_addr = {htonl(0x7f000701)}};
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(8080)};
	struct agent_vip prefix = {.host_bits = 8, .port = 8000, .port_end = 8080};
	struct agent_sockets *s;
	struct agent_news news[16];
	struct error err;

	netns_enter(netns_new());
	int listener = socket(AF_INET6, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
	ck_assert_int_eq(listen(listener, 16), 0);
	ck_assert_int_eq(ip_addr_parse("127.0.7.0", &prefix.address), 0);
	ck_assert_int_eq(agent_sockets_open(&s, &err), 0);
	struct agent_table *t = agent_table_new();
	struct pair a = connect_pair(listener, AF_INET, &to, sizeof(to));
	to.sin_addr.s_addr = htonl(0x7f000702);
	struct pair b = connect_pair(listener, AF_INET, &to, sizeof(to));

	ck_assert_int_eq(agent_sockets_dump(s, t, &prefix, 1, &err), 0);
	ck_assert_uint_eq(agent_table_take(t, news, 16), 2);
	ck_assert_int_eq(news[0].key.dst.b[15] + news[1].key.dst.b[15], 1 + 2);
	ck_assert_int_eq(news[0].key.dst.b[14] * news[1].key.dst.b[14], 7 * 7);
	struct agent_vip other = prefix;
	struct agent_table *none = agent_table_new();
	other.port_end = 8079;
	ck_assert_int_eq(agent_sockets_dump(s, none, &other, 1, &err), 0);
	other = prefix;
	other.address.b[14] = 8;
	ck_assert_int_eq(agent_sockets_dump(s, none, &other, 1, &err), 0);
	ck_assert_uint_eq(agent_table_open(none), 0);
	close(a.client);
	close(a.server);
	ck_assert_int_eq(agent_sockets_dump(s, t, &prefix, 1, &err), 0);
	ck_assert_uint_eq(agent_table_take(t, news, 16), 1);
	ck_assert(news[0].ended && news[0].key.dst.b[15] == 1 && news[0].key.sport == a.sport);
	close(b.client);
	close(b.server);
	close(listener);
	agent_table_free(t);
	agent_table_free(none);
	agent_sockets_close(s);
}
END_TEST

/* The server of [::]:8080 as it sees an IPv4 and an IPv6 client; its own outgoing connections and
 * other ports are none of the VIP's. */
START_TEST(sockets_of_the_kernel)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(8080)};
	struct sockaddr_in v4 = {.sin_family = AF_INET,
				 .sin_port = htons(8080),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 v6 = any;
	struct agent_vip vips[2] = {{.port = 8080, .proto = IPPROTO_TCP}, {.port = 0}};
	struct agent_sockets *s;
	struct agent_news news[16];
	struct error err;

	netns_enter(netns_new());
	int listener = socket(AF_INET6, SOCK_STREAM, 0);
	v6.sin6_addr = in6addr_loopback;
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
	ck_assert_int_eq(listen(listener, 16), 0);
	ck_assert_int_eq(ip_addr_parse("127.0.0.1", &vips[0].address), 0);
	ck_assert_int_eq(ip_addr_parse("::1", &vips[1].address), 0);
	ck_assert_int_eq(agent_sockets_open(&s, &err), 0);
	struct agent_table *t = agent_table_new();
	struct pair a = connect_pair(listener, AF_INET, &v4, sizeof(v4));
	struct pair b = connect_pair(listener, AF_INET6, &v6, sizeof(v6));

	ck_assert_int_eq(agent_sockets_dump(s, t, vips, 1, &err), 0);
	ck_assert_uint_eq(agent_table_open(t), 1);
	ck_assert_uint_eq(agent_table_take(t, news, 16), 1);
	ck_assert(!news[0].ended && news[0].key.sport == a.sport && news[0].key.dport == 8080);
	ck_assert(ip_addr_is_v4(&news[0].key.src));
	/* Any port of ::1: both ends of b are connections of that address. */
	ck_assert_int_eq(agent_sockets_dump(s, t, vips, 2, &err), 0);
	ck_assert_uint_eq(agent_table_open(t), 3);
	ck_assert_uint_eq(agent_table_take(t, news, 16), 2);
	ck_assert_uint_eq(news[0].key.proto, IPPROTO_TCP);

	/* The end of one comes as an event; another is aborted, whose event names no
	 * peer any more: the next dump finds it. */
	struct linger reset = {.l_onoff = 1};
	close(a.client);
	close(a.server);
	while (!agent_table_has_news(t)) { /* the other end's event may come first */
		wait_event(s);
		ck_assert_int_eq(agent_sockets_destroyed(s, t, vips, 1, 12345), 0);
	}
	ck_assert_uint_eq(agent_table_take(t, news, 16), 1);
	ck_assert(news[0].ended && news[0].at_ms == 12345 && news[0].key.sport == a.sport);
	setsockopt(b.server, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(b.server);
	close(b.client);
	ck_assert_int_eq(agent_sockets_dump(s, t, vips, 2, &err), 0);
	ck_assert_uint_eq(agent_table_open(t), 0);
	ck_assert_uint_eq(agent_table_take(t, news, 16), 2);
	ck_assert(news[0].ended && news[1].ended);

	/* A dump that shows nothing ends nothing that the kernel knows by its cookie. */
	struct pair c = connect_pair(listener, AF_INET, &v4, sizeof(v4));
	ck_assert_int_eq(agent_sockets_dump(s, t, vips, 1, &err), 0);
	struct agent_vip other = vips[0];
	other.proto = IPPROTO_UDP;
	ck_assert_int_eq(agent_sockets_dump(s, t, &other, 1, &err), 0);
	ck_assert_uint_eq(agent_table_open(t), 1);
	close(c.client);
	close(c.server);
	close(listener);
	agent_table_free(t);
	agent_sockets_close(s);
}
END_TEST

static uint64_t wait_orphans(struct agent_orphans *o, const struct agent_vip *vip)
{
	struct pollfd fd = {.fd = agent_orphans_fd(o), .events = POLLIN};

	poll(&fd, 1, 300);
	return agent_orphans_read(o, vip, 1);
}

/* RSTs that end a connection or refuse one are no orphans' answers. */
START_TEST(only_answers_to_strangers_are_orphans)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
				 .sin_port = htons(8081),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct agent_vip vip = {.port = 8081};
	struct linger reset = {.l_onoff = 1};
	struct agent_orphans *o;
	struct error err;

	netns_enter(netns_new());
	ck_assert_int_eq(ip_addr_parse("127.0.0.1", &vip.address), 0);
	ck_assert_int_eq(agent_orphans_open(&o, &err), 0);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_ne(connect(client, (struct sockaddr *)&v4, sizeof(v4)), 0); /* refused */
	close(client);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&v4, sizeof(v4)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	struct pair a = connect_pair(listener, AF_INET, &v4, sizeof(v4));
	setsockopt(a.server, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(a.server); /* ends with a RST that bears an ACK */
	close(a.client);
	ck_assert_uint_eq(wait_orphans(o, &vip), 0);

	/* A bare ACK to a port where it can belong to nothing. */
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
	uint8_t segment[20] = {0x30, 0x39, 0x1f, 0x91, 0, 0, 0, 1, 0, 0,
			       0,    7,	   0x50, 0x10, 0, 0, 0, 0, 0, 0};
	uint32_t sum = 2 * (0x7f00 + 1) + IPPROTO_TCP + sizeof(segment);
	for (unsigned i = 0; i < sizeof(segment); i += 2)
		sum += (uint32_t)segment[i] << 8 | segment[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	segment[16] = (uint8_t)(sum >> 8);
	segment[17] = (uint8_t)sum;
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(sendto(raw, segment, sizeof(segment), 0, (struct sockaddr *)&v4,
					sizeof(v4)),
				 sizeof(segment));
	ck_assert_uint_eq(wait_orphans(o, &vip), 5);
	vip.port = 80; /* of another VIP */
	sendto(raw, segment, sizeof(segment), 0, (struct sockaddr *)&v4, sizeof(v4));
	ck_assert_uint_eq(wait_orphans(o, &vip), 0);
	close(raw);
	close(listener);
	agent_orphans_close(o);
}
END_TEST

/* --- options -------------------------------------------------------------------------------------
 */

START_TEST(options)
{
	static const struct {
		const char *vip;
		const char *address; /* NULL: refused */
		unsigned port, proto;
	} vips[] = {
		{"10.9.0.100:80", "10.9.0.100", 80, 0},
		{"10.9.0.100:0/udp", "10.9.0.100", 0, IPPROTO_UDP},
		{"[fd09::100]:65535/tcp", "fd09::100", 65535, IPPROTO_TCP},
		{"10.9.0.100:65536", NULL, 0, 0},
		{"10.9.0.100:", NULL, 0, 0},
		{"10.9.0.100:8x", NULL, 0, 0},
		{":80", NULL, 0, 0},
		{"[fd09::100:80", NULL, 0, 0},
		{"10.9.0.100:80/", NULL, 0, 0},
		{"10.9.0.100:80/sctp", NULL, 0, 0},
		{"", NULL, 0, 0},
		{"00000000000000000000000000000000000000000000000000000000000000000000000000000000"
		 "00000000000000000000:1",
		 NULL, 0, 0},
	};
	char path[] = "/tmp/test_agent.XXXXXX";
	int fd = mkstemp(path);
	struct error err;

	ck_assert_int_eq(write(fd, "secret-token\nmore\n", 18), 18);
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(vips); i++) {
		const char *argv[] = {"x",	   "--url",	   "unix:/a", "--agent",
				      "a1",	   "--token-file", path,      "--vip",
				      vips[i].vip, "--interval",   "50",      NULL};
		struct agent_options o;
		struct ip_addr address;
		int rc = agent_options_parse((int)ARRAY_LEN(argv) - 1, (char **)argv, &o, &err);
		ck_assert_msg((rc == 0) == (vips[i].address != NULL), "%s", vips[i].vip);
		if (rc)
			continue;
		ck_assert_str_eq(o.token, "secret-token");
		ck_assert_str_eq(o.id, "a1");
		ck_assert_uint_eq(o.interval_ms, 50);
		ck_assert_uint_eq(o.n_vips, 1);
		ck_assert_int_eq(ip_addr_parse(vips[i].address, &address), 0);
		ck_assert(ip_addr_equal(&address, &o.vips[0].address));
		ck_assert_uint_eq(o.vips[0].port, vips[i].port);
		ck_assert_uint_eq(o.vips[0].proto, vips[i].proto);
	}
	unlink(path);
}
END_TEST

START_TEST(urls_and_certificates)
{
	static const struct {
		const char *url, *option, *value;
		bool good;
	} lines[] = {
		{"https://lb.example:8443", "--ca-file", "/ca", true},
		{"http://127.0.0.1:8080", "--ca-file", "/ca", true},
		{"unix:relative", "--ca-file", "/ca", false},
		{"ftp://x", "--ca-file", "/ca", false},
		{"https://x", "--cert", "/cert", false},
		{"https://x", "--key", "/key", false},
	};
	char path[] = "/tmp/test_agent.XXXXXX";
	int fd = mkstemp(path);
	struct agent_options o;
	struct error err;

	ck_assert_int_eq(write(fd, "secret\n", 7), 7);
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		const char *argv[] = {
			"x",  "--url",	       lines[i].url,   "--agent", "a1", "--token-file",
			path, lines[i].option, lines[i].value, NULL};
		int rc = agent_options_parse((int)ARRAY_LEN(argv) - 1, (char **)argv, &o, &err);
		ck_assert_msg((rc == 0) == lines[i].good, "%s %s", lines[i].url, lines[i].option);
	}
	const char *both[] = {"x",  "--url",  "https://x", "--agent", "a1", "--token-file",
			      path, "--cert", "/c",	   "--key",   "/k", NULL};
	ck_assert_int_eq(agent_options_parse((int)ARRAY_LEN(both) - 1, (char **)both, &o, &err), 0);
	ck_assert_str_eq(o.cert, "/c");
	ck_assert_str_eq(o.key, "/k");
	ck_assert_ptr_null(o.ca_file);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agent_table");
	TCase *tc = tcase_create("agent_table");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, the_table_tells_what_is);
	tcase_add_test(tc, the_table_is_bounded_while_nobody_listens);
	tcase_add_test(tc, sockets_of_the_kernel);
	tcase_add_test(tc, sockets_of_a_prefix);
	tcase_add_test(tc, only_answers_to_strangers_are_orphans);
	tcase_add_test(tc, options);
	tcase_add_test(tc, urls_and_certificates);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
