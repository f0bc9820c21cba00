#include "tests/bench/endless_port.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/hugemem.h"

#define FRAMES 4096u
#define FRAME_SIZE 2048u
#define HEADROOM 256u

struct endless_port {
	struct port port;
	uint8_t *memory;
	uint32_t next; /* frame */
	uint32_t n_flows;
	uint32_t openings_per_s;
	enum endless_shape shape;
	uint32_t n_fragments, fragment_flow;
	struct ip_addr vip;
	uint32_t n_opened;
	uint64_t start_ns;
	uint64_t rng;
	uint64_t n_sent, n_dropped;
};

/* A bare ACK: the smallest frame there is. */
static const uint8_t template[ENDLESS_FRAME_LEN] = {
	2,    0, 0, 0,	0, 2, 2,    0, 0,  1, 0, 1, 8,	  0,			  /* Ethernet */
	0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0,				  /* IPv4 .. */
	10,   0, 0, 0,	0, 0, 0,    0,						  /* .. addresses */
	4,    0, 0, 80, 0, 0, 0,    0, 0,  0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0, /* TCP */
};

static const uint8_t template_v6[ENDLESS_FRAME_LEN_V6] = {
	2,    0, 0,   0,    0, 2,   2, 0,  0, 1, 0, 1, 0x86, 0xdd,	 /* Ethernet */
	0x60, 0, 0,   0,    0, 20,  6, 64,				 /* IPv6 .. */
	0x20, 1, 0xd, 0xb8, 0, 0xc, 0, 0,  0, 0, 0, 0, 0,    0,	   0, 0, /* .. source */
	0,    0, 0,   0,    0, 0,   0, 0,  0, 0, 0, 0, 0,    0,	   0, 0, /* .. destination */
	4,    0, 0,   80,   0, 0,   0, 0,  0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0, /* TCP */
};

#define LARGE_LEN 1500u
#define FRAGMENT_BYTES 24u

static const uint8_t template_fragment[ENDLESS_FRAME_LEN] = {
	2,    0,
	0,    0,
	0,    2,
	2,    0,
	0,    1,
	0,    1,
	8,    0, /* Ethernet */
	0x45, 0,
	0,    20 + FRAGMENT_BYTES,
	0,    0,
	0,    0,
	64,   17,
	0,    0, /* IPv4 .. */
	10,   0,
	0,    0,
	0,    0,
	0,    0, /* .. addresses */
	4,    0,
	0,    80,
	0,    2 * FRAGMENT_BYTES,
	0,    0, /* UDP, without checksum */
};

/* Source address and port of a flow, and in the sequence number the complement of both: so the TCP
 * checksum is the same for all of them. */
static ALWAYS_INLINE void write_flow(uint8_t *tcp, uint8_t *src_at, uint32_t src, uint32_t port,
				     uint8_t flags)
{
	uint16_t sport = htons((uint16_t)port);
	uint32_t seq_high = ~src;
	uint16_t low = (uint16_t)~sport;

	memcpy(src_at, &src, 4);
	memcpy(tcp, &sport, 2);
	memcpy(tcp + 4, &seq_high, 4);
	memcpy(tcp + 8, &low, 2);
	tcp[13] = flags;
}

static ALWAYS_INLINE void write_frame(const struct endless_port *e, uint8_t *frame, uint32_t src,
				      uint32_t port, uint8_t flags)
{
	if (ip_addr_is_v4(&e->vip)) {
		memcpy(frame, template, ENDLESS_FRAME_LEN);
		memcpy(frame + 30, &e->vip.b[12], 4);
		write_flow(frame + 34, frame + 26, src, port, flags);
	} else {
		memcpy(frame, template_v6, ENDLESS_FRAME_LEN_V6);
		memcpy(frame + 38, e->vip.b, 16);
		write_flow(frame + 54, frame + 34, src, port, flags);
	}
}

static void put_16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

/* The first of a datagram, or the other one of the same. */
static void write_fragment(struct endless_port *e, uint8_t *frame, uint32_t flow)
{
	uint32_t n = e->n_fragments++;

	if (n % 2 == 0)
		e->fragment_flow = flow;
	uint32_t src = htonl(0x0a000000u + (e->fragment_flow >> 4));
	memcpy(frame, template_fragment, ENDLESS_FRAME_LEN);
	memcpy(frame + 26, &src, 4);
	memcpy(frame + 30, &e->vip.b[12], 4);
	put_16(frame + 18, n / 2);
	put_16(frame + 20, n % 2 ? FRAGMENT_BYTES / 8 : 0x2000);
	if (n % 2 == 0)
		put_16(frame + 34, 1024 + (e->fragment_flow & 15));
}

