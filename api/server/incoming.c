#include "api/server/incoming.h"

#include <stdlib.h>
#include <string.h>

#include "api/server/head.h"

/* Small bodies always find room; of the large ones, as many as fit into this, whoever sends them:
 * connections must not be a way to all memory. */
#define BODY_SMALL ((size_t)64 << 10)
#define BODIES_MAX ((size_t)128 << 20)

static _Atomic size_t large_bodies; /* their memory */

static size_t charge_of(size_t capacity)
{
	return capacity > BODY_SMALL ? capacity : 0;
}

static void forget_body(struct incoming *in)
{
	free(in->body);
	atomic_fetch_sub(&large_bodies, charge_of(in->capacity));
	in->body = NULL;
	in->len = in->capacity = 0;
}

void incoming_clear(struct incoming *in)
{
	free(in->target);
	json_decref(in->refusal.body);
	forget_body(in);
	*in = (struct incoming){.target = NULL};
}

/* Memory for all that came; false if there is none to be had. */
static bool grow_body(struct incoming *in)
{
	size_t capacity = in->capacity ? in->capacity : 4096;

	while (capacity < in->total)
		capacity *= 2;
	size_t more = charge_of(capacity) - charge_of(in->capacity);
	bool fits = atomic_fetch_add(&large_bodies, more) + more <= BODIES_MAX;
	char *body = fits ? realloc(in->body, capacity) : NULL;
	if (!body) {
		atomic_fetch_sub(&large_bodies, more);
		return false;
	}
	in->body = body;
	in->capacity = capacity;
	return true;
}

bool incoming_append(struct incoming *in, const char *data, size_t n)
{
	size_t max = request_body_max(in->target ? in->target : "");

	in->total += n;
	if (in->total > max || in->crowded || in->refused)
		return in->total <= max + DRAIN_MAX;
	if (in->total > in->capacity && !grow_body(in)) {
		in->crowded = true;
		forget_body(in);
		return true;
	}
	memcpy(in->body + in->len, data, n);
	in->len += n;
	return true;
}
