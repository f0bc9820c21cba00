/* concury-agent's command line. */
#pragma once

#include <netinet/in.h>

#include "base/addr.h"
#include "base/error.h"

#define AGENT_VIPS_MAX 64

/** What to watch: connections of this local address, or of all of a prefix. */
struct agent_vip {
	struct ip_addr address;
	uint8_t host_bits; /* low bits of it that do not matter */
	uint16_t port; /* host order; 0 = any; of a range, its first */
	uint16_t port_end; /* its last; 0 = port alone */
	uint8_t proto; /* IPPROTO_TCP, IPPROTO_UDP; 0 = both */
};

static inline bool agent_vip_has_port(const struct agent_vip *v, uint16_t port)
{
	return !v->port || port == v->port || (port > v->port && port <= v->port_end);
}

static inline bool agent_vip_has_address(const struct agent_vip *v, const struct ip_addr *a)
{
	struct ip_addr first = ip_addr_mask(a, v->host_bits);

	return ip_addr_is_v4(a) == ip_addr_is_v4(&v->address) && ip_addr_equal(&first, &v->address);
}

enum agent_action { AGENT_RUN, AGENT_HELP, AGENT_VERSION };

struct agent_options {
	enum agent_action action;
	const char *url; /* "https://HOST:PORT", "http://HOST:PORT" or "unix:PATH" */
	const char *ca_file; /* NULL = the system's; so the next: none */
	const char *cert;
	const char *key;
	const char *id;
	char token[132]; /* the file's first line */
	unsigned interval_ms;
	unsigned n_vips; /* 0: what the forwarder says */
	struct agent_vip vips[AGENT_VIPS_MAX];
};

extern const char agent_help[];

/** 0, or -EINVAL and errno of reading the token file, err naming the option. */
MUST_CHECK int agent_options_parse(int argc, char **argv, struct agent_options *o,
				   struct error *err);
