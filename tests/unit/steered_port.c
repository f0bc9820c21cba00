#include "tests/unit/steered_port.h"

#include <errno.h>
#include <time.h>

static uint8_t packet[64];

static unsigned steered_rx(struct port *p, unsigned q, struct frame *frames, unsigned n)
{
	struct steered_port *t = (struct steered_port *)p;
	unsigned k = 0;

	pthread_mutex_lock(&t->lock);
	atomic_fetch_add(&t->in_rx, 1);
	while (t->block_rx)
		pthread_cond_wait(&t->cond, &t->lock);
	atomic_fetch_sub(&t->in_rx, 1);
	pthread_mutex_unlock(&t->lock);
	t->n_rx++;
	if (t->traffic == STEADY || (t->traffic == ON_AND_OFF && t->n_rx / 1000 % 2 == 0))
		k = 1 + t->n_rx % n;
	for (unsigned i = 0; i < k; i++)
		frames[i] = (struct frame){.data = packet, .len = sizeof(packet), .addr = q};
	return k;
}

static void steered_free(struct port *p, const struct frame *frames, unsigned n)
{
	(void)frames;
	((struct steered_port *)p)->n_frames += n;
}

static void steered_flush(struct port *p)
{
	atomic_fetch_add(&((struct steered_port *)p)->n_flushes, 1);
}

static void steered_sleep(struct port *p, int timeout_ms)
{
	struct steered_port *t = (struct steered_port *)p;
	struct timespec until;

	if (timeout_ms > t->sleep_ms_max)
		timeout_ms = t->sleep_ms_max;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += timeout_ms * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_mutex_lock(&t->lock);
	atomic_fetch_add(&t->n_sleeps, 1);
	atomic_store(&t->in_sleep, 1);
	while (!t->woken) {
		if (t->block_sleep)
			pthread_cond_wait(&t->cond, &t->lock);
		else if (pthread_cond_timedwait(&t->cond, &t->lock, &until) == ETIMEDOUT)
			break;
	}
	t->woken = false;
	atomic_store(&t->in_sleep, 0);
	pthread_mutex_unlock(&t->lock);
}

static void steered_wake(struct port *p)
{
	struct steered_port *t = (struct steered_port *)p;

	pthread_mutex_lock(&t->lock);
	atomic_fetch_add(&t->n_wakes, 1);
	t->woken = true;
	pthread_cond_broadcast(&t->cond);
	pthread_mutex_unlock(&t->lock);
}

static const struct port_driver steered_driver = {
	.rx = steered_rx,
	.free = steered_free,
	.flush = steered_flush,
	.sleep = steered_sleep,
	.wake = steered_wake,
};

void steered_port_set(struct steered_port *t, bool *flag, bool value)
{
	pthread_mutex_lock(&t->lock);
	*flag = value;
	pthread_cond_broadcast(&t->cond);
	pthread_mutex_unlock(&t->lock);
}

void steered_port_init(struct steered_port *t)
{
	*t = (struct steered_port){
		.port = {&steered_driver, STEERED_QUEUES, 1},
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.cond = PTHREAD_COND_INITIALIZER,
		.sleep_ms_max = 1000,
	};
}
