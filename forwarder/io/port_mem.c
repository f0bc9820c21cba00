/* Frames move between four places: the pool, an RX queue, the worker, a TX ring. Each frame's place
 * is written down, so that a frame which leaves a place that it is not in stops the test there and
 * then. */
#include "io/port_mem.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum place { IN_POOL, IN_RX, HELD, IN_TX };

/* Where the bytes of a frame of several buffers go on. */
struct part {
	uint32_t end;  /* offset in the buffer, behind the last byte that came in it */
	uint32_t next; /* number of the next one, + 1; 0: this is the last */
};

/* First in, first out, of at most n frames. */
struct fifo {
	struct frame *frames;
	unsigned n, first, count;
};

struct tx_ring {
	struct fifo fifo;
	unsigned n_flushed; /* the oldest of fifo, which may be taken */
};

struct port_mem {
	struct port port;
	struct port_mem_config config;
	pthread_mutex_t lock; /* over all below but wake_fd */
	uint8_t *memory;
	enum place *places; /* of each frame */
	struct part *parts; /* of each frame */
	uint32_t *pool;	    /* stack of free frames */
	unsigned n_pool;
	unsigned n_held;
	struct fifo *rx;
	struct tx_ring *tx;
	bool sleeping;
	int wake_fd;
};

static bool fifo_init(struct fifo *f, unsigned n)
{
	f->frames = calloc(n, sizeof(*f->frames));
	f->n = n;
	return f->frames != NULL;
}

static bool fifo_push(struct fifo *f, const struct frame *frame)
{
	if (f->count == f->n)
		return false;
	f->frames[(f->first + f->count++) % f->n] = *frame;
	return true;
}

static bool fifo_pop(struct fifo *f, struct frame *frame)
{
	if (f->count == 0)
		return false;
	*frame = f->frames[f->first];
	f->first = (f->first + 1) % f->n;
	f->count--;
	return true;
}

static struct port_mem *lock(struct port *p)
{
	struct port_mem *m = (struct port_mem *)p;

	pthread_mutex_lock(&m->lock);
	return m;
}

static void unlock(struct port_mem *m)
{
	pthread_mutex_unlock(&m->lock);
}

/* Number of the frame, after a look at whether it is still what the driver handed out. */
static uint32_t frame_index(const struct port_mem *m, const struct frame *f)
{
	uint64_t index = f->addr / m->config.frame_size;

	assert(f->addr % m->config.frame_size == 0 && index < m->config.n_frames);
	const uint8_t *start = m->memory + f->addr;
	assert(f->data >= start);
	if (m->parts[index].next)
		assert(f->data < start + m->parts[index].end);
	else
		assert(f->data + f->len <= start + m->config.frame_size);
	assert(f->len > 0 && f->iface < m->config.n_ifaces);
	return (uint32_t)index;
}

static void move(struct port_mem *m, const struct frame *f, enum place from, enum place to)
{
	uint32_t number = frame_index(m, f) + 1;

	m->n_held += to == HELD;
	m->n_held -= from == HELD;
	while (number) {
		uint32_t index = number - 1;

		assert(m->places[index] == from);
		m->places[index] = to;
		number = m->parts[index].next;
		if (to == IN_POOL) {
			m->parts[index].next = 0;
			m->pool[m->n_pool++] = index;
		}
	}
}

static unsigned mem_rx(struct port *p, unsigned q, struct frame *frames, unsigned n)
{
	struct port_mem *m = lock(p);
	unsigned k = 0;

	assert(q < m->config.n_queues && n <= BURST_MAX);
	for (; k < n && fifo_pop(&m->rx[q], &frames[k]); k++)
		move(m, &frames[k], IN_RX, HELD);
	unlock(m);
	return k;
}

static unsigned mem_tx(struct port *p, unsigned iface, const struct frame *frames, unsigned n)
{
	struct port_mem *m = lock(p);
	unsigned k = 0;

	assert(iface < m->config.n_ifaces);
	for (; k < n && fifo_push(&m->tx[iface].fifo, &frames[k]); k++)
		move(m, &frames[k], HELD, IN_TX);
	unlock(m);
	return k;
}

