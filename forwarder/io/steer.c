/* Loading, attaching and feeding steer.
 *
 * Attached by netlink, not by a BPF link: the program has to outlive the process (its sockets gone,
 * it drops VIP packets until the next process replaces it), a link would have to be pinned for
 * that, and a pin in bpffs vanishes with the mount namespace that `ip netns exec` makes. Nor by
 * libxdp's dispatcher, which not every kernel loads and which would make the replacement
 * non-atomic.
 *
 * A program is ours if it is called "steer"; one of another name is never touched. */
#include "io/steer.h"

#include <arpa/inet.h>
#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "io/bpf_error.h"
#include "io/port.h"
#include "io/steer_map.h"
#include "io/steer_vips.h"
#include "steer.skel.h"

_Static_assert(STEER_VIPS_MAX == VIPS_MAX, "the map holds every VIP");
_Static_assert(STEER_IFACES_MAX == IFACES_MAX, "every interface has a code");

#define PROGRAM_NAME "steer"

struct steer {
	unsigned n_ifaces;
	int ifindexes[IFACES_MAX];
	struct steer_bpf *bpf[IFACES_MAX];
	struct steer_vips vips;
	struct steer_backs backs;
	int own_fd;
	struct ip_addr *own; /* what is in that map; sorted */
	size_t n_own;
};

/* What an interface carries, and how to put it back. */
struct attached {
	int fd;		/* program, or -1 for none */
	uint32_t flags; /* XDP_FLAGS_DRV_MODE or XDP_FLAGS_SKB_MODE */
};

/* --- loading ------------------------------------------------------------------------------------
 */

static int share_maps(const struct steer *s, struct steer_bpf *b)
{
	const struct {
		struct bpf_map *map;
		int fd;
	} shared[] = {{b->maps.vip_addrs, s->vips.addrs_fd},
		      {b->maps.vips, s->vips.vips_fd},
		      {b->maps.own_addrs, s->own_fd},
		      {b->maps.vip_prefixes, s->vips.wide.prefixes_fd},
		      {b->maps.vip_blocks, s->vips.wide.blocks_fd},
		      {b->maps.n_wide, s->vips.wide.n_fd},
		      {b->maps.backs, s->backs.ways_fd},
		      {b->maps.back_used, s->backs.used_fd},
		      {b->maps.back_wanted, s->backs.wanted_fd},
		      {b->maps.back_parts, s->backs.parts_fd},
		      {b->maps.back_outs, s->backs.outs_fd}};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(shared); i++)
		rc = bpf_map__reuse_fd(shared[i].map, shared[i].fd);
	return rc;
}

static void keep_maps(struct steer *s, const struct steer_bpf *b)
{
	s->vips.addrs_fd = bpf_map__fd(b->maps.vip_addrs);
	s->vips.vips_fd = bpf_map__fd(b->maps.vips);
	s->own_fd = bpf_map__fd(b->maps.own_addrs);
	s->vips.wide.prefixes_fd = bpf_map__fd(b->maps.vip_prefixes);
	s->vips.wide.blocks_fd = bpf_map__fd(b->maps.vip_blocks);
	s->vips.wide.n_fd = bpf_map__fd(b->maps.n_wide);
	s->backs.ways_fd = bpf_map__fd(b->maps.backs);
	s->backs.used_fd = bpf_map__fd(b->maps.back_used);
	s->backs.wanted_fd = bpf_map__fd(b->maps.back_wanted);
	s->backs.parts_fd = bpf_map__fd(b->maps.back_parts);
	s->backs.outs_fd = bpf_map__fd(b->maps.back_outs);
}

/* One instance of the program; all but the first use the first one's maps. */
static int load_one(struct steer *s, unsigned i, uint32_t frame_max, bool multi, struct error *err)
{
	struct steer_bpf *b = steer_bpf__open();
	int rc = 0;

	bpf_error_clear();
	if (!b)
		return bpf_error_set(err, -errno, 0, "cannot open the steer program");
	s->bpf[i] = b;
	b->rodata->frame_max = frame_max;
	b->rodata->multi = multi;
	if (i > 0)
		rc = share_maps(s, b);
	if (rc == 0)
		rc = steer_bpf__load(b);
	if (rc < 0)
		return bpf_error_set(err, rc, 0,
				     "cannot load the steer program (needs root and Linux 5.18 or "
				     "later)");
	if (i == 0)
		keep_maps(s, b);
	for (unsigned k = 0; k < s->n_ifaces; k++)
		b->bss->egress_ifindex[k] = (__u32)s->ifindexes[k];
	s->backs.told[s->backs.n_told++] = &b->bss->n_backs;
	return 0;
}

