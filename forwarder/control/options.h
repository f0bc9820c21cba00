/* concuryd's command line. */
#pragma once

#include "control/state_file.h"
#include "io/port_xsk.h"
#include "packet/checksum.h"

#define OPTIONS_DATABASE_DIR "/var/lib/concury"
#define OPTIONS_DATABASE OPTIONS_DATABASE_DIR "/concury.db"
#define OPTIONS_STATE_DIR "/dev/shm/concury"
#define OPTIONS_LISTEN "127.0.0.1:8080"
#define OPTIONS_LISTEN_MAX 8

enum action {
	ACTION_RUN,
	ACTION_CHECK,
	ACTION_DETACH,
	ACTION_INIT_TOKEN,
	ACTION_VERSION,
	ACTION_HELP,
};

struct options {
	enum action action;
	unsigned n_ifaces;
	const char *ifaces[IFACES_MAX]; /* as named; see action_expand_interfaces */
	char iface_names[IFACES_MAX + 1][IF_NAMESIZE]; /* of those that stand in the place of one that was named */
	const char *database;
	const char *state_dir;
	unsigned n_listen;
	const char *listen[OPTIONS_LISTEN_MAX];
	unsigned n_listen_read_only;
	const char *listen_read_only[OPTIONS_LISTEN_MAX];
	const char *web;	/* NULL = the installed one */
	const char *token_file; /* NULL = none; so the next */
	const char *tls_cert;
	const char *tls_key;
	const char *tls_client_ca;
	unsigned n_cors_origins;
	const char *cors_origins[OPTIONS_LISTEN_MAX];
	uint64_t n_workers; /* 0 = the default */
	uint64_t n_flows;   /* 0 = the default */
	enum xdp_mode xdp_mode;
	enum checksum_mode checksum;
	bool keep_ipc_lock;
};

/** What --help prints. */
extern const char options_help[];

/** Read the command line, defaults filled in; strings stay argv's. 0, or -EINVAL with err naming the
 *  option. *out is written only on success. Thread: main. */
MUST_CHECK int options_parse(int argc, char **argv, struct options *out, struct error *err);
