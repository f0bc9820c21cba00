/* The addresses of this network namespace: for those the kernel answers ARP and ND. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/addr.h"
#include "base/error.h"

struct own_addresses {
	size_t n;
	struct ip_addr *list; /* sorted by their bytes, each once */
};

/** Ask the kernel; on failure (a negative errno) *out is empty. Free it either way. Thread: any. */
MUST_CHECK int own_addresses_read(struct own_addresses *out);
void own_addresses_free(struct own_addresses *o);

bool own_addresses_have(const struct own_addresses *o, const struct ip_addr *a);

/** The command that puts a VIP's address on an interface. */
const char *own_addresses_add_command(const struct ip_addr *a, const char *ifname, char *buf,
				      size_t size);
