/* The log has what each request made of which resource. So a former state is the present one with
 * the newer entries undone, from the last to the first: it costs what has happened since, and
 * nothing is kept twice. One entry is parsed at a time; there may be a hundred thousand edits in
 * one. */
#include "api/server/past.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char vips_prefix[] = "/v1/vips/";
static const char dips_infix[] = "/dips/";

bool past_parse_version(const char *text, uint64_t *out)
{
	size_t n = strspn(text, "0123456789");

	if (n == 0 || n > 18 || text[n])
		return false;
	*out = strtoull(text, NULL, 10);
	return true;
}

/* One edit of an entry. */
struct edit {
	const char *path;
	char vip[ID_LEN], dip[ID_LEN]; /* dip "" = the VIP itself */
	json_t *before, *after;	       /* borrowed */
};

static bool copy_id(char id[ID_LEN], const char *text, size_t len)
{
	if (len >= ID_LEN)
		return false;
	memcpy(id, text, len);
	id[len] = '\0';
	return model_id_valid(id);
}

static bool split_path(struct edit *e)
{
	const char *vip = e->path + strlen(vips_prefix);
	size_t len;

	if (strncmp(e->path, vips_prefix, strlen(vips_prefix)) != 0)
		return false;
	len = strcspn(vip, "/");
	if (!copy_id(e->vip, vip, len))
		return false;
	e->dip[0] = '\0';
	if (!vip[len])
		return true;
	const char *dip = vip + len + strlen(dips_infix);
	return strncmp(vip + len, dips_infix, strlen(dips_infix)) == 0 &&
	       copy_id(e->dip, dip, strlen(dip));
}

static bool is_state(const json_t *v)
{
	return json_is_object(v) || json_is_null(v);
}

static bool read_edit(const json_t *from, struct edit *e)
{
	e->path = json_string_value(json_object_get(from, "path"));
	e->before = json_object_get(from, "before");
	e->after = json_object_get(from, "after");
	return e->path && is_state(e->before) && is_state(e->after) && split_path(e);
}

/* The edits of an entry; NULL with *rc set. */
static json_t *parse_entry(const struct history_entry *entry, int *rc)
{
	json_error_t err;
	json_t *edits = json_loads(entry->edits, 0, &err);

	*rc = 0;
	if (json_is_array(edits))
		return edits;
	*rc = !edits && json_error_code(&err) == json_error_out_of_memory ? -ENOMEM : -EINVAL;
	json_decref(edits);
	return NULL;
}

/* --- states -------------------------------------------------------------------------------- */

/* The entry of a VIP, made if it is not there. NULL without memory. */
static json_t *state_vip(json_t *state, const char *id)
{
	json_t *v = json_object_get(state, id);

	if (v)
		return v;
	v = json_pack("{s:{}}", "dips");
	return v && !json_object_set_new(state, id, v) ? v : NULL;
}

static int state_set(json_t *state, const struct edit *e, json_t *value)
{
	json_t *v = state_vip(state, e->vip);
	json_t *in = e->dip[0] ? json_object_get(v, "dips") : v;
	const char *name = e->dip[0] ? e->dip : "own";

	if (!v)
		return -ENOMEM;
	if (json_is_object(value))
		return json_object_set(in, name, value) ? -ENOMEM : 0;
	json_object_del(in, name);
	if (!json_object_get(v, "own") && json_object_size(json_object_get(v, "dips")) == 0)
		json_object_del(state, e->vip);
	return 0;
}

int past_undo(json_t *state, const struct history_entry *entry)
{
	int rc;
	json_t *edits = parse_entry(entry, &rc);

	for (size_t i = json_array_size(edits); i > 0 && rc == 0; i--) {
		struct edit e;
		rc = read_edit(json_array_get(edits, i - 1), &e) ? state_set(state, &e, e.before)
								 : -EINVAL;
	}
	json_decref(edits);
	return rc;
}

static bool add_dips(json_t *to, const json_t *dips)
{
	size_t i;
	json_t *dip;

	json_array_foreach(dips, i, dip)
	{
		if (json_object_set(to, json_string_value(json_object_get(dip, "id")), dip))
			return false;
	}
	return true;
}

json_t *past_from_config(const json_t *config)
{
	json_t *state = json_object();
	bool ok = state != NULL;
	json_t *vip;
	size_t i;

	json_array_foreach(json_object_get(config, "vips"), i, vip)
	{
		json_t *own = json_copy(vip); /* shallow */
		const char *id = json_string_value(json_object_get(vip, "id"));
		json_t *to = ok && own ? state_vip(state, id) : NULL;

		ok = to && add_dips(json_object_get(to, "dips"), json_object_get(vip, "dips"));
		json_object_del(own, "dips");
		if (json_object_set_new(ok ? to : NULL, "own", own))
			ok = false;
	}
	if (ok)
		return state;
	json_decref(state);
	return NULL;
}

bool past_is_whole(const json_t *state)
{
	const char *id;
	json_t *vip;

	json_object_foreach((json_t *)state, id, vip)
	{
		if (!json_object_get(vip, "own"))
			return false;
	}
	return true;
}

