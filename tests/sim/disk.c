#include "tests/sim/disk.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "schema/store_check.h"
#include "tests/sim/memory.h"
#include "tests/unit/mem_store.h"
#include "tests/unit/persist_equal.h"

static void die(const char *what, const struct error *err)
{
	fprintf(stderr, "%s: %s\n", what, err->message);
	abort();
}

/* --- commits ------------------------------------------------------------------------------- */

static void disk_submit(void *ctx, const struct persist_txn *txn)
{
	struct box *b = ctx;
	struct error err;

	if (store_txn_check(txn, "sim", &err))
		die("a transaction that the store would refuse", &err);
	assert(!b->txn);
	b->txn = txn;
	b->polls_before = prng_below(&b->random, b->polls_max + 1);
	b->polls_after = prng_below(&b->random, b->polls_max + 1);
	b->result = 0;
	b->n_commits++;
}

/* The store's thread does it; nothing else runs meanwhile. */
static void store_write(struct box *b)
{
	struct persist p = store_persist(b->store);
	struct pollfd pfd = {.fd = p.done_fd, .events = POLLIN};
	int rc;

	p.submit(p.ctx, b->txn);
	while ((rc = p.poll(p.ctx, &b->error)) == 0)
		(void)poll(&pfd, 1, -1);
	if (rc < 0)
		die("the store cannot commit", &b->error);
	mem_store_commit(&b->disk, b->txn);
}

static void disk_write(struct box *b)
{
	bool was = memory_of_process(false);

	b->result = 1;
	if (b->fail_commits)
		b->result = error_set(&b->error, -b->fail_commits, "told to fail");
	else
		store_write(b);
	memory_of_process(was);
}

static int disk_poll(void *ctx, struct error *err)
{
	struct box *b = ctx;

	assert(b->txn);
	if (b->result == 0 && b->polls_before > 0) {
		b->polls_before--;
		return 0;
	}
	if (b->result == 0)
		disk_write(b);
	if (b->polls_after > 0) {
		b->polls_after--;
		return 0;
	}
	b->txn = NULL;
	if (b->result < 0)
		*err = b->error;
	return b->result;
}

static int disk_put_agent(void *ctx, const struct persist_agent *a, struct error *err)
{
	struct box *b = ctx;
	bool was = memory_of_process(false);
	struct persist p = store_persist(b->store);
	struct error other;
	int rc = b->fail_commits ? error_set(err, -b->fail_commits, "told to fail")
				 : p.put_agent(p.ctx, a, err);

	if (!b->fail_commits && mem_store_put_agent(&b->disk, a, &other) != rc)
		die("an agent is taken by one of the stores", err);
	memory_of_process(was);
	return rc;
}

struct persist disk_persist(struct box *b)
{
	return (struct persist){.ctx = b,
				.submit = disk_submit,
				.poll = disk_poll,
				.done_fd = -1,
				.put_agent = disk_put_agent};
}

/* --- over the end of a process ------------------------------------------------------------- */

struct persist_state disk_read(struct box *b)
{
	struct persist_state s;
	struct error err = {"that is not what was committed"};

	if (store_load(b->store, &s, &err) || !persist_state_equal(&s, &b->disk))
		die("the database is read", &err);
	return s;
}

void disk_open(struct box *b)
{
	char path[96];
	struct error err;

	snprintf(path, sizeof(path), "%s.db", b->dir);
	if (store_open(path, &b->store, &err))
		die("the database cannot be opened", &err);
}

void disk_close(struct box *b)
{
	store_close(b->store);
	b->store = NULL;
	b->txn = NULL;
}

void disk_init(struct box *b)
{
	b->disk = (struct persist_state){.next_dip_uid = 1, .next_vip_uid = 1};
}

void disk_remove(struct box *b)
{
	static const char *const suffixes[] = {"", "-wal", "-journal", "-shm", ".new"};
	char path[112];

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		snprintf(path, sizeof(path), "%s.db%s", b->dir, suffixes[i]);
		unlink(path);
	}
	persist_state_free(&b->disk);
}