static void write_next(struct endless_port *e, uint8_t *frame, uint32_t due)
{
	if (e->n_opened < due) {
		uint32_t i = e->n_opened++;
		write_frame(e, frame, htonl(0x0c000000u + (i >> 10)), 1024 + (i & 1023), 0x02);
		return;
	}
	e->rng = e->rng * 6364136223846793005u + 1442695040888963407u;
	uint32_t i = mul_shift32((uint32_t)(e->rng >> 32), e->n_flows);
	if (e->shape == ENDLESS_FRAGMENTS) {
		write_fragment(e, frame, i);
		return;
	}
	write_frame(e, frame, htonl(0x0a000000u + (i >> 4)), 1024 + (i & 15), 0x10);
	if (e->shape == ENDLESS_LARGE)
		put_16(frame + 16, LARGE_LEN);
}

static unsigned endless_rx(struct port *p, unsigned q, struct frame *frames, unsigned n)
{
	struct endless_port *e = (struct endless_port *)p;
	uint32_t due = 0;
	uint32_t len = e->shape == ENDLESS_LARGE ? 14 + LARGE_LEN
		       : ip_addr_is_v4(&e->vip)	 ? ENDLESS_FRAME_LEN
						 : ENDLESS_FRAME_LEN_V6;

	(void)q;
	if (e->start_ns == 0) /* what was due before anyone received would come all at once */
		e->start_ns = clock_now_ns();
	if (e->openings_per_s)
		due = (uint32_t)((clock_now_ns() - e->start_ns) * e->openings_per_s / 1000000000u);
	for (unsigned i = 0; i < n; i++) {
		uint64_t addr = (uint64_t)(e->next++ % FRAMES) * FRAME_SIZE;
		uint8_t *data = e->memory + addr + HEADROOM;
		write_next(e, data, due);
		frames[i] = (struct frame){data, len, HEADROOM, addr, 0, 0};
	}
	return n;
}

static unsigned endless_tx(struct port *p, unsigned iface, const struct frame *frames, unsigned n)
{
	(void)iface;
	(void)frames;
	((struct endless_port *)p)->n_sent += n;
	return n;
}

static void endless_free(struct port *p, const struct frame *frames, unsigned n)
{
	(void)frames;
	((struct endless_port *)p)->n_dropped += n;
}

static void endless_flush(struct port *p)
{
	(void)p;
}

/* Only a worker that finds nothing to do sleeps. */
static void endless_sleep(struct port *p, int timeout_ms)
{
	struct timespec ts = {.tv_nsec = 1000000L * (timeout_ms > 1 ? 1 : timeout_ms)};

	(void)p;
	nanosleep(&ts, NULL);
}

static const struct port_driver endless_driver = {
	.rx = endless_rx,
	.tx = endless_tx,
	.free = endless_free,
	.flush = endless_flush,
	.sleep = endless_sleep,
	.wake = endless_flush,
};

struct port *endless_port_new_to(uint32_t n_flows, uint32_t openings_per_s,
				 const struct ip_addr *vip)
{
	struct endless_port *e = calloc(1, sizeof(*e));

	assert(e);
	*e = (struct endless_port){.port = {&endless_driver, 1, 1},
				   .n_flows = n_flows,
				   .openings_per_s = openings_per_s,
				   .vip = *vip,
				   .rng = 1};
	e->memory = hugemem_alloc((size_t)FRAMES * FRAME_SIZE, NULL);
	assert(e->memory);
	return &e->port;
}

struct port *endless_port_new(uint32_t n_flows, uint32_t openings_per_s, uint32_t vip)
{
	uint32_t vip_be = htonl(vip);
	struct ip_addr address = ip_addr_v4(&vip_be);

	return endless_port_new_to(n_flows, openings_per_s, &address);
}

void endless_port_shape(struct port *p, enum endless_shape shape)
{
	struct endless_port *e = (struct endless_port *)p;

	assert(shape == ENDLESS_ACKS || ip_addr_is_v4(&e->vip));
	e->shape = shape;
}

void endless_port_free(struct port *p)
{
	struct endless_port *e = (struct endless_port *)p;

	hugemem_free(e->memory, (size_t)FRAMES * FRAME_SIZE);
	free(e);
}

uint64_t endless_port_sent(const struct port *p)
{
	return ((const struct endless_port *)p)->n_sent;
}

uint64_t endless_port_dropped(const struct port *p)
{
	return ((const struct endless_port *)p)->n_dropped;
}
