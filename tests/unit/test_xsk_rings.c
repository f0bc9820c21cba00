/* The rings as the kernel leaves them for a moment: a frame is shown in the RX or completion ring
 * while its place in the fill or TX ring is not given back yet. No socket; the test is the kernel.
 */
#include <check.h>
#include <stdlib.h>

#include "io/xsk_driver.h"

enum { FRAMES = XSK_FILL_SIZE + XSK_TX_SIZE + 64, CHUNK = 2048 };

/* A ring's shared memory; what the kernel would move is moved by the tests. */
struct ring_memory {
	uint32_t producer, consumer, flags;
	union {
		uint64_t addrs[XSK_FILL_SIZE];
		struct xdp_desc descs[XSK_TX_SIZE];
	};
};

static struct ring_memory fill, rx, tx, comp;
static struct xsk_port *p;
static struct xsk_sock *s;

#define ATTACH(r, m, n)                                                                            \
	do {                                                                                       \
		memset(&(m), 0, sizeof(m));                                                        \
		(r)->mask = (n)-1;                                                                 \
		(r)->size = (n);                                                                   \
		(r)->producer = &(m).producer;                                                     \
		(r)->consumer = &(m).consumer;                                                     \
		(r)->flags = &(m).flags;                                                           \
		(r)->ring = (m).addrs;                                                             \
	} while (0)

static void setup(void)
{
	p = xsk_port_new(1);
	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(umem_init(&p->umem, FRAMES, CHUNK, false), 0);
	s = &p->socks[0];
	s->fd = -1;
	s->fill_max = XSK_FILL_SIZE;
	p->tx_socks[0] = 0;
	p->port.n_queues = 1;
	ATTACH(&s->fill, fill, XSK_FILL_SIZE);
	ATTACH(&s->rx, rx, XSK_FILL_SIZE);
	ATTACH(&s->tx, tx, XSK_TX_SIZE);
	ATTACH(&s->comp, comp, XSK_TX_SIZE);
	xsk_socket_refill(s, &p->umem);
}

static void teardown(void)
{
	xsk_port_free(p);
}

/* The kernel puts the next n frames of the fill ring into the RX ring, but keeps their places. */
static void kernel_receive(uint32_t n, uint32_t *taken)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t to = (rx.producer + i) % XSK_FILL_SIZE;
		rx.descs[to] = (struct xdp_desc){.addr = fill.addrs[(*taken + i) % XSK_FILL_SIZE],
						 .len = 60};
	}
	*taken += n;
	rx.producer += n;
}

START_TEST(refill_waits_for_the_kernel_to_give_places_back)
{
	struct frame frames[BURST_MAX];
	uint32_t taken = 0, free = p->umem.n_free;

	ck_assert_uint_eq(s->n_posted, XSK_FILL_SIZE);
	ck_assert_uint_eq(fill.producer, XSK_FILL_SIZE);
	kernel_receive(BURST_MAX, &taken);
	ck_assert_uint_eq(p->port.driver->rx(&p->port, 0, frames, BURST_MAX), BURST_MAX);
	ck_assert_uint_eq(s->n_posted, XSK_FILL_SIZE - BURST_MAX);

	xsk_socket_refill(s, &p->umem); /* no place yet */
	ck_assert_uint_eq(s->n_posted, XSK_FILL_SIZE - BURST_MAX);
	ck_assert_uint_eq(p->umem.n_free, free);

	fill.consumer += 3; /* some */
	xsk_socket_refill(s, &p->umem);
	ck_assert_uint_eq(s->n_posted, XSK_FILL_SIZE - BURST_MAX + 3);
	ck_assert_uint_eq(fill.producer - fill.consumer, XSK_FILL_SIZE);

	fill.consumer = taken; /* all */
	p->port.driver->free(&p->port, frames, BURST_MAX);
	xsk_socket_refill(s, &p->umem);
	ck_assert_uint_eq(s->n_posted, XSK_FILL_SIZE);
	ck_assert_uint_eq(fill.producer - fill.consumer, XSK_FILL_SIZE);
	ck_assert_uint_eq(p->umem.n_free, free);
}
END_TEST

START_TEST(tx_waits_for_the_kernel_to_give_places_back)
{
	struct frame f[BURST_MAX];
	unsigned n_sent = 0;

	for (unsigned i = 0; i < XSK_TX_SIZE; i += BURST_MAX) {
		for (unsigned k = 0; k < BURST_MAX; k++) {
			uint64_t addr = umem_get(&p->umem);
			f[k] = (struct frame){.data = p->umem.area + addr, .len = 60, .addr = addr};
		}
		n_sent += p->port.driver->tx(&p->port, 0, f, BURST_MAX);
	}
	ck_assert_uint_eq(n_sent, XSK_TX_SIZE);

	/* The kernel has sent ten and says so, but the TX ring looks full still. */
	for (uint32_t i = 0; i < 10; i++)
		comp.addrs[i] = tx.descs[i].addr;
	comp.producer = 10;
	for (unsigned k = 0; k < 2; k++) {
		uint64_t addr = umem_get(&p->umem);
		f[k] = (struct frame){.data = p->umem.area + addr, .len = 60, .addr = addr};
	}
	ck_assert_uint_eq(p->port.driver->tx(&p->port, 0, f, 2), 0);
	ck_assert_uint_eq(s->n_tx_out, XSK_TX_SIZE - 10);

	tx.consumer = 1;
	ck_assert_uint_eq(p->port.driver->tx(&p->port, 0, f, 2), 1);
	tx.consumer = 10;
	ck_assert_uint_eq(p->port.driver->tx(&p->port, 0, f + 1, 1), 1);
	ck_assert_uint_eq(s->n_tx_out, XSK_TX_SIZE - 8);
	ck_assert_uint_eq(tx.producer, XSK_TX_SIZE + 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("xsk_rings");
	TCase *t = tcase_create("xsk_rings");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, refill_waits_for_the_kernel_to_give_places_back);
	tcase_add_test(t, tx_waits_for_the_kernel_to_give_places_back);
	suite_add_tcase(suite, t);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
