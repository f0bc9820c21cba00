/* SQLite has no checksum over what it stores: a flipped bit in a BLOB passes its integrity check.
 * So everything that control would use as an index is held against what it indexes. */
#include "schema/store_check.h"

#include <errno.h>

/* A set of DIP indexes. */
struct index_set {
	uint64_t words[(DIP_INDEX_MAX + 1) / 64];
};

static bool index_set_has(const struct index_set *s, uint16_t index)
{
	return index <= DIP_INDEX_MAX && s->words[index / 64] >> (index % 64) & 1;
}

static void index_set_add(struct index_set *s, uint16_t index)
{
	s->words[index / 64] |= 1ull << (index % 64);
}

static int fault(const struct persist_vip *v, const char *path, struct error *err, const char *what,
		 uint64_t value)
{
	return error_set(err, -EINVAL, "database %s: VIP %.63s: %s (%llu)", path, v->conf.id, what,
			 (unsigned long long)value);
}

static int field_fault(const struct persist_vip *v, const char *path, const char *dip,
		       const struct field_errors *e, struct error *err)
{
	const struct field_error *f = &e->list[0];

	return error_set(err, -EINVAL, "database %s: VIP %.63s%s%.63s: %.32s must be: %.80s", path,
			 v->conf.id, *dip ? ": DIP " : "", dip, f->pointer + 1, f->detail);
}

static int check_dips(const struct persist_vip *v, const char *path, struct index_set *indexes,
		      struct error *err)
{
	unsigned len = 0; /* of the server IDs */

	if (v->n_dips > DIPS_PER_VIP_MAX)
		return fault(v, path, err, "too many DIPs", v->n_dips);
	for (unsigned i = 0; i < v->n_dips; i++) {
		const struct persist_dip *d = &v->dips[i];
		struct field_errors errors = {0};

		if (!dip_conf_validate(&d->conf, &v->conf, &errors))
			return field_fault(v, path, d->conf.id, &errors, err);
		if (d->uid == 0)
			return fault(v, path, err, "a DIP without uid", d->uid);
		if (d->index == DIP_NONE || d->index > DIP_INDEX_MAX ||
		    index_set_has(indexes, d->index))
			return fault(v, path, err, "a DIP index of no DIP or of two", d->index);
		index_set_add(indexes, d->index);
		if (len && d->conf.server_id_len && d->conf.server_id_len != len)
			return fault(v, path, err, "server IDs of several lengths", len);
		if (d->conf.server_id_len)
			len = d->conf.server_id_len;
	}
	return 0;
}

/* Dcodes without an owner are legal (no DIP has weight); those of an unknown one are not. */
static int check_dcodes(const struct persist_vip *v, const char *path,
			const struct index_set *indexes, struct error *err)
{
	if (v->n_dcodes & (v->n_dcodes - 1))
		return fault(v, path, err, "number of Dcodes is no power of two", v->n_dcodes);
	for (uint32_t i = 0; i < v->n_dcodes; i++)
		if (v->dcodes[i] != DIP_NONE && !index_set_has(indexes, v->dcodes[i]))
			return fault(v, path, err, "a Dcode names an unknown DIP index",
				     v->dcodes[i]);
	return 0;
}

/* A pin may name a DIP that has just gone (its flow was re-homed while the plan was made); control
 * drops such a pin at start. */
static int check_pins(const struct persist_vip *v, const char *path, struct error *err)
{
	static const uint8_t zero[5];
	bool dst = vip_match_dst_bits(&v->conf.match, v->conf.affinity) != 0;

	for (uint32_t i = 0; i < v->n_pins; i++) {
		const struct persist_pin *p = &v->pins[i];

		if (p->exact > 1 || memcmp(p->zero, zero, sizeof(zero)) != 0 ||
		    (!dst && memcmp(p->key.dst, zero, sizeof(p->key.dst)) != 0))
			return fault(v, path, err, "a pin with impossible bytes", i);
	}
	return 0;
}

int store_vip_check(const struct persist_vip *v, const char *path, struct error *err)
{
	struct field_errors errors = {0};
	struct index_set indexes = {0};
	int rc;

	if (!vip_conf_validate(&v->conf, &errors))
		return field_fault(v, path, "", &errors, err);
	if (v->uid == 0)
		return fault(v, path, err, "no uid", v->uid);
	if (v->slot >= VIP_SLOTS)
		return fault(v, path, err, "slot out of range", v->slot);
	rc = check_dips(v, path, &indexes, err);
	if (rc == 0)
		rc = check_dcodes(v, path, &indexes, err);
	if (rc == 0)
		rc = check_pins(v, path, err);
	return rc;
}

int store_txn_check(const struct persist_txn *txn, const char *path, struct error *err)
{
	for (unsigned i = 0; i < txn->n_put; i++) {
		const struct persist_vip *v = txn->put[i];
		int rc = store_vip_check(v, path, err);

		if (rc < 0)
			return rc;
		if (v->uid >= txn->next_vip_uid)
			return fault(v, path, err, "uid not below its counter", v->uid);
		for (unsigned k = 0; k < v->n_dips; k++)
			if (v->dips[k].uid >= txn->next_dip_uid)
				return fault(v, path, err, "DIP uid not below its counter",
					     v->dips[k].uid);
	}
	return 0;
}
