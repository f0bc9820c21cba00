/* VIPs of one address, and one port or any: a hash by address, which every packet is asked of, and
 * one by all three. The others are steer_wide's. */
#include "io/steer_vips.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "io/steer_map.h"

static struct steer_vip_key vip_key(const struct vip_match *m)
{
	static const uint8_t protos[] = {
		[VIP_TCP] = IPPROTO_TCP, [VIP_UDP] = IPPROTO_UDP, [VIP_ANY] = 0};
	struct steer_vip_key key = {.port = htons(m->port), .proto = protos[m->protocol]};

	memcpy(key.addr, m->address.b, sizeof(key.addr));
	return key;
}

/* One VIP more (or less) has this address. */
static int count_address(const struct steer_vips *s, const struct steer_vip_key *key, int by)
{
	uint32_t n = 0;

	if (bpf_map_lookup_elem(s->addrs_fd, key->addr, &n) < 0 && (errno != ENOENT || by < 0))
		return -errno;
	n += (uint32_t)by;
	int rc = n ? bpf_map_update_elem(s->addrs_fd, key->addr, &n, BPF_ANY)
		   : bpf_map_delete_elem(s->addrs_fd, key->addr);
	return rc < 0 ? -errno : 0;
}

int steer_vips_add(struct steer_vips *s, const struct vip_match *m)
{
	struct steer_vip_key key = vip_key(m);
	uint32_t one = 1;

	if (vip_match_is_wide(m))
		return steer_wide_add(&s->wide, m);
	if (bpf_map_update_elem(s->vips_fd, &key, &one, BPF_NOEXIST) < 0)
		return errno == EEXIST ? 0 : -errno;
	int rc = count_address(s, &key, 1);
	if (rc)
		bpf_map_delete_elem(s->vips_fd, &key);
	return rc;
}

int steer_vips_del(struct steer_vips *s, const struct vip_match *m)
{
	struct steer_vip_key key = vip_key(m);
	uint32_t one;

	if (vip_match_is_wide(m))
		return steer_wide_del(&s->wide, m);
	if (bpf_map_lookup_elem(s->vips_fd, &key, &one) < 0)
		return errno == ENOENT ? 0 : -errno;
	int rc = count_address(s, &key, -1);
	if (rc == 0 && bpf_map_delete_elem(s->vips_fd, &key) < 0)
		rc = -errno;
	return rc;
}
