/* Server IDs: the table that a view routes QUIC packets by, and which IDs may be in it together.
 *
 * A connection that has moved to another address is known by nothing but its IDs: there is no flow
 * that says it is there. So a DIP that drains is kept, when its last flow has ended, until no
 * packet has been sent to it for as long as a datagram flow may be silent. Its packet counter
 * tells, looked at now and then; after a restart silence begins anew. */
#include <errno.h>

#include "control/internal.h"

#define LISTEN_INTERVAL_MS 1000u

static bool has_id(const struct vip_version *v, const struct dip_version *d)
{
	return v->conf.quic == QUIC_SERVER_ID && d->conf.server_id_len;
}

int quic_ids_fill(const struct vip_version *v, struct vip_view *view)
{
	unsigned n = 0, len = 0;

	for (unsigned i = 0; i < v->n_dips; i++)
		if (has_id(v, &v->dips[i])) {
			len = v->dips[i].conf.server_id_len;
			n++;
		}
	if (n == 0)
		return 0;
	view->server_ids = server_ids_new(len, v->conf.quic_config_rotation, n, view->seed);
	if (!view->server_ids)
		return -ENOMEM;
	/* Those that drain first: one may have lent its ID to another of its address. */
	for (int deleting = 1; deleting >= 0; deleting--)
		for (unsigned i = 0; i < v->n_dips; i++)
			if (has_id(v, &v->dips[i]) && v->dips[i].deleting == deleting)
				server_ids_set(view->server_ids, v->dips[i].conf.server_id,
					       v->dips[i].index);
	return 0;
}

/* --- connections without a flow ------------------------------------------------------------ */

void quic_ids_listen(const struct control *c, struct vip_runtime *v, uint64_t now_ms)
{
	v->listened_ms = now_ms;
	for (unsigned i = 0; v->now && i < v->now->n_dips; i++) {
		struct dip_runtime *d = &v->dips[v->now->dips[i].index];
		struct dip_traffic t;
		if (!has_id(v->now, &v->now->dips[i]))
			continue;
		vip_runtime_traffic(c, d, &t);
		if (t.packets != d->heard_packets)
			d->heard_ms = now_ms;
		d->heard_packets = t.packets;
	}
}

void quic_ids_listen_now_and_then(const struct control *c, struct vip_runtime *v, uint64_t now_ms)
{
	if (now_ms - v->listened_ms >= LISTEN_INTERVAL_MS)
		quic_ids_listen(c, v, now_ms);
}

void quic_ids_listen_drains(const struct control *c, struct vip_runtime *v,
			    const struct vip_version *version, uint64_t now_ms)
{
	bool drains = version->deleting;

	for (unsigned i = 0; i < version->n_dips && !drains; i++)
		drains = version->dips[i].deleting && has_id(version, &version->dips[i]);
	if (drains)
		quic_ids_listen(c, v, now_ms);
}

/* As far as was listened: what came since then is not known yet. */
bool quic_ids_quiet(const struct vip_runtime *v, const struct vip_version *version,
		    const struct dip_version *d)
{
	uint64_t heard_ms = v->dips[d->index].heard_ms;

	return !has_id(version, d) || heard_ms == 0 || FAULT(drain_without_ids) ||
	       v->listened_ms >= heard_ms + version->conf.idle_udp_s * 1000ull +
					 vip_conf_refresh_ms(&version->conf);
}

bool quic_ids_all_quiet(const struct vip_runtime *v, const struct vip_version *version)
{
	for (unsigned i = 0; i < version->n_dips; i++)
		if (!quic_ids_quiet(v, version, &version->dips[i]))
			return false;
	return true;
}

/* --- which IDs go together ----------------------------------------------------------------- */

static bool ids_equal(const struct dip_conf *x, const struct dip_conf *y)
{
	return x->server_id_len == y->server_id_len &&
	       memcmp(x->server_id, y->server_id, x->server_id_len) == 0;
}

/* A DIP that drains and one that is made anew with its address are one server. */
static bool is_same_server(const struct dip_version *d, const struct dip_conf *conf)
{
	return d->deleting && ip_addr_equal(&d->conf.address, &conf->address);
}

static bool clash(struct change *x, const struct vip_version *v, const struct dip_conf *conf)
{
	struct field_errors *errors = &x->r->errors;

	for (unsigned i = 0; conf->server_id_len && i < v->n_dips; i++) {
		const struct dip_version *d = &v->dips[i];
		if (!d->conf.server_id_len || strcmp(d->conf.id, conf->id) == 0)
			continue;
		if (d->conf.server_id_len != conf->server_id_len) {
			field_errors_add(errors, "/server_id", "conflict",
					 "%u octets, as DIP \"%s\" of this VIP has",
					 d->conf.server_id_len, d->conf.id);
			edit_refuse(x, CONTROL_CONFLICT,
				    "all server IDs of a VIP have the same length");
			return true;
		}
		if (ids_equal(&d->conf, conf) && !is_same_server(d, conf)) {
			field_errors_add(errors, "/server_id", "duplicate",
					 "DIP \"%s\" of this VIP has this server ID%s", d->conf.id,
					 d->deleting ? " while it drains" : "");
			edit_refuse(x, CONTROL_CONFLICT,
				    "another DIP of this VIP has this server ID");
			return true;
		}
	}
	return false;
}

bool quic_ids_clash(struct change *x, const struct vip_version *v, const struct dip_conf *conf)
{
	const struct control_transaction *t = x->r->transaction;

	return !(t && t->several) && clash(x, v, conf);
}

void quic_ids_check_edit(struct change *x)
{
	const struct vip_runtime *v = vip_index_by_id(x->c, x->b, x->e->vip);
	const struct vip_version *version = v ? batch_version_of(x->b, v) : NULL;
	const struct dip_version *d = NULL;

	if (version && control_op_is_dip(x->e->op) && x->e->op != OP_DIP_DELETE)
		d = vip_version_dip(version, x->e->dip);
	if (d)
		(void)clash(x, version, &d->conf);
}
