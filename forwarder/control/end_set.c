#include "control/end_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "lookup/flow_key.h"

#define ENTRIES_MIN 64u

/* Where the key is, or would be. */
static uint32_t place_of(const struct end_set *s, const struct end_key *key)
{
	const struct flow_key k = {.src = key->address,
				   .sport_be = key->port,
				   .dport_be = key->kind,
				   .proto = key->proto};
	uint32_t i = (uint32_t)flow_key_hash(&k, s->seed) & s->mask;

	while (s->keys[i].kind != END_NONE && memcmp(&s->keys[i], key, sizeof(*key)) != 0)
		i = (i + 1) & s->mask;
	return i;
}

static bool grow(struct end_set *s)
{
	const struct end_set old = *s;
	uint32_t entries = old.keys ? 2 * (old.mask + 1) : ENTRIES_MIN;

	s->keys = calloc(entries, sizeof(*s->keys));
	if (!s->keys) {
		*s = old;
		return false;
	}
	s->mask = entries - 1;
	s->seed = entropy_u64();
	for (uint32_t i = 0; old.keys && i <= old.mask; i++)
		if (old.keys[i].kind != END_NONE)
			s->keys[place_of(s, &old.keys[i])] = old.keys[i];
	free(old.keys);
	return true;
}

void end_set_add(struct end_set *s, const struct end_key *key)
{
	if (!s->failed && (!s->keys || 2 * (s->n + 1) > s->mask + 1))
		s->failed = !grow(s);
	if (s->failed)
		return;
	struct end_key *at = &s->keys[place_of(s, key)];
	s->n += at->kind == END_NONE;
	*at = *key;
}

bool end_set_may_have(const struct end_set *s, const struct end_key *key)
{
	return s->failed || (s->keys && s->keys[place_of(s, key)].kind != END_NONE);
}

void end_set_free(struct end_set *s)
{
	free(s->keys);
	*s = (struct end_set){.failed = false};
}
