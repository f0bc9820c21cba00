/* All links are read whenever one has changed: a slave's or a parent's change is no event of the
 * interface on top of it, and a list of what stands on what would have to be kept as carefully as
 * the kernel keeps it. */
#include "control/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int keep(void *ctx, const struct rtnl_link *l)
{
	struct links *ls = ctx;

	if (ls->n_next == ls->cap) {
		unsigned cap = ls->cap ? 2 * ls->cap : 64;
		struct rtnl_link *next = realloc(ls->next, cap * sizeof(*next));
		if (!next)
			return -ENOMEM;
		ls->next = next;
		ls->cap = cap;
	}
	ls->next[ls->n_next++] = *l;
	return 0;
}

/* Others come and go, as those of containers, which are bridges' ports too. */
static bool is_of_stack(const struct links *ls, const struct rtnl_link *l)
{
	const struct rtnl_link *master = l->master ? links_find(ls, l->master) : NULL;

	return l->kind != LINK_OTHER || (master && master->kind == LINK_BOND);
}

static bool stacks_differ(const struct links *x, const struct links *y)
{
	unsigned i = 0, k = 0;

	for (;; i++, k++) {
		while (i < x->n && !is_of_stack(x, &x->list[i]))
			i++;
		while (k < y->n && !is_of_stack(y, &y->list[k]))
			k++;
		if (i == x->n || k == y->n)
			return i != x->n || k != y->n;
		if (memcmp(&x->list[i], &y->list[k], sizeof(x->list[i])) != 0)
			return true;
	}
}

int links_read(struct links *ls, struct rtnl *r)
{
	ls->n_next = 0;
	int rc = rtnl_get_links(r, keep, ls);
	if (rc < 0)
		return rc;
	if (ls->n_next)
		qsort(ls->next, ls->n_next, sizeof(*ls->next), links_order);
	struct links now = {.n = ls->n_next, .list = ls->next};
	bool differ = stacks_differ(ls, &now);
	free(ls->list);
	*ls = now;
	return differ;
}
