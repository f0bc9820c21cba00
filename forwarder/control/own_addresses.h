/* The addresses of this network namespace: for those the kernel answers ARP and ND. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/addr.h"
#include "base/error.h"
#include "lookup/vip_match.h"

struct own_addresses {
	size_t n;
	struct ip_addr *list; /* sorted by their bytes, each once */
};

/** Ask the kernel; on failure (a negative errno) *out is empty. Free it either way. Thread: any. */
MUST_CHECK int own_addresses_read(struct own_addresses *out);
void own_addresses_free(struct own_addresses *o);

bool own_addresses_have(const struct own_addresses *o, const struct ip_addr *a);

/** One of them that is of the prefix, or NULL. */
const struct ip_addr *own_addresses_within(const struct own_addresses *o,
					   const struct vip_match *prefix);

/** The command that makes the kernel answer for a prefix; on the segment itself that works for IPv4 only. */
const char *own_addresses_route_command(const struct vip_match *prefix, char *buf, size_t size);

/** The command that puts a VIP's address on an interface. */
const char *own_addresses_add_command(const struct ip_addr *a, const char *ifname, char *buf,
				      size_t size);
