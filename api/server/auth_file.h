/* The token file: who may do what besides the tokens in the database. A line each:
 *
 *	ROLE NAME sha256:HEX     the hash of a token
 *	ROLE NAME TOKEN          the token itself, of at least TOKEN_MIN characters
 *	ROLE NAME cert:NAME      a client certificate with this common name or alternative name
 *	ROLE NAME uid:N          a user of this machine, over a Unix socket
 *
 * Empty lines, and what follows a '#' at the beginning of a line, mean nothing. */
#pragma once

#include "api/server/auth.h"

enum auth_proof { PROOF_TOKEN, PROOF_CERT, PROOF_UID };

struct auth_line {
	char id[ID_LEN];
	enum api_role role;
	enum auth_proof proof;
	uint8_t hash[TOKEN_HASH_LEN];
	char cert[CERT_NAME_LEN];
	uint32_t uid;
};

struct auth_file {
	unsigned n;
	struct auth_line lines[AUTH_FILE_MAX];
};

/** -EINVAL or errno of reading, err naming file and line. Thread: main. */
MUST_CHECK int auth_file_read(const char *path, struct auth_file *out, struct error *err);
