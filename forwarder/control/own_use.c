#include "control/own_use.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "control/own_addresses.h"

#define ESTABLISHED 1
#define PORTS_SHOWN 4u

struct use {
	const struct vip_match *match;
	struct own_addresses own;
	unsigned n;	  /* connections */
	unsigned n_ports; /* of those shown */
	unsigned ports[PORTS_SHOWN];
	bool more_ports;
};

/* The kernel prints an address as 32-bit numbers of its own byte order, whose bytes are the
 * address's. */
static bool read_address(const char *text, struct ip_addr *out)
{
	size_t n = strlen(text) / 8;
	uint32_t words[4];

	if (n != 1 && n != 4)
		return false;
	for (size_t i = 0; i < n; i++)
		if (sscanf(text + 8 * i, "%8x", &words[i]) != 1)
			return false;
	if (n == 1)
		*out = ip_addr_v4(words);
	else
		memcpy(out->b, words, sizeof(out->b));
	return true;
}

static void note_port(struct use *u, unsigned port)
{
	for (unsigned i = 0; i < u->n_ports; i++)
		if (u->ports[i] == port)
			return;
	if (u->n_ports == PORTS_SHOWN)
		u->more_ports = true;
	else
		u->ports[u->n_ports++] = port;
}

/* One socket; what goes on between this host's own addresses never comes by an interface that is
 * served. */
static void look_at(struct use *u, const char *line)
{
	char local[33], remote[33];
	unsigned port, remote_port, state;
	struct ip_addr here, there;

	if (sscanf(line, "%*u: %32[0-9A-F]:%4x %32[0-9A-F]:%4x %2x", local, &port, remote,
		   &remote_port, &state) != 5 ||
	    state != ESTABLISHED || !read_address(local, &here) || !read_address(remote, &there))
		return;
	if (!vip_match_takes(u->match, &here, (uint16_t)port, IPPROTO_TCP) ||
	    own_addresses_have(&u->own, &there))
		return;
	u->n++;
	note_port(u, port);
}

static void look_through(struct use *u, const char *path)
{
	FILE *f = fopen(path, "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		look_at(u, line);
	if (f)
		fclose(f);
}

static void describe(const struct use *u, char text[OWN_USE_LEN])
{
	char address[IP_PREFIX_STRLEN], ports[PORTS_SHOWN * 7 + 8] = "";
	size_t len = 0;

	for (unsigned i = 0; i < u->n_ports; i++)
		len += (size_t)snprintf(ports + len, sizeof(ports) - len, "%s%u", i ? ", " : "",
					u->ports[i]);
	snprintf(text, OWN_USE_LEN,
		 "%s takes packets of %u open connection%s of this host itself (port %s%s), which "
		 "no longer get%s any: give the VIP a port and a protocol of its own, or another "
		 "address",
		 ip_prefix_format(&u->match->address, u->match->host_bits, address), u->n,
		 u->n == 1 ? "" : "s", ports, u->more_ports ? ", ..." : "", u->n == 1 ? "s" : "");
}

bool own_use_ended_by(const struct vip_match *m, char text[OWN_USE_LEN])
{
	struct use u = {.match = m};

	/* Without a list of them what is said may be too much, not too little. */
	if (own_addresses_read(&u.own) == 0 && !own_addresses_within(&u.own, m)) {
		own_addresses_free(&u.own);
		return false;
	}
	look_through(&u, "/proc/thread-self/net/tcp");
	look_through(&u, "/proc/thread-self/net/tcp6");
	own_addresses_free(&u.own);
	if (u.n)
		describe(&u, text);
	return u.n > 0;
}
