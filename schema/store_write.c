/* One publish, one transaction. A VIP is written whole: its DIP rows anew, its Dcodes and pins as
 * two BLOBs bound in place. What could not be read back is refused before it is written. */
#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "schema/store_check.h"
#include "schema/store_db.h"
#include "schema/store_health.h"

static const char *const statement_sql[N_STORE_STATEMENTS] = {
	[STORE_BEGIN] = "BEGIN IMMEDIATE",
	[STORE_COMMIT] = "COMMIT",
	[STORE_PUT_STATE] = "UPDATE state SET generation = ?, next_vip_uid = ?, next_dip_uid = ?",
	[STORE_DELETE_VIP] = "DELETE FROM vip WHERE uid = ?",
	/* Not REPLACE, which would delete the row and with it its DIPs. */
	[STORE_PUT_VIP] =
		"INSERT INTO vip (uid, id, slot, address, port, port_end, protocol, mode, affinity,"
		" on_learn_overflow, drain_timeout_s, closing_pin_s, idle_established_s,"
		" idle_half_open_s, idle_closing_s, idle_udp_s, gue_port, quic,"
		" quic_config_rotation, fragments, clamp_mss, deleting, drain_deadline_s)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
		" ON CONFLICT (uid) DO UPDATE SET id = excluded.id, slot = excluded.slot,"
		" address = excluded.address, port = excluded.port,"
		" port_end = excluded.port_end, protocol = excluded.protocol,"
		" mode = excluded.mode, affinity = excluded.affinity,"
		" on_learn_overflow = excluded.on_learn_overflow,"
		" drain_timeout_s = excluded.drain_timeout_s,"
		" closing_pin_s = excluded.closing_pin_s,"
		" idle_established_s = excluded.idle_established_s,"
		" idle_half_open_s = excluded.idle_half_open_s,"
		" idle_closing_s = excluded.idle_closing_s, idle_udp_s = excluded.idle_udp_s,"
		" gue_port = excluded.gue_port,"
		" quic = excluded.quic, quic_config_rotation = excluded.quic_config_rotation,"
		" fragments = excluded.fragments, clamp_mss = excluded.clamp_mss,"
		" deleting = excluded.deleting, drain_deadline_s = excluded.drain_deadline_s",
	[STORE_PUT_LOOKUP] =
		"INSERT INTO vip_lookup (vip_uid, seed, pin_seed, pin_n_a, pin_n_b, dcodes, pins)"
		" VALUES (?, ?, ?, ?, ?, ?, ?)"
		" ON CONFLICT (vip_uid) DO UPDATE SET seed = excluded.seed,"
		" pin_seed = excluded.pin_seed, pin_n_a = excluded.pin_n_a,"
		" pin_n_b = excluded.pin_n_b, dcodes = excluded.dcodes, pins = excluded.pins",
	[STORE_DELETE_DIPS] = "DELETE FROM dip WHERE vip_uid = ?",
	[STORE_PUT_DIP] =
		"INSERT INTO dip (uid, vip_uid, id, dip_index, address, port, weight, mac,"
		" admin_state, server_id, deleting, drain_deadline_s, health_verdict,"
		" health_since_s, health_override, health_override_until_s,"
		" health_override_reason)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STORE_PUT_HEALTH] =
		"INSERT OR REPLACE INTO vip_health (vip_uid, " STORE_HEALTH_COLUMNS ")"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STORE_DELETE_HEALTH] = "DELETE FROM vip_health WHERE vip_uid = ?",
	[STORE_PRUNE_AGENTS] = "DELETE FROM agent WHERE vip_uid = ?1 AND dip_uid NOT IN"
			       " (SELECT uid FROM dip WHERE vip_uid = ?1)",
	[STORE_PUT_AGENT] = "INSERT INTO agent (id, vip_uid, dip_uid, token_hash)"
			    " SELECT ?1, vip_uid, uid, ?4 FROM dip WHERE vip_uid = ?2 AND uid = ?3"
			    " ON CONFLICT (id) DO UPDATE SET vip_uid = excluded.vip_uid,"
			    " dip_uid = excluded.dip_uid, token_hash = excluded.token_hash",
	[STORE_RESTORE_AGENT] = "INSERT OR IGNORE INTO agent (id, vip_uid, dip_uid, token_hash)"
				" SELECT ?1, vip_uid, uid, ?4 FROM dip"
				" WHERE vip_uid = ?2 AND uid = ?3",
	[STORE_DELETE_AGENT] = "DELETE FROM agent WHERE id = ?",
	[STORE_CUT_LOG] = "DELETE FROM change_log WHERE version >= ?",
	[STORE_PUT_LOG] = "INSERT INTO change_log (version, at_ms, author, action,"
			  " generation_before, generation, n_edits, edits)"
			  " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	[STORE_TRIM_LOG] = "DELETE FROM change_log WHERE version < ?",
};

