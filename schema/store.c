/* The store's thread: it takes one transaction at a time, commits it, and only when nobody waits
 * any more folds the log into the file, so that a checkpoint does not stand in the way of a
 * publish. A log that has grown large is folded at once, and so is one for which the disk gets
 * small, and then it is emptied: the file may have to grow by what is in the log, and once the log
 * has taken the last room itself nothing could ever be folded or written again.
 *
 * After a failed commit the log is emptied at once: if its last fsync failed, the frames of the
 * transaction that was rolled back may have reached the disk, and a crash before the next commit
 * must not bring them back. And on a full disk it may be the log itself that fills it: whoever
 * tries again sooner than an idle time would never find room. */
#include "schema/store.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/priority.h"
#include "schema/store_db.h"

#define CHECKPOINT_IDLE_MS 500
#define CHECKPOINT_FRAMES 4096 /* 64 MiB */

/* A write that is no publish: it waits on its caller's stack for its turn. */
struct aside {
	store_write write;
	const void *arg;
	int result;
	bool done;
	struct error error;
	struct aside *next;
};

enum commit_phase { COMMIT_IDLE, COMMIT_WAITING, COMMIT_RUNNING, COMMIT_DONE };

struct store {
	struct store_db db; /* the thread's, once the first transaction came */
	int done_fd;
	pthread_t thread;
	bool started;
	bool failed;	      /* thread: the last commit */
	pthread_mutex_t lock; /* over what follows */
	pthread_cond_t wake;
	bool stop;
	enum commit_phase phase;
	const struct persist_txn *txn;
	int result;
	struct error error;
	struct aside *asides;
	pthread_cond_t written;
};

/* With the lock held: wait for a transaction or the end; false when the time for a checkpoint came.
 */
static bool wait_for_work(struct store *s)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += CHECKPOINT_IDLE_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	while (s->phase != COMMIT_WAITING && !s->asides && !s->stop) {
		if (!s->db.wal_frames)
			pthread_cond_wait(&s->wake, &s->lock);
		else if (pthread_cond_timedwait(&s->wake, &s->lock, &until) == ETIMEDOUT)
			return s->phase == COMMIT_WAITING || s->asides || s->stop;
	}
	return true;
}

static void checkpoint(struct store *s)
{
	store_db_checkpoint(&s->db, s->failed || store_db_short_of_room(&s->db));
	s->failed = false;
}

