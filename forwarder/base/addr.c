#include "base/addr.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int ip_addr_parse(const char *text, struct ip_addr *out)
{
	uint8_t v4[4];
	struct ip_addr v6;

	if (inet_pton(AF_INET, text, v4) == 1) {
		*out = ip_addr_v4(v4);
		return 0;
	}
	if (inet_pton(AF_INET6, text, v6.b) == 1) {
		*out = v6;
		return 0;
	}
	return -EINVAL;
}

const char *ip_addr_format(const struct ip_addr *a, char *buf)
{
	if (ip_addr_is_v4(a))
		return inet_ntop(AF_INET, &a->b[12], buf, IP_ADDR_STRLEN);
	return inet_ntop(AF_INET6, a->b, buf, IP_ADDR_STRLEN);
}

/* A length as in "/24": 0 .. most, and no zeros before it. */
static int parse_length(const char *text, unsigned most, unsigned *out)
{
	size_t digits = strspn(text, "0123456789");
	unsigned length = digits && digits <= 3 ? (unsigned)atoi(text) : most + 1;

	if (text[digits] || length > most || (digits > 1 && *text == '0'))
		return -EINVAL;
	*out = length;
	return 0;
}

int ip_prefix_parse(const char *text, struct ip_addr *out, uint8_t *host_bits)
{
	char copy[IP_ADDR_STRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	struct ip_addr a, first;
	unsigned bits = 0;

	if (len >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (ip_addr_parse(copy, &a) < 0)
		return -EINVAL;
	if (slash) {
		bool v4 = ip_addr_is_v4(&a);
		unsigned all = v4 ? 32 : 128, length;

		/* The length of a mapped one may be meant of 128 bits, or of 32. */
		if ((v4 && strchr(copy, ':')) || parse_length(slash + 1, all, &length))
			return -EINVAL;
		bits = all - length;
	}
	first = ip_addr_mask(&a, bits);
	if (!ip_addr_equal(&a, &first))
		return -EDOM;
	*out = a;
	*host_bits = (uint8_t)bits;
	return 0;
}

const char *ip_prefix_format(const struct ip_addr *a, unsigned host_bits, char *buf)
{
	ip_addr_format(a, buf);
	if (host_bits)
		snprintf(buf + strlen(buf), 5, "/%u", (ip_addr_is_v4(a) ? 32 : 128) - host_bits);
	return buf;
}

bool ip_addr_is_host(const struct ip_addr *a)
{
	static const struct ip_addr unspecified, loopback = {.b = {[15] = 1}};

	if (ip_addr_is_v4(a))
		return a->b[12] != 0 && a->b[12] != 127 && a->b[12] < 224;
	return !ip_addr_equal(a, &unspecified) && !ip_addr_equal(a, &loopback) && a->b[0] != 0xff;
}

int mac_parse(const char *text, uint8_t out[6])
{
	uint8_t mac[6];
	uint8_t any = 0;

	for (int i = 0; i < 6; i++) {
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) ||
		    text[2] != (i < 5 ? ':' : '\0'))
			return -EINVAL;
		unsigned byte;
		if (sscanf(text, "%2x", &byte) != 1)
			return -EINVAL;
		mac[i] = (uint8_t)byte;
		any |= mac[i];
		text += 3;
	}
	if (!any || (mac[0] & 1))
		return -EINVAL;
	memcpy(out, mac, 6);
	return 0;
}

const char *mac_format(const uint8_t mac[6], char *buf)
{
	snprintf(buf, MAC_STRLEN, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
		 mac[4], mac[5]);
	return buf;
}