static int order_names(const void *x, const void *y)
{
	return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* The names of an object's members in order, as an array to be freed. NULL without memory. */
static const char **sorted_names(const json_t *object)
{
	const char **names = calloc(json_object_size(object) + 1, sizeof(*names));
	size_t n = 0;
	const char *name;
	json_t *value;

	if (!names)
		return NULL;
	json_object_foreach((json_t *)object, name, value)
	{
		(void)value;
		names[n++] = name;
	}
	qsort(names, n, sizeof(*names), order_names);
	return names;
}

/* The values of an object in the order of their names. NULL without memory. */
static json_t *sorted_values(const json_t *object)
{
	const char **names = sorted_names(object);
	json_t *list = names ? json_array() : NULL;
	bool ok = list != NULL;

	for (size_t i = 0; ok && names[i]; i++)
		ok = json_array_append(list, json_object_get(object, names[i])) == 0;
	free(names);
	if (ok)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *print_vip(const json_t *v)
{
	json_t *vip = json_copy(json_object_get(v, "own")); /* NULL if there is none */

	if (!json_object_set_new(vip, "dips", sorted_values(json_object_get(v, "dips"))))
		return vip;
	json_decref(vip);
	return NULL;
}

json_t *past_to_config(const json_t *state)
{
	const char **names = sorted_names(state);
	json_t *vips = names ? json_array() : NULL;
	bool ok = vips != NULL;

	for (size_t i = 0; ok && names[i]; i++)
		ok = json_array_append_new(vips, print_vip(json_object_get(state, names[i]))) == 0;
	free(names);
	if (ok)
		return json_pack("{s:o}", "vips", vips);
	json_decref(vips);
	return NULL;
}

/* --- differences --------------------------------------------------------------------------- */

static int add_change(json_t *changes, const struct edit *e)
{
	json_t *known = json_object_get(changes, e->path);

	if (known)
		return json_object_set(known, "after", e->after) ? -ENOMEM : 0;
	return json_object_set_new(changes, e->path,
				   json_pack("{s:s, s:O, s:O}", "path", e->path, "before",
					     e->before, "after", e->after))
		       ? -ENOMEM
		       : 0;
}

int past_add_changes(json_t *changes, const struct history_entry *entry)
{
	int rc;
	json_t *edits = parse_entry(entry, &rc);

	for (size_t i = 0; i < json_array_size(edits) && rc == 0; i++) {
		struct edit e;
		rc = read_edit(json_array_get(edits, i), &e) ? add_change(changes, &e) : -EINVAL;
	}
	json_decref(edits);
	return rc;
}

static bool add_differences(json_t *list, const char *parent, const json_t *x, const json_t *y);

static bool add_difference(json_t *list, const char *parent, const char *name, const json_t *x,
			   const json_t *y)
{
	char pointer[128];

	if (x && y && json_equal(x, y))
		return true;
	snprintf(pointer, sizeof(pointer), "%s/%s", parent, name);
	if (json_is_object(x) && json_is_object(y))
		return add_differences(list, pointer, x, y);
	return json_array_append_new(list, json_string(pointer)) == 0;
}

/* Pointers to the members in which two objects differ. Members' names need no escapes. */
static bool add_differences(json_t *list, const char *parent, const json_t *x, const json_t *y)
{
	const char *name;
	json_t *value;
	bool ok = true;

	json_object_foreach((json_t *)x, name, value)
	{
		ok = ok && add_difference(list, parent, name, value, json_object_get(y, name));
	}
	json_object_foreach((json_t *)y, name, value)
	{
		if (!json_object_get(x, name))
			ok = ok && add_difference(list, parent, name, NULL, value);
	}
	return ok;
}

static json_t *print_change(const json_t *change)
{
	const json_t *before = json_object_get(change, "before");
	const json_t *after = json_object_get(change, "after");
	json_t *out = json_copy((json_t *)change);
	json_t *members = json_array();

	if (members && json_is_object(before) && json_is_object(after) &&
	    !add_differences(members, "", before, after)) {
		json_decref(members);
		members = NULL;
	}
	if (!json_object_set_new(out, "members", members))
		return out;
	json_decref(out);
	return NULL;
}

json_t *past_print_changes(const json_t *changes)
{
	const char **names = sorted_names(changes);
	json_t *list = names ? json_array() : NULL;
	bool ok = list != NULL;

	for (size_t i = 0; ok && names[i]; i++) {
		const json_t *change = json_object_get(changes, names[i]);
		if (!json_equal(json_object_get(change, "before"),
				json_object_get(change, "after")))
			ok = json_array_append_new(list, print_change(change)) == 0;
	}
	free(names);
	if (ok)
		return list;
	json_decref(list);
	return NULL;
}

/* --- what an entry is about ---------------------------------------------------------------- */

json_t *past_paths(const struct history_entry *entry, size_t max)
{
	int rc;
	json_t *edits = parse_entry(entry, &rc);
	json_t *paths = rc == -ENOMEM ? NULL : rc ? json_null() : json_array();
	bool ok = paths != NULL;

	for (size_t i = 0; ok && i < json_array_size(edits) && i < max; i++) {
		json_t *path = json_object_get(json_array_get(edits, i), "path");
		if (!json_is_string(path)) {
			json_decref(paths);
			paths = json_null();
			break;
		}
		ok = json_array_append(paths, path) == 0;
	}
	json_decref(edits);
	if (ok)
		return paths;
	json_decref(paths);
	return NULL;
}

bool past_touches(const struct history_entry *entry, const char *path)
{
	size_t len = strlen(path);
	bool found = false;
	int rc;

	if (!strstr(entry->edits, path))
		return false; /* most are not, and need no parsing */
	json_t *edits = parse_entry(entry, &rc);
	for (size_t i = 0; !found && i < json_array_size(edits); i++) {
		const char *p =
			json_string_value(json_object_get(json_array_get(edits, i), "path"));
		found = p && strncmp(p, path, len) == 0 &&
			(!p[len] || p[len] == '/' || (len && path[len - 1] == '/'));
	}
	json_decref(edits);
	return found;
}
