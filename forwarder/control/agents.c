/* Which agents there are. A change of them moves no packet, so it needs no plan and no publish: the
 * calling thread looks the DIP up, has the store write the binding, and only then shows it to
 * control. An agent is bound to the DIP itself, not to its id: one that is removed and made again
 * is another DIP, and its agent another agent. The database forgets an agent together with its DIP,
 * control as soon as it looks for the agent. */
#include "control/agents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "control/internal.h"

/* --- the list ------------------------------------------------------------------------------------
 */

/* Where the id is or would be. */
static unsigned agent_place(const struct agents *a, const char *id)
{
	unsigned lo = 0, hi = a->n;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;
		if (strcmp(a->list[mid].conf.id, id) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct agent *agent_by_id(const struct agents *a, const char *id)
{
	unsigned at = agent_place(a, id);

	return at < a->n && strcmp(a->list[at].conf.id, id) == 0 ? &a->list[at] : NULL;
}

static struct agent *agent_insert(struct agents *a, const char *id)
{
	unsigned at = agent_place(a, id);

	if (a->n == a->cap) {
		unsigned cap = a->cap ? a->cap * 2 : 16;
		struct agent *grown = realloc(a->list, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		a->list = grown;
		a->cap = cap;
	}
	memmove(&a->list[at + 1], &a->list[at], (a->n - at) * sizeof(*a->list));
	a->list[at] = (struct agent){.last_ms = 0};
	a->n++;
	return &a->list[at];
}

static void agent_remove(struct agents *a, struct agent *agent)
{
	size_t at = (size_t)(agent - a->list);

	memmove(agent, agent + 1, (a->n - at - 1) * sizeof(*agent));
	a->n--;
}

static bool agent_resolve(const struct control *c, const struct persist_agent *conf,
			  struct vip_runtime **v, const struct dip_version **d)
{
	*v = vip_index_by_uid(c, conf->vip_uid);
	for (unsigned i = 0; *v && i < (*v)->now->n_dips; i++) {
		*d = &(*v)->now->dips[i];
		if ((*d)->uid == conf->dip_uid)
			return true;
	}
	return false;
}

struct agent *agents_find(struct control *c, const char *id, struct vip_runtime **v,
			  const struct dip_version **d)
{
	struct agent *a = agent_by_id(&c->agents, id);

	if (a && !agent_resolve(c, &a->conf, v, d)) {
		agent_remove(&c->agents, a);
		return NULL;
	}
	return a;
}

int agents_init(struct agents *a, const struct persist_state *boot)
{
	pthread_mutex_init(&a->writing, NULL);
	pthread_mutex_init(&a->reporting, NULL);
	snprintf(a->instance, sizeof(a->instance), "%016llx", (unsigned long long)entropy_u64());
	for (unsigned i = 0; i < boot->n_agents; i++) {
		struct agent *agent = agent_insert(a, boot->agents[i].id);
		if (!agent)
			return -ENOMEM;
		agent->conf = boot->agents[i];
	}
	return 0;
}

void agents_destroy(struct agents *a)
{
	free(a->list);
	pthread_mutex_destroy(&a->writing);
	pthread_mutex_destroy(&a->reporting);
	*a = (struct agents){0};
}

/* --- changes -------------------------------------------------------------------------------------
 */

struct agent_binding {
	const char *vip, *dip;
	struct persist_agent conf;
	enum control_status status;
	bool created;
	struct error *err;
};

/* Find the DIP's uid, and whether anything stands against the binding. */
static void binding_check(struct control *c, void *arg)
{
	struct agent_binding *b = arg;
	struct vip_runtime *v = control_find_vip(c, b->vip);
	const struct dip_version *d = v ? vip_version_dip(v->now, b->dip) : NULL;
	struct vip_runtime *other_vip;
	const struct dip_version *other_dip;

	b->status = CONTROL_NOT_FOUND;
	if (!v)
		error_set(b->err, -ENOENT, "no VIP has the id '%s'", b->vip);
	else if (!d)
		error_set(b->err, -ENOENT, "the VIP '%s' has no DIP '%s'", b->vip, b->dip);
	if (!d)
		return;
	b->status = CONTROL_CONFLICT;
	b->conf.vip_uid = v->uid;
	b->conf.dip_uid = d->uid;
	/* Gone ones first: their places and DIPs are free. */
	for (unsigned i = c->agents.n; i-- > 0;)
		if (!agent_resolve(c, &c->agents.list[i].conf, &other_vip, &other_dip))
			agent_remove(&c->agents, &c->agents.list[i]);
	for (unsigned i = 0; i < c->agents.n; i++) {
		const struct persist_agent *a = &c->agents.list[i].conf;
		if (a->dip_uid == d->uid && strcmp(a->id, b->conf.id) != 0) {
			error_set(b->err, -EEXIST, "the agent '%s' has this DIP already", a->id);
			return;
		}
	}
	b->created = !agent_by_id(&c->agents, b->conf.id);
	if (b->created && c->agents.n >= AGENTS_MAX)
		error_set(b->err, -ENOSPC, "there are %u agents already", c->agents.n);
	else
		b->status = CONTROL_OK;
}

/* It is durable. An agent that was there begins anew: its next report must be a full one. */
static void binding_install(struct control *c, void *arg)
{
	struct agent_binding *b = arg;
	struct agent *a = agent_by_id(&c->agents, b->conf.id);

	if (!a)
		a = agent_insert(&c->agents, b->conf.id);
	if (a)
		*a = (struct agent){.conf = b->conf,
				    .orphans_total = a->orphans_total,
				    .reports_total = a->reports_total,
				    .refused_total = a->refused_total};
	else
		b->status = CONTROL_FAILED;
}

static void binding_forget(struct control *c, void *arg)
{
	struct agent_binding *b = arg;
	struct agent *a = agent_by_id(&c->agents, b->conf.id);

	if (a)
		agent_remove(&c->agents, a);
}

/* From here on no commit puts its row back. */
static void binding_begin_leave(struct control *c, void *arg)
{
	struct agent_binding *b = arg;
	struct vip_runtime *v;
	const struct dip_version *d;

	struct agent *a = agents_find(c, b->conf.id, &v, &d);

	b->status = a ? CONTROL_OK : CONTROL_NOT_FOUND;
	if (a)
		a->leaving = true;
}

static void binding_stays(struct control *c, void *arg)
{
	struct agent_binding *b = arg;
	struct agent *a = agent_by_id(&c->agents, b->conf.id);

	if (a)
		a->leaving = false;
}

static enum control_status status_of(int rc)
{
	switch (rc) {
	case 0:
		return CONTROL_OK;
	case -ENOENT:
		return CONTROL_NOT_FOUND;
	case -ENOSPC:
	case -EROFS:
		return CONTROL_NO_STORAGE;
	default:
		return CONTROL_FAILED;
	}
}

enum control_status control_agent_put(struct control *c, const char *id, const char *vip,
				      const char *dip, const uint8_t token_hash[32], bool *created,
				      struct error *err)
{
	struct agent_binding b = {.vip = vip, .dip = dip, .err = err};
	const struct persist *p = &c->conf.persist;

	snprintf(b.conf.id, sizeof(b.conf.id), "%s", id);
	if (token_hash)
		memcpy(b.conf.token_hash, token_hash, sizeof(b.conf.token_hash));
	pthread_mutex_lock(&c->agents.writing);
	control_call(c, binding_check, &b);
	if (b.status == CONTROL_OK && token_hash && p->put_agent)
		b.status = status_of(p->put_agent(p->ctx, &b.conf, err));
	if (b.status == CONTROL_OK && token_hash)
		control_call(c, binding_install, &b);
	pthread_mutex_unlock(&c->agents.writing);
	*created = b.created;
	return b.status;
}

enum control_status control_agent_delete(struct control *c, const char *id, struct error *err)
{
	struct agent_binding b = {.err = err};
	const struct persist *p = &c->conf.persist;

	snprintf(b.conf.id, sizeof(b.conf.id), "%s", id);
	pthread_mutex_lock(&c->agents.writing);
	control_call(c, binding_begin_leave, &b);
	if (b.status == CONTROL_OK) {
		if (p->delete_agent)
			b.status = status_of(p->delete_agent(p->ctx, id, err));
		control_call(c, b.status == CONTROL_OK ? binding_forget : binding_stays, &b);
	}
	pthread_mutex_unlock(&c->agents.writing);
	return b.status;
}

/* --- reads ---------------------------------------------------------------------------------------
 */

struct read_agents {
	const char *id;
	struct agent_info *list;
	size_t n;
};

static void read_agents(struct control *c, void *arg)
{
	struct read_agents *r = arg;
	uint64_t now = clock_now_ms();

	r->list = calloc(c->agents.n + 1, sizeof(*r->list));
	for (unsigned i = 0; r->list && i < c->agents.n; i++) {
		const struct agent *a = &c->agents.list[i];
		struct vip_runtime *v;
		const struct dip_version *d;
		if ((r->id && strcmp(a->conf.id, r->id) != 0) ||
		    !agent_resolve(c, &a->conf, &v, &d))
			continue;
		struct agent_info *out = &r->list[r->n++];
		memcpy(out->id, a->conf.id, sizeof(out->id));
		memcpy(out->vip, v->now->conf.id, sizeof(out->vip));
		memcpy(out->dip, d->conf.id, sizeof(out->dip));
		memcpy(out->instance, a->instance, sizeof(out->instance));
		out->sequence = a->sequence;
		out->synced = a->synced;
		out->last_report_age_ms = now - a->last_ms;
		out->load = a->load;
		out->orphans_total = a->orphans_total;
		out->reports_total = a->reports_total;
		out->refused_total = a->refused_total;
	}
}

struct agent_info *control_read_agents(struct control *c, const char *id, size_t *n)
{
	struct read_agents r = {.id = id};

	control_call(c, read_agents, &r);
	*n = r.n;
	if (r.n == 0) {
		free(r.list);
		return NULL;
	}
	return r.list;
}

struct read_token {
	const char *id;
	uint8_t *hash;
	bool found;
};

static void read_token(struct control *c, void *arg)
{
	struct read_token *r = arg;
	struct vip_runtime *v;
	const struct dip_version *d;
	const struct agent *a = agents_find(c, r->id, &v, &d);

	r->found = a != NULL;
	if (a)
		memcpy(r->hash, a->conf.token_hash, sizeof(a->conf.token_hash));
}

bool control_agent_token(struct control *c, const char *id, uint8_t token_hash[32])
{
	struct read_token r = {.id = id, .hash = token_hash};

	control_call(c, read_token, &r);
	return r.found;
}
