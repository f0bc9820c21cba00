#include <assert.h>
#include <time.h>

#include "api/server/codec.h"
#include "api/server/codec_fields.h"

static json_t *print_integer(const struct field *f, const char *at)
{
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	switch (f->kind) {
	case K_U16:
		memcpy(&u16, at, sizeof(u16));
		return json_integer(u16);
	case K_U32:
		memcpy(&u32, at, sizeof(u32));
		return json_integer(u32);
	default:
		assert(f->kind == K_U64);
		memcpy(&u64, at, sizeof(u64));
		return json_integer((json_int_t)u64);
	}
}

static json_t *print_mac(const struct dip_conf *c)
{
	char text[MAC_STRLEN];

	return c->has_mac ? json_string(mac_format(c->mac, text)) : json_null();
}

static json_t *print_server_id(const struct dip_conf *c)
{
	char text[SERVER_ID_STRLEN];

	return c->server_id_len ? json_string(dip_conf_format_server_id(c, text)) : json_null();
}

static json_t *print_address(const char *at)
{
	struct ip_addr a;
	char text[IP_ADDR_STRLEN];

	memcpy(&a, at, sizeof(a));
	return json_string(ip_addr_format(&a, text));
}

static json_t *print_prefix(const char *at)
{
	const struct vip_match *m = (const struct vip_match *)(const void *)at;
	char text[IP_PREFIX_STRLEN];

	return json_string(ip_prefix_format(&m->address, m->host_bits, text));
}

static json_t *print_port_end(const char *at)
{
	uint16_t port;

	memcpy(&port, at, sizeof(port));
	return port ? json_integer(port) : json_null();
}

static json_t *print_word(const struct field *f, const char *at)
{
	int word = 0;
	bool flag;

	if (f->kind == K_FLAG) {
		memcpy(&flag, at, sizeof(flag));
		word = flag;
	} else {
		memcpy(&word, at, sizeof(word));
	}
	return json_string(f->words[word]);
}

/* RFC 3339; null if it cannot be said. */
static json_t *print_time(int64_t wall_s)
{
	time_t t = (time_t)wall_s;
	struct tm tm;
	char text[32];

	if (!gmtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return json_null();
	return json_string(text);
}

static json_t *print_drain(const char *at)
{
	struct drain_info d;

	memcpy(&d, at, sizeof(d));
	return json_pack("{s:I, s:I, s:o, s:s}", "flows_remaining", (json_int_t)d.flows_remaining,
			 "oldest_age_s", (json_int_t)d.oldest_age_s, "deadline",
			 print_time(d.deadline_s), "then", "cut");
}

static bool is_shown(const struct field *f, const char *info, bool desired)
{
	struct drain_info d;

	if (f->kind != K_HEALTH && (f->member & HEALTH_M_ALL))
		return health_member_applies(
			f->member, ((const struct vip_info *)(const void *)info)->conf.health.type);
	if (desired)
		return f->kind == K_ID || f->member;
	if (f->kind != K_DRAIN)
		return f->kind != K_CHANGE;
	memcpy(&d, info + f->offset, sizeof(d));
	return d.on;
}

static json_t *print_object(const struct field *table, const char *info, bool desired);

/* Without checks there is nothing else to say of them. */
static json_t *print_health(const struct field *f, const char *info)
{
	const struct vip_info *v = (const struct vip_info *)(const void *)info;

	return v->conf.health.type == HEALTH_NONE ? json_null()
						  : print_object(f->nested, info, false);
}

static json_t *print_in_use(const char *at)
{
	uint32_t parts;

	memcpy(&parts, at, sizeof(parts));
	return parts % HEALTH_STEPS ? json_real(parts / (double)HEALTH_STEPS)
				    : json_integer(parts / HEALTH_STEPS);
}

static json_t *print_field(const struct field *f, const char *info)
{
	const char *at = info + f->offset;
	uint32_t port;

	switch (f->kind) {
	case K_ID:
		return json_string(at);
	case K_ADDRESS:
		return print_address(at);
	case K_PREFIX:
		return print_prefix(at);
	case K_PORT_END:
		return print_port_end(at);
	case K_WORD:
	case K_FLAG:
		return print_word(f, at);
	case K_MAC:
		return print_mac((const struct dip_conf *)(const void *)at);
	case K_SERVER_ID:
		return print_server_id((const struct dip_conf *)(const void *)at);
	case K_OBJECT:
		return print_object(f->nested, info, false);
	case K_HEALTH:
		return print_health(f, info);
	case K_DRAIN:
		return print_drain(at);
	case K_TEXT:
		return json_string(at);
	case K_BOOL:
		return json_boolean(*(const bool *)(const void *)at);
	case K_PORT:
		memcpy(&port, at, sizeof(port));
		return port ? json_integer(port) : json_null();
	case K_DIP_HEALTH:
		return codec_print_dip_health((const struct dip_health_info *)(const void *)at);
	case K_IN_USE:
		return print_in_use(at);
	default:
		return print_integer(f, at);
	}
}

/* desired: only what can be written, and the id. */
static json_t *print_object(const struct field *table, const char *info, bool desired)
{
	json_t *object = json_object();

	for (const struct field *f = table; f->name; f++) {
		if (!is_shown(f, info, desired))
			continue;
		if (json_object_set_new(object, f->name, print_field(f, info))) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

json_t *codec_print_vip(const struct vip_info *v)
{
	return print_object(vip_fields, (const char *)v, false);
}

json_t *codec_print_dip(const struct dip_info *d)
{
	return print_object(dip_fields, (const char *)d, false);
}

json_t *codec_print_vip_conf(const struct vip_conf *c)
{
	const struct vip_info info = {.conf = *c};

	return print_object(vip_fields, (const char *)&info, true);
}

json_t *codec_print_dip_conf(const struct dip_conf *c)
{
	const struct dip_info info = {.conf = *c};

	return print_object(dip_fields, (const char *)&info, true);
}

json_t *codec_print_change(const struct change_info *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "generation",
			 (json_int_t)c->generation, "flows_known", (json_int_t)c->flows_known,
			 "flows_pinned", (json_int_t)c->flows_pinned, "flows_moved",
			 (json_int_t)c->flows_moved, "dcodes_moved", (json_int_t)c->dcodes_moved,
			 "build_us", (json_int_t)c->build_us, "pause_us", (json_int_t)c->pause_us);
}
