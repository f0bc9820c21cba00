/* The port of memory: order, accounting of the pool, full rings, and that it catches a worker that
 * breaks the driver's contract (each such test is a process that has to die by its assertion). */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "io/port_mem.h"
#include "tests/unit/frames.h"

static const struct port_mem_config small = {.n_queues = 3,
					     .n_ifaces = 2,
					     .n_frames = 16,
					     .frame_size = 512,
					     .headroom = 64,
					     .tx_ring = 4};
static struct port *port;

static void setup(void)
{
	port = port_mem_new(&small);
	ck_assert_ptr_nonnull(port);
}

static void teardown(void)
{
	port_mem_free(port);
}

/* A frame whose bytes are told by its number and length. */
static void inject(unsigned q, unsigned iface, unsigned number, uint32_t len)
{
	uint8_t bytes[512];

	memset(bytes, (int)(number & 0xff), len);
	ck_assert_int_eq(port_mem_inject(port, q, iface, bytes, len), 0);
}

static void check_bytes(const uint8_t *b, uint32_t len, unsigned number)
{
	for (uint32_t i = 0; i < len; i++)
		ck_assert_uint_eq(b[i], number & 0xff);
}

START_TEST(test_rx_keeps_order_and_queues)
{
	struct frame f[BURST_MAX];

	ck_assert_uint_eq(port->n_queues, 3);
	ck_assert_uint_eq(port->n_ifaces, 2);
	for (unsigned i = 0; i < 12; i++)
		inject(i % 3, i % 2, i, 60 + i);
	ck_assert_uint_eq(port_mem_n_free(port), 4);
	for (unsigned q = 0; q < 3; q++) {
		ck_assert_uint_eq(port_rx(port, q, f, 1), 1); /* one, then the rest */
		ck_assert_uint_eq(port_rx(port, q, f + 1, BURST_MAX - 1), 3);
		ck_assert_uint_eq(port_rx(port, q, f + 4, 1), 0);
		for (unsigned i = 0; i < 4; i++) {
			unsigned number = q + 3 * i;

			ck_assert_uint_eq(f[i].len, 60 + number);
			ck_assert_uint_eq(f[i].iface, number % 2);
			ck_assert_uint_eq(f[i].headroom, 64);
			ck_assert_uint_eq(f[i].more, 0);
			check_bytes(f[i].data, f[i].len, number);
		}
		port_free(port, f, 4);
	}
	ck_assert_uint_eq(port_mem_n_free(port), 16);
	ck_assert_uint_eq(port_mem_n_held(port), 0);
}
END_TEST

START_TEST(test_tx_goes_out_at_flush)
{
	struct frame f[4];
	uint8_t out[512];

	for (unsigned i = 0; i < 4; i++)
		inject(0, 0, i, 100);
	ck_assert_uint_eq(port_rx(port, 0, f, 4), 4);
	ck_assert_uint_eq(port_mem_n_held(port), 4);
	f[1].data -= 20; /* as a tunnel header does it */
	f[1].len += 20;
	memset(f[1].data, 1, 20);
	ck_assert_uint_eq(port_tx(port, 1, f, 3), 3);
	ck_assert_uint_eq(port_mem_n_held(port), 1);
	ck_assert_uint_eq(port_mem_take(port, 1, out, sizeof(out)), 0);
	port_flush(port);
	ck_assert_uint_eq(port_tx(port, 1, f + 3, 1), 1); /* waits for the next flush */
	ck_assert_uint_eq(port_mem_take(port, 0, out, sizeof(out)), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(port_mem_take(port, 1, out, sizeof(out)), i == 1 ? 120 : 100);
		check_bytes(out, i == 1 ? 120 : 100, i);
	}
	ck_assert_uint_eq(port_mem_take(port, 1, out, sizeof(out)), 0);
	ck_assert_uint_eq(port_mem_n_free(port), 15);
	port_flush(port);
	out[10] = 0xaa;
	ck_assert_uint_eq(port_mem_take(port, 1, out, 10), 100); /* cut to the buffer */
	check_bytes(out, 10, 3);
	ck_assert_uint_eq(out[10], 0xaa);
	ck_assert_uint_eq(port_mem_n_free(port), 16);
}
END_TEST

START_TEST(test_tx_ring_full)
{
	struct frame f[6];
	uint8_t out[512];

	for (unsigned i = 0; i < 6; i++)
		inject(0, 0, i, 60);
	ck_assert_uint_eq(port_rx(port, 0, f, 6), 6);
	ck_assert_uint_eq(port_tx(port, 0, f, 6), 4);
	ck_assert_uint_eq(port_tx(port, 0, f + 4, 2), 0);
	port_flush(port); /* sent, but not taken out: still full */
	ck_assert_uint_eq(port_tx(port, 0, f + 4, 2), 0);
	ck_assert_uint_eq(port_mem_take(port, 0, out, sizeof(out)), 60);
	ck_assert_uint_eq(port_tx(port, 0, f + 4, 2), 1);
	ck_assert_uint_eq(port_tx(port, 1, f + 5, 1), 1); /* the other interface has its own */
	ck_assert_uint_eq(port_mem_n_held(port), 0);
}
END_TEST

