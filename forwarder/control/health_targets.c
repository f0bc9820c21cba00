/* Targets live as long as their DIPs: neither a publish nor a change of the VIP makes a check
 * forget what it knows. The heap is a binary one; a target knows its place, so it can be moved at
 * any time. */
#include "control/health_targets.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"

#define FIRST_WITHIN_MS 500u /* a new DIP's first check: soon, but not all at once */

/* --- the heap ------------------------------------------------------------------------------- */

static void heap_set(struct targets *t, unsigned at, struct target *target)
{
	t->heap[at] = target;
	target->heap_at = at;
}

static void heap_rise(struct targets *t, unsigned at)
{
	struct target *target = t->heap[at];

	while (at && t->heap[(at - 1) / 2]->due_ms > target->due_ms) {
		heap_set(t, at, t->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_set(t, at, target);
}

static void heap_sink(struct targets *t, unsigned at)
{
	struct target *target = t->heap[at];

	for (;;) {
		unsigned child = 2 * at + 1;
		if (child >= t->n)
			break;
		if (child + 1 < t->n && t->heap[child + 1]->due_ms < t->heap[child]->due_ms)
			child++;
		if (t->heap[child]->due_ms >= target->due_ms)
			break;
		heap_set(t, at, t->heap[child]);
		at = child;
	}
	heap_set(t, at, target);
}

struct target *targets_first(const struct targets *t)
{
	return t->n ? t->heap[0] : NULL;
}

void targets_move(struct targets *t, struct target *target, uint64_t due_ms)
{
	target->due_ms = due_ms;
	heap_rise(t, target->heap_at);
	heap_sink(t, target->heap_at);
}

/* --- keeping up with control ---------------------------------------------------------------- */

static void target_free(struct target *target)
{
	if (target->running)
		check_abort(&target->check);
	check_spec_unref(target->spec);
	free(target);
}

static struct target *target_new(const struct health_target *dip, struct check_loop *loop)
{
	struct target *target = calloc(1, sizeof(*target));
	uint64_t now_ms = clock_now_ms();

	if (!target)
		return NULL;
	target->check = (struct check){.loop = loop, .fd = -1};
	target->dip = *dip;
	target->due_ms = now_ms + entropy_u64() % FIRST_WITHIN_MS;
	health_state_begin(&target->state, dip->verdict);
	return target;
}

/* What is asked of it from now on. */
static void target_ask(struct target *target, struct check_spec *spec)
{
	struct check_spec *was = target->spec;
	uint64_t now_ms = clock_now_ms();
	bool same = was && was->port == spec->port &&
		    health_conf_same_question(&was->conf, &spec->conf);

	if (was && !same) {
		if (target->running)
			check_abort(&target->check);
		target->running = false;
		target->due_ms = now_ms + entropy_u64() % FIRST_WITHIN_MS;
		health_state_forget_results(&target->state);
		target->stats.consecutive = 0;
	}
	/* A check that is under way cannot tell: it is asked the same. */
	spec->refs++;
	target->spec = spec;
	target->check.spec = spec;
	check_spec_unref(was);
	if (!target->running && target->due_ms > now_ms + spec->conf.interval_ms)
		target->due_ms = now_ms + spec->conf.interval_ms;
}

static struct target *take_known(struct targets *t, unsigned *at, uint64_t dip_uid)
{
	while (*at < t->n && t->list[*at]->dip.dip_uid < dip_uid)
		++*at;
	if (*at == t->n || t->list[*at]->dip.dip_uid != dip_uid)
		return NULL;
	return t->list[*at];
}

/* New and known ones in next->list, by uid; on failure the new ones are gone again. */
static int merge(struct targets *t, const struct health_targets *now, struct check_loop *loop,
		 struct targets *next)
{
	struct target **made = next->heap; /* not in use yet */
	unsigned at = 0, n_made = 0;

	for (unsigned i = 0; i < now->n; i++) {
		struct target *known = take_known(t, &at, now->list[i].dip_uid);
		if (!known)
			made[n_made++] = target_new(&now->list[i], loop);
		next->list[next->n++] = known ? known : made[n_made - 1];
		if (next->list[i])
			continue;
		while (--n_made)
			target_free(made[n_made - 1]);
		return -ENOMEM;
	}
	return 0;
}

static int make_specs(const struct health_targets *now, struct check_spec **specs)
{
	for (unsigned i = 0; i < now->n_vips; i++) {
		specs[i] = check_spec_new(&now->vips[i]);
		if (!specs[i])
			return -ENOMEM;
	}
	return 0;
}

static void free_gone(struct targets *old)
{
	for (unsigned i = 0; i < old->n; i++)
		if (!old->list[i]->kept)
			target_free(old->list[i]);
	free(old->list);
	free(old->heap);
}

int targets_sync(struct targets *t, const struct health_targets *now, struct check_loop *loop,
		 void (*ended)(struct check *c, enum check_result result, const char *error))
{
	struct check_spec **specs = calloc(now->n_vips + 1, sizeof(struct check_spec *));
	struct targets next = {.list = calloc(now->n + 1, sizeof(struct target *)),
			       .heap = calloc(now->n + 1, sizeof(struct target *))};
	int rc = specs && next.list && next.heap ? make_specs(now, specs) : -ENOMEM;

	if (rc == 0)
		rc = merge(t, now, loop, &next);
	if (rc == 0) {
		struct targets old = *t;
		for (unsigned i = 0; i < old.n; i++)
			old.list[i]->kept = false;
		*t = next;
		for (unsigned i = 0; i < t->n; i++) {
			t->list[i]->kept = true;
			t->list[i]->dip = now->list[i];
			t->list[i]->check.address = now->list[i].address;
			t->list[i]->check.ended = ended;
			target_ask(t->list[i], specs[now->list[i].vip]);
			heap_set(t, i, t->list[i]);
		}
		for (unsigned i = t->n / 2; i-- > 0;)
			heap_sink(t, i);
		free_gone(&old);
	} else {
		free(next.list);
		free(next.heap);
	}
	for (unsigned i = 0; specs && i < now->n_vips; i++)
		check_spec_unref(specs[i]);
	free(specs);
	return rc;
}

void targets_free(struct targets *t)
{
	for (unsigned i = 0; i < t->n; i++)
		target_free(t->list[i]);
	free(t->list);
	free(t->heap);
	*t = (struct targets){0};
}
