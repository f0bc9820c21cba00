/* The desired state, taken out of control in one go and printed elsewhere: printing takes long. */
#include <stdlib.h>

#include "api/server/codec.h"
#include "api/server/config.h"
#include "api/server/etag.h"

struct copied_dip {
	struct dip_conf conf;
	bool deleting;
};

struct copied_vip {
	struct vip_conf conf;
	bool deleting;
	unsigned n_dips;
	struct copied_dip *dips;
};

struct config_copy {
	uint64_t generation;
	unsigned n, capacity;
	struct copied_vip *vips;
};

static bool copy_vip(struct config_copy *c, const struct control_view_vip *v)
{
	if (c->n == c->capacity) {
		unsigned capacity = c->capacity ? c->capacity * 2 : 16;
		struct copied_vip *grown = realloc(c->vips, capacity * sizeof(*grown));
		if (!grown)
			return false;
		c->vips = grown;
		c->capacity = capacity;
	}
	struct copied_vip *to = &c->vips[c->n];
	*to = (struct copied_vip){.conf = *v->conf, .deleting = v->deleting, .n_dips = v->n_dips};
	to->dips = malloc((v->n_dips + 1) * sizeof(*to->dips));
	if (!to->dips)
		return false;
	c->n++;
	for (unsigned i = 0; i < v->n_dips; i++)
		to->dips[i].conf = *control_view_dip(v, i, &to->dips[i].deleting);
	return true;
}

struct config_copy *config_copy_new(struct control_view *view)
{
	struct config_copy *c = calloc(1, sizeof(*c));
	struct control_view_vip v;

	if (!c)
		return NULL;
	c->generation = control_view_generation(view);
	for (unsigned i = 0; control_view_vip(view, i, &v); i++) {
		if (copy_vip(c, &v))
			continue;
		config_copy_free(c);
		return NULL;
	}
	if (!control_view_failed(view))
		return c;
	config_copy_free(c);
	return NULL;
}

void config_copy_free(struct config_copy *c)
{
	for (unsigned i = 0; c && i < c->n; i++)
		free(c->vips[i].dips);
	if (c)
		free(c->vips);
	free(c);
}

uint64_t config_copy_generation(const struct config_copy *c)
{
	return c->generation;
}

bool config_copy_tag(const struct config_copy *c, char *tag)
{
	struct etag e;

	etag_begin(&e);
	for (unsigned i = 0; i < c->n; i++) {
		const struct copied_vip *v = &c->vips[i];
		etag_add_vip(&e, &v->conf, v->deleting);
		for (unsigned k = 0; k < v->n_dips; k++)
			etag_add_dip(&e, &v->dips[k].conf, v->dips[k].deleting);
	}
	return etag_end(&e, tag);
}

/* json_array_append_new and json_object_set_new refuse NULL on either side. */
static json_t *print_vip(const struct copied_vip *v)
{
	json_t *vip = codec_print_vip_conf(&v->conf);
	json_t *dips = json_array();
	bool ok = true;

	for (unsigned i = 0; ok && i < v->n_dips; i++)
		if (!v->dips[i].deleting)
			ok = json_array_append_new(dips, codec_print_dip_conf(&v->dips[i].conf)) ==
			     0;
	if (!ok) {
		json_decref(dips);
		dips = NULL;
	}
	if (!json_object_set_new(vip, "dips", dips))
		return vip;
	json_decref(vip);
	return NULL;
}

json_t *config_copy_print(const struct config_copy *c)
{
	json_t *vips = json_array();
	bool ok = true;

	for (unsigned i = 0; ok && i < c->n; i++)
		if (!c->vips[i].deleting)
			ok = json_array_append_new(vips, print_vip(&c->vips[i])) == 0;
	if (ok)
		return json_pack("{s:o}", "vips", vips);
	json_decref(vips);
	return NULL;
}
