/* Remembered are the ports, not the DIP: with them any other fragment is a packet of its flow like
 * the first, found by the same lookup, in whatever snapshot there is by then. So it needs no word
 * about pools that change: what keeps a flow on its DIP keeps its fragments there.
 *
 * An entry is two words, {tag ^ value, value}, written and read by plain atomic stores and loads.
 * Who reads halves of two writes gets a tag that is not the one it looks for; nobody waits for
 * anybody, and a writer that is killed or preempted leaves nothing locked. (R. Hyatt, T. Mann: "A
 * lock-less transposition table implementation for parallel search", 2002.) Two writers at one
 * place can lose both entries, which costs a packet that has fragments, once in a long while. Four
 * entries are a cache line, and any of them may hold what is hashed to that line.
 *
 * The tag is a hash under a secret seed, so that nobody can choose packets that share one. */
#include "worker/fragment_cache.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "base/fault.h"
#include "base/hugemem.h"
#include "lookup/flow_key.h"

#define WAYS 4u
#define SETS SIM_SIZE(4096u, 16u) /* 256 KiB */

/* value: source port, destination port (as in the packet), 1 bit TCP, 31 bits of time. */
#define VALUE_SPORT 48
#define VALUE_DPORT 32
#define VALUE_TCP 31
#define TIME_MASK 0x7fffffffu

struct entry {
	_Atomic uint64_t mixed; /* tag ^ value */
	_Atomic uint64_t value; /* 0 = free */
};

struct set {
	CACHE_ALIGNED struct entry ways[WAYS];
};
_Static_assert(sizeof(struct set) == CACHE_LINE, "a look is one cache line");

struct fragment_cache {
	uint64_t seed, secret;
	CACHE_ALIGNED _Atomic uint64_t puts;
	struct set sets[SETS];
};

struct fragment_cache *fragment_cache_new(void)
{
	struct fragment_cache *c = hugemem_alloc(sizeof(*c), NULL);

	if (!c)
		return NULL;
	c->seed = entropy_u64();
	c->secret = entropy_u64() | 1;
	return c;
}

void fragment_cache_free(struct fragment_cache *c)
{
	hugemem_free(c, sizeof(*c));
}

static uint64_t mix_address(uint64_t h, const struct ip_addr *a, uint64_t secret)
{
	uint64_t words[2];

	memcpy(words, a->b, sizeof(words));
	return flow_key_mix(flow_key_mix(h, words[0], secret), words[1], secret);
}

uint64_t fragment_cache_tag(const struct fragment_cache *c, const struct packet *p)
{
	/* By RFC 8200 4.5 only the first fragment's next header counts, and the others' may differ.
	 */
	uint64_t rest = (uint64_t)p->fragment_id << 8 | (p->is_v6 ? 0 : p->proto);

	if (!c)
		return 1;
	uint64_t h = mix_address(c->seed, &p->src, c->secret);
	h = flow_key_mix(mix_address(h, &p->dst, c->secret), rest, c->secret);
	return (h ^ h >> 32) | 1; /* never that of a free entry */
}

static struct set *set_of(const struct fragment_cache *c, uint64_t tag)
{
	return (struct set *)&c->sets[(tag >> 1) % SETS];
}

/* Another worker's clock may have been read a moment later than this one's. */
static bool is_fresh(uint64_t value, uint32_t now_ms)
{
	int32_t age = (int32_t)((now_ms - (uint32_t)value) << 1) / 2;

	return age <= (int32_t)FRAGMENT_LIFE_MS && age >= -(int32_t)FRAGMENT_LIFE_MS;
}

void fragment_cache_put(struct fragment_cache *c, uint64_t tag, const struct packet *first,
			uint32_t now_ms)
{
	if (!c)
		return;
	struct set *s = set_of(c, tag);
	uint64_t value = (uint64_t)first->sport_be << VALUE_SPORT |
			 (uint64_t)first->dport_be << VALUE_DPORT |
			 (uint64_t)(first->proto == IPPROTO_TCP) << VALUE_TCP |
			 (now_ms & TIME_MASK);
	struct entry *to = &s->ways[0];
	uint32_t oldest = 0;

	for (unsigned i = 0; i < WAYS; i++) {
		struct entry *e = &s->ways[i];
		uint64_t v = atomic_load_explicit(&e->value, memory_order_relaxed);
		uint32_t age =
			is_fresh(v, now_ms) && v ? (now_ms - (uint32_t)v) & TIME_MASK : TIME_MASK;

		if ((atomic_load_explicit(&e->mixed, memory_order_relaxed) ^ v) == tag) {
			to = e;
			break;
		}
		if (age > oldest) {
			to = e;
			oldest = age;
		}
	}
	atomic_store_explicit(&to->value, value, memory_order_relaxed);
	atomic_store_explicit(&to->mixed, tag ^ value, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->puts, 1, memory_order_release);
}

bool fragment_cache_find(const struct fragment_cache *c, uint64_t tag, uint32_t now_ms,
			 struct packet *later)
{
	if (!c)
		return false;
	const struct set *s = set_of(c, tag);

	for (unsigned i = 0; i < WAYS; i++) {
		const struct entry *e = &s->ways[i];
		uint64_t mixed = atomic_load_explicit(&e->mixed, memory_order_relaxed);
		uint64_t value = atomic_load_explicit(&e->value, memory_order_relaxed);

		if ((mixed ^ value) != tag || !is_fresh(value, now_ms))
			continue;
		later->sport_be = (uint16_t)(value >> VALUE_SPORT);
		later->dport_be = (uint16_t)(value >> VALUE_DPORT);
		later->proto = value >> VALUE_TCP & 1 ? IPPROTO_TCP : IPPROTO_UDP;
		return true;
	}
	return false;
}

uint64_t fragment_cache_puts(const struct fragment_cache *c)
{
	return c ? atomic_load_explicit(&c->puts, memory_order_acquire) : 0;
}
