/* Reading everything at start. Each value is held to the same rules as on its way in: a database
 * that says something impossible stops the start and is named, it is never mended by guessing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "schema/store_check.h"
#include "schema/store_db.h"
#include "schema/store_health.h"

/* Reads one column after the other of a row; the first failure stays in fault. */
struct reader {
	sqlite3_stmt *row;
	int n;
	const char *fault; /* what is wrong, or NULL */
	int fault_column;
};

static void reader_fail(struct reader *r, const char *what)
{
	if (r->fault)
		return;
	r->fault = what;
	r->fault_column = r->n - 1;
}

static int64_t read_int(struct reader *r, int64_t min, int64_t max)
{
	int64_t value = sqlite3_column_int64(r->row, r->n++);

	if ((value < min || value > max))
		reader_fail(r, "a number out of range");
	return value;
}

static const char *read_text(struct reader *r)
{
	const char *text = (const char *)sqlite3_column_text(r->row, r->n++);

	return text ? text : "";
}

static void read_id(struct reader *r, char id[ID_LEN])
{
	const char *text = read_text(r);

	if (!model_id_valid(text))
		reader_fail(r, "a bad id");
	snprintf(id, ID_LEN, "%s", text);
}

static void read_address(struct reader *r, struct ip_addr *a)
{
	if (ip_addr_parse(read_text(r), a) < 0)
		reader_fail(r, "a bad address");
}

static unsigned read_word(struct reader *r, const char *const *names)
{
	const char *text = read_text(r);

	for (unsigned i = 0; names[i]; i++)
		if (strcmp(names[i], text) == 0)
			return i;
	reader_fail(r, "an unknown word");
	return 0;
}

/* A copy of a BLOB of `size`-byte elements; *n of them. NULL if empty, or on a fault. */
static void *read_array(struct reader *r, size_t size, uint32_t *n)
{
	const void *data = sqlite3_column_blob(r->row, r->n);
	size_t bytes = (size_t)sqlite3_column_bytes(r->row, r->n++);
	void *copy = NULL;

	*n = 0;
	if (bytes % size != 0) {
		reader_fail(r, "a BLOB of a wrong length");
	} else if (bytes > 0) {
		copy = data ? malloc(bytes) : NULL;
		if (!copy) {
			reader_fail(r, "no memory for a BLOB");
			return NULL;
		}
		memcpy(copy, data, bytes);
		*n = (uint32_t)(bytes / size);
	}
	return copy;
}

static int reader_fault(const struct store_db *d, const struct reader *r, const char *vip,
			struct error *err)
{
	if (!r->fault)
		return 0;
	return error_set(err, -EINVAL, "database %s: VIP %.63s: %s in column %s", d->path, vip,
			 r->fault, sqlite3_column_name(r->row, r->fault_column));
}

static void read_server_id(struct reader *r, struct dip_conf *c)
{
	bool has = sqlite3_column_type(r->row, r->n) != SQLITE_NULL;
	const char *text = read_text(r);

	if (has && dip_conf_parse_server_id(c, text) < 0)
		reader_fail(r, "a bad server ID");
}

static int read_dip(const struct store_db *d, sqlite3_stmt *row, struct persist_dip *dip,
		    const char *vip, struct error *err)
{
	struct reader r = {.row = row};
	const char *mac;

	memset(dip, 0, sizeof(*dip));
	dip->uid = (uint64_t)read_int(&r, 1, INT64_MAX);
	read_id(&r, dip->conf.id);
	dip->index = (uint16_t)read_int(&r, 1, DIP_INDEX_MAX);
	read_address(&r, &dip->conf.address);
	dip->conf.port = (uint32_t)read_int(&r, 0, UINT16_MAX);
	dip->conf.weight = (uint32_t)read_int(&r, 0, WEIGHT_MAX);
	dip->conf.has_mac = sqlite3_column_type(row, r.n) != SQLITE_NULL;
	mac = read_text(&r);
	if (dip->conf.has_mac && mac_parse(mac, dip->conf.mac) < 0)
		reader_fail(&r, "a bad MAC address");
	dip->conf.admin_state = (enum admin_state)read_word(&r, admin_state_names);
	read_server_id(&r, &dip->conf);
	dip->deleting = read_int(&r, 0, 1);
	dip->drain_deadline_s = read_int(&r, 0, INT64_MAX);
	dip->health.verdict = (enum health_verdict)read_word(&r, health_verdict_names);
	dip->health.since_s = read_int(&r, 0, INT64_MAX);
	dip->health.override = (enum health_override)read_word(&r, health_override_names);
	dip->health.override_until_s = read_int(&r, 0, INT64_MAX);
	snprintf(dip->health.reason, sizeof(dip->health.reason), "%s", read_text(&r));
	return reader_fault(d, &r, vip, err);
}

