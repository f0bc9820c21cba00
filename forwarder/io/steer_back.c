/* Next hops come from two maps. What a packet found unresolved is `wanted`: it is taken out at
 * once. What is in use is only to be kept resolved, so all of it is walked through once in a while,
 * a few at a time; what has not been used for long is forgotten. */
#include "io/steer_back.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <time.h>

#include "base/clock.h"

#define WALK_INTERVAL_MS 10000u
#define FORGET_NS 60000000000ull
#define STEP_MAX 32u /* entries that one call looks at */

_Static_assert(sizeof(struct steer_back_key) == sizeof(struct back_key) &&
		       offsetof(struct steer_back_key, proto) == offsetof(struct back_key, proto),
	       "the same bytes");

static int map_error(struct error *err, int rc, const char *what)
{
	return error_set(err, rc, "steer: cannot %s a DIP's way back: %s", what, strerror(-rc));
}

static void tell(struct steer_backs *s)
{
	for (unsigned i = 0; i < s->n_told; i++)
		*s->told[i] = s->n;
}

/* The address of an end that comes (by: 1), stays (0) or goes (-1), by which fragments without a
 * port are known. */
static int count_address(const struct steer_backs *s, const struct back_key *end,
			 const struct ip_addr *vip, int by)
{
	struct back_key key = {.address = end->address};
	struct steer_back b = {.n = 0};

	if (bpf_map_lookup_elem(s->ways_fd, &key, &b) < 0 && errno != ENOENT)
		return -errno;
	b.n += (__u32)by;
	if (vip)
		memcpy(b.vip, vip->b, sizeof(b.vip));
	int rc = b.n ? bpf_map_update_elem(s->ways_fd, &key, &b, BPF_ANY)
		     : bpf_map_delete_elem(s->ways_fd, &key);
	return rc < 0 ? -errno : 0;
}

int steer_add_back(struct steer_backs *s, const struct back_key *key, const struct ip_addr *vip,
		   struct error *err)
{
	struct steer_back b = {.n = 1};
	bool is_new;

	memcpy(b.vip, vip->b, sizeof(b.vip));
	is_new = bpf_map_update_elem(s->ways_fd, key, &b, BPF_NOEXIST) == 0;
	if (!is_new && bpf_map_update_elem(s->ways_fd, key, &b, BPF_ANY) < 0)
		return map_error(err, -errno, "add");
	s->n += is_new;
	tell(s);
	int rc = count_address(s, key, vip, is_new);
	return rc < 0 ? map_error(err, rc, "add") : 0;
}

int steer_del_back(struct steer_backs *s, const struct back_key *key, struct error *err)
{
	if (bpf_map_delete_elem(s->ways_fd, key) < 0)
		return errno == ENOENT ? 0 : map_error(err, -errno, "remove");
	s->n--;
	tell(s);
	int rc = count_address(s, key, NULL, -1);
	return rc < 0 ? map_error(err, rc, "remove") : 0;
}

/* What goes makes room before what comes. */
int steer_set_outs(struct steer_backs *s, const int ifindexes[STEER_STACKED_MAX], struct error *err)
{
	for (unsigned i = 0; i < STEER_STACKED_MAX; i++) {
		if (s->outs[i] == ifindexes[i] || !s->outs[i])
			continue;
		if (bpf_map_delete_elem(s->outs_fd, &s->outs[i]) < 0 && errno != ENOENT)
			return map_error(err, -errno, "remove an interface of");
		s->outs[i] = 0;
	}
	for (__u32 i = 0; i < STEER_STACKED_MAX; i++) {
		__u32 code = STEER_IFACES_MAX + i;

		if (s->outs[i] == ifindexes[i])
			continue;
		if (bpf_map_update_elem(s->outs_fd, &ifindexes[i], &code, BPF_ANY) < 0)
			return map_error(err, -errno, "add an interface to");
		s->outs[i] = ifindexes[i];
	}
	return 0;
}

static struct back_hop hop_of(const struct steer_hop_key *key)
{
	struct back_hop h = {.ifindex = (int)key->ifindex};

	memcpy(h.address.b, key->addr, sizeof(h.address.b));
	return h;
}

static unsigned take_wanted(const struct steer_backs *s, struct back_hop *hops, unsigned n)
{
	struct steer_hop_key key;
	unsigned got = 0;

	for (unsigned i = 0; i < STEP_MAX && got < n; i++) {
		if (bpf_map_get_next_key(s->wanted_fd, NULL, &key) < 0)
			break;
		hops[got++] = hop_of(&key);
		if (bpf_map_delete_elem(s->wanted_fd, &key) < 0 && errno != ENOENT)
			break;
	}
	return got;
}

static uint64_t coarse_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* An entry that goes while the walk stands on it makes the kernel begin anew: some hops are asked
 * for twice then. */
static unsigned walk_used(struct steer_backs *s, struct back_hop *hops, unsigned n)
{
	struct steer_hop_key key;
	uint64_t seen;
	unsigned got = 0;

	for (unsigned i = 0; i < STEP_MAX && got < n; i++) {
		if (bpf_map_get_next_key(s->used_fd, s->walking ? &s->at : NULL, &key) < 0) {
			s->walking = false;
			s->walk_ms = clock_now_ms();
			break;
		}
		s->at = key;
		s->walking = true;
		if (bpf_map_lookup_elem(s->used_fd, &key, &seen) < 0)
			continue;
		uint64_t now = coarse_ns();
		if (now < seen + FORGET_NS) {
			hops[got++] = hop_of(&key);
			continue;
		}
		s->walking = false; /* the next step begins anew, without it */
		if (bpf_map_delete_elem(s->used_fd, &key) < 0 && errno != ENOENT)
			break;
	}
	return got;
}

unsigned steer_take_hops(struct steer_backs *s, struct back_hop *hops, unsigned n)
{
	unsigned got = s->n ? take_wanted(s, hops, n) : 0;

	if (s->n && (s->walking || clock_now_ms() - s->walk_ms >= WALK_INTERVAL_MS))
		got += walk_used(s, hops + got, n - got);
	return got;
}
