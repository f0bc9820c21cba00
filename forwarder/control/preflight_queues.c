/* What lies between a card and the queues that workers read: RSS, rings, and offloads that merge or
 * change packets. All by the ioctl of ethtool(8); what a driver does not tell is passed by. */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "control/links.h"
#include "control/preflight_report.h"
#include "io/xsk_socket.h"

#define FEATURES_MAX 1024u /* bits; the kernel of today has some 60 */
#define RSS_MAX 65536u

struct card {
	const struct preflight *p;
	struct findings *r;
	const struct xsk_iface *dev;
	int fd;
};

/* One question of ethtool; false if the driver does not answer it. */
static bool ask(const struct card *c, void *command)
{
	struct ifreq req = {.ifr_data = command};

	memcpy(req.ifr_name, c->dev->name, sizeof(req.ifr_name));
	return ioctl(c->fd, SIOCETHTOOL, &req) == 0;
}

/* --- offloads ------------------------------------------------------------------------------------
 */

struct features {
	unsigned n;
	struct ethtool_gstrings *names;
	struct ethtool_gfeatures *blocks;
};

static bool read_features(const struct card *c, struct features *out)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t n;
	} count = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};

	*out = (struct features){.n = 0};
	if (!ask(c, &count) || !count.info.sset_mask || !count.n || count.n > FEATURES_MAX)
		return false;
	unsigned n_blocks = (count.n + 31) / 32;
	out->names = calloc(1, sizeof(*out->names) + count.n * ETH_GSTRING_LEN);
	out->blocks = calloc(1, sizeof(*out->blocks) + n_blocks * sizeof(out->blocks->features[0]));
	if (!out->names || !out->blocks)
		return false;
	*out->names = (struct ethtool_gstrings){
		.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = count.n};
	*out->blocks = (struct ethtool_gfeatures){.cmd = ETHTOOL_GFEATURES, .size = n_blocks};
	if (!ask(c, out->names) || !ask(c, out->blocks))
		return false;
	out->n = count.n;
	return true;
}

static bool has_feature(const struct features *f, const char *name)
{
	for (unsigned i = 0; i < f->n; i++) {
		const char *text = (const char *)f->names->data + (size_t)i * ETH_GSTRING_LEN;
		if (!strncmp(text, name, ETH_GSTRING_LEN))
			return f->blocks->features[i / 32].active >> (i % 32) & 1;
	}
	return false;
}

/* True if the host is in some VLAN there. */
static bool has_vlans(int ifindex)
{
	uint64_t ids[VLAN_IDS / 64] = {0}, any = 0;
	struct links ls = {0};
	struct rtnl rtnl;
	struct error err;

	if (rtnl_open(&rtnl, &err))
		return false;
	if (links_read(&ls, &rtnl) >= 0)
		links_vlans(&ls, ifindex, ids);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		any |= ids[i];
	links_free(&ls);
	rtnl_close(&rtnl);
	return any != 0;
}

static void report_tags(const struct card *c)
{
	const char *name = c->dev->name;
	char fix[64];

	snprintf(fix, sizeof(fix), "ethtool -K %s rxvlan off", name);
	if (has_vlans(c->dev->ifindex))
		report_note(c->r, fix,
			    "%s: the card takes VLAN tags off, so concuryd does not see by which "
			    "VLAN a packet comes: mode nat does not work there, nor path MTU "
			    "discovery",
			    name);
	else
		report_note(c->r, fix,
			    "%s: the card takes VLAN tags off; needed off where VIPs are tagged",
			    name);
}

static void check_offloads(const struct card *c)
{
	struct features f;
	char fix[64];

	if (read_features(c, &f)) {
		snprintf(fix, sizeof(fix), "ethtool -K %s lro off", c->dev->name);
		if (has_feature(&f, "rx-lro"))
			report_block(c->r, fix,
				     "%s: LRO is on; drivers refuse XDP with it, or merge packets",
				     c->dev->name);
		snprintf(fix, sizeof(fix), "ethtool -K %s rx-gro-hw off", c->dev->name);
		if (has_feature(&f, "rx-gro-hw"))
			report_note(c->r, fix,
				    "%s: GRO in hardware is on; drivers switch it off for XDP, or "
				    "refuse XDP",
				    c->dev->name);
		if (has_feature(&f, "rx-vlan-hw-parse"))
			report_tags(c);
	}
	free(f.names);
	free(f.blocks);
}

