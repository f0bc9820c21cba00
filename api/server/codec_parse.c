/* A request is parsed into a struct vip_info or dip_info, of which conf becomes the edit. The codec
 * checks what a member's type and words say. Ranges and what members say together are the model's
 * to judge, but a request that is refused here anyway asks the model about its other members, so
 * that the client hears of every fault at once. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "api/server/codec.h"
#include "api/server/codec_fields.h"

struct parse {
	const char *id;	      /* the path's */
	char *info;	      /* struct vip_info or dip_info to fill */
	const char *defaults; /* the same, of defaults */
	bool replace;
	uint64_t members;   /* named, and of the right type */
	uint64_t saturated; /* of these: out of any range, for the model to say the range */
	struct field_errors *errors;
};

static const struct field *find_field(const struct field *table, const char *name)
{
	for (const struct field *f = table; f->name; f++)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

/* parent + "/" + name with the two characters escaped that a JSON pointer reserves. (RFC 6901) */
void codec_pointer(char pointer[FIELD_POINTER_LEN], const char *parent, const char *name)
{
	size_t n = (size_t)snprintf(pointer, FIELD_POINTER_LEN, "%s/", parent);

	for (; *name && n < FIELD_POINTER_LEN - 2; name++) {
		if (*name == '~' || *name == '/') {
			pointer[n++] = '~';
			pointer[n++] = *name == '~' ? '0' : '1';
		} else {
			pointer[n++] = *name;
		}
	}
	pointer[n] = '\0';
}

static void add_type_error(struct parse *p, const char *pointer, const char *wanted)
{
	field_errors_add(p->errors, pointer, "type", "must be %s", wanted);
}

static void parse_integer(const struct field *f, const json_t *v, const char *pointer,
			  struct parse *p)
{
	if (!json_is_integer(v)) {
		add_type_error(p, pointer, "an integer");
		return;
	}
	json_int_t n = json_integer_value(v);
	uint32_t max = f->max ? f->max : UINT32_MAX - 1;
	if (n < 0 || n > (json_int_t)max) {
		if (f->max) {
			field_errors_add(p->errors, pointer, "out_of_range", "0 to %u", f->max);
			return;
		}
		n = UINT32_MAX;
		p->saturated |= f->member;
	}
	if (f->kind == K_U16 || f->kind == K_PORT_END) {
		uint16_t small = (uint16_t)n;
		memcpy(p->info + f->offset, &small, sizeof(small));
	} else {
		uint32_t word = (uint32_t)n;
		memcpy(p->info + f->offset, &word, sizeof(word));
	}
	p->members |= f->member;
}

static void parse_word(const struct field *f, const json_t *v, const char *pointer, struct parse *p)
{
	char list[128] = "";

	if (!json_is_string(v)) {
		add_type_error(p, pointer, "a string");
		return;
	}
	for (int i = 0; f->words[i]; i++) {
		size_t len = strlen(list);
		if (!strcmp(f->words[i], json_string_value(v))) {
			memcpy(p->info + f->offset, &i, sizeof(i));
			p->members |= f->member;
			return;
		}
		snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", f->words[i]);
	}
	field_errors_add(p->errors, pointer, "bad_value", "one of: %s", list);
}

static void parse_address(const struct field *f, const json_t *v, const char *pointer,
			  struct parse *p)
{
	struct ip_addr a;

	if (!json_is_string(v)) {
		add_type_error(p, pointer, "a string");
	} else if (ip_addr_parse(json_string_value(v), &a)) {
		field_errors_add(p->errors, pointer, "bad_value", "an IPv4 or IPv6 address");
	} else {
		memcpy(p->info + f->offset, &a, sizeof(a));
		p->members |= f->member;
	}
}

static void parse_prefix(const struct field *f, const json_t *v, const char *pointer,
			 struct parse *p)
{
	struct vip_match *m = (struct vip_match *)(void *)(p->info + f->offset);
	int rc = json_is_string(v)
			 ? ip_prefix_parse(json_string_value(v), &m->address, &m->host_bits)
			 : -EINVAL;

	if (!json_is_string(v))
		add_type_error(p, pointer, "a string");
	else if (rc == -EDOM)
		field_errors_add(p->errors, pointer, "bad_value",
				 "bits behind the prefix length are set");
	else if (rc)
		field_errors_add(p->errors, pointer, "bad_value",
				 "an IPv4 or IPv6 address, or a prefix such as 10.9.0.0/24");
	else
		p->members |= f->member;
}

static void parse_mac(const struct field *f, const json_t *v, const char *pointer, struct parse *p)
{
	struct dip_conf *conf = (struct dip_conf *)(void *)(p->info + f->offset);
	uint8_t mac[6];

	if (!json_is_string(v)) {
		add_type_error(p, pointer, "a string or null");
	} else if (mac_parse(json_string_value(v), mac)) {
		field_errors_add(p->errors, pointer, "bad_value",
				 "a unicast MAC address such as 02:00:00:00:00:01, or null");
	} else {
		conf->has_mac = true;
		memcpy(conf->mac, mac, sizeof(mac));
		p->members |= f->member;
	}
}

static void parse_server_id(const struct field *f, const json_t *v, const char *pointer,
			    struct parse *p)
{
	struct dip_conf *conf = (struct dip_conf *)(void *)(p->info + f->offset);

	if (!json_is_string(v))
		add_type_error(p, pointer, "a string or null");
	else if (dip_conf_parse_server_id(conf, json_string_value(v)))
		field_errors_add(p->errors, pointer, "bad_value",
				 "1 to 15 octets in hexadecimal such as \"2a07\", or null");
	else
		p->members |= f->member;
}

static void parse_text(const struct field *f, const json_t *v, const char *pointer, struct parse *p)
{
	size_t len = json_string_length(v);

	if (!json_is_string(v)) {
		add_type_error(p, pointer, "a string");
	} else if (len > f->max) {
		field_errors_add(p->errors, pointer, "out_of_range", "at most %u bytes", f->max);
	} else if (strlen(json_string_value(v)) != len) {
		field_errors_add(p->errors, pointer, "bad_value", "a text without NUL");
	} else {
		memset(p->info + f->offset, 0, f->max + 1u);
		memcpy(p->info + f->offset, json_string_value(v), len);
		p->members |= f->member;
	}
}

static void parse_bool(const struct field *f, const json_t *v, const char *pointer, struct parse *p)
{
	bool flag = json_is_true(v);

	if (!json_is_boolean(v)) {
		add_type_error(p, pointer, "true or false");
		return;
	}
	memcpy(p->info + f->offset, &flag, sizeof(flag));
	p->members |= f->member;
}

static void parse_id(const json_t *v, const char *pointer, struct parse *p)
{
	if (!json_is_string(v))
		add_type_error(p, pointer, "a string");
	else if (strcmp(json_string_value(v), p->id) != 0)
		field_errors_add(p->errors, pointer, "immutable",
				 "must be the path's id, or absent");
}

static void set_default(const struct field *f, struct parse *p)
{
	static const size_t sizes[] = {
		[K_U16] = sizeof(uint16_t),  [K_U32] = sizeof(uint32_t),
		[K_WORD] = sizeof(int),	     [K_BOOL] = sizeof(bool),
		[K_PORT] = sizeof(uint32_t), [K_PORT_END] = sizeof(uint16_t)};

	if (f->kind == K_MAC) {
		struct dip_conf *to = (struct dip_conf *)(void *)(p->info + f->offset);
		const struct dip_conf *from =
			(const struct dip_conf *)(const void *)(p->defaults + f->offset);
		to->has_mac = from->has_mac;
		memcpy(to->mac, from->mac, sizeof(to->mac));
	} else if (f->kind == K_SERVER_ID) {
		((struct dip_conf *)(void *)(p->info + f->offset))->server_id_len = 0;
	} else if (f->kind == K_TEXT) {
		memcpy(p->info + f->offset, p->defaults + f->offset, f->max + 1u);
	} else if (f->kind == K_OBJECT || f->kind == K_HEALTH) {
		for (const struct field *g = f->nested; g->name; g++)
			set_default(g, p);
	} else {
		assert(f->kind < ARRAY_LEN(sizes) && sizes[f->kind]);
		memcpy(p->info + f->offset, p->defaults + f->offset, sizes[f->kind]);
	}
	p->members |= f->member;
}

static void parse_object(const struct field *table, const json_t *object, const char *parent,
			 struct parse *p);

static void parse_field(const struct field *f, const json_t *v, const char *pointer,
			struct parse *p)
{
	if (f->kind == K_ID && !json_is_null(v)) {
		parse_id(v, pointer, p);
	} else if (!f->member) {
		return;
	} else if (json_is_null(v)) {
		if (f->required)
			field_errors_add(p->errors, pointer, "required", "it has no default");
		else
			set_default(f, p);
	} else if (f->kind == K_OBJECT || f->kind == K_HEALTH) {
		if (json_is_object(v))
			parse_object(f->nested, v, pointer, p);
		else
			add_type_error(p, pointer,
				       f->kind == K_HEALTH ? "an object or null" : "an object");
	} else if (f->kind == K_TEXT) {
		parse_text(f, v, pointer, p);
	} else if (f->kind == K_BOOL) {
		parse_bool(f, v, pointer, p);
	} else if (f->kind == K_WORD) {
		parse_word(f, v, pointer, p);
	} else if (f->kind == K_ADDRESS) {
		parse_address(f, v, pointer, p);
	} else if (f->kind == K_PREFIX) {
		parse_prefix(f, v, pointer, p);
	} else if (f->kind == K_MAC) {
		parse_mac(f, v, pointer, p);
	} else if (f->kind == K_SERVER_ID) {
		parse_server_id(f, v, pointer, p);
	} else {
		parse_integer(f, v, pointer, p);
	}
}

static void parse_object(const struct field *table, const json_t *object, const char *parent,
			 struct parse *p)
{
	char pointer[FIELD_POINTER_LEN];
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)object, name, v)
	{
		const struct field *f = find_field(table, name);

		codec_pointer(pointer, parent, name);
		if (f)
			parse_field(f, v, pointer, p);
		else
			field_errors_add(p->errors, pointer, "unknown", "no such member");
	}
	for (const struct field *f = table; p->replace && f->name; f++) {
		if (!f->required || json_object_get(object, f->name))
			continue;
		codec_pointer(pointer, parent, f->name);
		field_errors_add(p->errors, pointer, "required", "it has no default");
	}
}

