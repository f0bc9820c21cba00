/* A member that means nothing for a check's type must have its default: so what is shown (the
 * members of the type) is all that there is, and nothing hidden comes back when the type changes
 * again. */
#include "control/health_conf.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/model.h"

#define HOUR_MS 3600000u

#define T(type) (1u << HEALTH_##type)
#define PROBES (T(TCP) | T(HTTP) | T(HTTPS) | T(UDP) | T(DNS))
#define CHECKS (PROBES | T(AGENT))
#define WEB (T(HTTP) | T(HTTPS))
#define NONE_TOO (CHECKS | T(NONE))

const char *const health_type_names[] = {"none", "tcp", "http",	 "https",
					 "udp",	 "dns", "agent", NULL};
const char *const health_method_names[] = {"GET", "HEAD", "OPTIONS", NULL};
const char *const health_query_names[] = {"A", "AAAA", "NS", "SOA", "MX", "TXT", NULL};
const char *const health_rcode_names[] = {"noerror", "formerr", "servfail", "nxdomain",
					  "notimp",  "refused", NULL};

const struct health_member health_members[N_HEALTH_MEMBERS] = {
#define AT(field) offsetof(struct health_conf, field)
#define MEMBER(place, field, of, k, ...)                                                           \
	[place] = {.name = #field, .kind = (k), .offset = AT(field), .types = (of), __VA_ARGS__}
#define NUMBER(place, field, of, initially, least, most)                                           \
	MEMBER(place, field, of, HEALTH_NUMBER, .initial = (initially), .min = (least),            \
	       .max = (most))
#define TEXT(place, field, of, initially) MEMBER(place, field, of, HEALTH_TEXT, .text = (initially))
#define WORD(place, field, of, names) MEMBER(place, field, of, HEALTH_WORD, .words = (names))
	WORD(HEALTH_P_TYPE, type, NONE_TOO, health_type_names),
	NUMBER(HEALTH_P_INTERVAL, interval_ms, CHECKS, 2000, HEALTH_INTERVAL_MIN_MS, HOUR_MS),
	NUMBER(HEALTH_P_TIMEOUT, timeout_ms, CHECKS, 1000, 10, 60000),
	NUMBER(HEALTH_P_RISE, rise, CHECKS, 2, 1, 100),
	NUMBER(HEALTH_P_FALL, fall, CHECKS, 3, 1, 100),
	NUMBER(HEALTH_P_JITTER, jitter_percent, CHECKS, 10, 0, 50),
	NUMBER(HEALTH_P_MIN_UP, min_up, CHECKS, 1, 0, DIPS_PER_VIP_MAX),
	NUMBER(HEALTH_P_SLOW_START, slow_start_s, CHECKS, 0, 0, 3600),
	NUMBER(HEALTH_P_DAMPING, damping_half_life_s, CHECKS, 30, 0, 3600),
	NUMBER(HEALTH_P_PORT, port, PROBES, 0, 0, UINT16_MAX),
	TEXT(HEALTH_P_PATH, path, WEB, "/"),
	TEXT(HEALTH_P_HOST, host, WEB, ""),
	WORD(HEALTH_P_METHOD, method, WEB, health_method_names),
	TEXT(HEALTH_P_EXPECT_STATUS, expect_status, WEB, "200-399"),
	TEXT(HEALTH_P_EXPECT_BODY, expect_body, WEB, ""),
	MEMBER(HEALTH_P_VERIFY, verify, T(HTTPS), HEALTH_FLAG, .initial = 1),
	TEXT(HEALTH_P_SEND, send, T(UDP), ""),
	TEXT(HEALTH_P_EXPECT, expect, T(UDP), ""),
	TEXT(HEALTH_P_NAME, name, T(DNS), ""),
	WORD(HEALTH_P_QUERY_TYPE, query_type, T(DNS), health_query_names),
	WORD(HEALTH_P_EXPECT_RCODE, expect_rcode, T(DNS), health_rcode_names),
#undef WORD
#undef TEXT
#undef NUMBER
#undef MEMBER
#undef AT
};

static size_t member_size(const struct health_member *m)
{
	static const size_t sizes[] = {[HEALTH_NUMBER] = sizeof(uint32_t),
				       [HEALTH_TEXT] = HEALTH_TEXT_LEN,
				       [HEALTH_FLAG] = sizeof(bool),
				       [HEALTH_WORD] = sizeof(int)};

	return sizes[m->kind];
}

static void copy_member(struct health_conf *to, const struct health_conf *from,
			const struct health_member *m)
{
	memcpy((char *)to + m->offset, (const char *)from + m->offset, member_size(m));
}

static bool same_member(const struct health_conf *x, const struct health_conf *y,
			const struct health_member *m)
{
	const char *a = (const char *)x + m->offset, *b = (const char *)y + m->offset;

	if (m->kind == HEALTH_TEXT)
		return strcmp(a, b) == 0;
	return memcmp(a, b, member_size(m)) == 0;
}

void health_conf_defaults(struct health_conf *c)
{
	memset(c, 0, sizeof(*c));
	for (unsigned i = 0; i < N_HEALTH_MEMBERS; i++) {
		const struct health_member *m = &health_members[i];
		char *at = (char *)c + m->offset;
		if (m->kind == HEALTH_NUMBER)
			memcpy(at, &m->initial, sizeof(m->initial));
		else if (m->kind == HEALTH_TEXT)
			snprintf(at, HEALTH_TEXT_LEN, "%s", m->text);
		else if (m->kind == HEALTH_FLAG)
			*(bool *)(void *)at = m->initial;
	}
}

bool health_member_applies(uint64_t member, enum health_type type)
{
	for (unsigned i = 0; i < N_HEALTH_MEMBERS; i++)
		if (member == HEALTH_M(i))
			return health_members[i].types >> type & 1;
	return false;
}

void health_conf_apply(struct health_conf *c, const struct health_conf *edit, uint64_t members)
{
	struct health_conf fresh;

	health_conf_defaults(&fresh);
	for (unsigned i = 0; i < N_HEALTH_MEMBERS; i++) {
		const struct health_member *m = &health_members[i];
		bool means_nothing = (members & HEALTH_M(HEALTH_P_TYPE)) &&
				     edit->type < N_HEALTH_TYPES && !(m->types >> edit->type & 1);
		if (members & HEALTH_M(i))
			copy_member(c, edit, m);
		else if (means_nothing)
			copy_member(c, &fresh, m);
	}
}

bool health_conf_same_question(const struct health_conf *x, const struct health_conf *y)
{
	bool same = x->type == y->type;

	for (unsigned i = HEALTH_P_PORT; i < N_HEALTH_MEMBERS; i++)
		same &= same_member(x, y, &health_members[i]);
	return same;
}

bool health_conf_equal(const struct health_conf *x, const struct health_conf *y)
{
	bool same = true;

	for (unsigned i = 0; i < N_HEALTH_MEMBERS; i++)
		same &= same_member(x, y, &health_members[i]);
	return same;
}

/* --- texts that stand for something --------------------------------------------------------- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int health_bytes(const char *text, uint8_t out[HEALTH_TEXT_LEN])
{
	size_t len = strlen(text);
	int n = 0;

	if (strncmp(text, "hex:", 4) != 0) {
		if (len >= HEALTH_TEXT_LEN)
			return -EINVAL;
		memcpy(out, text, len);
		return (int)len;
	}
	for (const char *p = text + 4; *p; p += 2) {
		int high = hex_digit(p[0]), low = high < 0 ? -1 : hex_digit(p[1]);
		if (low < 0 || n == HEALTH_TEXT_LEN)
			return -EINVAL;
		out[n++] = (uint8_t)(high << 4 | low);
	}
	return n;
}

/* Reads "a" or "a-b" at *p; false if it is none. */
static bool next_range(const char **p, unsigned *low, unsigned *high)
{
	unsigned *to = low;

	for (int part = 0; part < 2; part++, to = high) {
		*to = 0;
		for (int i = 0; i < 3; i++, (*p)++) {
			if (**p < '0' || **p > '9')
				return false;
			*to = *to * 10 + (unsigned)(**p - '0');
		}
		if (part == 0 && **p != '-') {
			*high = *low;
			break;
		}
		if (part == 0)
			(*p)++;
	}
	return *low >= 100 && *high <= 599 && *low <= *high;
}

bool health_status_set_valid(const char *set)
{
	unsigned low, high;

	while (next_range(&set, &low, &high)) {
		if (*set == '\0')
			return true;
		if (*set++ != ',')
			return false;
	}
	return false;
}

bool health_status_set_has(const char *set, unsigned status)
{
	unsigned low, high;

	while (next_range(&set, &low, &high)) {
		if (status >= low && status <= high)
			return true;
		if (*set++ != ',')
			return false;
	}
	return false;
}

/* --- validation ----------------------------------------------------------------------------- */

static void fault(struct field_errors *errors, enum health_place place, const char *code,
		  const char *detail)
{
	char pointer[64];

	snprintf(pointer, sizeof(pointer), "/health/%s", health_members[place].name);
	field_errors_add(errors, pointer, code, "%s", detail);
}

static bool only(const char *text, const char *more)
{
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr(more, *text))
			return false;
	return true;
}