START_TEST(test_inject_refuses)
{
	uint8_t bytes[512] = {0};
	struct frame f;

	ck_assert_int_eq(port_mem_inject(port, 0, 0, bytes, 449), -EMSGSIZE);
	ck_assert_int_eq(port_mem_inject(port, 0, 0, bytes, 0), -EMSGSIZE);
	ck_assert_int_eq(port_mem_inject(port, 0, 0, bytes, 448), 0);
	for (unsigned i = 1; i < 16; i++)
		ck_assert_int_eq(port_mem_inject(port, i % 3, 0, bytes, 60), 0);
	ck_assert_uint_eq(port_mem_n_free(port), 0);
	ck_assert_int_eq(port_mem_inject(port, 1, 0, bytes, 60), -ENOBUFS);
	ck_assert_uint_eq(port_rx(port, 0, &f, 1), 1);
	port_free(port, &f, 1);
	ck_assert_int_eq(port_mem_inject_more(port, 1, 1, bytes, 60, 30), -ENOBUFS);
	ck_assert_int_eq(port_mem_inject(port, 1, 1, bytes, 60), 0);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_uint_eq(port_rx(port, 1, &f, 1), 1);
		ck_assert_uint_eq(f.more, 0);
	}
	ck_assert_uint_eq(port_rx(port, 1, &f, 1), 1);
	ck_assert_uint_eq(f.more, 0);
}
END_TEST

/* A frame in several buffers: it can be read in pieces, grows at the front, loses its end, and
 * gives all of its buffers back. */
START_TEST(test_several_buffers)
{
	uint8_t bytes[2000], out[2100];
	uint32_t len, at = 400;
	struct frame f;

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned round = 0; round < 3; round++) {
		ck_assert_int_eq(port_mem_inject_more(port, 2, 1, bytes, 2000, 400), 0);
		ck_assert_uint_eq(port_mem_n_free(port), 16 - 1 - 4); /* 512 each */
		ck_assert_uint_eq(port_rx(port, 2, &f, 1), 1);
		ck_assert(f.len == 2000 && f.more == 1600 && !memcmp(f.data, bytes, 400));
		ck_assert_uint_eq(port_mem_n_held(port), 1);
		at = 400;
		for (unsigned k = 0;; k++) {
			const uint8_t *rest = port_rest(port, &f, k, &len);
			if (!rest)
				break;
			ck_assert_mem_eq(rest, bytes + at, len);
			at += len;
		}
		ck_assert_uint_eq(at, 2000);
		if (round == 2)
			break;
		f.data -= 20;
		f.len = round ? 300 : 2020 - 5;
		memset(f.data, 0xee, 20);
		ck_assert_uint_eq(port_tx(port, 0, &f, 1), 1);
		port_flush(port);
		ck_assert_uint_eq(port_mem_take(port, 0, out, sizeof(out)), f.len);
		ck_assert(out[0] == 0xee && out[19] == 0xee);
		ck_assert_mem_eq(out + 20, bytes, f.len - 20);
		ck_assert_uint_eq(port_mem_n_free(port), 16);
	}
	port_free(port, &f, 1);
	ck_assert_uint_eq(port_mem_n_free(port), 16);
	ck_assert_uint_eq(port_mem_n_held(port), 0);
}
END_TEST

/* Sanitizers stop a program that asks for this much. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
START_TEST(test_no_memory)
{
	struct port_mem_config huge = small;

	huge.n_frames = UINT32_MAX;
	huge.frame_size = UINT32_MAX;
	ck_assert_ptr_null(port_mem_new(&huge));
	port_mem_free(NULL);
}
END_TEST
#define HAVE_NO_MEMORY_TEST
#endif

/* Random traffic against counts of what is where. */
START_TEST(test_no_frame_is_lost)
{
	uint64_t state = frames_seed();
	struct frame held[16];
	unsigned n_held = 0, n_in = 0, n_tx = 0;
	uint8_t out[512];

	for (unsigned i = 0; i < 200000; i++) {
		unsigned r = (unsigned)(frames_random(&state) >> 33), arg = r / 8, n;

		switch (r % 8) {
		case 0:
		case 1:
			n_in += port_mem_inject(port, arg % 3, arg % 2, out, 60 + arg % 300) == 0;
			break;
		case 2:
		case 3:
			n = port_rx(port, arg % 3, held + n_held,
				    16 - n_held < 3 ? 16 - n_held : 3);
			n_in -= n;
			n_held += n;
			break;
		case 4:
			n = port_tx(port, arg % 2, held, n_held);
			n_held -= n;
			n_tx += n;
			memmove(held, held + n, n_held * sizeof(held[0]));
			break;
		case 5:
			n = n_held ? 1 : 0;
			n_held -= n;
			port_free(port, held + n_held, n);
			break;
		case 6:
			port_flush(port);
			break;
		default:
			n_tx -= port_mem_take(port, arg % 2, out, sizeof(out)) > 0;
		}
		ck_assert_uint_eq(port_mem_n_held(port), n_held);
		ck_assert_uint_eq(port_mem_n_free(port), 16 - n_held - n_in - n_tx);
	}
}
END_TEST