int steer_open(unsigned n_ifaces, const int *ifindexes, uint32_t frame_max, bool multi,
	       struct steer **out, struct error *err)
{
	assert(n_ifaces >= 1 && n_ifaces <= IFACES_MAX);
	struct steer *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(err, -ENOMEM, "no memory for steer");
	bpf_error_collect();
	s->n_ifaces = n_ifaces;
	memcpy(s->ifindexes, ifindexes, n_ifaces * sizeof(*ifindexes));
	for (unsigned i = 0; i < n_ifaces; i++) {
		int rc = load_one(s, i, frame_max, multi, err);
		if (rc < 0) {
			steer_close(s);
			return rc;
		}
	}
	*out = s;
	return 0;
}

void steer_close(struct steer *s)
{
	if (!s)
		return;
	for (unsigned i = s->n_ifaces; i-- > 0;)
		steer_bpf__destroy(s->bpf[i]);
	free(s->own);
	free(s);
}

int steer_xskmap_fd(const struct steer *s, unsigned iface)
{
	assert(iface < s->n_ifaces);
	return bpf_map__fd(s->bpf[iface]->maps.xsks);
}

int steer_program_fd(const struct steer *s, unsigned iface)
{
	assert(iface < s->n_ifaces);
	return bpf_program__fd(s->bpf[iface]->progs.steer);
}

bool steer_set_mac(struct steer *s, unsigned iface, const uint8_t mac[6])
{
	assert(iface < s->n_ifaces);
	volatile __u64 *own_mac = &s->bpf[iface]->bss->own_mac; /* shared with the program */
	__u64 value = 0;

	for (int i = 5; i >= 0; i--)
		value = value << 8 | mac[i];
	if (*own_mac == value)
		return false;
	*own_mac = value;
	return true;
}

/* Two sorted lists side by side. What does not fit the map any more is answered by a worker, which
 * is as good. */
void steer_set_own_addresses(struct steer *s, const struct ip_addr *list, size_t n)
{
	struct ip_addr *kept = calloc(n + 1, sizeof(*kept));
	size_t was = 0, is = 0;
	uint32_t one = 1;

	if (!kept)
		return; /* the next call tries again */
	while (was < s->n_own || is < n) {
		int order = was == s->n_own ? 1
			    : is == n	    ? -1
					    : memcmp(&s->own[was], &list[is], sizeof(*list));
		if (order < 0)
			bpf_map_delete_elem(s->own_fd, s->own[was].b);
		else if (order > 0)
			bpf_map_update_elem(s->own_fd, list[is].b, &one, BPF_ANY);
		was += order <= 0;
		is += order >= 0;
	}
	if (n)
		memcpy(kept, list, n * sizeof(*kept));
	free(s->own);
	s->own = kept;
	s->n_own = n;
}

uint32_t steer_program_id(const struct steer *s, unsigned iface)
{
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(steer_program_fd(s, iface), &info, &len) == 0 ? info.id : 0;
}

/* --- attaching ----------------------------------------------------------------------------------
 */

/* What ifindex carries now: 0 (a->fd may be -1), -EPERM with err set for a foreign program. */
static int find_attached(int ifindex, struct attached *a, struct error *err)
{
	struct bpf_xdp_query_opts q;
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	memset(&q, 0, sizeof(q));
	q.sz = sizeof(q);
	*a = (struct attached){.fd = -1};
	bpf_error_clear();
	int rc = bpf_xdp_query(ifindex, 0, &q);
	if (rc < 0)
		return bpf_error_set(err, rc, ifindex, "cannot query the XDP program");
	uint32_t id = q.drv_prog_id ? q.drv_prog_id : q.skb_prog_id ? q.skb_prog_id : q.hw_prog_id;
	if (!id)
		return 0;
	int fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0)
		return bpf_error_set(err, -errno, ifindex, "cannot look at the XDP program");
	rc = bpf_obj_get_info_by_fd(fd, &info, &len);
	if (rc < 0 || q.hw_prog_id || strcmp(info.name, PROGRAM_NAME) != 0) {
		char name[IF_NAMESIZE] = "?";

		close(fd);
		if_indextoname((unsigned)ifindex, name);
		return error_set(err, -EPERM,
				 "%s: carries another XDP program (\"%s\", id %u), which is left "
				 "alone; remove it with: ip link set dev %s xdp off",
				 name, info.name, id, name);
	}
	a->fd = fd;
	a->flags = q.drv_prog_id ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
	return 0;
}

