/* Which VIPs there are: by id, by what they match, by uid; and which slots are free.
 *
 * The tables hold published VIPs (`now` is set) and those that the batch at hand makes (it is not):
 * of each id and each match there is at most one of either kind. Buckets are as many as there may
 * be VIPs, so that a document of thousands costs each of them one look, not thousands. */
#include "control/internal.h"

#include "base/entropy.h"

static unsigned bucket_of_id(const struct vip_index *x, const char *id)
{
	uint64_t h = x->seed;

	for (; *id; id++)
		h = flow_key_mix(h, (uint8_t)*id, x->secret);
	return (unsigned)(h >> 32) % VIPS_MAX;
}

static unsigned bucket_of_match(const struct vip_index *x, const struct vip_match *m)
{
	const struct flow_key key = {
		.src = m->address, .dport_be = m->port, .proto = (uint8_t)m->protocol};

	return (unsigned)(flow_key_hash(&key, x->seed) >> 32) % VIPS_MAX;
}

void vip_index_init(struct vip_index *x)
{
	x->seed = entropy_u64();
	x->secret = entropy_u64() | 1;
	for (unsigned slot = VIP_SLOTS; slot-- > 0;)
		x->free_slots[x->n_free_slots++] = (uint16_t)slot; /* the lowest on top */
}

bool vip_index_take_slot(struct vip_index *x, uint16_t *slot)
{
	if (x->n_free_slots == 0)
		return false;
	*slot = x->free_slots[--x->n_free_slots];
	return true;
}

/* At start: what the database names. */
void vip_index_claim_slots(struct control *c)
{
	struct vip_index *x = &c->index;
	unsigned kept = 0;

	for (unsigned i = 0; i < x->n_free_slots; i++)
		if (!c->vips[x->free_slots[i]])
			x->free_slots[kept++] = x->free_slots[i];
	x->n_free_slots = kept;
}

void vip_index_add(struct vip_index *x, struct vip_runtime *v)
{
	struct vip_runtime **by_id = &x->by_id[bucket_of_id(x, v->id)];
	struct vip_runtime **by_match = &x->by_match[bucket_of_match(x, &v->match)];

	v->next_of_id = *by_id;
	*by_id = v;
	v->next_of_match = *by_match;
	*by_match = v;
	v->next_of_uid = x->by_uid[v->uid % VIPS_MAX];
	x->by_uid[v->uid % VIPS_MAX] = v;
	if (vip_match_is_wide(&v->match)) {
		v->next_wide = x->wide;
		x->wide = v;
		x->n_wide++;
	}
	v->indexed = true;
}

void vip_index_remove(struct vip_index *x, struct vip_runtime *v)
{
	struct vip_runtime **p = &x->by_id[bucket_of_id(x, v->id)];

	if (!v->indexed)
		return;
	while (*p != v)
		p = &(*p)->next_of_id;
	*p = v->next_of_id;
	for (p = &x->by_match[bucket_of_match(x, &v->match)]; *p != v;)
		p = &(*p)->next_of_match;
	*p = v->next_of_match;
	for (p = &x->by_uid[v->uid % VIPS_MAX]; *p != v;)
		p = &(*p)->next_of_uid;
	*p = v->next_of_uid;
	for (p = &x->wide; *p && *p != v;)
		p = &(*p)->next_wide;
	if (*p) {
		*p = v->next_wide;
		x->n_wide--;
	}
	v->indexed = false;
	x->free_slots[x->n_free_slots++] = v->slot;
}

bool vip_index_has(const struct batch *b, const struct vip_runtime *v)
{
	const struct batch_vip *e = b ? batch_entry(b, v) : NULL;

	return e ? !e->remove : v->now != NULL;
}

struct vip_runtime *vip_index_by_id(const struct control *c, const struct batch *b, const char *id)
{
	struct vip_runtime *v = c->index.by_id[bucket_of_id(&c->index, id)];

	while (v && (strcmp(v->id, id) != 0 || !vip_index_has(b, v)))
		v = v->next_of_id;
	return v;
}

struct vip_runtime *vip_index_by_match(const struct control *c, const struct batch *b,
				       const struct vip_match *m)
{
	struct vip_runtime *v = c->index.by_match[bucket_of_match(&c->index, m)];

	while (v && (!vip_match_equal(&v->match, m) || !vip_index_has(b, v)))
		v = v->next_of_match;
	return v;
}

struct vip_runtime *vip_index_by_uid(const struct control *c, uint32_t uid)
{
	struct vip_runtime *v = c->index.by_uid[uid % VIPS_MAX];

	while (v && (v->uid != uid || !vip_index_has(NULL, v)))
		v = v->next_of_uid;
	return v;
}
