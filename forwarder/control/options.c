#include "control/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

const char options_help[] =
	"usage: concuryd --interface IF [--interface IF]... [options]\n"
	"\n"
	"  --interface IF       serve this interface (repeatable; traffic may leave by another "
	"one);\n"
	"                       of a bond its slaves are served, of a VLAN its parent\n"
	"  --database FILE      SQLite file, made if absent (" OPTIONS_DATABASE ")\n"
	"  --state-dir DIR      flow slots and rings (" OPTIONS_STATE_DIR ")\n"
	"  --listen [http:|https:]ADDR:PORT | unix:PATH\n"
	"                       where the HTTP API is (" OPTIONS_LISTEN "; repeatable)\n"
	"  --listen-read-only ADDR:PORT | unix:PATH\n"
	"                       more of them, for looking on: they take GET alone\n"
	"  --token-file FILE    more tokens, a line each: ROLE NAME TOKEN (SIGHUP: read again)\n"
	"  --tls-cert FILE --tls-key FILE\n"
	"                       serve TLS (PEM; SIGHUP: read again)\n"
	"  --tls-client-ca FILE\n"
	"                       ask clients for a certificate of these authorities\n"
	"  --cors-origin URL    web pages of this origin may use the API (repeatable)\n"
	"  --web DIR            the dashboard's files, served at / (those installed with "
	"concuryd)\n"
	"  --workers N          forwarding threads (one for each RX queue, at most cores - 1)\n"
	"  --flows N            flows that are remembered, all VIPs together (1M, or what fits)\n"
	"  --xdp-mode MODE      auto, zerocopy, copy or generic (auto)\n"
	"  --checksum MODE      auto, keep or complete (auto)\n"
	"  --keep-ipc-lock      keep CAP_IPC_LOCK where locked memory has a limit, to serve "
	"interfaces "
	"that\n"
	"                       vanish and come back\n"
	"  --check              look at the machine, print what must be mended, and exit\n"
	"  --init-token         make the first token of the API, print it, and exit\n"
	"  --detach             remove the steer program from the interfaces, and exit\n"
	"  --version, --help\n"
	"\n"
	"concuryd stays in the foreground and adds no addresses: put each VIP on an interface, or\n"
	"route it here.\n";

static const char *checksum_mode_name(int mode)
{
	static const char *const names[] = {[CHECKSUM_AUTO] = "auto",
					    [CHECKSUM_KEEP] = "keep",
					    [CHECKSUM_COMPLETE] = "complete"};

	return names[mode];
}

static const char *xdp_mode_word(int mode)
{
	return xdp_mode_name((enum xdp_mode)mode);
}

static int parse_word(const char *option, const char *text, const char *(*name)(int), int last,
		      int *out, struct error *err)
{
	char list[128] = "";

	for (int i = 0; i <= last; i++) {
		size_t len = strlen(list);
		if (!strcmp(text, name(i))) {
			*out = i;
			return 0;
		}
		snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", name(i));
	}
	return error_set(err, -EINVAL, "--%s %s: one of %s", option, text, list);
}

static int parse_number(const char *option, const char *text, uint64_t max, uint64_t *out,
			struct error *err)
{
	size_t len = strlen(text);
	uint64_t n = 0;

	if (len && len <= 19 && strspn(text, "0123456789") == len)
		n = strtoull(text, NULL, 10);
	if (n < 1 || n > max)
		return error_set(err, -EINVAL, "--%s %s: a number from 1 to %llu", option, text,
				 (unsigned long long)max);
	*out = n;
	return 0;
}

static int add_word(const char *option, const char *text, const char **list, unsigned *n,
		    unsigned max, struct error *err)
{
	for (unsigned i = 0; i < *n; i++)
		if (!strcmp(list[i], text))
			return error_set(err, -EINVAL, "--%s %s: named twice", option, text);
	if (*n == max)
		return error_set(err, -EINVAL, "--%s %s: at most %u of them", option, text, max);
	list[(*n)++] = text;
	return 0;
}

