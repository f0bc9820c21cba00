/* A VIP's packets are steered as soon as its prefix says which blocks to ask for, which is its last
 * step; what it shares with other VIPs, a prefix or a block, is counted and goes with the last of
 * them. Each step is one store of the kernel's, so packets of other VIPs find theirs at any moment.
 */
#include "io/steer_wide.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <netinet/in.h>

#include "io/steer_map.h"

_Static_assert(STEER_BLOCKS_MAX >= STEER_VIPS_MAX * (PORT_BLOCKS_MAX + 1) &&
		       STEER_BLOCK_SIZES == PORT_BLOCK_SIZES,
	       "there is room for every VIP's blocks");

static struct steer_block_key block_key(const struct vip_match *m, const struct port_block *b)
{
	static const uint8_t protos[] = {
		[VIP_TCP] = IPPROTO_TCP, [VIP_UDP] = IPPROTO_UDP, [VIP_ANY] = 0};
	struct steer_block_key key = {.port = b ? b->first : m->port,
				      .port_end = b ? 0 : m->port_end,
				      .bits = b ? b->bits : STEER_WHOLE,
				      .host_bits = m->host_bits,
				      .proto = protos[m->protocol]};

	memcpy(key.addr, m->address.b, sizeof(key.addr));
	return key;
}

/* One VIP more (or less) has this block. */
static int count_block(const struct steer_wide *w, const struct steer_block_key *key, int by)
{
	uint32_t n = 0;

	if (bpf_map_lookup_elem(w->blocks_fd, key, &n) < 0 && (errno != ENOENT || by < 0))
		return -errno;
	n += (uint32_t)by;
	int rc = n ? bpf_map_update_elem(w->blocks_fd, key, &n, BPF_ANY)
		   : bpf_map_delete_elem(w->blocks_fd, key);
	return rc < 0 ? -errno : 0;
}

static int count_blocks(const struct steer_wide *w, const struct vip_match *m, int by)
{
	struct port_block blocks[PORT_BLOCKS_MAX];
	unsigned n = vip_match_blocks(m, blocks);

	for (unsigned i = 0; i < n; i++) {
		struct steer_block_key key = block_key(m, &blocks[i]);
		int rc = count_block(w, &key, by);
		if (rc == 0)
			continue;
		while (i-- > 0) {
			key = block_key(m, &blocks[i]);
			if (count_block(w, &key, -by))
				break;
		}
		return rc;
	}
	return 0;
}

/* A VIP more (or less) has this prefix. */
static int count_prefix(const struct steer_wide *w, const struct vip_match *m, int by)
{
	struct steer_prefix_key key = {.len = STEER_ADDRESS_LEN - m->host_bits,
				       .family = ip_addr_is_v4(&m->address) ? 4 : 6};
	struct port_block blocks[PORT_BLOCKS_MAX];
	unsigned n = vip_match_blocks(m, blocks);
	struct steer_prefix p;

	memcpy(key.addr, m->address.b, sizeof(key.addr));
	/* Found may be a shorter one. */
	if (bpf_map_lookup_elem(w->prefixes_fd, &key, &p) < 0 || p.len != key.len) {
		p = (struct steer_prefix){.len = key.len, .host_bits = m->host_bits};
		memcpy(p.addr, key.addr, sizeof(p.addr));
	}
	p.n_vips += (uint32_t)by;
	p.sizes = 0;
	for (unsigned i = 0; i < n; i++)
		p.n_blocks[blocks[i].bits] += (uint32_t)by;
	for (unsigned bits = 0; bits < STEER_BLOCK_SIZES; bits++)
		p.sizes |= (uint32_t)(p.n_blocks[bits] != 0) << bits;
	int rc = p.n_vips ? bpf_map_update_elem(w->prefixes_fd, &key, &p, BPF_ANY)
			  : bpf_map_delete_elem(w->prefixes_fd, &key);
	return rc < 0 ? -errno : 0;
}

static int count_vip(struct steer_wide *w, int by)
{
	uint32_t zero = 0, n = w->n + (uint32_t)by;

	if (bpf_map_update_elem(w->n_fd, &zero, &n, BPF_ANY) < 0)
		return -errno;
	w->n = n;
	return 0;
}

int steer_wide_add(struct steer_wide *w, const struct vip_match *m)
{
	struct steer_block_key own = block_key(m, NULL);
	uint32_t one = 1;

	if (bpf_map_update_elem(w->blocks_fd, &own, &one, BPF_NOEXIST) < 0)
		return errno == EEXIST ? 0 : -errno;
	int rc = count_blocks(w, m, 1);
	if (rc)
		goto no_blocks;
	rc = count_prefix(w, m, 1);
	if (rc)
		goto no_prefix;
	rc = count_vip(w, 1);
	if (rc == 0)
		return 0;
	(void)!count_prefix(w, m, -1);
no_prefix:
	(void)!count_blocks(w, m, -1);
no_blocks:
	bpf_map_delete_elem(w->blocks_fd, &own);
	return rc;
}

int steer_wide_del(struct steer_wide *w, const struct vip_match *m)
{
	struct steer_block_key own = block_key(m, NULL);
	uint32_t one;

	if (bpf_map_lookup_elem(w->blocks_fd, &own, &one) < 0)
		return errno == ENOENT ? 0 : -errno;
	int rc = count_prefix(w, m, -1);
	if (rc)
		return rc;
	rc = count_blocks(w, m, -1);
	if (rc)
		goto no_blocks;
	rc = count_vip(w, -1);
	if (rc)
		goto no_vip;
	return bpf_map_delete_elem(w->blocks_fd, &own) < 0 ? -errno : 0;
no_vip:
	(void)!count_blocks(w, m, 1);
no_blocks:
	(void)!count_prefix(w, m, 1);
	return rc;
}
