/* What concuryctl's commands share: the table of commands and of options, from which the command
 * line is read and help, man page and completion are made; exit codes; the way to the API. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "api/client/ctl_http.h"
#include "base/cpu.h"

#define CTL_ARGS_MAX 32

/* id, exit code, when */
#define CTL_EXITS(X)                                                                               \
	X(OK, 0, "done; with \"apply\", also if there was nothing to change")                      \
	X(FAILED, 1, "refused by concuryd, or a file or an answer cannot be read")                 \
	X(USAGE, 2, "the command line is wrong, or --yes lacks; nothing was changed")              \
	X(UNREACHABLE, 3, "concuryd does not answer at the URL, or not now (HTTP 503)")            \
	X(CONFLICT, 4, "something else is there, or was changed meanwhile (HTTP 409, 412, 428)")   \
	X(DIFFERS, 5, "\"config diff\", \"config apply --dry-run\": there are differences")        \
	X(FAULTY, 6, "\"status\", \"audit\", \"doctor\": what was looked at is not in order")

enum ctl_exit {
#define X(id, code, when) CTL_##id = (code),
	CTL_EXITS(X)
#undef X
};

/* id, long name, letter, value (NULL: a switch), words for completion, help. The first ones, up to
 * HELP, are everywhere. */
#define CTL_OPTIONS(X)                                                                             \
	X(URL, "url", 0, "URL", "",                                                                \
	  "http://HOST[:PORT], https://HOST[:PORT] or unix:/PATH of concuryd's API (CONCURY_URL; " \
	  "http://127.0.0.1:8080)")                                                                \
	X(TOKEN, "token", 0, "TOKEN", "",                                                          \
	  "bearer token (CONCURY_TOKEN, which other users of the machine cannot see)")             \
	X(TOKEN_FILE, "token-file", 0, "FILE", "", "file whose first line is the token")           \
	X(CA_FILE, "ca-file", 0, "FILE", "", "certificates to trust for https, in PEM")            \
	X(CERT, "cert", 0, "FILE", "", "client certificate for mutual TLS, in PEM")                \
	X(KEY, "key", 0, "FILE", "", "its private key")                                            \
	X(OUTPUT, "output", 'o', "FORMAT", "table json",                                           \
	  "table, for people, or json: the API's answer as it is")                                 \
	X(YES, "yes", 'y', NULL, "", "do not ask before what cannot be undone")                    \
	X(VERSION, "version", 0, NULL, "", "print the version")                                    \
	X(HELP, "help", 'h', NULL, "", "help on the program or the command")                       \
	X(DRY_RUN, "dry-run", 'n', NULL, "", "only say what would change")                         \
	X(IF_MATCH, "if-match", 0, "ETAG", "",                                                     \
	  "refuse if it is no longer what \"show\" said (exit 4)")                                 \
	X(FORCE, "force", 0, NULL, "", "cut connections instead of draining; overlap a VIP")       \
	X(OVERRIDE_HOLD, "override-hold", 0, NULL, "",                                             \
	  "also in the first seconds after a reboot, when connections are not known again yet")    \
	X(FILE, "file", 'f', "FILE", "", "the configuration; \"-\" reads standard input")          \
	X(PRUNE, "prune", 0, "HOW", "none drain remove",                                           \
	  "what becomes of objects that the file does not name: none (they stay), drain, remove")  \
	X(FOLLOW, "follow", 'f', NULL, "", "go on until interrupted")                              \
	X(SINCE, "since", 0, "ID", "",                                                             \
	  "events: from behind the one of this id, 0 is all; audit-log: from this time on")        \
	X(KIND, "kind", 0, "KIND", "", "only events of these kinds, separated by commas")          \
	X(VIP, "vip", 0, "VIP", "", "only of this VIP")                                            \
	X(DIP, "dip", 0, "DIP", "", "only of this DIP")                                            \
	X(CLIENT, "client", 0, "ADDRESS", "", "only of this client")                               \
	X(PINNED, "pinned", 0, NULL, "", "only those that are not where their hash says")          \
	X(STATE, "state", 0, "STATE", "half_open established closing unproven",                    \
	  "only in this state")                                                                    \
	X(LIMIT, "limit", 0, "N", "", "at most so many (100)")                                     \
	X(PROTOCOL, "protocol", 0, "WORD", "tcp udp", "for a VIP of both: tcp or udp")             \
	X(CID, "cid", 0, "HEX", "", "a QUIC connection ID, where the VIP's quic is server-id")     \
	X(REASON, "reason", 0, "TEXT", "", "why, for those who look at it later")                  \
	X(TTL, "ttl", 0, "SECONDS", "", "how long it holds")                                       \
	X(AUTHOR, "author", 0, "NAME", "", "only what this token or user has changed")             \
	X(PATH, "path", 0, "PATH", "", "only changes of this, as /v1/vips/web/dips/b1")            \
	X(ROLE, "role", 0, "ROLE", "read operate admin", "what the token permits")                 \
	X(WAIT, "wait", 0, NULL, "", "return when the last connection has ended")                  \
	X(PACKETS, "packets", 0, "N", "", "end after so many (100)")                               \
	X(SECONDS, "seconds", 0, "N", "", "end after this time (10)")                              \
	X(INTERVAL, "interval", 0, "SECONDS", "", "between two looks (1)")