static int take_option(int option, struct options *o, struct error *err)
{
	int word = 0;
	int rc = 0;

	switch (option) {
	case 'i':
		return add_word("interface", optarg, o->ifaces, &o->n_ifaces, IFACES_MAX, err);
	case 'l':
		return add_word("listen", optarg, o->listen, &o->n_listen, OPTIONS_LISTEN_MAX, err);
	case 'L':
		return add_word("listen-read-only", optarg, o->listen_read_only,
				&o->n_listen_read_only, OPTIONS_LISTEN_MAX, err);
	case 'o':
		return add_word("cors-origin", optarg, o->cors_origins, &o->n_cors_origins,
				OPTIONS_LISTEN_MAX, err);
	case 'C':
		o->tls_cert = optarg;
		return 0;
	case 'K':
		o->tls_key = optarg;
		return 0;
	case 'A':
		o->tls_client_ca = optarg;
		return 0;
	case 't':
		o->token_file = optarg;
		return 0;
	case 'W':
		o->web = optarg;
		return 0;
	case 'k':
		o->keep_ipc_lock = true;
		return 0;
	case 'd':
		o->database = optarg;
		return 0;
	case 's':
		o->state_dir = optarg;
		return 0;
	case 'w':
		return parse_number("workers", optarg, STATE_WORKERS_MAX, &o->n_workers, err);
	case 'f':
		return parse_number("flows", optarg, STATE_FLOWS_MAX, &o->n_flows, err);
	case 'x':
		rc = parse_word("xdp-mode", optarg, xdp_mode_word, XDP_MODE_GENERIC, &word, err);
		o->xdp_mode = (enum xdp_mode)word;
		return rc;
	case 'c':
		rc = parse_word("checksum", optarg, checksum_mode_name, CHECKSUM_COMPLETE, &word,
				err);
		o->checksum = (enum checksum_mode)word;
		return rc;
	default:
		o->action = (enum action)option;
		return 0;
	}
}

int options_parse(int argc, char **argv, struct options *out, struct error *err)
{
	static const struct option table[] = {
		{"interface", required_argument, NULL, 'i'},
		{"database", required_argument, NULL, 'd'},
		{"state-dir", required_argument, NULL, 's'},
		{"listen", required_argument, NULL, 'l'},
		{"listen-read-only", required_argument, NULL, 'L'},
		{"tls-cert", required_argument, NULL, 'C'},
		{"tls-key", required_argument, NULL, 'K'},
		{"tls-client-ca", required_argument, NULL, 'A'},
		{"token-file", required_argument, NULL, 't'},
		{"cors-origin", required_argument, NULL, 'o'},
		{"web", required_argument, NULL, 'W'},
		{"workers", required_argument, NULL, 'w'},
		{"flows", required_argument, NULL, 'f'},
		{"xdp-mode", required_argument, NULL, 'x'},
		{"checksum", required_argument, NULL, 'c'},
		{"keep-ipc-lock", no_argument, NULL, 'k'},
		{"check", no_argument, NULL, ACTION_CHECK},
		{"init-token", no_argument, NULL, ACTION_INIT_TOKEN},
		{"detach", no_argument, NULL, ACTION_DETACH},
		{"version", no_argument, NULL, ACTION_VERSION},
		{"help", no_argument, NULL, ACTION_HELP},
		{NULL, 0, NULL, 0},
	};

	struct options o = {.database = OPTIONS_DATABASE, .state_dir = OPTIONS_STATE_DIR};

	opterr = 0;
	optind = 0; /* start anew, should it have been used before */
	for (;;) {
		int at = optind ? optind : 1;
		int option = getopt_long(argc, argv, "+:", table, NULL);
		if (option == -1)
			break;
		if (option == ':' || option == '?')
			return error_set(err, -EINVAL, "%s: %s (see --help)", argv[at],
					 option == ':' ? "the option needs a value"
						       : "not an option");
		int rc = take_option(option, &o, err);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return error_set(err, -EINVAL, "%s: not an option (see --help)", argv[optind]);
	if (!o.n_ifaces && (o.action == ACTION_RUN || o.action == ACTION_DETACH))
		return error_set(err, -EINVAL, "--interface is needed: which ones to serve");
	if (!o.tls_cert != !o.tls_key || (o.tls_client_ca && !o.tls_cert))
		return error_set(err, -EINVAL, "--tls-cert and --tls-key go together%s",
				 o.tls_client_ca ? ", and --tls-client-ca with them" : "");
	if (!o.n_listen)
		o.listen[o.n_listen++] = OPTIONS_LISTEN;
	*out = o;
	return 0;
}