/* With the lock held. */
static void end_commit(struct store *s, int result)
{
	const uint64_t one = 1;

	s->result = result;
	s->phase = COMMIT_DONE;
	if (write(s->done_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		assert(!"an eventfd with room refuses a write");
}

/* With the lock held, which is given up meanwhile. */
static void commit(struct store *s)
{
	const struct persist_txn *txn = s->txn;
	struct error error = {""};
	int rc;

	s->phase = COMMIT_RUNNING;
	pthread_mutex_unlock(&s->lock);
	rc = store_db_commit(&s->db, txn, &error);
	s->failed = rc < 0;
	pthread_mutex_lock(&s->lock);
	s->error = error;
	end_commit(s, rc < 0 ? rc : 1);
}

/* With the lock held, which is given up meanwhile. */
static void write_aside(struct store *s)
{
	struct aside *w = s->asides;

	s->asides = w->next;
	pthread_mutex_unlock(&s->lock);
	w->result = w->write(&s->db, w->arg, &w->error);
	if (w->result < 0 && w->result != -ENOENT)
		s->failed = true;
	pthread_mutex_lock(&s->lock);
	w->done = true;
	pthread_cond_broadcast(&s->written);
}

static void *store_main(void *arg)
{
	struct store *s = arg;

	priority_drop(); /* whoever has made us */
	pthread_mutex_lock(&s->lock);
	for (;;) {
		bool work = wait_for_work(s);

		if (work && s->phase == COMMIT_WAITING)
			commit(s);
		else if (work && s->asides)
			write_aside(s);
		else if (work)
			break; /* stop */
		if (!work || s->failed || s->db.wal_frames > CHECKPOINT_FRAMES ||
		    store_db_short_of_room(&s->db)) {
			pthread_mutex_unlock(&s->lock);
			checkpoint(s);
			pthread_mutex_lock(&s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void make_locks(struct store *s)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, &attr);
	pthread_cond_init(&s->written, NULL);
	pthread_condattr_destroy(&attr);
}

/* With the lock held. The thread is made by the first write, so that it is born with no more rights
 * than the process has by then. */
static int thread_start(struct store *s, struct error *err)
{
	sigset_t all, old;
	int rc;

	if (s->started)
		return 0;
	sigfillset(&all); /* signals are the main thread's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->thread, NULL, store_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	s->started = rc == 0;
	if (!s->started)
		return error_set(err, -EIO, "database %s: no thread: %s", s->db.path, strerror(rc));
	pthread_setname_np(s->thread, "store");
	return 0;
}

int store_open(const char *path, struct store **out, struct error *err)
{
	struct store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_set(err, -ENOMEM, "database %s: no memory", path);
	make_locks(s);
	s->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = s->done_fd < 0 ? -errno : store_db_open(&s->db, path, err);
	if (s->done_fd < 0)
		error_set(err, rc, "database %s: no eventfd: %s", path, strerror(-rc));
	if (rc < 0) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

int store_load(struct store *s, struct persist_state *out, struct error *err)
{
	return store_db_load(&s->db, out, err);
}

struct history *store_history(struct store *s)
{
	return s->db.history;
}

static void store_submit(void *ctx, const struct persist_txn *txn)
{
	struct store *s = ctx;

	pthread_mutex_lock(&s->lock);
	assert(s->phase == COMMIT_IDLE);
	s->txn = txn;
	s->phase = COMMIT_WAITING;
	int rc = thread_start(s, &s->error);
	if (rc < 0)
		end_commit(s, rc);
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

static int store_poll(void *ctx, struct error *err)
{
	struct store *s = ctx;
	uint64_t count;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (s->phase == COMMIT_DONE) {
		if (read(s->done_fd, &count, sizeof(count)) != (ssize_t)sizeof(count))
			assert(!"a commit that is done has set the eventfd");
		rc = s->result;
		if (rc < 0 && err)
			*err = s->error;
		s->txn = NULL;
		s->phase = COMMIT_IDLE;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int wait_for_aside(struct store *s, struct aside *w, struct error *err)
{
	pthread_mutex_lock(&s->lock);
	w->result = thread_start(s, &w->error);
	if (!w->result) {
		w->next = s->asides;
		s->asides = w;
		pthread_cond_signal(&s->wake);
		while (!w->done)
			pthread_cond_wait(&s->written, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	if (w->result < 0 && err)
		*err = w->error;
	return w->result;
}

int store_run_aside(struct store *s, store_write write, const void *arg, struct error *err)
{
	struct aside w = {.write = write, .arg = arg};

	return wait_for_aside(s, &w, err);
}

static int put_agent(struct store_db *d, const void *arg, struct error *err)
{
	return store_db_put_agent(d, arg, err);
}

static int delete_agent(struct store_db *d, const void *arg, struct error *err)
{
	return store_db_delete_agent(d, arg, err);
}

static int store_put_agent(void *ctx, const struct persist_agent *a, struct error *err)
{
	return store_run_aside(ctx, put_agent, a, err);
}

static int store_delete_agent(void *ctx, const char *id, struct error *err)
{
	return store_run_aside(ctx, delete_agent, id, err);
}

struct store_db *store_db_of(struct store *s)
{
	return &s->db;
}

struct persist store_persist(struct store *s)
{
	return (struct persist){.ctx = s,
				.submit = store_submit,
				.poll = store_poll,
				.done_fd = s->done_fd,
				.put_agent = store_put_agent,
				.delete_agent = store_delete_agent};
}

void store_rest(struct store *s)
{
	if (!s->started)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	s->stop = false;
	s->started = false;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_rest(s);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->written);
	pthread_mutex_destroy(&s->lock);
	store_db_close(&s->db);
	if (s->done_fd >= 0)
		close(s->done_fd);
	free(s);
}
