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

/* Others come and go, as those of containers. */
static bool is_of_stack(const struct rtnl_link *l)
{
	return l->kind != LINK_OTHER || l->master;
}

static bool stacks_differ(const struct rtnl_link *x, unsigned n_x, const struct rtnl_link *y,
			  unsigned n_y)
{
	unsigned i = 0, k = 0;

	for (;; i++, k++) {
		while (i < n_x && !is_of_stack(&x[i]))
			i++;
		while (k < n_y && !is_of_stack(&y[k]))
			k++;
		if (i == n_x || k == n_y)
			return i != n_x || k != n_y;
		if (memcmp(&x[i], &y[k], sizeof(x[i])) != 0)
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
	bool differ = stacks_differ(ls->list, ls->n, ls->next, ls->n_next);
	free(ls->list);
	ls->list = ls->next;
	ls->n = ls->n_next;
	ls->next = NULL;
	ls->cap = 0;
	return differ;
}