/* --- rings and channels --------------------------------------------------------------------------
 */

static void check_rings(const struct card *c)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};
	char fix[64];

	if (!ask(c, &ring) || ring.rx_pending <= XSK_FILL_SIZE)
		return;
	snprintf(fix, sizeof(fix), "ethtool -G %s rx %u", c->dev->name, XSK_FILL_SIZE);
	report_note(c->r, fix,
		    "%s: an RX ring of %u is never full: %u buffers are given to each queue",
		    c->dev->name, ring.rx_pending, XSK_FILL_SIZE);
}

/* These drivers take a second queue for each one, to transmit what XDP sends. */
static void check_channels(const struct card *c)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ethtool_channels ch = {.cmd = ETHTOOL_GCHANNELS};
	char fix[64];

	if (!ask(c, &info) || strcmp(info.driver, "ena") != 0 || !ask(c, &ch) ||
	    ch.combined_count <= ch.max_combined / 2)
		return;
	snprintf(fix, sizeof(fix), "ethtool -L %s combined %u", c->dev->name, ch.max_combined / 2);
	report_block(c->r, fix, "%s: ena takes XDP with at most half of its %u channels",
		     c->dev->name, ch.max_combined);
}

/* --- RSS -----------------------------------------------------------------------------------------
 */

/* How many queues the indirection table names; 0 if the driver does not tell. */
static unsigned queues_named(const struct card *c)
{
	struct ethtool_rxfh size = {.cmd = ETHTOOL_GRSSH};
	unsigned n = 0;

	if (!ask(c, &size) || !size.indir_size || size.indir_size > RSS_MAX)
		return 0;
	struct ethtool_rxfh *table =
		calloc(1, sizeof(*table) + size.indir_size * sizeof(uint32_t) + size.key_size);
	bool *named = calloc(c->dev->n_queues, sizeof(*named));
	if (table && named) {
		*table = (struct ethtool_rxfh){.cmd = ETHTOOL_GRSSH,
					       .indir_size = size.indir_size,
					       .key_size = size.key_size};
		bool told = ask(c, table);
		for (unsigned i = 0; told && i < size.indir_size; i++) {
			uint32_t queue = table->rss_config[i];
			if (queue >= c->dev->n_queues || named[queue])
				continue;
			named[queue] = true;
			n++;
		}
	}
	free(table);
	free(named);
	return n;
}

static void check_hashing(const struct card *c)
{
	static const struct {
		uint32_t type;
		const char *name, *text;
	} flows[] = {{TCP_V4_FLOW, "tcp4", "TCP over IPv4"},
		     {TCP_V6_FLOW, "tcp6", "TCP over IPv6"},
		     {UDP_V4_FLOW, "udp4", "UDP over IPv4"},
		     {UDP_V6_FLOW, "udp6", "UDP over IPv6"}};
	char fix[80];

	for (size_t i = 0; i < ARRAY_LEN(flows); i++) {
		struct ethtool_rxnfc q = {.cmd = ETHTOOL_GRXFH, .flow_type = flows[i].type};
		if (!ask(c, &q) || (q.data & RXH_L4_B_0_1))
			continue;
		snprintf(fix, sizeof(fix), "ethtool -N %s rx-flow-hash %s sdfn", c->dev->name,
			 flows[i].name);
		report_note(c->r, fix,
			    "%s: %s is spread over the queues by its addresses alone: one "
			    "client's flows share a worker",
			    c->dev->name, flows[i].text);
	}
}

static void check_rss(const struct card *c)
{
	char fix[64];
	unsigned n = c->dev->n_queues;

	if (n < 2)
		return;
	unsigned named = queues_named(c);
	snprintf(fix, sizeof(fix), "ethtool -X %s equal %u", c->dev->name, n);
	if (named && named < n)
		report_note(c->r, fix, "%s: RSS spreads packets over %u of %u queues", c->dev->name,
			    named, n);
	else if (named)
		report_ok(c->r, "%s: RSS spreads packets over all %u queues", c->dev->name, n);
	check_hashing(c);
}

void preflight_queues(const struct preflight *p, const struct xsk_iface *dev, int fd,
		      struct findings *r)
{
	const struct card c = {.p = p, .r = r, .dev = dev, .fd = fd};

	check_offloads(&c);
	check_rings(&c);
	check_channels(&c);
	check_rss(&c);
}
