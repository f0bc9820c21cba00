#include <stdio.h>
#include <stdlib.h>

#include "api/server/codec.h"
#include "api/server/config.h"

const char *const config_prune_names[] = {
	[PRUNE_NONE] = "none", [PRUNE_DRAIN] = "drain", [PRUNE_REMOVE] = "remove", NULL};

/* The member that must be a list; NULL with the fault told. One that is too long is not even looked
 * at: its entries take a thousand times the memory that they do as text. */
static const json_t *list_member(const json_t *object, const char *name, unsigned most,
				 struct field_errors *errors)
{
	const json_t *list = json_object_get(object, name);
	char pointer[16];

	snprintf(pointer, sizeof(pointer), "/%s", name);
	if (!list)
		field_errors_add(errors, pointer, "required", "what is not listed is taken away");
	else if (!json_is_array(list))
		field_errors_add(errors, pointer, "type", "must be an array");
	else if (json_array_size(list) > most)
		field_errors_add(errors, pointer, "limit", "%s: %u at the most", name, most);
	else
		return list;
	return NULL;
}

/* The id in a list's entry; NULL with the fault told. */
static const char *entry_id(const json_t *entry, struct field_errors *errors)
{
	const json_t *id = json_object_get(entry, "id");

	if (!json_is_object(entry))
		field_errors_add(errors, "", "type", "must be an object");
	else if (!id)
		field_errors_add(errors, "/id", "required", "it has no default");
	else if (!json_is_string(id))
		field_errors_add(errors, "/id", "type", "must be a string");
	else if (!model_id_valid(json_string_value(id)))
		field_errors_add(errors, "/id", "bad_value", "[a-z0-9]([a-z0-9._-]{0,62})");
	else
		return json_string_value(id);
	return NULL;
}

static int order_of_dips(const void *x, const void *y)
{
	return strcmp(((const struct config_dip *)x)->conf.id,
		      ((const struct config_dip *)y)->conf.id);
}

static int order_of_vips(const void *x, const void *y)
{
	return strcmp(((const struct config_vip *)x)->conf.id,
		      ((const struct config_vip *)y)->conf.id);
}

static void parse_dip(const json_t *body, struct config_vip *v, unsigned vip_at, unsigned at,
		      struct field_errors *errors)
{
	struct config_dip *d = &v->dips[v->n_dips];

	snprintf(errors->prefix, sizeof(errors->prefix), "/vips/%u/dips/%u", vip_at, at);
	const char *id = entry_id(body, errors);
	if (!id || !codec_parse_dip(body, id, true, &d->edit, errors))
		return;
	d->at = at;
	dip_conf_defaults(&d->conf);
	dip_conf_apply(&d->conf, &d->edit, true);
	snprintf(d->conf.id, sizeof(d->conf.id), "%s", id);
	v->n_dips++;
}

static bool parse_dips(const json_t *list, struct config_vip *v, unsigned vip_at,
		       struct field_errors *errors)
{
	size_t n = json_array_size(list);

	v->dips = calloc(n + 1, sizeof(*v->dips));
	if (!v->dips)
		return false;
	for (size_t i = 0; i < n; i++)
		parse_dip(json_array_get(list, i), v, vip_at, (unsigned)i, errors);
	qsort(v->dips, v->n_dips, sizeof(*v->dips), order_of_dips);
	for (unsigned i = 1; i < v->n_dips; i++) {
		if (order_of_dips(&v->dips[i - 1], &v->dips[i]) != 0)
			continue;
		snprintf(errors->prefix, sizeof(errors->prefix), "/vips/%u/dips/%u", vip_at,
			 v->dips[i].at);
		field_errors_add(errors, "/id", "duplicate", "it is there twice");
	}
	return true;
}

/* A VIP whose own members are faulty is read on, for the faults of its DIPs. */
static bool parse_vip(const json_t *entry, struct config *c, unsigned at,
		      struct field_errors *errors)
{
	struct config_vip *v = &c->vips[c->n];
	char prefix[sizeof(errors->prefix)];
	bool ok = true;

	snprintf(prefix, sizeof(prefix), "/vips/%u", at);
	memcpy(errors->prefix, prefix, sizeof(prefix));
	const char *id = entry_id(entry, errors);
	const json_t *dips =
		json_is_object(entry) ? list_member(entry, "dips", DIPS_PER_VIP_MAX, errors) : NULL;
	json_t *own = json_copy((json_t *)entry); /* shallow */
	if (!own)
		return false;
	json_object_del(own, "dips");
	bool good = id && codec_parse_vip(own, id, true, &v->edit, errors);
	if (good) {
		vip_conf_defaults(&v->conf);
		vip_conf_apply(&v->conf, &v->edit, true);
		snprintf(v->conf.id, sizeof(v->conf.id), "%s", id);
	}
	json_decref(own);
	v->at = at;
	if (dips)
		ok = parse_dips(dips, v, at, errors);
	c->n++;
	return ok;
}

static void check_unknown(const json_t *body, struct field_errors *errors)
{
	char pointer[FIELD_POINTER_LEN];
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)body, name, value)
	{
		if (!strcmp(name, "vips"))
			continue;
		codec_pointer(pointer, "", name);
		field_errors_add(errors, pointer, "unknown", "no such member");
	}
}

static void check_twice(struct config *c, struct field_errors *errors)
{
	qsort(c->vips, c->n, sizeof(*c->vips), order_of_vips);
	for (unsigned i = 1; i < c->n; i++) {
		if (!c->vips[i].conf.id[0] || order_of_vips(&c->vips[i - 1], &c->vips[i]) != 0)
			continue;
		snprintf(errors->prefix, sizeof(errors->prefix), "/vips/%u", c->vips[i].at);
		field_errors_add(errors, "/id", "duplicate", "it is there twice");
	}
}

bool config_parse(const json_t *body, struct config *out, struct field_errors *errors)
{
	bool ok = true;

	*out = (struct config){.n = 0};
	if (!json_is_object(body)) {
		field_errors_add(errors, "", "type", "must be an object");
		return false;
	}
	check_unknown(body, errors);
	const json_t *list = list_member(body, "vips", VIPS_MAX, errors);
	size_t n = list ? json_array_size(list) : 0;
	out->vips = calloc(n + 1, sizeof(*out->vips));
	ok = out->vips != NULL;
	for (size_t i = 0; ok && i < n; i++)
		ok = parse_vip(json_array_get(list, i), out, (unsigned)i, errors);
	if (ok)
		check_twice(out, errors);
	errors->prefix[0] = '\0';
	return ok && field_errors_count(errors) == 0;
}

void config_free(struct config *c)
{
	for (unsigned i = 0; i < c->n; i++)
		free(c->vips[i].dips);
	free(c->vips);
	*c = (struct config){.n = 0};
}
