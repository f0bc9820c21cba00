/* How often an address may fail to log in. Bounded: when the table is full, the address that has
 * failed least gives way. */
#pragma once

#include <pthread.h>

#include "base/addr.h"

#define RATE_ADDRESSES 1024u
#define RATE_BURST 10u      /* failures at once */
#define RATE_MS 6000u       /* for which each of them counts */

/** Who fails: an IPv4 address, or the IPv6 /64 that one customer has. */
struct rate_key {
	uint8_t b[16];
};

struct rate_limit {
	pthread_mutex_t lock;
	struct rate_entry {
		struct rate_key key;
		uint64_t until_ms; /* when all its failures have stopped to count; past = free */
	} entries[RATE_ADDRESSES];
};

/** The key of an address. Thread: any. */
struct rate_key rate_key_of(const struct ip_addr *a);

void rate_limit_init(struct rate_limit *r);
void rate_limit_free(struct rate_limit *r);

/** Note a failure. True if it is the one that shuts the address out. Thread: any. */
bool rate_limit_fail(struct rate_limit *r, const struct rate_key *key);

/** 0, or for how many seconds the address must wait. Thread: any. */
MUST_CHECK uint32_t rate_limit_wait_s(struct rate_limit *r, const struct rate_key *key);
