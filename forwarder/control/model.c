/* Every number of a VIP stands once, in the table below: member, JSON pointer, default and limits.
 * Defaults, edits and validation walk it, so a new time-out is one line here.
 *
 * Limits: a week for what waits for clients (longer than any NAT or kernel keeps an idle TCP
 * connection), an hour for closing_pin_s (it only has to outlast a client's port reuse), and 1 s at
 * least for idle time-outs, since the refresh interval is a quarter of the shortest. */
#include "control/model.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/hex.h"

#define WEEK_S (7u * 86400u)
#define REFRESH_MAX_MS 5000u

const char *const vip_protocol_names[] = {
	[VIP_TCP] = "tcp", [VIP_UDP] = "udp", [VIP_ANY] = "any", NULL};
const char *const vip_mode_names[] = {
	[VIP_L2] = "l2", [VIP_IPIP] = "ipip", [VIP_GUE] = "gue", [VIP_NAT] = "nat", NULL};
const char *const vip_affinity_names[] = {
	[AFFINITY_FLOW] = "flow", [AFFINITY_CLIENT] = "client", NULL};
const char *const learn_overflow_names[] = {
	[OVERFLOW_FORWARD] = "forward", [OVERFLOW_DROP] = "drop", NULL};
const char *const vip_fragments_names[] = {
	[FRAGMENTS_FLOW] = "flow", [FRAGMENTS_CLIENT] = "client", NULL};
const char *const vip_quic_names[] = {[QUIC_FLOW] = "flow", [QUIC_SERVER_ID] = "server-id", NULL};
const char *const admin_state_names[] = {[ADMIN_UP] = "up", [ADMIN_DOWN] = "down", NULL};

static const struct vip_number {
	enum vip_member member;
	const char *pointer;
	size_t offset; /* of the uint32_t in struct vip_conf */
	uint32_t initial;
	uint32_t min;
	uint32_t max;
	bool idle; /* an idle time-out: bounds the refresh interval */
} vip_numbers[] = {
#define NUMBER(member, pointer, field, ...)                                                        \
	{                                                                                          \
		member, pointer, offsetof(struct vip_conf, field), __VA_ARGS__                     \
	}
	NUMBER(VIP_M_DRAIN_TIMEOUT, "/drain_timeout_s", drain_timeout_s, 3600, 0, WEEK_S, false),
	NUMBER(VIP_M_CLOSING_PIN, "/closing_pin_s", closing_pin_s, 15, 0, 3600, false),
	NUMBER(VIP_M_IDLE_ESTABLISHED, "/idle_timeout_s/established", idle_established_s, 7200, 1,
	       WEEK_S, true),
	NUMBER(VIP_M_IDLE_HALF_OPEN, "/idle_timeout_s/half_open", idle_half_open_s, 30, 1, WEEK_S,
	       true),
	NUMBER(VIP_M_IDLE_CLOSING, "/idle_timeout_s/closing", idle_closing_s, 60, 1, WEEK_S, true),
	NUMBER(VIP_M_IDLE_UDP, "/idle_timeout_s/udp", idle_udp_s, 60, 1, WEEK_S, true),
	NUMBER(VIP_M_GUE_PORT, "/gue_port", gue_port, 6080, 1, 65535, false),
	NUMBER(VIP_M_QUIC_CONFIG_ROTATION, "/quic_config_rotation", quic_config_rotation, 0, 0, 6,
	       false),
#undef NUMBER
};

_Static_assert(SERVER_ID_ROTATION_MAX == 6, "the limit above, which a document's test reads there");

static uint32_t *number_of(struct vip_conf *c, const struct vip_number *n)
{
	return (uint32_t *)((char *)c + n->offset);
}

static uint32_t number_value(const struct vip_conf *c, const struct vip_number *n)
{
	uint32_t value;

	memcpy(&value, (const char *)c + n->offset, sizeof(value));
	return value;
}

