/* Open addressing, at most half full, probed linearly. All IDs of a table have one length, so they
 * are kept in 16 octets, the rest zero, and hashed as a flow key's address is. */
#include "lookup/server_ids.h"

#include <assert.h>
#include <stdlib.h>

#include "lookup/dcode_table.h"
#include "lookup/flow_key.h"

struct entry {
	struct ip_addr id; /* 16 octets */
	uint16_t dip;	   /* DIP_NONE: free */
};

struct server_ids {
	uint64_t seed;
	uint32_t mask; /* entries - 1 */
	uint8_t len;
	uint8_t rotation;
	struct entry entries[];
};

_Static_assert(SERVER_ID_MAX < sizeof(struct ip_addr), "an ID fits into an entry");

struct server_ids *server_ids_new(unsigned len, unsigned rotation, unsigned n, uint64_t seed)
{
	uint32_t entries = 2;

	assert(len >= 1 && len <= SERVER_ID_MAX && rotation <= SERVER_ID_ROTATION_MAX);
	assert(n <= DIP_INDEX_MAX);
	while (entries < 2 * n)
		entries *= 2;
	struct server_ids *t = calloc(1, sizeof(*t) + entries * sizeof(t->entries[0]));
	if (!t)
		return NULL;
	t->seed = seed;
	t->mask = entries - 1;
	t->len = (uint8_t)len;
	t->rotation = (uint8_t)rotation;
	return t;
}

void server_ids_free(struct server_ids *t)
{
	free(t);
}

/* The place of an ID, or the free one where it belongs. */
static uint32_t place(const struct server_ids *t, const uint8_t *id, struct ip_addr *padded)
{
	struct flow_key key = {.sport_be = 0};

	memcpy(key.src.b, id, t->len);
	*padded = key.src;
	uint32_t i = (uint32_t)flow_key_hash(&key, t->seed) & t->mask;
	while (t->entries[i].dip != DIP_NONE && !ip_addr_equal(&t->entries[i].id, padded))
		i = (i + 1) & t->mask;
	return i;
}

void server_ids_set(struct server_ids *t, const uint8_t *id, uint16_t dip)
{
	struct ip_addr padded;
	uint32_t i = place(t, id, &padded);

	assert(dip != DIP_NONE);
	t->entries[i] = (struct entry){.id = padded, .dip = dip};
}

uint16_t server_ids_find(const struct server_ids *t, const uint8_t *cid, uint32_t len)
{
	struct ip_addr padded;

	if (len < 1u + t->len || cid[0] >> 5 != t->rotation)
		return DIP_NONE;
	return t->entries[place(t, cid + 1, &padded)].dip;
}
