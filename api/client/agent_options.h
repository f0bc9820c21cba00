/* concury-agent's command line. */
#pragma once

#include <netinet/in.h>

#include "base/addr.h"
#include "base/error.h"

#define AGENT_VIPS_MAX 64

/** What to watch: connections of this local address. */
struct agent_vip {
	struct ip_addr address;
	uint16_t port; /* host order; 0 = any */
	uint8_t proto; /* IPPROTO_TCP, IPPROTO_UDP; 0 = both */
};

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