static bool is_visible_ascii(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

/* The compiler copies what is repeated: each '+' on a group or on a repetition doubles all that is
 * in it. */
#define DOUBLINGS_MAX 4u

/* Repetition counts and references back can make a matcher take for ever, or all memory. */
static bool is_harmless_regex(const char *pattern)
{
	regex_t re;
	bool escaped = false;
	unsigned n_doublings = 0;
	char before = '\0'; /* the operator in front; NUL = none */

	for (const char *p = pattern; *p; p++) {
		if (escaped ? isdigit((unsigned char)*p) : *p == '{')
			return false;
		n_doublings += !escaped && *p == '+' && before != '\0';
		before = !escaped && strchr(")*+?", *p) ? *p : '\0';
		escaped = !escaped && *p == '\\';
	}
	if (n_doublings > DOUBLINGS_MAX || regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB))
		return false;
	regfree(&re);
	return true;
}

static bool is_dns_name(const char *name)
{
	unsigned label = 0;

	if (strcmp(name, ".") == 0)
		return true;
	if (!name[0] || strlen(name) > 253 || !only(name, "-_."))
		return false;
	for (; *name; name++) {
		label = *name == '.' ? 0 : label + 1;
		if (label > 63 || (*name == '.' && name[1] == '.'))
			return false;
	}
	return true;
}