static void mem_free(struct port *p, const struct frame *frames, unsigned n)
{
	struct port_mem *m = lock(p);

	for (unsigned i = 0; i < n; i++)
		move(m, &frames[i], HELD, IN_POOL);
	unlock(m);
}

static const uint8_t *mem_rest(struct port *p, const struct frame *f, unsigned k, uint32_t *len)
{
	struct port_mem *m = lock(p);
	uint32_t number = m->parts[frame_index(m, f)].next;

	while (number && k--)
		number = m->parts[number - 1].next;
	if (number)
		*len = m->parts[number - 1].end;
	unlock(m);
	return number ? m->memory + (uint64_t)(number - 1) * m->config.frame_size : NULL;
}

static void mem_flush(struct port *p)
{
	struct port_mem *m = lock(p);

	for (unsigned i = 0; i < m->config.n_ifaces; i++)
		m->tx[i].n_flushed = m->tx[i].fifo.count;
	unlock(m);
}

/* Whether to sleep is decided under the lock that inject takes, so no frame comes in between. */
static bool sleep_begin(struct port_mem *m)
{
	for (unsigned q = 0; q < m->config.n_queues; q++)
		if (m->rx[q].count > 0)
			return false;
	m->sleeping = true;
	return true;
}

static void mem_sleep(struct port *p, int timeout_ms)
{
	struct port_mem *m = lock(p);
	bool sleeps = sleep_begin(m);

	unlock(m);
	if (!sleeps)
		return;
	struct pollfd pfd = {.fd = m->wake_fd, .events = POLLIN};
	if (poll(&pfd, 1, timeout_ms) > 0) {
		eventfd_t n;

		eventfd_read(m->wake_fd, &n);
	}
	lock(p);
	m->sleeping = false;
	unlock(m);
}

static void mem_wake(struct port *p)
{
	eventfd_write(((struct port_mem *)p)->wake_fd, 1);
}

static const struct port_driver port_mem_driver = {
	.rx = mem_rx,
	.tx = mem_tx,
	.free = mem_free,
	.rest = mem_rest,
	.flush = mem_flush,
	.sleep = mem_sleep,
	.wake = mem_wake,
};

static bool alloc_all(struct port_mem *m, const struct port_mem_config *c)
{
	m->memory = calloc(c->n_frames, c->frame_size);
	m->places = calloc(c->n_frames, sizeof(*m->places));
	m->parts = calloc(c->n_frames, sizeof(*m->parts));
	m->pool = calloc(c->n_frames, sizeof(*m->pool));
	m->rx = calloc(c->n_queues, sizeof(*m->rx));
	m->tx = calloc(c->n_ifaces, sizeof(*m->tx));
	if (!m->memory || !m->places || !m->parts || !m->pool || !m->rx || !m->tx)
		return false;
	for (unsigned i = 0; i < c->n_queues; i++)
		if (!fifo_init(&m->rx[i], c->n_frames))
			return false;
	for (unsigned i = 0; i < c->n_ifaces; i++)
		if (!fifo_init(&m->tx[i].fifo, c->tx_ring))
			return false;
	return true;
}

struct port *port_mem_new(const struct port_mem_config *c)
{
	assert(c->n_queues > 0 && c->n_queues <= PORT_QUEUES_MAX);
	assert(c->n_ifaces > 0 && c->n_ifaces <= IFACES_MAX);
	assert(c->n_frames > 0 && c->tx_ring > 0 && c->headroom < c->frame_size);
	struct port_mem *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->config = *c;
	m->port = (struct port){
		.driver = &port_mem_driver,
		.n_queues = c->n_queues,
		.n_ifaces = c->n_ifaces,
	};
	pthread_mutex_init(&m->lock, NULL);
	m->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (!alloc_all(m, c) || m->wake_fd < 0) {
		port_mem_free(&m->port);
		return NULL;
	}
	for (uint32_t i = c->n_frames; i-- > 0;)
		m->pool[m->n_pool++] = i;
	return &m->port;
}