static int read_dips(const struct store_db *d, struct persist_vip *v, sqlite3_stmt *dips,
		     struct error *err)
{
	unsigned capacity = 0;
	int step, rc = 0;

	sqlite3_bind_int64(dips, 1, v->uid);
	while (rc == 0 && (step = sqlite3_step(dips)) == SQLITE_ROW) {
		if (v->n_dips == capacity) {
			capacity = capacity ? capacity * 2 : 16;
			void *grown = realloc(v->dips, capacity * sizeof(v->dips[0]));
			if (!grown) {
				rc = error_set(err, -ENOMEM, "database %s: no memory", d->path);
				break;
			}
			v->dips = grown;
		}
		rc = read_dip(d, dips, &v->dips[v->n_dips], v->conf.id, err);
		v->n_dips++;
	}
	if (rc == 0 && step != SQLITE_DONE)
		rc = store_db_error(d, step, "read the DIPs", err);
	sqlite3_reset(dips);
	return rc;
}

static void read_conf(struct reader *r, struct vip_conf *c)
{
	read_id(r, c->id);
	if (ip_prefix_parse(read_text(r), &c->match.address, &c->match.host_bits) < 0)
		reader_fail(r, "a bad address or prefix");
	c->match.port = (uint16_t)read_int(r, 0, UINT16_MAX);
	c->match.port_end = (uint16_t)read_int(r, 0, UINT16_MAX);
	c->match.protocol = (enum vip_protocol)read_word(r, vip_protocol_names);
	c->mode = (enum vip_mode)read_word(r, vip_mode_names);
	c->affinity = (enum vip_affinity)read_word(r, vip_affinity_names);
	c->on_learn_overflow = (enum learn_overflow)read_word(r, learn_overflow_names);
	c->drain_timeout_s = (uint32_t)read_int(r, 0, UINT32_MAX);
	c->closing_pin_s = (uint32_t)read_int(r, 0, UINT32_MAX);
	c->idle_established_s = (uint32_t)read_int(r, 0, UINT32_MAX);
	c->idle_half_open_s = (uint32_t)read_int(r, 0, UINT32_MAX);
	c->idle_closing_s = (uint32_t)read_int(r, 0, UINT32_MAX);
	c->idle_udp_s = (uint32_t)read_int(r, 0, UINT32_MAX);
	c->gue_port = (uint32_t)read_int(r, 1, UINT16_MAX);
	c->quic = (enum vip_quic)read_word(r, vip_quic_names);
	c->quic_config_rotation = (uint32_t)read_int(r, 0, UINT32_MAX);
	c->fragments = (enum vip_fragments)read_word(r, vip_fragments_names);
	c->clamp_mss = read_int(r, 0, 1) != 0;
}

static int read_vip(const struct store_db *d, sqlite3_stmt *row, sqlite3_stmt *dips,
		    struct persist_vip *v, struct error *err)
{
	struct reader r = {.row = row};
	int rc;