int store_db_prepare(struct store_db *d, struct error *err)
{
	for (unsigned i = 0; i < N_STORE_STATEMENTS; i++) {
		int rc = sqlite3_prepare_v3(d->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
					    &d->statements[i], NULL);
		if (rc != SQLITE_OK)
			return store_db_error(d, rc, "use its tables", err);
	}
	return 0;
}

/* Binds one parameter after the other; the first failure stays in rc. */
struct binder {
	sqlite3_stmt *statement;
	int n;
	int rc;
};

static struct binder bind_begin(const struct store_db *d, enum store_statement statement)
{
	return (struct binder){.statement = d->statements[statement]};
}

static void bind_int(struct binder *b, int64_t value)
{
	if (b->rc == SQLITE_OK)
		b->rc = sqlite3_bind_int64(b->statement, ++b->n, value);
}

/* text: NULL is SQL's NULL. It and data below stay the caller's until run. */
static void bind_text(struct binder *b, const char *text)
{
	if (b->rc == SQLITE_OK)
		b->rc = sqlite3_bind_text(b->statement, ++b->n, text, -1, SQLITE_STATIC);
}

static void bind_blob(struct binder *b, const void *data, size_t size)
{
	if (b->rc == SQLITE_OK) /* a NULL pointer would be SQL's NULL, not an empty BLOB */
		b->rc = sqlite3_bind_blob64(b->statement, ++b->n, size ? data : "", size,
					    SQLITE_STATIC);
}

static int run(struct binder *b)
{
	int rc = b->rc == SQLITE_OK ? sqlite3_step(b->statement) : b->rc;
	int reset = sqlite3_reset(b->statement);

	sqlite3_clear_bindings(b->statement);
	return rc == SQLITE_DONE ? reset : rc;
}

static int run_with(const struct store_db *d, enum store_statement statement, int64_t value)
{
	struct binder b = bind_begin(d, statement);

	bind_int(&b, value);
	return run(&b);
}

static int run_plain(const struct store_db *d, enum store_statement statement)
{
	struct binder b = bind_begin(d, statement);

	return run(&b);
}

static int put_state(const struct store_db *d, const struct persist_txn *txn)
{
	struct binder b = bind_begin(d, STORE_PUT_STATE);

	bind_int(&b, (int64_t)txn->generation);
	bind_int(&b, txn->next_vip_uid);
	bind_int(&b, (int64_t)txn->next_dip_uid);
	return run(&b);
}

static int put_conf(const struct store_db *d, const struct persist_vip *v)
{
	const struct vip_conf *c = &v->conf;
	struct binder b = bind_begin(d, STORE_PUT_VIP);
	char address[IP_PREFIX_STRLEN];

	bind_int(&b, v->uid);
	bind_text(&b, c->id);
	bind_int(&b, v->slot);
	bind_text(&b, ip_prefix_format(&c->match.address, c->match.host_bits, address));
	bind_int(&b, c->match.port);
	bind_int(&b, c->match.port_end);
	bind_text(&b, vip_protocol_names[c->match.protocol]);
	bind_text(&b, vip_mode_names[c->mode]);
	bind_text(&b, vip_affinity_names[c->affinity]);
	bind_text(&b, learn_overflow_names[c->on_learn_overflow]);
	bind_int(&b, c->drain_timeout_s);
	bind_int(&b, c->closing_pin_s);
	bind_int(&b, c->idle_established_s);
	bind_int(&b, c->idle_half_open_s);
	bind_int(&b, c->idle_closing_s);
	bind_int(&b, c->idle_udp_s);
	bind_int(&b, c->gue_port);
	bind_text(&b, vip_quic_names[c->quic]);
	bind_int(&b, c->quic_config_rotation);
	bind_text(&b, vip_fragments_names[c->fragments]);
	bind_int(&b, c->clamp_mss);
	bind_int(&b, v->deleting);
	bind_int(&b, v->drain_deadline_s);
	return run(&b);
}

