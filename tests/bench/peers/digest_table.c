#include "tests/bench/peers/digest_table.h"

#include "tests/bench/peers/keeper.h"

#define PATH_MAX_MOVES 48u
#define WALKS 64u

void digest_init(struct digest_table *t, uint32_t n)
{
	uint32_t words = n + n / 5 + 64;

	*t = (struct digest_table){.n_buckets = words / DIGEST_STAGES / DIGEST_WAYS + 1};
	for (unsigned s = 0; s < DIGEST_STAGES; s++) {
		t->stages[s] = peer_alloc(t->n_buckets * sizeof(*t->stages[s]));
		t->hashes[s] = peer_alloc(t->n_buckets * sizeof(*t->hashes[s]));
	}
}

void digest_destroy(struct digest_table *t)
{
	for (unsigned s = 0; s < DIGEST_STAGES; s++) {
		hugemem_free(t->stages[s], t->n_buckets * sizeof(*t->stages[s]));
		hugemem_free(t->hashes[s], t->n_buckets * sizeof(*t->hashes[s]));
	}
}

size_t digest_bytes(const struct digest_table *t)
{
	return DIGEST_STAGES * t->n_buckets * sizeof(struct digest_bucket);
}

static _Atomic uint32_t *word_at(const struct digest_table *t, struct digest_place p)
{
	return &t->stages[p.stage][p.bucket].words[p.way];
}

static void put(struct digest_table *t, struct digest_place p, uint64_t hash, uint32_t version)
{
	t->hashes[p.stage][p.bucket][p.way] = hash;
	atomic_store_explicit(word_at(t, p), digest_of(hash) << 16 | version, memory_order_release);
}

void digest_remove(struct digest_table *t, struct digest_place p)
{
	atomic_store_explicit(word_at(t, p), 0, memory_order_release);
}

/* To another place first, so that packets find it all the while. */
static void move(struct digest_table *t, struct digest_place from, struct digest_place to)
{
	put(t, to, digest_hash_at(t, from), *word_at(t, from) & 0xffff);
	digest_remove(t, from);
}

static bool free_way(const struct digest_table *t, uint32_t stage, uint32_t bucket,
		     struct digest_place *out)
{
	for (uint32_t w = 0; w < DIGEST_WAYS; w++) {
		*out = (struct digest_place){stage, bucket, w};
		if (!*word_at(t, *out))
			return true;
	}
	return false;
}

/* Walk at random from a full bucket to a free word, then move the words on the way, the last one
 * first. False if that led nowhere; *out: the word that has become free in the bucket. */
static bool walk(struct digest_table *t, uint32_t stage, uint32_t bucket, struct digest_place *out)
{
	struct digest_place path[PATH_MAX_MOVES], end;
	uint64_t hashes[PATH_MAX_MOVES];
	unsigned n = 0;

	while (!free_way(t, stage, bucket, &end)) {
		if (n == PATH_MAX_MOVES)
			return false;
		uint32_t way = (uint32_t)peer_mix(t->random++, 1) % DIGEST_WAYS;
		path[n] = (struct digest_place){stage, bucket, way};
		hashes[n] = digest_hash_at(t, path[n]);
		stage = (stage + 1) % DIGEST_STAGES;
		bucket = digest_bucket_of(t, hashes[n++], stage);
	}
	while (n-- > 0) {
		/* A walk that crossed itself has put another one there. */
		if (*word_at(t, end) || !*word_at(t, path[n]) ||
		    digest_hash_at(t, path[n]) != hashes[n])
			return false;
		move(t, path[n], end);
		end = path[n];
	}
	*out = end;
	return true;
}

static bool make_room(struct digest_table *t, uint64_t hash, unsigned stage,
		      struct digest_place *out)
{
	uint32_t bucket = digest_bucket_of(t, hash, stage);

	for (unsigned i = 0; i < WALKS; i++) {
		if (walk(t, stage, bucket, out))
			return true;
	}
	return false;
}

bool digest_insert(struct digest_table *t, uint64_t hash, uint32_t version)
{
	struct digest_place p;

	for (unsigned s = 0; s < DIGEST_STAGES; s++) {
		if (free_way(t, s, digest_bucket_of(t, hash, s), &p)) {
			put(t, p, hash, version);
			return true;
		}
	}
	for (unsigned s = 0; s < DIGEST_STAGES; s++) {
		if (make_room(t, hash, s, &p)) {
			put(t, p, hash, version);
			return true;
		}
	}
	return false;
}

bool digest_relocate(struct digest_table *t, struct digest_place p)
{
	uint64_t hash = digest_hash_at(t, p);
	struct digest_place to;

	if (!make_room(t, hash, (p.stage + 1) % DIGEST_STAGES, &to))
		return false;
	/* Making room may have moved it. */
	if (*word_at(t, p) && digest_hash_at(t, p) == hash)
		move(t, p, to);
	return true;
}

struct digest_place digest_find(const struct digest_table *t, uint64_t hash, uint32_t *version)
{
	for (uint32_t s = 0; s < DIGEST_STAGES; s++) {
		for (uint32_t w = 0; w < DIGEST_WAYS; w++) {
			struct digest_place p = {s, digest_bucket_of(t, hash, s), w};
			uint32_t word = *word_at(t, p);
			if (word && digest_hash_at(t, p) == hash) {
				*version = word & 0xffff;
				return p;
			}
		}
	}
	return (struct digest_place){.stage = DIGEST_STAGES};
}
