/* Entries are shared: a reader takes references under the lock and lets go of it, so that the one
 * who writes waits for no more than the copying of some pointers. What a transaction does is
 * decided and allocated before it is written (prepare), since nothing may fail once it is durable
 * (commit).
 *
 * A transaction can be committed and yet not be published, because flows learned meanwhile make
 * control plan anew. The next one carries the same generation and takes the place of the first, in
 * the log too. Nobody has seen those entries: readers ask up to the generation that is published.
 */
#include "control/history.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct history {
	pthread_mutex_t lock;
	size_t n, capacity;
	size_t bytes;
	struct history_entry **entries; /* ascending versions, without gaps */
};

int history_new(struct history **out)
{
	struct history *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	pthread_mutex_init(&h->lock, NULL);
	*out = h;
	return 0;
}

static void release(struct history_entry *e)
{
	if (__atomic_sub_fetch(&e->n_refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(e);
}

static void release_all(struct history_entry **entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		release(entries[i]);
}

void history_free(struct history *h)
{
	if (!h)
		return;
	release_all(h->entries, h->n);
	free(h->entries);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* One allocation: the texts follow the struct. */
static struct history_entry *entry_new(uint64_t version, const struct persist_log_entry *from)
{
	size_t action = strlen(from->action) + 1;
	size_t edits = strlen(from->edits) + 1;
	struct history_entry *e = malloc(sizeof(*e) + action + edits);

	if (!e)
		return NULL;
	char *text = (char *)(e + 1);
	memcpy(text, from->action, action);
	memcpy(text + action, from->edits, edits);
	*e = (struct history_entry){.version = version,
				    .generation_before = from->generation_before,
				    .generation = from->generation,
				    .wall_ms = from->wall_ms,
				    .n_edits = from->n_edits,
				    .action = text,
				    .edits = text + action,
				    .bytes = action + edits,
				    .n_refs = 1};
	snprintf(e->author, sizeof(e->author), "%s", from->author);
	return e;
}

/* --- writing --------------------------------------------------------------------------------- */

/* Room for n more. Only the writing thread changes capacity. */
static int reserve(struct history *h, size_t n)
{
	struct history_entry **grown;
	size_t capacity = h->capacity ? h->capacity : 64;

	while (capacity < h->n + n)
		capacity *= 2;
	if (capacity == h->capacity)
		return 0;
	pthread_mutex_lock(&h->lock);
	grown = realloc(h->entries, capacity * sizeof(struct history_entry *));
	if (grown) {
		h->entries = grown;
		h->capacity = capacity;
	}
	pthread_mutex_unlock(&h->lock);
	return grown ? 0 : -ENOMEM;
}

/* Entry i of the n_kept oldest ones and, after them, those of u. */
static const struct history_entry *entry_at(const struct history *h, size_t n_kept,
					    const struct history_update *u, size_t i)
{
	return i < n_kept ? h->entries[i] : u->entries[i - n_kept];
}

/* The first version to be kept if that is not the oldest, else 0. Costs what goes, not what stays.
 */
static uint64_t first_that_fits(const struct history *h, size_t n_kept,
				const struct history_update *u)
{
	size_t n = n_kept + u->n, bytes = h->bytes, first = 0;

	for (size_t i = n_kept; i < h->n; i++)
		bytes -= h->entries[i]->bytes;
	for (unsigned i = 0; i < u->n; i++)
		bytes += u->entries[i]->bytes;
	while (first + 1 < n && (n - first > HISTORY_ENTRIES_MAX || bytes > HISTORY_BYTES_MAX))
		bytes -= entry_at(h, n_kept, u, first++)->bytes;
	return first ? entry_at(h, n_kept, u, first)->version : 0;
}

/* How many entries there are before those of an attempt that was not published. */
static size_t count_published(const struct history *h, const struct persist_txn *txn)
{
	size_t n = h->n;

	while (n && !txn->late && h->entries[n - 1]->generation >= txn->generation)
		n--;
	return n;
}

static uint64_t newest_version(const struct history *h)
{
	return h->n ? h->entries[h->n - 1]->version : 0;
}

int history_prepare(struct history *h, const struct persist_txn *txn, struct history_update *u)
{
	size_t n_kept = count_published(h, txn);
	uint64_t next = n_kept < h->n ? h->entries[n_kept]->version : newest_version(h) + 1;

	*u = (struct history_update){.replace_from = n_kept < h->n ? next : 0};
	if (txn->n_log == 0)
		return 0;
	u->entries = calloc(txn->n_log, sizeof(struct history_entry *));
	int rc = u->entries ? reserve(h, txn->n_log) : -ENOMEM;
	while (rc == 0 && u->n < txn->n_log) {
		u->entries[u->n] = entry_new(next + u->n, &txn->log[u->n]);
		if (u->entries[u->n])
			u->n++;
		else
			rc = -ENOMEM;
	}
	if (rc)
		history_abort(u);
	else
		u->keep_from = first_that_fits(h, n_kept, u);
	return rc;
}

/* With the lock held. */
static void drop_newest(struct history *h)
{
	h->bytes -= h->entries[--h->n]->bytes;
	release(h->entries[h->n]);
}

static void add_newest(struct history *h, struct history_entry *e)
{
	assert(h->n < h->capacity);
	h->entries[h->n++] = e;
	h->bytes += e->bytes;
}

static void drop_below(struct history *h, uint64_t version)
{
	size_t n = 0;

	while (n < h->n && h->entries[n]->version < version) {
		h->bytes -= h->entries[n]->bytes;
		release(h->entries[n++]);
	}
	if (n) {
		h->n -= n;
		memmove(h->entries, h->entries + n, h->n * sizeof(struct history_entry *));
	}
}

void history_commit(struct history *h, struct history_update *u)
{
	pthread_mutex_lock(&h->lock);
	while (u->replace_from && newest_version(h) >= u->replace_from)
		drop_newest(h);
	for (unsigned i = 0; i < u->n; i++)
		add_newest(h, u->entries[i]);
	drop_below(h, u->keep_from);
	pthread_mutex_unlock(&h->lock);
	free(u->entries);
	*u = (struct history_update){0};
}

void history_abort(struct history_update *u)
{
	release_all(u->entries, u->n);
	free(u->entries);
	*u = (struct history_update){0};
}

int history_apply(struct history *h, const struct persist_txn *txn)
{
	struct history_update u;
	int rc = history_prepare(h, txn, &u);

	if (rc == 0)
		history_commit(h, &u);
	return rc;
}

int history_load(struct history *h, uint64_t version, const struct persist_log_entry *from)
{
	struct history_update u = {.n = 1};
	struct history_entry *e;

	if (version == 0 || (h->n && version != newest_version(h) + 1))
		return -EINVAL;
	e = reserve(h, 1) ? NULL : entry_new(version, from);
	if (!e)
		return -ENOMEM;
	u.entries = &e;
	uint64_t keep_from = first_that_fits(h, h->n, &u);
	pthread_mutex_lock(&h->lock);
	add_newest(h, e);
	drop_below(h, keep_from);
	pthread_mutex_unlock(&h->lock);
	return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

/* How many of the first n entries have a version below this one. */
static size_t count_below(const struct history *h, size_t n, uint64_t version)
{
	uint64_t oldest = n ? h->entries[0]->version : 0;

	if (n == 0 || version <= oldest)
		return 0;
	return version - oldest < n ? (size_t)(version - oldest) : n;
}

/* With the lock held. */
static int copy_range(struct history *h, size_t first, size_t n, struct history_view *out)
{
	out->entries = n ? malloc(n * sizeof(struct history_entry *)) : NULL;
	if (n && !out->entries)
		return -ENOMEM;
	for (; out->n < n; out->n++) {
		out->entries[out->n] = h->entries[first + out->n];
		__atomic_add_fetch(&out->entries[out->n]->n_refs, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

int history_read(struct history *h, uint64_t generation, uint64_t from, uint64_t to, size_t max,
		 struct history_view *out)
{
	struct history_view v = {0};

	pthread_mutex_lock(&h->lock);
	size_t n = h->n;
	while (n && h->entries[n - 1]->generation > generation)
		n--;
	if (n) {
		v.oldest = h->entries[0]->version;
		v.newest = h->entries[n - 1]->version;
	}
	size_t end = to < UINT64_MAX ? count_below(h, n, to + 1) : n;
	size_t first = count_below(h, n, from);
	if (first < end && end - first > max)
		first = end - max;
	int rc = copy_range(h, first, first < end ? end - first : 0, &v);
	pthread_mutex_unlock(&h->lock);
	if (rc == 0)
		*out = v;
	return rc;
}

void history_view_free(struct history_view *v)
{
	release_all(v->entries, v->n);
	free(v->entries);
	*v = (struct history_view){0};
}