void port_mem_free(struct port *p)
{
	struct port_mem *m = (struct port_mem *)p;

	if (!m)
		return;
	for (unsigned i = 0; m->rx && i < m->config.n_queues; i++)
		free(m->rx[i].frames);
	for (unsigned i = 0; m->tx && i < m->config.n_ifaces; i++)
		free(m->tx[i].fifo.frames);
	free(m->rx);
	free(m->tx);
	free(m->pool);
	free(m->places);
	free(m->parts);
	free(m->memory);
	if (m->wake_fd >= 0)
		close(m->wake_fd);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* Copy data into frames of the pool: its first `front` bytes behind the headroom of one, the rest
 * into as many as it takes. Returns the first one's number. */
static uint32_t fill(struct port_mem *m, const uint8_t *data, uint32_t front, uint32_t more)
{
	const struct port_mem_config *c = &m->config;
	uint32_t first = m->pool[--m->n_pool], index = first;

	memcpy(m->memory + (uint64_t)index * c->frame_size + c->headroom, data, front);
	m->parts[index] = (struct part){.end = c->headroom + front};
	m->places[index] = IN_RX;
	for (data += front; more; index = m->parts[index].next - 1) {
		uint32_t next = m->pool[--m->n_pool];
		uint32_t n = more < c->frame_size ? more : c->frame_size;

		memcpy(m->memory + (uint64_t)next * c->frame_size, data, n);
		m->parts[next] = (struct part){.end = n};
		m->places[next] = IN_RX;
		m->parts[index].next = next + 1;
		data += n;
		more -= n;
	}
	return first;
}

int port_mem_inject_more(struct port *p, unsigned q, unsigned iface, const void *data, uint32_t len,
			 uint32_t front)
{
	struct port_mem *m = lock(p);
	const struct port_mem_config *c = &m->config;
	uint32_t more = len - front;
	int rc = -ENOBUFS;

	assert(q < c->n_queues && iface < c->n_ifaces && front <= len && more <= UINT16_MAX);
	if (front == 0 || front > c->frame_size - c->headroom) {
		rc = -EMSGSIZE;
	} else if (m->n_pool > (more + c->frame_size - 1) / c->frame_size) {
		struct frame f = {.len = len,
				  .more = (uint16_t)more,
				  .iface = (uint16_t)iface,
				  .headroom = c->headroom};

		f.addr = (uint64_t)fill(m, data, front, more) * c->frame_size;
		f.data = m->memory + f.addr + c->headroom;
		bool pushed = fifo_push(&m->rx[q], &f);
		assert(pushed); /* a queue holds the whole pool */
		if (m->sleeping)
			mem_wake(p);
		rc = 0;
	}
	unlock(m);
	return rc;
}

int port_mem_inject(struct port *p, unsigned q, unsigned iface, const void *data, uint32_t len)
{
	return port_mem_inject_more(p, q, iface, data, len, len);
}

/* What was sent of a frame: len bytes from data on, going on in further buffers. */
static void gather(const struct port_mem *m, const struct frame *f, uint8_t *buf, uint32_t cap)
{
	uint64_t index = f->addr / m->config.frame_size;
	const struct part *part = &m->parts[index];
	const uint8_t *from = f->data;
	uint32_t left = f->len < cap ? f->len : cap;
	uint32_t room = part->next ? (uint32_t)(m->memory + f->addr + part->end - from) : left;

	for (;;) {
		uint32_t n = left < room ? left : room;

		memcpy(buf, from, n);
		buf += n;
		left -= n;
		if (!left)
			return;
		assert(part->next); /* longer than what there is */
		from = m->memory + (uint64_t)(part->next - 1) * m->config.frame_size;
		part = &m->parts[part->next - 1];
		room = part->end;
	}
}

uint32_t port_mem_take(struct port *p, unsigned iface, void *buf, uint32_t cap)
{
	struct port_mem *m = lock(p);
	struct frame f = {.len = 0};

	assert(iface < m->config.n_ifaces);
	if (m->tx[iface].n_flushed > 0 && fifo_pop(&m->tx[iface].fifo, &f)) {
		m->tx[iface].n_flushed--;
		gather(m, &f, buf, cap);
		move(m, &f, IN_TX, IN_POOL);
	}
	unlock(m);
	return f.len;
}

unsigned port_mem_n_free(struct port *p)
{
	struct port_mem *m = lock(p);
	unsigned n = m->n_pool;

	unlock(m);
	return n;
}

unsigned port_mem_n_held(struct port *p)
{
	struct port_mem *m = lock(p);
	unsigned n = m->n_held;

	unlock(m);
	return n;
}
