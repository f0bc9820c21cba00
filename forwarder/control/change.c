/* Changes: all requests that wait become one batch, are planned, committed and published together,
 * and are answered with what came of it. A transaction of several edits, and one that is only
 * planned, has a batch of its own. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/announce.h"

#define BATCH_MAX 256

/* The requests of one batch. */
struct run {
	struct control *c;
	struct batch b;
	unsigned n;
	struct queued_change *queued[BATCH_MAX];
	uint64_t next_dip_uid; /* before it */
	uint32_t next_vip_uid;
};

/* --- the queue ----------------------------------------------------------------------------- */

static struct queued_change *take_changes(struct control *c)
{
	pthread_mutex_lock(&c->mutex);
	struct queued_change *list = c->changes;
	c->changes = NULL;
	c->changes_end = &c->changes;
	pthread_mutex_unlock(&c->mutex);
	return list;
}

static void put_back(struct control *c, struct queued_change *list)
{
	struct queued_change **end = &list;

	while (*end)
		end = &(*end)->next;
	pthread_mutex_lock(&c->mutex);
	*end = c->changes;
	if (!c->changes)
		c->changes_end = end;
	c->changes = list;
	pthread_mutex_unlock(&c->mutex);
}

static void finish(struct control *c, struct queued_change *q)
{
	pthread_mutex_lock(&c->mutex);
	*q->done = true;
	pthread_cond_broadcast(&c->answered);
	pthread_mutex_unlock(&c->mutex);
	free(q);
}

/* Take requests as long as they may be one batch; the others go on waiting. */
static void gather(struct run *run, struct queued_change *list)
{
	struct control *c = run->c;

	while (list && run->n < BATCH_MAX) {
		struct control_request *r = list->request;
		bool alone = change_stands_alone(r);
		if (alone ? run->n != 0 : change_must_wait(c, &run->b, r))
			break;
		run->b.dry = alone && r->transaction->dry_run;
		run->queued[run->n++] = list;
		list = list->next;
		change_apply(c, &run->b, r);
		if (alone)
			break;
	}
	if (list)
		put_back(c, list);
}

/* Nothing has come of it: no number is used up either. */
static void throw_away(struct run *run)
{
	batch_destroy(run->c, &run->b);
	run->c->next_dip_uid = run->next_dip_uid;
	run->c->next_vip_uid = run->next_vip_uid;
}

/* --- the log ------------------------------------------------------------------------------- */

static int log_request(struct run *run, const struct control_request *r)
{
	const struct control_transaction *t = r->transaction;
	unsigned n = 0;

	if (!change_accepted(r) || !t || !t->text)
		return 0;
	const char *text = t->text(t->ctx, &n);
	if (!text)
		return -ENOMEM;
	if (n == 0)
		return 0;
	struct persist_log_entry *e = &run->b.log[run->b.n_log++];
	*e = (struct persist_log_entry){.wall_ms = clock_wall_ms(),
					.action = t->action,
					.n_edits = n,
					.edits = text,
					.generation_before = run->c->generation,
					.generation = run->c->generation + 1};
	memcpy(e->author, r->author, sizeof(e->author));
	return 0;
}

static int log_requests(struct run *run, struct error *err)
{
	int rc = 0;

	run->b.log = calloc(run->n, sizeof(*run->b.log));
	if (!run->b.log)
		rc = -ENOMEM;
	for (unsigned i = 0; rc == 0 && i < run->n; i++)
		rc = log_request(run, run->queued[i]->request);
	return rc ? error_set(err, rc, "out of memory") : 0;
}

/* --- a batch ------------------------------------------------------------------------------- */

