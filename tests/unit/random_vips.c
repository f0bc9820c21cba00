#include "tests/unit/random_vips.h"

#include <netinet/in.h>

/* A bit of an address, the highest first. */
static unsigned bit_of(const struct ip_addr *a, unsigned i)
{
	return a->b[i / 8] >> (7 - i % 8) & 1;
}

bool random_vips_take(const struct vip_match *m, const struct ip_addr *dst, uint16_t dport,
		      uint8_t proto)
{
	enum vip_protocol p = proto == IPPROTO_TCP ? VIP_TCP : VIP_UDP;
	uint16_t last = m->port_end ? m->port_end : m->port;

	if (ip_addr_is_v4(dst) != ip_addr_is_v4(&m->address))
		return false;
	for (unsigned i = 0; i < 128u - m->host_bits; i++)
		if (bit_of(dst, i) != bit_of(&m->address, i))
			return false;
	return (m->port == 0 || (dport >= m->port && dport <= last)) &&
	       (m->protocol == VIP_ANY || m->protocol == p);
}

/* The longest prefix, then the fewest ports, then one protocol, then the lowest port: one number.
 */
uint64_t random_vips_rank(const struct vip_match *m)
{
	uint64_t ports = !m->port ? 65536 : m->port_end ? m->port_end - m->port + 1u : 1;

	return (128u - m->host_bits) * (1ull << 40) + (65536 - ports) * (1ull << 20) +
	       (m->protocol != VIP_ANY) * (1ull << 18) + (65535u - m->port);
}

static struct ip_addr near_address(uint32_t i)
{
	uint32_t be = htonl(0x0a090000 + i);

	return ip_addr_v4(&be);
}

/* Few addresses and ports, so that much overlaps; of both families, also those that are alike but
 * for the family (:: and 0.0.0.0). */
struct ip_addr random_vips_dst(struct prng *rng, bool v4)
{
	struct ip_addr a =
		v4 ? near_address(prng_below(rng, 40)) : (struct ip_addr){.b = {0x20, 1}};

	if (prng_below(rng, 10) == 0)
		a = v4 ? ip_addr_v4((const uint8_t[4]){0}) : (struct ip_addr){.b = {0}};
	if (prng_below(rng, 4) == 0)
		a.b[v4 ? 12 + prng_below(rng, 4) : prng_below(rng, 10)] ^=
			(uint8_t)(1u << prng_below(rng, 8));
	if (!v4)
		a.b[15] = (uint8_t)(1 + prng_below(rng, 3));
	return a;
}

struct vip_match random_vips_match(struct prng *rng)
{
	bool v4 = prng_below(rng, 2);
	struct vip_match m = {.protocol = (enum vip_protocol)prng_below(rng, 3)};
	unsigned most = v4 ? 32 : 128;

	if (prng_below(rng, 3))
		m.host_bits = (uint8_t)(prng_below(rng, 2) ? prng_below(rng, 9)
							   : prng_below(rng, most + 1));
	struct ip_addr a = random_vips_dst(rng, v4);
	m.address = ip_addr_mask(&a, m.host_bits);
	if (prng_below(rng, 4))
		m.port = (uint16_t)(prng_below(rng, 2) ? 1 + prng_below(rng, 40)
						       : 1 + prng_below(rng, 65535));
	if (m.port && m.port < 65535 && prng_below(rng, 2))
		m.port_end = (uint16_t)(m.port + 1 +
					prng_below(rng, prng_below(rng, 2) && m.port < 60000
								? 20
								: 65535u - m.port));
	return m;
}
