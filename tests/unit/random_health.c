#include "tests/unit/random_health.h"

#include <stdio.h>

static const char *pick(const char *const *texts, unsigned n, unsigned (*rnd)(unsigned n))
{
	return texts[rnd(n)];
}

#define PICK(field, ...)                                                                           \
	do {                                                                                       \
		static const char *const texts[] = {__VA_ARGS__};                                  \
		memset(c->field, 0, sizeof(c->field));                                             \
		snprintf(c->field, sizeof(c->field), "%s", pick(texts, ARRAY_LEN(texts), rnd));    \
	} while (0)

static void random_web(struct health_conf *c, unsigned (*rnd)(unsigned n))
{
	PICK(path, "/", "/healthz?full=1", "/a%20b");
	PICK(host, "", "www.example.org", "example.org:8443");
	PICK(expect_status, "200", "200-299,301", "204,404,500-599");
	c->method = (enum health_method)rnd(3);
	if (c->method != HEALTH_HEAD)
		PICK(expect_body, "", "ok", "regex:^(ok|fine)$", "\xc3\xa4");
	if (c->type == HEALTH_HTTPS)
		c->verify = rnd(2);
}

void random_health(struct health_conf *c, unsigned (*rnd)(unsigned n))
{
	health_conf_defaults(c);
	c->type = (enum health_type)rnd(N_HEALTH_TYPES);
	if (c->type == HEALTH_NONE)
		return;
	c->interval_ms = HEALTH_INTERVAL_MIN_MS + rnd(10000);
	c->timeout_ms = 10 + rnd(10000);
	c->rise = 1 + rnd(100);
	c->fall = 1 + rnd(100);
	c->jitter_percent = rnd(51);
	c->min_up = rnd(DIPS_PER_VIP_MAX + 1);
	c->slow_start_s = rnd(3601);
	c->damping_half_life_s = rnd(3601);
	if (c->type != HEALTH_AGENT)
		c->port = 1 + rnd(65535);
	switch (c->type) {
	case HEALTH_HTTP:
	case HEALTH_HTTPS:
		random_web(c, rnd);
		break;
	case HEALTH_UDP:
		PICK(send, "ping", "hex:00ff", "hex:2a");
		PICK(expect, "pong", "hex:DEADBEEF");
		break;
	case HEALTH_DNS:
		PICK(name, "example.org", "_sip._tcp.example.org", ".");
		c->query_type = (enum health_query)rnd(6);
		c->expect_rcode = (enum health_rcode)rnd(6);
		break;
	default:
		break;
	}
}
