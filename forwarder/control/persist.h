/* What control keeps on disk, and the interface it writes through; schema/store implements it with
 * SQLite, tests with memory. One transaction holds everything of one publish. */
#pragma once

#include "control/health.h"

struct persist_dip {
	struct dip_conf conf;
	uint64_t uid;   /* stable for the DIP's life, never reused; the rendezvous id */
	uint16_t index; /* per-VIP DIP index, 1.. */
	bool deleting;  /* DELETE came: drains, then goes */
	int64_t drain_deadline_s; /* wall clock; 0 = none */
	struct dip_health health;
};

/** A pin or an exact entry with its full key. Stored as one BLOB of these for each VIP: 32 bytes, host
 *  byte order but for the key's network-order members. */
struct persist_pin {
	struct flow_key key;
	uint16_t dip;
	uint8_t exact; /* 1: an exact entry, 0: in the arrays */
	uint8_t zero[5];
};
_Static_assert(sizeof(struct persist_pin) == 32, "stored as it is");

/** Everything of one VIP. As an argument: the caller's memory, valid until the commit is done. As a
 *  result of load: one allocation tree, freed by persist_vip_free. */
struct persist_vip {
	struct vip_conf conf;
	uint32_t uid;  /* never reused */
	uint16_t slot; /* < VIP_SLOTS */
	bool deleting;
	int64_t drain_deadline_s; /* wall clock; 0 = none */
	uint64_t seed;            /* of flow_key_hash */
	uint64_t pin_seed;        /* re-mix seed of the Othello */
	uint32_t pin_n_a, pin_n_b;
	uint32_t n_dcodes;
	uint16_t *dcodes; /* the weighted table, before re-roll */
	uint32_t n_pins;
	struct persist_pin *pins;
	unsigned n_dips;
	struct persist_dip *dips;
};

/** Free the arrays of a loaded VIP (not the struct). */
void persist_vip_free(struct persist_vip *v);

/** An agent: for which DIP it may report, and the SHA-256 hash of its token. It goes with its DIP. */
struct persist_agent {
	char id[ID_LEN];
	uint32_t vip_uid;
	uint64_t dip_uid;
	uint8_t token_hash[32];
};

/** One accepted request in the change log: a version of the configuration. */
struct persist_log_entry {
	int64_t wall_ms;      /* when */
	char author[ID_LEN];  /* who: a token's name, "uid:1000", "local", ... */
	const char *action;   /* what was asked for: "PUT /v1/vips/web" */
	unsigned n_edits;     /* elements of edits, at least 1 */
	/** JSON text, an array of {"path": "/v1/vips/web/dips/b1", "before": {...}|null, "after":
	 *  {...}|null}: each resource that differs in what GET /v1/config says of it, with its writable
	 *  members (null: not there), in the order of the edits; undone from the last to the first they
	 *  lead back. What drains is not there any more ("after": null, and "draining": true beside it);
	 *  the end of a drain is no edit. The DIPs of a VIP that comes or goes have edits of their own:
	 *  after its own when it comes, before it when it goes. */
	const char *edits;
	uint64_t generation_before, generation; /* of the publish that carries it */
};

struct persist_txn {
	uint64_t generation;  /* the one that will be published */
	uint64_t next_dip_uid; /* counters that never go back */
	uint32_t next_vip_uid;
	unsigned n_put;       /* VIPs to write whole (insert or replace, keyed by uid) */
	const struct persist_vip *const *put;
	unsigned n_delete;
	const uint32_t *delete_uids;
	/** False: what the log has of this generation or a later one comes from an attempt that was
	 *  committed and not published, and is replaced by these entries (also if there are none). True: the
	 *  generation is published already, and the log stays as it is. */
	bool late;
	unsigned n_log;
	const struct persist_log_entry *log;
	/** Agents of these VIPs' DIPs that are to be there too: an attempt that was committed and not
	 *  published may have taken them away with their DIPs. One that is there stays as it is. */
	unsigned n_agents;
	const struct persist_agent *agents;
};

/** The state read at start. */
struct persist_state {
	uint64_t generation; /* 0: a new database */
	uint64_t next_dip_uid; /* 1 in a new database */
	uint32_t next_vip_uid; /* 1 in a new database */
	uint8_t database_id[16]; /* random, made with the database */
	unsigned n_vips;
	struct persist_vip *vips;
	unsigned n_agents;
	struct persist_agent *agents;
};

void persist_state_free(struct persist_state *s);

struct persist {
	void *ctx;
	/** Start writing a transaction on the store's own thread. One at a time; txn and all it points to
	 *  stay untouched until poll says it is done. */
	void (*submit)(void *ctx, const struct persist_txn *txn);
	/** 0: still under way. 1: durable. Negative: rolled back, err says why (-ENOSPC disk full, -EROFS
	 *  read-only, -EIO else); the next submit may succeed. After 1 or negative nothing is under way. */
	int (*poll)(void *ctx, struct error *err);
	/** Becomes readable when a submit has ended (an eventfd, reset by poll); -1 = commit is done
	 *  within submit. */
	int done_fd;
	/** Write (insert or replace by id) or delete one agent, in a transaction of its own. 0: durable.
	 *  -ENOENT: the DIP has gone meanwhile. Else as poll. NULL: agents are not kept. Thread: any but
	 *  control's; blocks. */
	int (*put_agent)(void *ctx, const struct persist_agent *a, struct error *err);
	int (*delete_agent)(void *ctx, const char *id, struct error *err);
};
