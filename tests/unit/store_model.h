/* For tests of the store: a model in memory of what the database should hold, random changes of it,
 * and the store opened on a file of the test's own. Include <check.h> first. */
#pragma once

#include "schema/store.h"

#define MODEL_VIPS 6
#define MODEL_DIPS 12

struct model {
	uint64_t generation;
	uint64_t next_dip_uid;
	uint32_t next_vip_uid;
	bool used[MODEL_VIPS];
	struct persist_vip vips[MODEL_VIPS];
};

/** A transaction and what it points to. */
struct change {
	struct persist_txn txn;
	const struct persist_vip *put[MODEL_VIPS];
	uint32_t deleted[MODEL_VIPS];
};

/** Directory and database file of this run, and the seed to name when something fails. */
extern char model_dir[];
extern char model_path[64];
extern unsigned model_seed;

unsigned model_random(unsigned n);

/** Empty, as a new database is. */
struct model model_new(void);
void model_free(struct model *m);

/** A new VIP in this place, without DIPs / another content for it. */
void model_vip_make(struct model *m, unsigned place);
void model_vip_change(struct model *m, struct persist_vip *v);

/** Change the model at random; c says so as a transaction, valid until the next step. */
void model_step(struct model *m, struct change *c);

/** Open the database, read it: must succeed. */
struct store *model_open(void);
void model_load(struct store *s, struct persist_state *out);

/** Commit through the interface for control, which is checked by the way; what poll said. */
int model_commit(struct store *s, const struct persist_txn *txn, struct error *err);
void model_commit_ok(struct store *s, const struct persist_txn *txn);

/** True if the database (closed) holds exactly the model. */
bool model_is_stored(const struct model *m);

/** Remove the database and all that may lie beside it. */
void model_remove(void);

/** A new database with some VIPs, closed; the model that it holds. */
struct model model_make_stored(void);

/** Run the suite with a seed that is printed ($SEED repeats one); the exit status. */
int model_run(Suite *suite);