/* --- sleep and wake --- */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t slept_ms(int timeout_ms)
{
	int64_t start = now_ms();

	port_sleep(port, timeout_ms);
	return now_ms() - start;
}

START_TEST(test_sleep)
{
	struct frame f;

	ck_assert_int_ge(slept_ms(50), 49); /* the timeout */
	port_wake(port);
	port_wake(port); /* two wakes are one */
	ck_assert_int_lt(slept_ms(5000), 4000);
	ck_assert_int_ge(slept_ms(50), 49);
	inject(2, 0, 1, 60); /* a frame is there: no sleep, and it stays so until it is received */
	ck_assert_int_lt(slept_ms(5000), 4000);
	ck_assert_int_lt(slept_ms(5000), 4000);
	ck_assert_uint_eq(port_rx(port, 2, &f, 1), 1);
	ck_assert_int_ge(slept_ms(50), 49);
}
END_TEST

#define N_PASSED 20000

/* A worker that sends everything back by interface 1 and sleeps when there is nothing. */
static void *reflect(void *stop)
{
	struct frame f[BURST_MAX];

	while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE)) {
		unsigned total = 0;

		for (unsigned q = 0; q < port->n_queues; q++) {
			unsigned n = port_rx(port, q, f, BURST_MAX), k = 0;

			while (k < n && !__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE))
				k += port_tx(port, 1, f + k, n - k);
			total += n;
		}
		port_flush(port);
		if (total == 0)
			port_sleep(port, -1); /* for good, if a wake-up were lost */
	}
	return NULL;
}

START_TEST(test_wakes_a_worker)
{
	static bool stop;
	uint8_t in[64] = {0}, out[64];
	unsigned sent = 0, got = 0;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, reflect, &stop), 0);
	while (got < N_PASSED) {
		memcpy(in, &sent, sizeof(sent));
		if (sent < N_PASSED && sent - got < 3 &&
		    port_mem_inject(port, 1, 0, in, sizeof(in)) == 0)
			sent++;
		while (port_mem_take(port, 1, out, sizeof(out)) > 0) {
			unsigned number;

			memcpy(&number, out, sizeof(number));
			ck_assert_uint_eq(number, got);
			got++;
		}
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	port_wake(port);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(port_mem_n_free(port), 16);
}
END_TEST

/* --- breaches of the contract --- */

static void receive_one(struct frame *f)
{
	inject(0, 0, 1, 60);
	ck_assert_uint_eq(port_rx(port, 0, f, 1), 1);
}

START_TEST(test_breach)
{
	struct frame f;

	receive_one(&f);
	switch (_i) {
	case 0: /* freed twice */
		port_free(port, &f, 1);
		port_free(port, &f, 1);
		break;
	case 1: /* sent, and freed */
		port_tx(port, 0, &f, 1);
		port_free(port, &f, 1);
		break;
	case 2: /* sent twice */
		port_tx(port, 0, &f, 1);
		port_tx(port, 1, &f, 1);
		break;
	case 3: /* in front of its place */
		f.data -= 65;
		port_tx(port, 0, &f, 1);
		break;
	case 4: /* behind its place */
		f.len = 512 - 64 + 1;
		port_tx(port, 0, &f, 1);
		break;
	case 5: /* the handle of no frame */
		f.addr += 1;
		port_free(port, &f, 1);
		break;
	case 6:
		f.addr += 16 * 512;
		port_free(port, &f, 1);
		break;
	case 7: /* no such queue, no such interface */
		port_rx(port, 3, &f, 1);
		break;
	default:
		port_tx(port, 2, &f, 1);
	}
}
END_TEST

static bool forks(void)
{
	const char *fork_mode = getenv("CK_FORK");

	return fork_mode == NULL || strcmp(fork_mode, "no") != 0;
}

int main(void)
{
	Suite *s = suite_create("port_mem");
	TCase *tc = tcase_create("port_mem");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_rx_keeps_order_and_queues);
	tcase_add_test(tc, test_tx_goes_out_at_flush);
	tcase_add_test(tc, test_tx_ring_full);
	tcase_add_test(tc, test_inject_refuses);
	tcase_add_test(tc, test_several_buffers);
#ifdef HAVE_NO_MEMORY_TEST
	tcase_add_test(tc, test_no_memory);
#endif
	tcase_add_test(tc, test_no_frame_is_lost);
	tcase_add_test(tc, test_sleep);
	tcase_add_test(tc, test_wakes_a_worker);
	if (forks())
		tcase_add_loop_test_raise_signal(tc, test_breach, SIGABRT, 0, 9);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
