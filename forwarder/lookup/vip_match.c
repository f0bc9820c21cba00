#include "lookup/vip_match.h"

#include <netinet/in.h>

static uint16_t last_port(const struct vip_match *m)
{
	return m->port_end ? m->port_end : m->port ? m->port : UINT16_MAX;
}

bool vip_match_has_address(const struct vip_match *m, const struct ip_addr *a)
{
	struct ip_addr first = ip_addr_mask(a, m->host_bits);

	return ip_addr_is_v4(a) == ip_addr_is_v4(&m->address) && ip_addr_equal(&first, &m->address);
}

bool vip_match_takes(const struct vip_match *m, const struct ip_addr *dst, uint16_t dport,
		     uint8_t proto)
{
	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return false;
	return vip_match_has_address(m, dst) && dport >= m->port && dport <= last_port(m) &&
	       (m->protocol == VIP_ANY || (m->protocol == VIP_TCP) == (proto == IPPROTO_TCP));
}

bool vip_match_overlaps(const struct vip_match *x, const struct vip_match *y)
{
	unsigned bits = x->host_bits > y->host_bits ? x->host_bits : y->host_bits;
	struct ip_addr a = ip_addr_mask(&x->address, bits), b = ip_addr_mask(&y->address, bits);

	return ip_addr_is_v4(&x->address) == ip_addr_is_v4(&y->address) && ip_addr_equal(&a, &b) &&
	       x->port <= last_port(y) && y->port <= last_port(x) &&
	       (x->protocol == y->protocol || x->protocol == VIP_ANY || y->protocol == VIP_ANY);
}

bool vip_match_equal(const struct vip_match *x, const struct vip_match *y)
{
	return ip_addr_equal(&x->address, &y->address) && x->host_bits == y->host_bits &&
	       x->port == y->port && x->port_end == y->port_end && x->protocol == y->protocol;
}

int vip_match_order(const struct vip_match *x, const struct vip_match *y)
{
	int wider_x = last_port(x) - x->port, wider_y = last_port(y) - y->port;

	if (x->host_bits != y->host_bits)
		return x->host_bits - y->host_bits;
	if (wider_x != wider_y)
		return wider_x - wider_y;
	if ((x->protocol == VIP_ANY) != (y->protocol == VIP_ANY))
		return x->protocol == VIP_ANY ? 1 : -1;
	return x->port - y->port;
}

unsigned vip_match_blocks(const struct vip_match *m, struct port_block blocks[PORT_BLOCKS_MAX])
{
	uint32_t at = m->port, end = (uint32_t)last_port(m) + 1;
	unsigned n = 0;

	while (at < end) {
		unsigned bits = at ? (unsigned)__builtin_ctz(at) : 16;
		while (at + (1u << bits) > end)
			bits--;
		blocks[n++] = (struct port_block){.first = (uint16_t)at, .bits = (uint8_t)bits};
		at += 1u << bits;
	}
	return n;
}