/* The member bits of a pointer. */
static uint64_t pointer_members(const struct field *table, const char *parent, const char *pointer)
{
	char own[FIELD_POINTER_LEN];

	for (const struct field *f = table; f->name; f++) {
		codec_pointer(own, parent, f->name);
		if (!strcmp(own, pointer))
			return f->member;
		uint64_t m = f->nested ? pointer_members(f->nested, own, pointer) : 0;
		if (m)
			return m;
	}
	return 0;
}

static void report_saturated(const struct field *table, const char *parent, struct parse *p)
{
	char pointer[FIELD_POINTER_LEN];

	for (const struct field *f = table; f->name; f++) {
		codec_pointer(pointer, parent, f->name);
		if (f->nested)
			report_saturated(f->nested, pointer, p);
		else if (f->member & p->saturated)
			field_errors_add(p->errors, pointer, "out_of_range", "0 to %u",
					 UINT32_MAX - 1);
	}
}

/* Take over what the model found wrong in members that the request named. */
static void add_model_errors(const struct field *table, const struct field_errors *found,
			     struct parse *p)
{
	for (unsigned i = 0; i < found->n; i++) {
		const struct field_error *e = &found->list[i];
		uint64_t members = pointer_members(table, "", e->pointer);

		/* For which type of check a member is meant only the whole resource says. */
		if (!(members & p->members) ||
		    (!strcmp(e->code, "not_applicable") && !(p->members & HEALTH_M(HEALTH_P_TYPE))))
			continue;
		field_errors_add(p->errors, e->pointer, e->code, "%s", e->detail);
		p->saturated &= ~members;
	}
	report_saturated(table, "", p);
}

