#include "control/health_dns.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define HEADER 12u
#define FLAG_QR 0x80

static const uint16_t query_types[] = {[QUERY_A] = 1,	[QUERY_AAAA] = 28, [QUERY_NS] = 2,
				       [QUERY_SOA] = 6, [QUERY_MX] = 15,   [QUERY_TXT] = 16};

static uint8_t *put16(uint8_t *p, unsigned value)
{
	*p++ = (uint8_t)(value >> 8);
	*p++ = (uint8_t)value;
	return p;
}

/* The name was validated: labels of 1 to 63 bytes, 253 in all; a dot at its end is the root's. */
static uint8_t *put_name(uint8_t *p, const char *name)
{
	while (*name && strcmp(name, ".") != 0) {
		size_t len = strcspn(name, ".");
		*p++ = (uint8_t)len;
		memcpy(p, name, len);
		p += len;
		name += len;
		if (*name == '.' && name[1])
			name++;
	}
	*p++ = 0;
	return p;
}

size_t health_dns_query(const struct health_conf *c, uint16_t id, uint8_t out[HEALTH_DNS_MAX])
{
	uint8_t *p = put16(out, id);

	p = put16(p, 0x0100); /* a standard query, recursion desired */
	p = put16(p, 1);      /* questions */
	p = put16(p, 0);
	p = put16(p, 0);
	p = put16(p, 0);
	p = put_name(p, c->name);
	p = put16(p, query_types[c->query_type]);
	p = put16(p, 1); /* IN */
	return (size_t)(p - out);
}

/* Whatever the case of its letters. */
static bool same_name(const uint8_t *x, const uint8_t *y, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (tolower(x[i]) != tolower(y[i]))
			return false;
	return true;
}

enum dns_judgement health_dns_judge(const struct health_conf *c, uint16_t id, const uint8_t *answer,
				    size_t n, char *error, size_t size)
{
	uint8_t query[HEALTH_DNS_MAX];
	size_t question = health_dns_query(c, id, query) - HEADER;

	if (n < HEADER || answer[0] != query[0] || answer[1] != query[1] || !(answer[2] & FLAG_QR))
		return DNS_NOT_OURS;
	unsigned rcode = answer[3] & 0xf;
	/* A server that cannot make sense of a query need not repeat it. */
	bool repeated =
		answer[5] == 1 && n >= HEADER + question &&
		same_name(answer + HEADER, query + HEADER, question - 4) &&
		memcmp(answer + HEADER + question - 4, query + HEADER + question - 4, 4) == 0;
	if (rcode != RCODE_FORMERR && !repeated)
		return DNS_NOT_OURS;
	if (rcode == (unsigned)c->expect_rcode)
		return DNS_GOOD;
	snprintf(error, size, "rcode %s, not %s",
		 rcode <= RCODE_REFUSED ? health_rcode_names[rcode] : "of another kind",
		 health_rcode_names[c->expect_rcode]);
	return DNS_BAD;
}