	memset(v, 0, sizeof(*v));
	v->uid = (uint32_t)read_int(&r, 1, UINT32_MAX);
	v->slot = (uint16_t)read_int(&r, 0, VIP_SLOTS - 1);
	read_conf(&r, &v->conf);
	v->deleting = read_int(&r, 0, 1);
	v->drain_deadline_s = read_int(&r, 0, INT64_MAX);
	if (sqlite3_column_type(row, r.n) == SQLITE_NULL)
		return error_set(err, -EINVAL, "database %s: VIP %.63s: no row in vip_lookup",
				 d->path, v->conf.id);
	v->seed = (uint64_t)read_int(&r, INT64_MIN, INT64_MAX);
	v->pin_seed = (uint64_t)read_int(&r, INT64_MIN, INT64_MAX);
	v->pin_n_a = (uint32_t)read_int(&r, 0, UINT32_MAX);
	v->pin_n_b = (uint32_t)read_int(&r, 0, UINT32_MAX);
	v->dcodes = read_array(&r, sizeof(v->dcodes[0]), &v->n_dcodes);
	v->pins = read_array(&r, sizeof(v->pins[0]), &v->n_pins);
	rc = reader_fault(d, &r, v->conf.id, err);
	if (rc == 0)
		rc = read_dips(d, v, dips, err);
	return rc;
}