/* Put prog_fd (-1: nothing) where old is. Atomic, but for a change of mode. */
static int replace(int ifindex, const struct attached *old, int prog_fd, uint32_t flags)
{
	struct bpf_xdp_attach_opts opts;

	memset(&opts, 0, sizeof(opts));
	opts.sz = sizeof(opts);
	opts.old_prog_fd = old->fd;
	bpf_error_clear();
	if (old->fd < 0)
		return bpf_xdp_attach(ifindex, prog_fd, flags | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	if (prog_fd < 0)
		return bpf_xdp_detach(ifindex, old->flags, &opts);
	if (old->flags == flags)
		return bpf_xdp_attach(ifindex, prog_fd, flags, &opts);

	int rc = bpf_xdp_detach(ifindex, old->flags, &opts);
	if (rc < 0)
		return rc;
	rc = bpf_xdp_attach(ifindex, prog_fd, flags | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	if (rc < 0) {
		char reason[BPF_REASON_LEN];

		bpf_error_save(reason);
		if (bpf_xdp_attach(ifindex, old->fd, old->flags | XDP_FLAGS_UPDATE_IF_NOEXIST,
				   NULL) < 0)
			log_error("steer", "the program found on interface %d is lost", ifindex);
		bpf_error_restore(reason);
	}
	return rc;
}

static const char *mode_name(uint32_t flags)
{
	return flags == XDP_FLAGS_DRV_MODE ? "native" : "generic";
}

/* Undo the first n replacements of steer_attach. */
static void put_back(const struct steer *s, const struct attached *old, unsigned n, uint32_t flags)
{
	while (n-- > 0) {
		struct attached now = {steer_program_fd(s, n), flags};
		int rc = replace(s->ifindexes[n], &now, old[n].fd, old[n].flags);

		if (rc < 0)
			log_error("steer", "interface %d: what was attached is not restored (%s)",
				  s->ifindexes[n], strerror(-rc));
	}
}

int steer_attach(struct steer *s, uint32_t flags, struct error *err)
{
	struct attached old[IFACES_MAX];
	unsigned n_found = 0;
	int rc = 0;

	assert(flags == XDP_FLAGS_DRV_MODE || flags == XDP_FLAGS_SKB_MODE);
	/* Look at all before touching one. */
	for (; n_found < s->n_ifaces; n_found++) {
		rc = find_attached(s->ifindexes[n_found], &old[n_found], err);
		if (rc < 0)
			goto out;
	}
	for (unsigned i = 0; i < s->n_ifaces; i++) {
		int ifindex = s->ifindexes[i];

		if (old[i].fd >= 0 && old[i].flags != flags)
			log_warning(
				"steer",
				"interface %d: detaching the %s program to attach a %s one (the "
				"kernel cannot do this in one step: packets of VIPs may reach "
				"the host in between)",
				ifindex, mode_name(old[i].flags), mode_name(flags));
		rc = replace(ifindex, &old[i], steer_program_fd(s, i), flags);
		if (rc < 0) {
			char what[64];

			snprintf(what, sizeof(what), "cannot attach the XDP program in %s mode",
				 mode_name(flags));
			rc = bpf_error_set(err, rc, ifindex, what);
			put_back(s, old, i, flags);
			goto out;
		}
	}
out:
	while (n_found-- > 0)
		if (old[n_found].fd >= 0)
			close(old[n_found].fd);
	return rc;
}

/* Whether an interface carries the program that was loaded for `iface`, in the mode of flags. */
static int query_own(const struct steer *s, unsigned iface, int ifindex, uint32_t flags, bool *own)
{
	struct bpf_xdp_query_opts q;

	memset(&q, 0, sizeof(q));
	q.sz = sizeof(q);
	int rc = bpf_xdp_query(ifindex, (int)flags, &q);
	uint32_t id = flags == XDP_FLAGS_DRV_MODE ? q.drv_prog_id : q.skb_prog_id;
	*own = rc == 0 && id && id == steer_program_id(s, iface);
	return rc;
}

int steer_move(struct steer *s, unsigned iface, int ifindex, uint32_t flags, struct error *err)
{
	assert(iface < s->n_ifaces);
	bpf_error_clear();
	bool own = false; /* as on one that was in another network namespace for a while */
	int rc = query_own(s, iface, ifindex, flags, &own);

	if (rc == 0 && !own)
		rc = bpf_xdp_attach(ifindex, steer_program_fd(s, iface),
				    flags | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	if (rc == -EBUSY || rc == -EEXIST)
		return error_set(err, rc, "it carries another XDP program, which is left alone");
	if (rc < 0)
		return bpf_error_set(err, rc, 0, "cannot attach the XDP program");
	s->ifindexes[iface] = ifindex;
	for (unsigned k = 0; k < s->n_ifaces; k++) /* shared with the programs */
		*(volatile __u32 *)&s->bpf[k]->bss->egress_ifindex[iface] = (__u32)ifindex;
	return 0;
}

void steer_read_queue(const struct steer *s, unsigned iface, unsigned queue, uint64_t *redirected,
		      uint64_t *refused)
{
	assert(iface < s->n_ifaces && queue < STEER_QUEUES_MAX);
	const volatile struct steer_queue_counts *c = &s->bpf[iface]->bss->queue_counts[queue];

	*redirected = c->redirected;
	*refused = c->refused;
}

bool steer_found_generic(const struct steer *s)
{
	bool found = false;

	for (unsigned i = 0; i < s->n_ifaces && !found; i++) {
		struct attached a;

		if (find_attached(s->ifindexes[i], &a, NULL) < 0 || a.fd < 0)
			continue;
		found = a.flags == XDP_FLAGS_SKB_MODE;
		close(a.fd);
	}
	return found;
}

int steer_detach_own(const struct steer *s, unsigned iface, uint32_t flags, struct error *err)
{
	int ifindex = s->ifindexes[iface];
	bool own = false;

	bpf_error_clear();
	int rc = query_own(s, iface, ifindex, flags, &own);
	if (rc == 0 && own)
		rc = bpf_xdp_detach(ifindex, flags, NULL);
	return rc < 0 ? bpf_error_set(err, rc, ifindex, "cannot detach the XDP program") : 0;
}

int steer_detach(const char *ifname, struct error *err)
{
	unsigned ifindex = if_nametoindex(ifname);
	struct attached a;

	if (!ifindex)
		return error_set(err, -ENODEV, "%s: no such interface", ifname);
	bpf_error_collect();
	int rc = find_attached((int)ifindex, &a, err);
	if (rc < 0)
		return rc;
	if (a.fd < 0)
		return error_set(err, -ENOENT, "%s: no steer program is attached", ifname);
	rc = replace((int)ifindex, &a, -1, 0);
	close(a.fd);
	if (rc < 0)
		return bpf_error_set(err, rc, (int)ifindex, "cannot detach the steer program");
	return 0;
}

/* --- maps ---------------------------------------------------------------------------------------
 */

static int map_error(struct error *err, int rc, const char *what)
{
	return error_set(err, rc, "steer: cannot %s a VIP: %s", what, strerror(-rc));
}

int steer_add_vip(struct steer *s, const struct vip_match *m, struct error *err)
{
	int rc = steer_vips_add(&s->vips, m);

	return rc ? map_error(err, rc, "add") : 0;
}

int steer_del_vip(struct steer *s, const struct vip_match *m, struct error *err)
{
	int rc = steer_vips_del(&s->vips, m);

	return rc ? map_error(err, rc, "remove") : 0;
}

struct steer_backs *steer_backs(struct steer *s)
{
	return &s->backs;
}

uint64_t steer_read_too_big(const struct steer *s)
{
	int n_cpus = libbpf_num_possible_cpus();
	uint32_t key = STEER_TOO_BIG;
	uint64_t sum = 0;

	if (n_cpus <= 0)
		return 0;
	uint64_t *per_cpu = calloc((size_t)n_cpus, sizeof(*per_cpu));
	if (!per_cpu)
		return 0;
	for (unsigned i = 0; i < s->n_ifaces; i++) {
		int fd = bpf_map__fd(s->bpf[i]->maps.steer_counts);

		if (bpf_map_lookup_elem(fd, &key, per_cpu) < 0)
			continue;
		for (int cpu = 0; cpu < n_cpus; cpu++)
			sum += per_cpu[cpu];
	}
	free(per_cpu);
	return sum;
}
