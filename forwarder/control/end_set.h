/* A set of ends (addresses, with or without port and protocol) that may be in use: what is not in it is
 * surely free, so a document of a hundred thousand DIPs looks through all others only for those that
 * are not. Nothing is ever taken out. Control thread. */
#pragma once

#include "base/addr.h"

enum end_kind {
	END_NONE,    /* a free entry */
	END_EXACT,   /* of this port; 0 = of all */
	END_ADDRESS, /* of whatever port */
};

/** Compared as bytes. */
struct end_key {
	struct ip_addr address;
	uint16_t port;
	uint8_t proto;
	uint8_t kind;
};
_Static_assert(sizeof(struct end_key) == 20, "compared as bytes");

struct end_set {
	bool failed; /* without memory: everything may be in it */
	uint32_t n, mask;
	uint64_t seed;
	struct end_key *keys; /* open addressing, at most half full; NULL = none yet */
};

void end_set_add(struct end_set *s, const struct end_key *key);
bool end_set_may_have(const struct end_set *s, const struct end_key *key);
void end_set_free(struct end_set *s);
