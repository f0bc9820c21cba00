/* Each failure counts for RATE_MS, one after the other, so what an address owes is one number: when
 * its last failure stops to count. (GCRA; the leaky bucket as a virtual schedule) */
#include "api/server/rate_limit.h"

#include "base/clock.h"

struct rate_key rate_key_of(const struct ip_addr *a)
{
	struct rate_key k = {.b = {0}};

	memcpy(k.b, a->b, ip_addr_is_v4(a) ? sizeof(k.b) : sizeof(k.b) / 2);
	return k;
}

void rate_limit_init(struct rate_limit *r)
{
	memset(r, 0, sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
}

void rate_limit_free(struct rate_limit *r)
{
	pthread_mutex_destroy(&r->lock);
}

/* The entry of a key; NULL, and *least the one that may be taken for it. */
static struct rate_entry *find(struct rate_limit *r, const struct rate_key *key,
			       struct rate_entry **least)
{
	*least = &r->entries[0];
	for (unsigned i = 0; i < RATE_ADDRESSES; i++) {
		struct rate_entry *e = &r->entries[i];
		if (e->until_ms && !memcmp(&e->key, key, sizeof(*key)))
			return e;
		if (e->until_ms < (*least)->until_ms)
			*least = e;
	}
	return NULL;
}

bool rate_limit_fail(struct rate_limit *r, const struct rate_key *key)
{
	uint64_t now = clock_now_ms();
	struct rate_entry *least;

	pthread_mutex_lock(&r->lock);
	struct rate_entry *e = find(r, key, &least);
	if (!e) {
		e = least;
		*e = (struct rate_entry){.key = *key};
	}
	if (e->until_ms < now)
		e->until_ms = now;
	e->until_ms += RATE_MS;
	uint64_t owed = e->until_ms - now;
	pthread_mutex_unlock(&r->lock);
	return owed > (RATE_BURST - 1) * RATE_MS && owed <= RATE_BURST * RATE_MS;
}

uint32_t rate_limit_wait_s(struct rate_limit *r, const struct rate_key *key)
{
	uint64_t now = clock_now_ms();
	struct rate_entry *least;

	pthread_mutex_lock(&r->lock);
	const struct rate_entry *e = find(r, key, &least);
	uint64_t until_ms = e ? e->until_ms : 0;
	pthread_mutex_unlock(&r->lock);
	uint64_t owed = until_ms > now ? until_ms - now : 0;
	uint64_t most = (RATE_BURST - 1) * RATE_MS;
	return owed > most ? (uint32_t)((owed - most + 999) / 1000) : 0;
}