enum ctl_option_id {
#define X(id, ...) OPT_##id,
	CTL_OPTIONS(X)
#undef X
		N_CTL_OPTIONS
};

struct ctl_option {
	const char *id; /* as the table of commands names it */
	const char *name;
	char letter; /* 0 = none */
	const char *value;
	const char *words;
	const char *help;
};

extern const struct ctl_option ctl_options[N_CTL_OPTIONS];

struct ctl;

/** One command line, read. Strings are argv's. */
struct ctl_call {
	const struct ctl_command *command;
	unsigned n_args;
	const char *args[CTL_ARGS_MAX];
	const char *options[N_CTL_OPTIONS]; /* "" for a switch; NULL = not given */
};

struct ctl_command {
	const char *group; /* "" for those of one word */
	const char *verb;
	const char *args;    /* "VIP [DIP] [MEMBER=VALUE]..." */
	const char *options; /* ids of further options, by blanks */
	const char *summary; /* a sentence, for help and man page */
	const char *detail;  /* more of it, for the man page; or NULL */
	int (*run)(struct ctl *c, const struct ctl_call *call);
};

extern const struct ctl_command ctl_commands[];
extern const size_t ctl_n_commands;

/** A run of the program. */
struct ctl {
	struct ctl_target target;
	struct ctl_http *http;
	FILE *out;
	bool json;     /* -o json */
	bool yes;      /* do not ask */
	bool terminal; /* out is one */
	bool colour;
};

/** Ask the API; what is not 2xx is told on standard error. An enum ctl_exit; *out is to be freed in
 *  each case. */
MUST_CHECK int ctl_ask(struct ctl *c, const struct ctl_request *r, struct ctl_answer *out);

/** Tell what an answer that is not 2xx says; its enum ctl_exit. */
MUST_CHECK int ctl_tell(const struct ctl *c, const struct ctl_answer *a);

/** GET, with no more to it. */
MUST_CHECK int ctl_get(struct ctl *c, const struct ctl_path *path, struct ctl_answer *out);

/** The answer as it came, on one line more. */
void ctl_print_raw(struct ctl *c, const struct ctl_answer *a);

/** GET and print: as it came with -o json, else by print. */
MUST_CHECK int ctl_show(struct ctl *c, const struct ctl_path *path,
			void (*print)(struct ctl *c, const json_t *json));

/** Ask a yes or no before something that cannot be undone. CTL_OK: yes; else CTL_FAILED, or
 *  CTL_USAGE because there is neither a terminal nor --yes. */
MUST_CHECK int ctl_confirm(const struct ctl *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** A line of complaint on standard error; returns code. */
int ctl_complain(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline const char *ctl_option(const struct ctl_call *call, enum ctl_option_id id)
{
	return call->options[id];
}

/** A member that is text; "?" if it is not there. */
static inline const char *ctl_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "?";
}