static int put_lookup(const struct store_db *d, const struct persist_vip *v)
{
	struct binder b = bind_begin(d, STORE_PUT_LOOKUP);

	bind_int(&b, v->uid);
	bind_int(&b, (int64_t)v->seed);
	bind_int(&b, (int64_t)v->pin_seed);
	bind_int(&b, v->pin_n_a);
	bind_int(&b, v->pin_n_b);
	bind_blob(&b, v->dcodes, v->n_dcodes * sizeof(v->dcodes[0]));
	bind_blob(&b, v->pins, v->n_pins * sizeof(v->pins[0]));
	return run(&b);
}

static int put_dip(const struct store_db *d, uint32_t vip_uid, const struct persist_dip *dip)
{
	struct binder b = bind_begin(d, STORE_PUT_DIP);
	char address[IP_ADDR_STRLEN];
	char mac[MAC_STRLEN], server_id[SERVER_ID_STRLEN];

	bind_int(&b, (int64_t)dip->uid);
	bind_int(&b, vip_uid);
	bind_text(&b, dip->conf.id);
	bind_int(&b, dip->index);
	bind_text(&b, ip_addr_format(&dip->conf.address, address));
	bind_int(&b, dip->conf.port);
	bind_int(&b, dip->conf.weight);
	bind_text(&b, dip->conf.has_mac ? mac_format(dip->conf.mac, mac) : NULL);
	bind_text(&b, admin_state_names[dip->conf.admin_state]);
	bind_text(&b, dip->conf.server_id_len ? dip_conf_format_server_id(&dip->conf, server_id)
					      : NULL);
	bind_int(&b, dip->deleting);
	bind_int(&b, dip->drain_deadline_s);
	bind_text(&b, health_verdict_names[dip->health.verdict]);
	bind_int(&b, dip->health.since_s);
	bind_text(&b, health_override_names[dip->health.override]);
	bind_int(&b, dip->health.override_until_s);
	bind_text(&b, dip->health.reason);
	return run(&b);
}

static int put_vip(const struct store_db *d, const struct persist_vip *v)
{
	int rc = put_conf(d, v);

	if (rc == SQLITE_OK)
		rc = put_lookup(d, v);
	if (rc == SQLITE_OK)
		rc = store_health_put(d, v);
	if (rc == SQLITE_OK)
		rc = run_with(d, STORE_DELETE_DIPS, v->uid);
	for (unsigned i = 0; i < v->n_dips && rc == SQLITE_OK; i++)
		rc = put_dip(d, v->uid, &v->dips[i]);
	if (rc == SQLITE_OK)
		rc = run_with(d, STORE_PRUNE_AGENTS, v->uid);
	return rc;
}

static int put_log_entry(const struct store_db *d, const struct history_entry *e)
{
	struct binder b = bind_begin(d, STORE_PUT_LOG);

	bind_int(&b, (int64_t)e->version);
	bind_int(&b, e->wall_ms);
	bind_text(&b, e->author);
	bind_text(&b, e->action);
	bind_int(&b, (int64_t)e->generation_before);
	bind_int(&b, (int64_t)e->generation);
	bind_int(&b, e->n_edits);
	bind_text(&b, e->edits);
	return run(&b);
}

static int put_log(const struct store_db *d, const struct history_update *u)
{
	int rc = SQLITE_OK;

	if (u->replace_from)
		rc = run_with(d, STORE_CUT_LOG, (int64_t)u->replace_from);
	for (unsigned i = 0; i < u->n && rc == SQLITE_OK; i++)
		rc = put_log_entry(d, u->entries[i]);
	if (rc == SQLITE_OK && u->keep_from)
		rc = run_with(d, STORE_TRIM_LOG, (int64_t)u->keep_from);
	return rc;
}

static int put_agent(const struct store_db *d, const struct persist_agent *a,
		     enum store_statement how)
{
	struct binder b = bind_begin(d, how);

