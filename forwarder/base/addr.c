#include "base/addr.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

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
