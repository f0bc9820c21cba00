/* At most half full, probed linearly, under a secret of its own: what comes in on the DIPs' side
 * chooses the keys that are looked for. */
#include "lookup/back_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "lookup/flow_key.h"

#define ENTRIES_MIN 4u

struct back_table *back_table_new(uint32_t n)
{
	uint32_t entries = ENTRIES_MIN;

	while (entries < 2 * n)
		entries *= 2;
	struct back_table *t = calloc(1, sizeof(*t) + entries * sizeof(t->ways[0]));
	if (!t)
		return NULL;
	t->refs = 1;
	t->mask = entries - 1;
	t->seed = entropy_u64();
	return t;
}

void back_table_ref(struct back_table *t)
{
	t->refs++;
}

void back_table_unref(struct back_table *t)
{
	if (!t)
		return;
	assert(t->refs > 0);
	if (--t->refs == 0)
		free(t);
}

/* The entry of a key, or the free one where it would stand. */
static uint32_t place_of(const struct back_table *t, const struct back_key *key)
{
	struct flow_key k = {.src = key->address, .sport_be = key->port_be, .proto = key->proto};
	uint32_t i = (uint32_t)flow_key_hash(&k, t->seed) & t->mask;

	while (t->ways[i].key.proto && memcmp(&t->ways[i].key, key, sizeof(*key)) != 0)
		i = (i + 1) & t->mask;
	return i;
}

int back_table_add(struct back_table *t, const struct back_way *w)
{
	struct back_way *at = &t->ways[place_of(t, &w->key)];

	assert(w->key.proto && 2 * (t->n + 1) <= t->mask + 1);
	if (at->key.proto)
		return -EEXIST;
	*at = *w;
	t->n++;
	t->any_port |= w->key.port_be == 0;
	return 0;
}

struct back_way *back_table_get(struct back_table *t, const struct back_key *key)
{
	struct back_way *at = &t->ways[place_of(t, key)];

	return at->key.proto ? at : NULL;
}

const struct back_way *back_table_find(const struct back_table *t, const struct ip_addr *src,
				       uint16_t sport_be, uint8_t proto)
{
	struct back_key key = {.address = *src, .port_be = sport_be, .proto = proto};
	const struct back_way *w = &t->ways[place_of(t, &key)];

	if (w->key.proto || !t->any_port)
		return w->key.proto ? w : NULL;
	key.port_be = 0;
	w = &t->ways[place_of(t, &key)];
	return w->key.proto ? w : NULL;
}
