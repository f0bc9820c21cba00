/* Entries hang in a hash table and, while they have something to tell, in a list in the order of
 * it. An entry that ended lives until its end is taken. */
#include "api/client/agent_table.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"

struct entry {
	struct agent_key key;
	uint64_t cookie;
	uint64_t since_ms; /* first seen */
	uint64_t seen_ms;  /* begin of the last dump that showed it */
	uint64_t end_ms;
	uint32_t dump; /* number of that dump */
	bool ended;
	bool told_next;	    /* in the list of news */
	struct entry *next; /* in its bucket */
	struct entry *news_prev, *news_next;
};

struct agent_table {
	uint64_t seed;
	struct entry **buckets;
	uint32_t n_buckets; /* a power of two */
	uint32_t n;
	uint32_t n_ended;
	uint32_t dump;
	uint64_t dump_ms;
	bool overflowed;
	struct entry *news_first, *news_last;
};

static uint32_t bucket_of(const struct agent_table *t, const struct agent_key *key)
{
	uint64_t w[3];
	uint64_t h = t->seed;

	memcpy(w, key, sizeof(w));
	for (int i = 0; i < 3; i++) {
		h = (h ^ w[i]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return (uint32_t)(h >> 32) & (t->n_buckets - 1);
}

static struct entry **find(const struct agent_table *t, const struct agent_key *key)
{
	struct entry **at = &t->buckets[bucket_of(t, key)];

	while (*at && memcmp(&(*at)->key, key, sizeof(*key)) != 0)
		at = &(*at)->next;
	return at;
}

static void news_add(struct agent_table *t, struct entry *e)
{
	if (e->told_next)
		return;
	e->told_next = true;
	e->news_next = NULL;
	e->news_prev = t->news_last;
	*(t->news_last ? &t->news_last->news_next : &t->news_first) = e;
	t->news_last = e;
}

static void news_remove(struct agent_table *t, struct entry *e)
{
	e->told_next = false;
	*(e->news_prev ? &e->news_prev->news_next : &t->news_first) = e->news_next;
	*(e->news_next ? &e->news_next->news_prev : &t->news_last) = e->news_prev;
}

static void grow(struct agent_table *t)
{
	uint32_t n = t->n_buckets;
	struct entry **old = t->buckets;
	struct entry **buckets = calloc(2 * (size_t)n, sizeof(struct entry *));

	if (!buckets)
		return; /* longer chains, then */
	t->buckets = buckets;
	t->n_buckets = 2 * n;
	for (uint32_t i = 0; i < n; i++) {
		for (struct entry *e = old[i]; e;) {
			struct entry *next = e->next;
			struct entry **to = &buckets[bucket_of(t, &e->key)];
			e->next = *to;
			*to = e;
			e = next;
		}
	}
	free(old);
}

static struct entry *insert(struct agent_table *t, const struct agent_key *key, uint64_t cookie)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (t->n >= t->n_buckets)
		grow(t);
	e->key = *key;
	e->cookie = cookie;
	struct entry **to = &t->buckets[bucket_of(t, key)];
	e->next = *to;
	*to = e;
	t->n++;
	return e;
}

static void drop(struct agent_table *t, struct entry *e)
{
	struct entry **at = &t->buckets[bucket_of(t, &e->key)];

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	if (e->told_next)
		news_remove(t, e);
	t->n_ended -= e->ended;
	t->n--;
	free(e);
}

static void end(struct agent_table *t, struct entry *e, uint64_t at_ms)
{
	if (t->n_ended == AGENT_ENDS_MAX) {
		t->overflowed = true;
		drop(t, e);
		return;
	}
	e->ended = true;
	e->end_ms = at_ms;
	t->n_ended++;
	news_add(t, e);
}

struct agent_table *agent_table_new(void)
{
	struct agent_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->seed = entropy_u64();
	t->n_buckets = 1024;
	t->buckets = calloc(t->n_buckets, sizeof(struct entry *));
	if (!t->buckets) {
		free(t);
		return NULL;
	}
	return t;
}

void agent_table_clear(struct agent_table *t)
{
	for (uint32_t i = 0; i < t->n_buckets; i++) {
		for (struct entry *e = t->buckets[i], *next; e; e = next) {
			next = e->next;
			free(e);
		}
		t->buckets[i] = NULL;
	}
	t->n = t->n_ended = 0;
	t->news_first = t->news_last = NULL;
	t->overflowed = false;
}

void agent_table_free(struct agent_table *t)
{
	if (!t)
		return;
	agent_table_clear(t);
	free(t->buckets);
	free(t);
}

/* --- what the kernel says ------------------------------------------------------------------------
 */

void agent_table_dump_begin(struct agent_table *t)
{
	t->dump++;
	t->dump_ms = clock_now_ms();
}

bool agent_table_seen(struct agent_table *t, const struct agent_key *key, uint64_t cookie,
		      uint64_t now_ms)
{
	struct entry *e = *find(t, key);

	/* Its end was heard of while the dump was made, or what it shows is what is left of it. */
	if (e && e->ended && e->cookie == cookie)
		return true;
	if (e && e->cookie != cookie) {
		/* Another connection on the same tuple: the end of the first says nothing now. */
		drop(t, e);
		e = NULL;
	}
	if (!e) {
		e = insert(t, key, cookie);
		if (!e)
			return false;
		e->since_ms = now_ms;
		news_add(t, e);
	}
	e->dump = t->dump;
	e->seen_ms = t->dump_ms;
	return true;
}

void agent_table_dump_end(struct agent_table *t,
			  bool (*gone)(void *ctx, const struct agent_key *key, uint64_t cookie),
			  void *ctx)
{
	for (uint32_t i = 0; i < t->n_buckets; i++)
		for (struct entry *e = t->buckets[i], *next; e; e = next) {
			next = e->next;
			if (!e->ended && e->dump != t->dump && gone(ctx, &e->key, e->cookie))
				end(t, e, e->seen_ms);
		}
}

bool agent_table_ended(struct agent_table *t, const struct agent_key *key, uint64_t cookie,
		       uint64_t at_ms)
{
	struct entry *e = *find(t, key);

	if (e && (e->ended || e->cookie != cookie))
		return true; /* known, or of an earlier connection than the one that is there */
	if (!e)
		e = insert(t, key, cookie);
	if (!e)
		return false;
	end(t, e, at_ms);
	return true;
}

/* --- news ----------------------------------------------------------------------------------------
 */

unsigned agent_table_take(struct agent_table *t, struct agent_news *out, unsigned max)
{
	unsigned n = 0;

	while (t->news_first && n < max) {
		struct entry *e = t->news_first;
		out[n++] = (struct agent_news){.key = e->key,
					       .ended = e->ended,
					       .at_ms = e->ended ? e->end_ms : e->since_ms};
		news_remove(t, e);
		if (e->ended)
			drop(t, e);
	}
	return n;
}

bool agent_table_has_news(const struct agent_table *t)
{
	return t->news_first != NULL;
}

void agent_table_all_news(struct agent_table *t)
{
	/* An end that was not taken is among the news. */
	for (struct entry *e = t->news_first, *next; e; e = next) {
		next = e->news_next;
		if (e->ended)
			drop(t, e);
	}
	t->overflowed = false;
	for (uint32_t i = 0; i < t->n_buckets; i++)
		for (struct entry *e = t->buckets[i]; e; e = e->next)
			news_add(t, e);
}

bool agent_table_overflowed(const struct agent_table *t)
{
	return t->overflowed;
}

uint64_t agent_table_open(const struct agent_table *t)
{
	return t->n - t->n_ended;
}