bool codec_parse_vip(const json_t *body, const char *id, bool replace, struct vip_edit *out,
		     struct field_errors *errors)
{
	struct vip_info info = {.flows = 0}, defaults = {.flows = 0};
	struct field_errors found = {.n = 0};
	struct parse p = {.id = id,
			  .info = (char *)&info,
			  .defaults = (const char *)&defaults,
			  .replace = replace,
			  .errors = errors};
	unsigned before = field_errors_count(errors);

	vip_conf_defaults(&defaults.conf);
	if (json_is_object(body))
		parse_object(vip_fields, body, "", &p);
	else
		add_type_error(&p, "", "an object");
	struct vip_edit edit = {.members = p.members, .conf = info.conf};
	if (field_errors_count(errors) == before && !p.saturated) {
		*out = edit;
		return true;
	}
	vip_conf_apply(&defaults.conf, &edit, true);
	if (!vip_conf_validate(&defaults.conf, &found))
		add_model_errors(vip_fields, &found, &p);
	else
		report_saturated(vip_fields, "", &p);
	return false;
}

bool codec_parse_dip(const json_t *body, const char *id, bool replace, struct dip_edit *out,
		     struct field_errors *errors)
{
	struct dip_info info = {.flows = 0}, defaults = {.flows = 0};
	struct field_errors found = {.n = 0};
	struct parse p = {.id = id,
			  .info = (char *)&info,
			  .defaults = (const char *)&defaults,
			  .replace = replace,
			  .errors = errors};
	unsigned before = field_errors_count(errors);
	struct vip_conf vip;

	dip_conf_defaults(&defaults.conf);
	if (json_is_object(body))
		parse_object(dip_fields, body, "", &p);
	else
		add_type_error(&p, "", "an object");
	struct dip_edit edit = {.members = p.members, .conf = info.conf};
	if (field_errors_count(errors) == before) {
		*out = edit;
		return true;
	}
	/* Which VIP it is for is not known here: one that takes any address stands in. */
	vip_conf_defaults(&vip);
	dip_conf_apply(&defaults.conf, &edit, true);
	if (!dip_conf_validate(&defaults.conf, &vip, &found))
		add_model_errors(dip_fields, &found, &p);
	return false;
}
