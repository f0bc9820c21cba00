/* Lists are sorted by id, so the last id of a page is all that a cursor needs to say: what comes
 * and goes meanwhile makes nothing else be missed or come twice. */
#include "api/server/selection.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/problem.h"

struct selection {
	struct listing page;
	bool has_address;
	struct ip_addr address; /* of VIPs, with host_bits */
	uint8_t host_bits;
	int port;     /* -1 = any */
	int protocol; /* enum vip_protocol; -1 = any */
	int state;    /* -1 = any */
};

/* The place of the parameter's word; -1: it is not given, or wrong. */
static int read_word(const struct api_request *req, const char *pointer, const char *const *words,
		     struct field_errors *errors)
{
	const char *word = request_query(req, pointer + 1);
	char known[96] = "";

	for (int i = 0; word && words[i]; i++) {
		size_t len = strlen(known);
		if (!strcmp(words[i], word))
			return i;
		snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", words[i]);
	}
	if (word)
		field_errors_add(errors, pointer, "bad_value", "one of %s", known);
	return -1;
}

static int read_port(const struct api_request *req, struct field_errors *errors)
{
	const char *text = request_query(req, "port");
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return -1;
	long n = len && len <= 5 && strspn(text, "0123456789") == len ? strtol(text, NULL, 10) : -1;
	if (n < 0 || n > UINT16_MAX)
		field_errors_add(errors, "?port", "out_of_range", "0 to 65535");
	return (int)n;
}

/* False with 400 set. */
static bool read_selection(const struct api_request *req, const char *const *states, unsigned most,
			   struct selection *s, struct api_response *resp)
{
	const char *address = request_query(req, "address");
	struct field_errors errors = {.n = 0};

	listing_read(req, most, most, &s->page, &errors);
	s->has_address = address != NULL;
	if (address && ip_prefix_parse(address, &s->address, &s->host_bits))
		field_errors_add(&errors, "?address", "bad_value",
				 "an IPv4 or IPv6 address, or of VIPs a prefix");
	s->port = read_port(req, &errors);
	s->protocol = read_word(req, "?protocol", vip_protocol_names, &errors);
	s->state = read_word(req, "?state", states, &errors);
	if (errors.n)
		problem_query(resp, &errors);
	return !errors.n;
}

static bool is_behind(const struct selection *s, const char *id)
{
	return !s->page.cursor[0] || strcmp(id, s->page.cursor) > 0;
}

/* An address finds every VIP that has it, a prefix those that are it. */
static bool has_wanted_address(const struct selection *s, const struct vip_match *m)
{
	if (s->host_bits)
		return m->host_bits == s->host_bits && ip_addr_equal(&m->address, &s->address);
	return vip_match_has_address(m, &s->address);
}

/* A port finds those that name it, alone or in a range; 0 those that take any. */
static bool has_wanted_port(const struct selection *s, const struct vip_match *m)
{
	return m->port == s->port || (m->port_end && s->port > m->port && s->port <= m->port_end);
}

static bool vip_is_meant(const struct selection *s, const struct vip_info *v)
{
	const struct vip_match *m = &v->conf.match;

	return is_behind(s, v->conf.id) && (!s->has_address || has_wanted_address(s, m)) &&
	       (s->port < 0 || has_wanted_port(s, m)) &&
	       (s->protocol < 0 || (int)m->protocol == s->protocol) &&
	       (s->state < 0 || v->deleting == (s->state == 1));
}

bool select_vips(const struct api_request *req, struct vip_info *vips, size_t *n, char next[ID_LEN],
		 struct api_response *resp)
{
	static const char *const states[] = {"up", "draining", NULL};
	struct selection s;
	size_t kept = 0;

	next[0] = '\0';
	if (!read_selection(req, states, VIPS_MAX, &s, resp))
		return false;
	for (size_t i = 0; i < *n; i++) {
		if (!vip_is_meant(&s, &vips[i]))
			continue;
		if (kept == s.page.limit) {
			memcpy(next, vips[kept - 1].conf.id, ID_LEN);
			break;
		}
		/* Exchanged, not overwritten: each still owns what it points to. */
		struct vip_info other = vips[kept];
		vips[kept++] = vips[i];
		vips[i] = other;
	}
	*n = kept;
	return true;
}

bool select_dips(const struct api_request *req, struct vip_info *vip, char next[ID_LEN],
		 struct api_response *resp)
{
	struct selection s;
	unsigned kept = 0;

	next[0] = '\0';
	if (!read_selection(req, dip_state_names, DIPS_PER_VIP_MAX, &s, resp))
		return false;
	for (unsigned i = 0; i < vip->n_dips; i++) {
		const struct dip_info *d = &vip->dips[i];
		if (!is_behind(&s, d->conf.id) ||
		    (s.has_address && !ip_addr_equal(&d->conf.address, &s.address)) ||
		    (s.state >= 0 && (int)d->state != s.state))
			continue;
		if (kept == s.page.limit) {
			memcpy(next, vip->dips[kept - 1].conf.id, ID_LEN);
			break;
		}
		vip->dips[kept++] = *d;
	}
	vip->n_dips = kept;
	return true;
}
