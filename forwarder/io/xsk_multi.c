/* What follows a buffer is written down by its chunk when the frame comes in. So a worker may move
 * a frame's front and cut its end off, and what is to be sent of each buffer is found from the
 * frame's length alone. */
#include "io/xsk_multi.h"

#include "io/xsk_driver.h"

static struct umem_part *part_at(const struct umem *u, uint64_t addr)
{
	return &u->parts[addr >> u->shift];
}

/* --- receiving ------------------------------------------------------------------------------ */

/* Descriptors of the frame that begins with the first of n; 0 if its last one is not among them. */
static uint32_t frame_descs(struct xsk_ring_cons *rx, uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!(xsk_ring_cons__rx_desc(rx, at + i)->options & XDP_PKT_CONTD))
			return i + 1;
	return 0;
}

static struct frame take(struct xsk_port *p, struct xsk_sock *s, uint32_t at, uint32_t n_descs)
{
	const struct xdp_desc *first = xsk_ring_cons__rx_desc(&s->rx, at);
	struct umem_part *last = NULL;
	uint32_t len = 0;

	for (uint32_t i = 0; i < n_descs; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&s->rx, at + i);
		struct umem_part *part = part_at(&p->umem, d->addr);

		*part = (struct umem_part){.end = d->addr + d->len, .next = UMEM_NO_PART};
		if (last)
			last->next = d->addr;
		last = part;
		len += d->len;
	}
	return (struct frame){
		.data = p->umem.area + first->addr,
		.len = len,
		.headroom = (uint32_t)(first->addr - umem_chunk(&p->umem, first->addr)),
		.addr = first->addr,
		.iface = s->iface,
		.more = (uint16_t)(len - first->len),
	};
}

unsigned xsk_multi_rx(struct port *port, unsigned q, struct frame *frames, unsigned n)
{
	struct xsk_port *p = (struct xsk_port *)port;
	struct xsk_sock *s = &p->socks[q];
	uint32_t at = 0, done = 0;
	uint32_t n_descs = xsk_ring_cons__peek(&s->rx, BURST_MAX, &at);
	unsigned k = 0;

	while (k < n && done < n_descs) {
		uint32_t descs = frame_descs(&s->rx, at + done, n_descs - done);

		if (descs == 0)
			break; /* the next time, from its beginning on */
		frames[k] = take(p, s, at + done, descs);
		cpu_prefetch(frames[k++].data);
		done += descs;
	}
	xsk_ring_cons__cancel(&s->rx, n_descs - done);
	if (done)
		xsk_ring_cons__release(&s->rx, done);
	s->n_posted -= done;
	return k;
}

const uint8_t *xsk_multi_rest(struct port *port, const struct frame *f, unsigned k, uint32_t *len)
{
	struct xsk_port *p = (struct xsk_port *)port;
	uint64_t addr = part_at(&p->umem, f->addr)->next;

	while (addr != UMEM_NO_PART && k--)
		addr = part_at(&p->umem, addr)->next;
	if (addr == UMEM_NO_PART)
		return NULL;
	*len = (uint32_t)(part_at(&p->umem, addr)->end - addr);
	return p->umem.area + addr;
}

/* --- giving back ---------------------------------------------------------------------------- */

/* This buffer and all that follow it. */
static void put_all(struct umem *u, uint64_t addr)
{
	while (addr != UMEM_NO_PART) {
		uint64_t next = part_at(u, addr)->next;

		umem_put(u, addr);
		addr = next;
	}
}

void xsk_multi_free(struct port *port, const struct frame *frames, unsigned n)
{
	struct xsk_port *p = (struct xsk_port *)port;

	for (unsigned i = 0; i < n; i++)
		put_all(&p->umem, frames[i].addr);
}

/* --- sending -------------------------------------------------------------------------------- */

/* What is to be sent of the buffer at addr, when `left` bytes of its frame are. */
static uint32_t part_len(const struct umem *u, uint64_t addr, uint32_t left)
{
	const struct umem_part *part = part_at(u, addr);

	if (part->next == UMEM_NO_PART || addr + left <= part->end)
		return left;
	return (uint32_t)(part->end - addr);
}

static uint32_t frame_parts(const struct umem *u, const struct frame *f)
{
	uint64_t addr = (uint64_t)(f->data - u->area);
	uint32_t n = 0;

	for (uint32_t left = f->len; left; n++) {
		left -= part_len(u, addr, left);
		addr = part_at(u, addr)->next;
	}
	return n;
}

static void put_descs(struct xsk_port *p, struct xsk_sock *s, uint32_t at, const struct frame *f)
{
	struct umem *u = &p->umem;
	uint64_t addr = (uint64_t)(f->data - u->area);

	assert(umem_chunk(u, addr) == umem_chunk(u, f->addr));
	for (uint32_t left = f->len; left; at++) {
		uint32_t len = part_len(u, addr, left);

		left -= len;
		umem_hold(u, addr, s->id);
		*xsk_ring_prod__tx_desc(&s->tx, at) = (struct xdp_desc){
			.addr = addr, .len = len, .options = left ? XDP_PKT_CONTD : 0};
		addr = part_at(u, addr)->next;
	}
	put_all(u, addr);
}

unsigned xsk_multi_tx(struct port *port, unsigned iface, const struct frame *frames, unsigned n)
{
	struct xsk_port *p = (struct xsk_port *)port;
	uint32_t at = 0, parts[BURST_MAX], sum = 0, room;
	unsigned k = 0;

	if (unlikely(p->tx_socks[iface] == XSK_NO_SOCKET))
		return 0;
	struct xsk_sock *s = &p->socks[p->tx_socks[iface]];
	for (unsigned i = 0; i < n; i++)
		sum += parts[i] = frame_parts(&p->umem, &frames[i]);
	room = xsk_tx_room(s, sum);
	if (room < sum) {
		xsk_socket_kick(s);
		xsk_socket_reap(s, &p->umem);
		room = xsk_tx_room(s, sum);
	}
	for (sum = 0; k < n && sum + parts[k] <= room; k++)
		sum += parts[k];
	if (k == 0)
		return 0;
	uint32_t got = xsk_ring_prod__reserve(&s->tx, sum, &at);
	assert(got == sum);
	for (unsigned i = 0; i < k; i++) {
		put_descs(p, s, at, &frames[i]);
		at += parts[i];
	}
	xsk_ring_prod__submit(&s->tx, sum);
	s->n_tx_out += sum;
	return k;
}
