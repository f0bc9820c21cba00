#include "api/client/agent_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_MS 1000u
#define INTERVAL_MIN_MS 50u
#define INTERVAL_MAX_MS 60000u

const char agent_help[] =
	"concury-agent: tells Concury of this backend's connections\n"
	"\n"
	"  --url URL          https://HOST:PORT, http://HOST:PORT or unix:PATH of "
	"concuryd's API\n"
	"  --agent ID         the agent's id there\n"
	"  --token-file FILE  its token, in the file's first line\n"
	"  --ca-file FILE     authorities that the API's certificate may come from "
	"(the system's)\n"
	"  --cert FILE --key FILE\n"
	"                     the agent's own certificate, where the API wants one\n"
	"  --vip ADDR[/LEN]:PORT[-PORT][/tcp|/udp]\n"
	"                     watch this local address or prefix (repeatable; IPv6 as "
	"[ADDR]:PORT; port 0: any)\n"
	"                     in place of the VIP that concuryd names\n"
	"  --interval MS      how often to report (default 1000)\n"
	"  --version, --help\n";

static int parse_protocol(const char *text, uint8_t *proto)
{
	*proto = 0;
	if (!text)
		return 0;
	if (!strcmp(text, "tcp"))
		*proto = IPPROTO_TCP;
	else if (!strcmp(text, "udp"))
		*proto = IPPROTO_UDP;
	else
		return -EINVAL;
	return 0;
}

/* "80", "8000-8099"; the rest of text is at *end. */
static int parse_ports(const char *text, struct agent_vip *out, const char **end)
{
	unsigned long n[2] = {0, 0};

	for (unsigned i = 0; i < 2; i++) {
		size_t digits = strspn(text, "0123456789");
		if (!digits || digits > 5)
			return -EINVAL;
		n[i] = strtoul(text, NULL, 10);
		text += digits;
		if (*text != '-' || i)
			break;
		text++;
	}
	if (n[0] > UINT16_MAX || n[1] > UINT16_MAX || (n[1] && (!n[0] || n[1] < n[0])))
		return -EINVAL;
	out->port = (uint16_t)n[0];
	out->port_end = (uint16_t)n[1];
	*end = text;
	return 0;
}

/* "10.9.0.100:80", "[2001:db8::1]:443/tcp", "10.9.0.0/24:8000-8099" */
static int parse_vip(const char *text, struct agent_vip *out)
{
	char copy[96];

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return -EINVAL;
	const char *protocol;
	char *port = strrchr(copy, ':');
	if (!port)
		return -EINVAL;
	*port++ = '\0';
	char *address = copy;
	size_t len = strlen(address);
	if (*address == '[') {
		if (address[len - 1] != ']')
			return -EINVAL;
		address[len - 1] = '\0';
		address++;
	}
	if (parse_ports(port, out, &protocol) ||
	    ip_prefix_parse(address, &out->address, &out->host_bits) ||
	    (*protocol && *protocol != '/'))
		return -EINVAL;
	return parse_protocol(*protocol ? protocol + 1 : NULL, &out->proto);
}

static int read_token(const char *path, struct agent_options *o, struct error *err)
{
	FILE *f = fopen(path, "re");

	if (!f)
		return error_set(err, -errno, "--token-file %s: %s", path, strerror(errno));
	char *line = fgets(o->token, sizeof(o->token), f);
	fclose(f);
	if (line)
		line[strcspn(line, "\r\n")] = '\0';
	if (!line || !*line)
		return error_set(err, -EINVAL, "--token-file %s: no token in its first line", path);
	return 0;
}

static int parse_option(int option, const char *value, struct agent_options *o, struct error *err)
{
	unsigned long n;

	switch (option) {
	case 'u':
		if (strncmp(value, "http://", 7) != 0 && strncmp(value, "https://", 8) != 0 &&
		    strncmp(value, "unix:/", 6) != 0)
			return error_set(err, -EINVAL,
					 "--url %s: https://HOST:PORT, http://HOST:PORT or "
					 "unix:/PATH is needed",
					 value);
		o->url = value;
		return 0;
	case 'A':
		o->ca_file = value;
		return 0;
	case 'C':
		o->cert = value;
		return 0;
	case 'K':
		o->key = value;
		return 0;
	case 'a':
		o->id = value;
		return 0;
	case 't':
		return read_token(value, o, err);
	case 'v':
		if (o->n_vips == AGENT_VIPS_MAX)
			return error_set(err, -EINVAL, "--vip: at most %d", AGENT_VIPS_MAX);
		if (parse_vip(value, &o->vips[o->n_vips]))
			return error_set(err, -EINVAL,
					 "--vip %s: ADDR[/LEN]:PORT[-PORT][/tcp|/udp] is needed",
					 value);
		o->n_vips++;
		return 0;
	case 'i':
		n = strspn(value, "0123456789") == strlen(value) ? strtoul(value, NULL, 10) : 0;
		if (n < INTERVAL_MIN_MS || n > INTERVAL_MAX_MS)
			return error_set(err, -EINVAL, "--interval %s: %u to %u", value,
					 INTERVAL_MIN_MS, INTERVAL_MAX_MS);
		o->interval_ms = (unsigned)n;
		return 0;
	case 'V':
		o->action = AGENT_VERSION;
		return 0;
	case 'h':
		o->action = AGENT_HELP;
		return 0;
	default:
		return error_set(err, -EINVAL, "an option is not known or lacks its value; --help");
	}
}

int agent_options_parse(int argc, char **argv, struct agent_options *o, struct error *err)
{
	static const struct option names[] = {
		{"url", required_argument, NULL, 'u'},
		{"agent", required_argument, NULL, 'a'},
		{"token-file", required_argument, NULL, 't'},
		{"ca-file", required_argument, NULL, 'A'},
		{"cert", required_argument, NULL, 'C'},
		{"key", required_argument, NULL, 'K'},
		{"vip", required_argument, NULL, 'v'},
		{"interval", required_argument, NULL, 'i'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, rc = 0;

	*o = (struct agent_options){.interval_ms = INTERVAL_MS};
	opterr = 0;
	optind = 1;
	while (!rc && (option = getopt_long(argc, argv, "", names, NULL)) != -1)
		rc = parse_option(option, optarg, o, err);
	if (rc || o->action != AGENT_RUN)
		return rc;
	if (optind < argc)
		return error_set(err, -EINVAL, "%s: not an option", argv[optind]);
	if (!o->url || !o->id || !o->token[0])
		return error_set(err, -EINVAL, "--url, --agent and --token-file are needed");
	if (!o->cert != !o->key)
		return error_set(err, -EINVAL, "--cert and --key go together");
	return 0;
}
