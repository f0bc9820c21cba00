#include "control/own_addresses.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The address of a socket address, or false. */
static bool address_of(const struct sockaddr *sa, struct ip_addr *out)
{
	if (sa && sa->sa_family == AF_INET) {
		*out = ip_addr_v4(&((const struct sockaddr_in *)(const void *)sa)->sin_addr);
		return true;
	}
	if (sa && sa->sa_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
		       sizeof(*out));
		return true;
	}
	return false;
}

static int order(const void *x, const void *y)
{
	return memcmp(x, y, sizeof(struct ip_addr));
}

int own_addresses_read(struct own_addresses *out)
{
	struct ifaddrs *list = NULL;
	size_t n = 0;

	*out = (struct own_addresses){0};
	if (getifaddrs(&list))
		return -errno;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		n++;
	out->list = calloc(n + 1, sizeof(*out->list));
	for (const struct ifaddrs *i = list; out->list && i; i = i->ifa_next)
		out->n += address_of(i->ifa_addr, &out->list[out->n]);
	freeifaddrs(list);
	if (!out->list)
		return -ENOMEM;
	qsort(out->list, out->n, sizeof(*out->list), order);
	size_t kept = 0;
	for (size_t i = 0; i < out->n; i++)
		if (kept == 0 || order(&out->list[kept - 1], &out->list[i]) != 0)
			out->list[kept++] = out->list[i];
	out->n = kept;
	return 0;
}

void own_addresses_free(struct own_addresses *o)
{
	free(o->list);
	*o = (struct own_addresses){0};
}

bool own_addresses_have(const struct own_addresses *o, const struct ip_addr *a)
{
	return o->n && bsearch(a, o->list, o->n, sizeof(*o->list), order);
}

const struct ip_addr *own_addresses_within(const struct own_addresses *o,
					   const struct vip_match *prefix)
{
	for (size_t i = 0; i < o->n; i++)
		if (vip_match_has_address(prefix, &o->list[i]))
			return &o->list[i];
	return NULL;
}

const char *own_addresses_route_command(const struct vip_match *prefix, char *buf, size_t size)
{
	char text[IP_PREFIX_STRLEN];

	snprintf(buf, size, "ip %sroute add local %s dev lo",
		 ip_addr_is_v4(&prefix->address) ? "" : "-6 ",
		 ip_prefix_format(&prefix->address, prefix->host_bits, text));
	return buf;
}

const char *own_addresses_add_command(const struct ip_addr *a, const char *ifname, char *buf,
				      size_t size)
{
	char text[IP_ADDR_STRLEN];

	ip_addr_format(a, text);
	if (ip_addr_is_v4(a))
		snprintf(buf, size, "ip address add %s/32 dev %s", text, ifname);
	else
		snprintf(buf, size, "ip -6 address add %s/128 dev %s nodad", text, ifname);
	return buf;
}