static int read_state(const struct store_db *d, struct persist_state *s, struct error *err)
{
	static const uint16_t one = 1;
	const char *ours = *(const uint8_t *)&one ? "little" : "big";
	struct reader r = {0};
	int rc = sqlite3_prepare_v2(d->db,
				    "SELECT generation, next_dip_uid, next_vip_uid, byte_order,"
				    " database_id FROM state",
				    -1, &r.row, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(r.row);
	if (rc == SQLITE_ROW) {
		s->generation = (uint64_t)read_int(&r, 0, INT64_MAX);
		s->next_dip_uid = (uint64_t)read_int(&r, 1, INT64_MAX);
		s->next_vip_uid = (uint32_t)read_int(&r, 1, UINT32_MAX);
		rc = 0;
		if (r.fault)
			rc = error_set(err, -EINVAL, "database %s: its counters are damaged",
				       d->path);
		else if (strcmp(read_text(&r), ours) != 0)
			rc = error_set(err, -EINVAL,
				       "database %s: written by a machine of the other byte order",
				       d->path);
		else if (sqlite3_column_bytes(r.row, r.n) != sizeof(s->database_id))
			rc = error_set(err, -EINVAL, "database %s: its id is damaged", d->path);
		else
			memcpy(s->database_id, sqlite3_column_blob(r.row, r.n),
			       sizeof(s->database_id));
	} else if (rc == SQLITE_DONE) {
		rc = error_set(err, -EINVAL, "database %s: damaged: its row of state is missing",
			       d->path);
	} else {
		rc = store_db_error(d, rc, "read it", err);
	}
	sqlite3_finalize(r.row);
	return rc;
}

static int read_vips(const struct store_db *d, sqlite3_stmt *vips, sqlite3_stmt *dips,
		     struct persist_state *s, struct error *err)
{
	int step, rc = 0;

	s->vips = calloc(VIPS_MAX, sizeof(s->vips[0]));
	if (!s->vips)
		return error_set(err, -ENOMEM, "database %s: no memory", d->path);
	while (rc == 0 && (step = sqlite3_step(vips)) == SQLITE_ROW) {
		if (s->n_vips == VIPS_MAX)
			return error_set(err, -EINVAL, "database %s: too many VIPs", d->path);
		rc = read_vip(d, vips, dips, &s->vips[s->n_vips++], err);
	}
	return rc == 0 && step != SQLITE_DONE ? store_db_error(d, step, "read the VIPs", err) : rc;
}

static int read_agent(const struct store_db *d, sqlite3_stmt *row, struct persist_agent *a,
		      struct error *err)
{
	struct reader r = {.row = row};

	memset(a, 0, sizeof(*a));
	read_id(&r, a->id);
	a->vip_uid = (uint32_t)read_int(&r, 1, UINT32_MAX);
	a->dip_uid = (uint64_t)read_int(&r, 1, INT64_MAX);
	if (sqlite3_column_bytes(row, r.n++) != sizeof(a->token_hash))
		reader_fail(&r, "a hash of a wrong length");
	if (r.fault)
		return error_set(err, -EINVAL, "database %s: agent %.63s: %s in column %s", d->path,
				 a->id, r.fault, sqlite3_column_name(row, r.fault_column));
	memcpy(a->token_hash, sqlite3_column_blob(row, r.n - 1), sizeof(a->token_hash));
	return 0;
}

static int read_agents(const struct store_db *d, struct persist_state *s, struct error *err)
{
	sqlite3_stmt *row = NULL;
	unsigned capacity = 0;
	int step = SQLITE_DONE, rc;

	rc = sqlite3_prepare_v2(d->db,
				"SELECT id, vip_uid, dip_uid, token_hash FROM agent ORDER BY id",
				-1, &row, NULL);
	rc = rc == SQLITE_OK ? 0 : store_db_error(d, rc, "read the agents", err);
	while (rc == 0 && (step = sqlite3_step(row)) == SQLITE_ROW) {
		if (s->n_agents == capacity) {
			capacity = capacity ? capacity * 2 : 16;
			void *grown = realloc(s->agents, capacity * sizeof(s->agents[0]));
			if (!grown) {
				rc = error_set(err, -ENOMEM, "database %s: no memory", d->path);
				break;
			}
			s->agents = grown;
		}
		rc = read_agent(d, row, &s->agents[s->n_agents], err);
		s->n_agents++;
	}
	if (rc == 0 && step != SQLITE_DONE)
		rc = store_db_error(d, step, "read the agents", err);
	sqlite3_finalize(row);
	return rc;
}

/* Hold all that was read to what a write is held to: also the counters, which never go back (a uid
 * at or above its counter would be given out twice). */
static int check_all(const struct store_db *d, const struct persist_state *s, struct error *err)
{
	const struct persist_vip *vips[VIPS_MAX];

	for (unsigned i = 0; i < s->n_vips; i++)
		vips[i] = &s->vips[i];
	const struct persist_txn as_written = {.next_dip_uid = s->next_dip_uid,
					       .next_vip_uid = s->next_vip_uid,
					       .n_put = s->n_vips,
					       .put = vips};
	return store_txn_check(&as_written, d->path, err);
}

int store_db_load(struct store_db *d, struct persist_state *out, struct error *err)
{
	struct persist_state s = {0};
	sqlite3_stmt *vips = NULL, *dips = NULL;
	int rc = read_state(d, &s, err);

	if (rc < 0)
		return rc;
	rc = sqlite3_prepare_v2(
		d->db,
		"SELECT vip.uid, slot, id, address, port, port_end, protocol, mode, affinity,"
		" on_learn_overflow, drain_timeout_s, closing_pin_s,"
		" idle_established_s, idle_half_open_s, idle_closing_s, idle_udp_s,"
		" gue_port, quic, quic_config_rotation, fragments, clamp_mss, deleting,"
		" drain_deadline_s,"
		" seed, pin_seed, pin_n_a, pin_n_b, dcodes, pins"
		" FROM vip LEFT JOIN vip_lookup ON vip_uid = vip.uid ORDER BY vip.uid",
		-1, &vips, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(d->db,
					"SELECT uid, id, dip_index, address, port, weight, mac,"
					" admin_state, server_id, deleting, drain_deadline_s,"
					" health_verdict, health_since_s, health_override,"
					" health_override_until_s, health_override_reason"
					" FROM dip WHERE vip_uid = ? ORDER BY uid",
					-1, &dips, NULL);
	rc = rc == SQLITE_OK ? read_vips(d, vips, dips, &s, err)
			     : store_db_error(d, rc, "read it", err);
	if (rc == 0)
		rc = store_health_load(d, &s, err);
	if (rc == 0)
		rc = read_agents(d, &s, err);
	if (rc == 0)
		rc = check_all(d, &s, err);
	sqlite3_finalize(vips);
	sqlite3_finalize(dips);
	if (rc < 0) {
		persist_state_free(&s);
		return rc;
	}
	*out = s;
	return 0;
}