static void log_change(struct control *c, const struct control_request *r)
{
	static const char *const verbs[] = {
		[OP_VIP_PUT] = "put", [OP_VIP_PATCH] = "patched", [OP_VIP_DELETE] = "deleted",
		[OP_DIP_PUT] = "put", [OP_DIP_PATCH] = "patched", [OP_DIP_DELETE] = "deleted",
	};
	const struct control_transaction *t = r->transaction;

	announce_change(c, r);
	if (t && t->several)
		log_info("control",
			 "%u edits in one (generation %llu, %llu Dcodes and %llu flows moved)",
			 t->n_edits, (unsigned long long)r->change.generation,
			 (unsigned long long)r->change.dcodes_moved,
			 (unsigned long long)r->change.flows_moved);
	else
		log_info("control",
			 "vip %s%s%s: %s%s (generation %llu, %llu Dcodes and %llu flows moved)",
			 r->vip, r->dip[0] ? ": dip " : "", r->dip, verbs[r->op],
			 r->status == CONTROL_ACCEPTED ? ", draining" : "",
			 (unsigned long long)r->change.generation,
			 (unsigned long long)r->change.dcodes_moved,
			 (unsigned long long)r->change.flows_moved);
}

static void tell_published(struct control *c, const struct control_request *r)
{
	struct control_view view = {.c = c};

	if (!r->transaction || !r->transaction->published)
		return;
	r->transaction->published(r->transaction->ctx, &view);
	control_view_end(&view);
}

static void answer_all(struct run *run, int rc, const struct error *err)
{
	struct control *c = run->c;

	for (unsigned i = 0; i < run->n; i++) {
		struct control_request *r = run->queued[i]->request;
		if (change_accepted(r) && rc) {
			change_answer_failure(r, rc, err);
		} else if (change_accepted(r)) {
			bool changed = change_answer_success(c, &run->b, r);
			tell_published(c, r);
			if (changed)
				log_change(c, r);
		}
		finish(c, run->queued[i]);
	}
}

/* Flows have opened that a new VIP would take over, and a commit has been made. All is asked for
 * anew, and looked at with these flows in sight. */
static void ask_again(struct run *run)
{
	struct queued_change *list = NULL;

	for (unsigned i = run->n; i-- > 0;) {
		run->queued[i]->next = list;
		list = run->queued[i];
	}
	put_back(run->c, list);
	batch_destroy(run->c, &run->b);
}

static void publish_run(struct run *run)
{
	struct control *c = run->c;
	struct error err = {{0}};

	batch_drop_unchanged(c, &run->b);
	int rc = log_requests(run, &err);
	if (rc == 0) {
		control_collect_due(c, &run->b, clock_now_ms());
		rc = control_publish(c, &run->b, &err);
	}
	if (rc == -ECANCELED) {
		ask_again(run);
		return;
	}
	answer_all(run, rc, &err);
	if (rc)
		throw_away(run);
	else
		batch_destroy(c, &run->b);
}

/* A request that is refused now may have been committed before flows opened that forbid it: the
 * disk must not know it any more when it is answered. */
static void heal_disk(struct run *run)
{
	struct control *c = run->c;
	struct error err;

	if (!c->committed_in_vain)
		return;
	control_collect_due(c, &run->b, clock_now_ms());
	if (control_publish(c, &run->b, &err))
		log_warning("control",
			    "a change that was refused is on disk until the next publish (%s)",
			    err.message);
	batch_destroy(c, &run->b);
}

bool control_run_changes(struct control *c)
{
	struct run run = {.c = c, .next_dip_uid = c->next_dip_uid, .next_vip_uid = c->next_vip_uid};
	struct queued_change *list = take_changes(c);

	if (!list)
		return false;
	gather(&run, list);
	struct control_request *r = run.queued[0]->request;
	bool alone = change_stands_alone(r);
	if (!alone || (change_accepted(r) && !run.b.dry)) {
		publish_run(&run);
		return true;
	}
	if (change_accepted(r))
		change_answer_plan(c, &run.b, r);
	throw_away(&run);
	heal_disk(&run);
	finish(c, run.queued[0]);
	return true;
}