static void validate_web(const struct health_conf *c, struct field_errors *errors)
{
	if (c->path[0] != '/' || !is_visible_ascii(c->path))
		fault(errors, HEALTH_P_PATH, "bad_value",
		      "begins with '/', visible ASCII alone (escape the rest with %XX)");
	if (!only(c->host, "-._:[]"))
		fault(errors, HEALTH_P_HOST, "bad_value",
		      "a host name, with :PORT if need be; \"\" is the DIP's address");
	if (!health_status_set_valid(c->expect_status))
		fault(errors, HEALTH_P_EXPECT_STATUS, "bad_value",
		      "status codes and ranges as 200-299,301");
	if (strncmp(c->expect_body, "regex:", 6) == 0 && !is_harmless_regex(c->expect_body + 6))
		fault(errors, HEALTH_P_EXPECT_BODY, "bad_value",
		      "after regex: a POSIX extended regular expression without {n} and \\1, and "
		      "with at most 4 '+' on groups");
	if (c->expect_body[0] && c->method == HEALTH_HEAD)
		fault(errors, HEALTH_P_EXPECT_BODY, "conflict", "an answer to HEAD has no body");
}

static void validate_udp(const struct health_conf *c, struct field_errors *errors)
{
	uint8_t bytes[HEALTH_TEXT_LEN];
	int sent = health_bytes(c->send, bytes);
	int expected = health_bytes(c->expect, bytes);

	if (sent == 0)
		fault(errors, HEALTH_P_SEND, "required",
		      "a datagram to send: text, or hex: and hexadecimal digits");
	if (sent < 0)
		fault(errors, HEALTH_P_SEND, "bad_value", "pairs of hexadecimal digits after hex:");
	if (expected == 0)
		fault(errors, HEALTH_P_EXPECT, "required",
		      "what a reply has in it: without an expected reply nothing tells up from "
		      "down");
	if (expected < 0)
		fault(errors, HEALTH_P_EXPECT, "bad_value",
		      "pairs of hexadecimal digits after hex:");
}

static void validate_members(const struct health_conf *c, struct field_errors *errors)
{
	struct health_conf fresh;

	health_conf_defaults(&fresh);
	for (unsigned i = 0; i < N_HEALTH_MEMBERS; i++) {
		const struct health_member *m = &health_members[i];
		char text[160];
		uint32_t value;

		if (!(m->types >> c->type & 1) && !same_member(c, &fresh, m)) {
			snprintf(text, sizeof(text), "means nothing for type %s",
				 health_type_names[c->type]);
			fault(errors, i, "not_applicable", text);
			continue;
		}
		memcpy(&value, (const char *)c + m->offset, sizeof(value));
		if (m->kind != HEALTH_NUMBER || (value >= m->min && value <= m->max))
			continue;
		snprintf(text, sizeof(text), "%u to %u", m->min, m->max);
		fault(errors, i, "out_of_range", text);
	}
}

/* A word that the API cannot have let in stands in the database, or in a careless caller. */
static bool words_are_known(const struct health_conf *c, struct field_errors *errors)
{
	for (unsigned i = 0; i < N_HEALTH_MEMBERS; i++) {
		const struct health_member *m = &health_members[i];
		unsigned value, n = 0;

		if (m->kind != HEALTH_WORD)
			continue;
		memcpy(&value, (const char *)c + m->offset, sizeof(value));
		while (m->words[n])
			n++;
		if (value < n)
			continue;
		fault(errors, i, "bad_value", "not one of the words");
		return false;
	}
	return true;
}

void health_conf_validate(const struct health_conf *c, const struct vip_match *match,
			  struct field_errors *errors)
{
	if (!words_are_known(c, errors))
		return;
	validate_members(c, errors);
	if ((PROBES >> c->type & 1) && c->port == 0 && (match->port == 0 || match->port_end))
		fault(errors, HEALTH_P_PORT, "required",
		      "the VIP takes several ports: name the one to check");
	if (c->type == HEALTH_HTTP || c->type == HEALTH_HTTPS)
		validate_web(c, errors);
	if (c->type == HEALTH_UDP)
		validate_udp(c, errors);
	if (c->type == HEALTH_DNS && !is_dns_name(c->name))
		fault(errors, HEALTH_P_NAME, c->name[0] ? "bad_value" : "required",
		      "a name to ask for, as example.org");
}
