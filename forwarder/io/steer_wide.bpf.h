/* steer's part for prefixes and ranges of ports: which VIP it is does not matter here, only whether
 * there is one. The trie leads from the longest prefix that holds the address to the next shorter
 * one; each tells by which sizes of port blocks to ask. A VIP's entries are its own, so whatever
 * comes or goes beside it, its packets never miss. */

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_VIPS_MAX);
	__type(key, struct steer_prefix_key);
	__type(value, struct steer_prefix);
} vip_prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_BLOCKS_MAX);
	__type(key, struct steer_block_key);
	__type(value, __u32);
} vip_blocks SEC(".maps");

/* How many of such VIPs there are. (A map, since all interfaces' programs have it in common.) */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} n_wide SEC(".maps");

struct wide_search {
	struct steer_prefix_key at;
	__u16 port;
	__u8 proto;
	__u8 found;
};

static __always_inline int wide_begin(struct wide_search *s, const struct steer_vip_key *key)
{
	__u32 index = 0;
	__u32 *n = bpf_map_lookup_elem(&n_wide, &index);

	if (!n || !*n)
		return 0;
	__builtin_memset(s, 0, sizeof(*s));
	s->at.len = STEER_ADDRESS_LEN;
	s->at.family = 4;
	for (int i = 0; i < 12; i++)
		if (key->addr[i] != (i < 10 ? 0 : 0xff))
			s->at.family = 6;
	__builtin_memcpy(s->at.addr, key->addr, sizeof(s->at.addr));
	return 1;
}

/* This and wide_has_port are not static: so the verifier looks at each once, instead of once for every
 * way that leads there. */
int wide_has_address(const struct steer_vip_key *key);
__attribute__((noinline)) int wide_has_address(const struct steer_vip_key *key)
{
	struct wide_search s;

	return key && wide_begin(&s, key) && bpf_map_lookup_elem(&vip_prefixes, &s.at) != NULL;
}

/* For bpf_loop: 1 ends it. */
static long try_prefix(__u32 index, void *arg)
{
	struct wide_search *s = arg;
	struct steer_prefix *p = bpf_map_lookup_elem(&vip_prefixes, &s->at);
	struct steer_block_key block = {};

	if (!p)
		return 1;
	__builtin_memcpy(block.addr, p->addr, sizeof(block.addr));
	block.host_bits = p->host_bits;
	for (__u32 bits = 0; bits < STEER_BLOCK_SIZES; bits++) {
		if (!(p->sizes >> bits & 1))
			continue;
		block.bits = bits;
		block.port = (__u32)s->port >> bits << bits;
		block.proto = s->proto;
		s->found |= bpf_map_lookup_elem(&vip_blocks, &block) != NULL;
		block.proto = 0;
		s->found |= bpf_map_lookup_elem(&vip_blocks, &block) != NULL;
	}
	s->at.len = p->len - 1;
	return s->found ? 1 : 0;
}

int wide_has_port(const struct steer_vip_key *key, __be16 port, __u8 proto);
__attribute__((noinline)) int wide_has_port(const struct steer_vip_key *key, __be16 port,
					    __u8 proto)
{
	struct wide_search s;

	if (!key || !wide_begin(&s, key))
		return 0;
	s.port = bpf_ntohs(port);
	s.proto = proto;
	bpf_loop(STEER_ADDRESS_LEN, try_prefix, &s, 0);
	return s.found;
}