void field_errors_add(struct field_errors *e, const char *pointer, const char *code,
		      const char *fmt, ...)
{
	va_list ap;

	if (e->n >= FIELD_ERRORS_MAX) {
		e->n_more++;
		return;
	}
	struct field_error *f = &e->list[e->n++];
	snprintf(f->pointer, sizeof(f->pointer), "%s%s", e->prefix, pointer);
	snprintf(f->code, sizeof(f->code), "%s", code);
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

void vip_conf_defaults(struct vip_conf *c)
{
	memset(c, 0, sizeof(*c)); /* tcp, l2, flow and forward are the zeros of their enums */
	for (size_t i = 0; i < ARRAY_LEN(vip_numbers); i++)
		*number_of(c, &vip_numbers[i]) = vip_numbers[i].initial;
	health_conf_defaults(&c->health);
}

void dip_conf_defaults(struct dip_conf *c)
{
	memset(c, 0, sizeof(*c));
	c->weight = 1;
	c->admin_state = ADMIN_UP;
}

static bool id_char_inner(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool model_id_valid(const char *id)
{
	size_t n = 0;

	if (id[0] == '.' || id[0] == '_' || id[0] == '-')
		return false;
	while (n < ID_LEN && id_char_inner(id[n]))
		n++;
	return n > 0 && n < ID_LEN && id[n] == '\0';
}

void vip_conf_apply(struct vip_conf *c, const struct vip_edit *e, bool replace)
{
	if (replace) {
		struct vip_conf fresh;

		vip_conf_defaults(&fresh);
		memcpy(fresh.id, c->id, sizeof(fresh.id));
		*c = fresh;
	}
	if (e->members & VIP_M_ADDRESS) {
		c->match.address = e->conf.match.address;
		c->match.host_bits = e->conf.match.host_bits;
	}
	if (e->members & VIP_M_PORT)
		c->match.port = e->conf.match.port;
	if (e->members & VIP_M_PORT_END)
		c->match.port_end = e->conf.match.port_end;
	if (c->match.port && c->match.port_end == c->match.port)
		c->match.port_end = 0; /* a range of one is the port alone */
	if (e->members & VIP_M_PROTOCOL)
		c->match.protocol = e->conf.match.protocol;
	if (e->members & VIP_M_MODE)
		c->mode = e->conf.mode;
	if (e->members & VIP_M_AFFINITY)
		c->affinity = e->conf.affinity;
	if (e->members & VIP_M_ON_LEARN_OVERFLOW)
		c->on_learn_overflow = e->conf.on_learn_overflow;
	if (e->members & VIP_M_FRAGMENTS)
		c->fragments = e->conf.fragments;
	if (e->members & VIP_M_CLAMP_MSS)
		c->clamp_mss = e->conf.clamp_mss;
	if (e->members & VIP_M_QUIC)
		c->quic = e->conf.quic;
	for (size_t i = 0; i < ARRAY_LEN(vip_numbers); i++)
		if (e->members & vip_numbers[i].member)
			*number_of(c, &vip_numbers[i]) = number_value(&e->conf, &vip_numbers[i]);
	health_conf_apply(&c->health, &e->conf.health, e->members);
}

void dip_conf_apply(struct dip_conf *c, const struct dip_edit *e, bool replace)
{
	if (replace) {
		struct dip_conf fresh;

		dip_conf_defaults(&fresh);
		memcpy(fresh.id, c->id, sizeof(fresh.id));
		*c = fresh;
	}
	if (e->members & DIP_M_ADDRESS)
		c->address = e->conf.address;
	if (e->members & DIP_M_WEIGHT)
		c->weight = e->conf.weight;
	if (e->members & DIP_M_MAC) {
		c->has_mac = e->conf.has_mac;
		memcpy(c->mac, e->conf.mac, sizeof(c->mac));
	}
	if (e->members & DIP_M_PORT)
		c->port = e->conf.port;
	if (e->members & DIP_M_ADMIN_STATE)
		c->admin_state = e->conf.admin_state;
	if (e->members & DIP_M_SERVER_ID) {
		c->server_id_len = e->conf.server_id_len;
		memcpy(c->server_id, e->conf.server_id, sizeof(c->server_id));
	}
}

struct member_name {
	uint64_t member;
	const char *pointer;
};

static const struct member_name vip_required[] = {
	{VIP_M_ADDRESS, "/address"}, {VIP_M_PORT, "/port"}, {VIP_M_PROTOCOL, "/protocol"}};
static const struct member_name dip_required[] = {{DIP_M_ADDRESS, "/address"}};

static bool has_members(uint64_t members, const struct member_name *required, size_t n,
			struct field_errors *errors)
{
	bool complete = true;

	for (size_t i = 0; i < n; i++) {
		if (members & required[i].member)
			continue;
		field_errors_add(errors, required[i].pointer, "required", "has no default");
		complete = false;
	}
	return complete;
}

bool vip_edit_complete(const struct vip_edit *e, struct field_errors *errors)
{
	uint64_t health = e->members & HEALTH_M_ALL;
	bool typed = !health || (health & HEALTH_M(HEALTH_P_TYPE));

	if (!typed)
		field_errors_add(errors, "/health/type", "required", "has no default");
	return has_members(e->members, vip_required, ARRAY_LEN(vip_required), errors) && typed;
}

bool dip_edit_complete(const struct dip_edit *e, struct field_errors *errors)
{
	return has_members(e->members, dip_required, ARRAY_LEN(dip_required), errors);
}

static bool check_same(bool same, const char *pointer, struct field_errors *errors)
{
	if (!same)
		field_errors_add(errors, pointer, "immutable",
				 "cannot change after creation; delete and create anew");
	return same;
}

bool vip_conf_same_identity(const struct vip_conf *was, const struct vip_conf *now,
			    struct field_errors *errors)
{
	const struct vip_match *w = &was->match, *n = &now->match;
	bool same = true;

	same &= check_same(ip_addr_equal(&w->address, &n->address) && w->host_bits == n->host_bits,
			   "/address", errors);
	same &= check_same(w->port == n->port, "/port", errors);
	same &= check_same(w->port_end == n->port_end, "/port_end", errors);
	same &= check_same(w->protocol == n->protocol, "/protocol", errors);
	same &= check_same(was->affinity == now->affinity, "/affinity", errors);
	return same;
}

bool dip_conf_same_identity(const struct dip_conf *was, const struct dip_conf *now,
			    struct field_errors *errors)
{
	bool same = check_same(ip_addr_equal(&was->address, &now->address), "/address", errors);

	return check_same(was->port == now->port, "/port", errors) && same;
}

/* What is not compared here could be changed without anybody noticing: a change to the same is
 * none. */
_Static_assert(sizeof(struct vip_conf) == sizeof(struct health_conf) + 148 &&
		       sizeof(struct dip_conf) == 116,
	       "compare a new member in vip_conf_equal or dip_conf_equal");

static bool health_member_equal(const struct health_member *m, const char *x, const char *y)
{
	switch (m->kind) {
	case HEALTH_TEXT:
		return strcmp(x, y) == 0;
	case HEALTH_FLAG:
		return memcmp(x, y, sizeof(bool)) == 0;
	default:
		return memcmp(x, y, sizeof(uint32_t)) == 0;
	}
}

static bool health_equal(const struct health_conf *x, const struct health_conf *y)
{
	for (size_t i = 0; i < N_HEALTH_MEMBERS; i++) {
		const struct health_member *m = &health_members[i];
		if (!health_member_equal(m, (const char *)x + m->offset,
					 (const char *)y + m->offset))
			return false;
	}
	return true;
}

bool vip_conf_equal(const struct vip_conf *x, const struct vip_conf *y)
{
	for (size_t i = 0; i < ARRAY_LEN(vip_numbers); i++)
		if (number_value(x, &vip_numbers[i]) != number_value(y, &vip_numbers[i]))
			return false;
	return strcmp(x->id, y->id) == 0 && vip_match_equal(&x->match, &y->match) &&
	       x->affinity == y->affinity && x->mode == y->mode &&
	       x->on_learn_overflow == y->on_learn_overflow && x->fragments == y->fragments &&
	       x->clamp_mss == y->clamp_mss && x->quic == y->quic &&
	       health_equal(&x->health, &y->health);
}

bool dip_conf_equal(const struct dip_conf *x, const struct dip_conf *y)
{
	return strcmp(x->id, y->id) == 0 && ip_addr_equal(&x->address, &y->address) &&
	       x->port == y->port && x->weight == y->weight && x->has_mac == y->has_mac &&
	       (!x->has_mac || memcmp(x->mac, y->mac, sizeof(x->mac)) == 0) &&
	       x->admin_state == y->admin_state && x->server_id_len == y->server_id_len &&
	       memcmp(x->server_id, y->server_id, x->server_id_len) == 0;
}

static void check_id(const char *id, struct field_errors *errors)
{
	if (!model_id_valid(id))
		field_errors_add(errors, "/id", "bad_value",
				 "1 to 63 of a-z, 0-9, '.', '_', '-'; the first a letter or digit");
}

/* value: of an enum whose words are names (NULL-terminated). */
static void check_word(unsigned value, const char *const *names, const char *pointer,
		       struct field_errors *errors)
{
	char list[96] = "one of ";
	size_t len = strlen(list);
	unsigned n = 0;

	for (; names[n]; n++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", n ? ", " : "",
					names[n]);
	assert(len < sizeof(list));
	if (value >= n)
		field_errors_add(errors, pointer, "bad_value", "%s", list);
}

static void check_host(const struct ip_addr *a, struct field_errors *errors)
{
	if (!ip_addr_is_host(a))
		field_errors_add(errors, "/address", "bad_value",
				 "an IPv4 or IPv6 address of one host (not unspecified, loopback, "
				 "multicast or broadcast)");
}

/* Some host's address is in it. (Those below 1.0.0.0 and ::2 are none's.) */
static bool prefix_has_hosts(const struct vip_match *m)
{
	if (ip_addr_is_host(&m->address))
		return true;
	if (ip_addr_is_v4(&m->address))
		return m->address.b[12] == 0 && m->host_bits > 24;
	return m->address.b[0] != 0xff && m->host_bits > 1;
}

static void check_match(const struct vip_match *m, struct field_errors *errors)
{
	unsigned bits = ip_addr_is_v4(&m->address) ? 32 : 128;
	struct ip_addr first = ip_addr_mask(&m->address, m->host_bits < bits ? m->host_bits : bits);

	if (!m->host_bits)
		check_host(&m->address, errors);
	else if (m->host_bits > bits || !ip_addr_equal(&first, &m->address) || !prefix_has_hosts(m))
		field_errors_add(
			errors, "/address", "bad_value",
			"a prefix of hosts' addresses, its host bits 0 (not of loopback or "
			"multicast ones)");
	if (m->port_end && !m->port)
		field_errors_add(errors, "/port_end", "bad_value",
				 "port is the range's first one, and 0 is any port already");
	else if (m->port_end && m->port_end <= m->port)
		field_errors_add(errors, "/port_end", "out_of_range",
				 "the range's last port: not below port (%u)", m->port);
}

bool vip_conf_validate(const struct vip_conf *c, struct field_errors *errors)
{
	unsigned before = field_errors_count(errors);

	check_id(c->id, errors);
	check_match(&c->match, errors);
	check_word(c->match.protocol, vip_protocol_names, "/protocol", errors);
	check_word(c->mode, vip_mode_names, "/mode", errors);
	if (c->mode == VIP_NAT && vip_match_is_wide(&c->match))
		field_errors_add(errors, "/mode", "not_applicable",
				 "nat is for one address, and one port or any: what comes back "
				 "must tell whose it is");
	check_word(c->affinity, vip_affinity_names, "/affinity", errors);
	check_word(c->on_learn_overflow, learn_overflow_names, "/on_learn_overflow", errors);
	check_word(c->fragments, vip_fragments_names, "/fragments", errors);
	if (c->fragments == FRAGMENTS_CLIENT && c->match.protocol == VIP_TCP)
		field_errors_add(errors, "/fragments", "bad_value",
				 "flow, unless the VIP's protocol is udp or any");
	if (c->clamp_mss && c->match.protocol == VIP_UDP)
		field_errors_add(errors, "/clamp_mss", "bad_value",
				 "false, unless the VIP's protocol is tcp or any");
	check_word(c->quic, vip_quic_names, "/quic", errors);
	if (c->quic == QUIC_SERVER_ID && c->match.protocol == VIP_TCP)
		field_errors_add(errors, "/quic", "bad_value",
				 "flow, unless the VIP's protocol is udp or any");
	for (size_t i = 0; i < ARRAY_LEN(vip_numbers); i++) {
		const struct vip_number *n = &vip_numbers[i];
		uint32_t value = number_value(c, n);

		if (value < n->min || value > n->max)
			field_errors_add(errors, n->pointer, "out_of_range", "%u to %u", n->min,
					 n->max);
	}
	health_conf_validate(&c->health, &c->match, errors);
	return field_errors_count(errors) == before;
}

/* Its family may be another one than the VIP's: l2 reaches the DIP by MAC, and the address is only
 * what that is asked for; a tunnel's outer header is of the DIP's family, whatever it carries. */
static void check_dip_address(const struct dip_conf *c, const struct vip_conf *vip,
			      struct field_errors *errors)
{
	check_host(&c->address, errors);
	if (vip_match_has_address(&vip->match, &c->address))
		field_errors_add(errors, "/address", "bad_value",
				 "an address of the VIP itself: packets would come back");
	else if (vip->mode == VIP_NAT &&
		 ip_addr_is_v4(&c->address) != ip_addr_is_v4(&vip->match.address))
		field_errors_add(errors, "/address", "bad_value",
				 "an %s address, as the VIP's: mode nat keeps the family",
				 ip_addr_is_v4(&vip->match.address) ? "IPv4" : "IPv6");
}

static void check_dip_port(const struct dip_conf *c, const struct vip_conf *vip,
			   struct field_errors *errors)
{
	if (c->port > UINT16_MAX)
		field_errors_add(errors, "/port", "out_of_range", "1 to %u, or null", UINT16_MAX);
	else if (c->port && vip->mode != VIP_NAT)
		field_errors_add(errors, "/port", "not_applicable",
				 "only mode nat translates ports; the VIP's is used");
	else if (c->port && !vip->match.port)
		field_errors_add(errors, "/port", "not_applicable",
				 "the VIP takes any port, and each stays as it is");
}

bool dip_conf_validate(const struct dip_conf *c, const struct vip_conf *vip,
		       struct field_errors *errors)
{
	static const uint8_t no_mac[6];
	unsigned before = field_errors_count(errors);

	check_id(c->id, errors);
	check_dip_address(c, vip, errors);
	check_dip_port(c, vip, errors);
	check_word(c->admin_state, admin_state_names, "/admin_state", errors);
	if (c->weight > WEIGHT_MAX)
		field_errors_add(errors, "/weight", "out_of_range", "0 to %u", WEIGHT_MAX);
	if (c->has_mac && ((c->mac[0] & 1) || memcmp(c->mac, no_mac, sizeof(no_mac)) == 0))
		field_errors_add(errors, "/mac", "bad_value",
				 "a unicast MAC address as 02:00:00:00:00:01, or null");
	if (c->server_id_len > SERVER_ID_MAX)
		field_errors_add(errors, "/server_id", "bad_value", "%s",
				 "1 to 15 octets in hexadecimal");
	return field_errors_count(errors) == before;
}

/* closing_pin_s is no bound: control adds a refresh interval to it, and 0 is a legal value. */
uint32_t vip_conf_refresh_ms(const struct vip_conf *c)
{
	uint32_t refresh_ms = REFRESH_MAX_MS;

	for (size_t i = 0; i < ARRAY_LEN(vip_numbers); i++) {
		uint64_t quarter_ms = (uint64_t)number_value(c, &vip_numbers[i]) * 250;

		if (vip_numbers[i].idle && quarter_ms < refresh_ms)
			refresh_ms = (uint32_t)quarter_ms;
	}
	return refresh_ms;
}

int dip_conf_parse_server_id(struct dip_conf *c, const char *text)
{
	uint8_t id[SERVER_ID_MAX] = {0};
	int len = hex_parse(text, id, sizeof(id));

	if (len < 0)
		return len;
	memcpy(c->server_id, id, sizeof(id));
	c->server_id_len = (uint8_t)len;
	return 0;
}

const char *dip_conf_format_server_id(const struct dip_conf *c, char buf[SERVER_ID_STRLEN])
{
	buf[0] = '\0';
	for (unsigned i = 0; i < c->server_id_len && i < SERVER_ID_MAX; i++)
		snprintf(buf + 2 * i, 3, "%02x", c->server_id[i]);
	return buf;
}