	bind_text(&b, a->id);
	bind_int(&b, a->vip_uid);
	bind_int(&b, (int64_t)a->dip_uid);
	bind_blob(&b, a->token_hash, sizeof(a->token_hash));
	return run(&b);
}

/* Deletions first: a new VIP may take the id, match or slot of one that goes. */
static int write_all(const struct store_db *d, const struct persist_txn *txn,
		     const struct history_update *log)
{
	int rc = put_state(d, txn);

	for (unsigned i = 0; i < txn->n_delete && rc == SQLITE_OK; i++)
		rc = run_with(d, STORE_DELETE_VIP, txn->delete_uids[i]);
	for (unsigned i = 0; i < txn->n_put && rc == SQLITE_OK; i++)
		rc = put_vip(d, txn->put[i]);
	for (unsigned i = 0; i < txn->n_agents && rc == SQLITE_OK; i++)
		rc = put_agent(d, &txn->agents[i], STORE_RESTORE_AGENT);
	if (rc == SQLITE_OK)
		rc = put_log(d, log);
	return rc;
}

/* The file must be writable by now, and still have its name: a commit to a file that no name leads
 * to any more would be lost with the process. */
int store_db_check_file(struct store_db *d, struct error *err)
{
	int moved = 0;
	int rc = store_db_reopen(d, err);

	if (rc < 0)
		return rc == -EROFS || rc == -ENOSPC ? rc : -EIO;
	sqlite3_file_control(d->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
	return moved ? error_set(err, -EIO,
				 "database %s: moved or removed while in use: put it back, or "
				 "restart",
				 d->path)
		     : 0;
}

static int roll_back(const struct store_db *d, int rc, struct error *err)
{
	int code = store_db_error(d, rc, "write to it", err);

	if (!sqlite3_get_autocommit(d->db) &&
	    sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
		log_error("store", "%s: cannot roll back: %s", d->path, sqlite3_errmsg(d->db));
	return code == -ENOSPC || code == -EROFS ? code : -EIO;
}

int store_db_commit(struct store_db *d, const struct persist_txn *txn, struct error *err)
{
	struct history_update log;

	if (store_txn_check(txn, d->path, err) < 0)
		return -EIO;
	int rc = store_db_check_file(d, err);
	if (rc < 0)
		return rc;
	if (history_prepare(d->history, txn, &log))
		return error_set(err, -EIO, "database %s: no memory for the change log", d->path);
	rc = run_plain(d, STORE_BEGIN);
	if (rc == SQLITE_OK)
		rc = write_all(d, txn, &log);
	if (rc == SQLITE_OK)
		rc = run_plain(d, STORE_COMMIT);
	if (rc != SQLITE_OK) {
		history_abort(&log);
		return roll_back(d, rc, err);
	}
	history_commit(d->history, &log);
	return 0;
}

/* --- agents --------------------------------------------------------------- */

int store_db_put_agent(struct store_db *d, const struct persist_agent *a, struct error *err)
{
	int rc = store_db_check_file(d, err);

	if (rc < 0)
		return rc;
	rc = run_plain(d, STORE_BEGIN);
	if (rc == SQLITE_OK)
		rc = put_agent(d, a, STORE_PUT_AGENT);
	bool written = rc == SQLITE_OK && sqlite3_changes(d->db) == 1;
	if (rc == SQLITE_OK)
		rc = run_plain(d, STORE_COMMIT);
	if (rc != SQLITE_OK)
		return roll_back(d, rc, err);
	return written ? 0 : error_set(err, -ENOENT, "the DIP has just been removed");
}

int store_db_delete_agent(struct store_db *d, const char *id, struct error *err)
{
	int rc = store_db_check_file(d, err);

	if (rc < 0)
		return rc;
	rc = run_plain(d, STORE_BEGIN);
	if (rc == SQLITE_OK) {
		struct binder b = bind_begin(d, STORE_DELETE_AGENT);
		bind_text(&b, id);
		rc = run(&b);
	}
	if (rc == SQLITE_OK)
		rc = run_plain(d, STORE_COMMIT);
	return rc == SQLITE_OK ? 0 : roll_back(d, rc, err);
}
