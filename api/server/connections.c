/* A client that sends nothing, or a byte a second, or does not read its answer, holds a connection
 * and a thread. So each phase of a request has a deadline that counts from its beginning, not from
 * the last byte. And where many connections are held at one time, the ones that have been in their
 * phase for longest give way to new ones: whoever holds connections cannot keep others out, neither
 * from changing VIPs nor from asking whether the daemon lives. Only those that wait for control are
 * left alone: the client must hear what became of its change.
 *
 * A connection is ended by shutting its socket down, which wakes the thread that serves it. */
#include "api/server/connections.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define CROWDED 256u   /* from here on the oldest one gives way to each new one */
#define GRACE_MS 1000u /* for which even then a phase may last */
#define TICK_MS 250
#define PAUSE_MS 100 /* when the system has no room for another connection */
#define ADMIT_MS 100

#define FIRST_REQUEST_MS 10000u

static const uint32_t limit_ms[] = {
	[CONNECTION_WAITING] = 60000,
	[CONNECTION_RECEIVING] = 10000,
	[CONNECTION_ANSWERING] = 30000,
};

/* --- time and room -------------------------------------------------------------------------------
 */

static bool can_be_cut(const struct connection *k)
{
	return k->phase == CONNECTION_WAITING || k->phase == CONNECTION_RECEIVING ||
	       k->phase == CONNECTION_ANSWERING;
}

static void cut(struct connections *c, struct connection *k)
{
	shutdown(k->fd, SHUT_RDWR);
	k->phase = CONNECTION_LEAVING;
	c->n_leaving++;
}

static void cut_late(struct connections *c)
{
	uint64_t now = clock_now_ms();

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *k = &c->all[i];
		if (!can_be_cut(k))
			continue;
		bool first = k->phase == CONNECTION_WAITING && !k->kept;
		if (now - k->since_ms > (first ? FIRST_REQUEST_MS : limit_ms[k->phase]))
			cut(c, k);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Cut the one that has been in its phase for longest, if for at least this long. Called locked. */
static void cut_oldest(struct connections *c, uint32_t at_least_ms)
{
	uint64_t now = clock_now_ms();
	struct connection *oldest = NULL;

	for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *k = &c->all[i];
		if (can_be_cut(k) && (!oldest || k->since_ms < oldest->since_ms))
			oldest = k;
	}
	if (oldest && now - oldest->since_ms >= at_least_ms)
		cut(c, oldest);
}

/* True if there is room for one more; makes room where there soon will be none. */
static bool make_room(struct connections *c)
{
	pthread_mutex_lock(&c->lock);
	if (c->n - c->n_leaving >= CROWDED)
		cut_oldest(c, GRACE_MS);
	bool room = c->n < CONNECTIONS_MAX;
	pthread_mutex_unlock(&c->lock);
	return room;
}

/* --- accepting -----------------------------------------------------------------------------------
 */

/* Hand it over and wait until it is in, so that no more are on their way than there is room for. */
static void admit(struct connections *c, int fd, const struct sockaddr *peer, socklen_t len)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ADMIT_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_mutex_lock(&c->lock);
	uint64_t before = c->n_entered;
	pthread_mutex_unlock(&c->lock);
	c->admit(c->cls, fd, peer, len);
	pthread_mutex_lock(&c->lock);
	/* One that is refused for want of memory never enters. */
	while (c->n_entered == before &&
	       pthread_cond_timedwait(&c->entered, &c->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&c->lock);
}

/* False when it must be tried again only after a while. */
static bool accept_one(struct connections *c)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(peer);
	uint64_t held_back;

	if (!make_room(c))
		return false;
	int fd =
		accept4(c->listen_fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		admit(c, fd, (struct sockaddr *)&peer, len);
		return true;
	}
	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return true;
	/* The connection stays in the queue, so that poll would return at once. */
	if (log_limit_pass(&c->scarce, &held_back))
		log_warning("http", "cannot accept a connection (%s)", strerror(errno));
	pthread_mutex_lock(&c->lock);
	cut_oldest(c, GRACE_MS);
	pthread_mutex_unlock(&c->lock);
	return false;
}

static void *accept_all(void *arg)
{
	struct connections *c = arg;
	struct pollfd fds[2] = {{.fd = c->wake_fd, .events = POLLIN},
				{.fd = c->listen_fd, .events = POLLIN}};
	uint64_t next_ms = clock_now_ms() + TICK_MS;
	bool open = true;
	uint64_t ignored;

	for (;;) {
		int n = poll(fds, open ? 2 : 1, open ? TICK_MS : PAUSE_MS);
		if (n > 0 && fds[0].revents && read(c->wake_fd, &ignored, sizeof(ignored)) < 0)
			assert(errno == EAGAIN || errno == EINTR);
		pthread_mutex_lock(&c->lock);
		bool stop = c->stop;
		pthread_mutex_unlock(&c->lock);
		if (stop)
			return NULL;
		open = !(open && n > 0 && fds[1].revents) || accept_one(c);
		if (clock_now_ms() >= next_ms) {
			cut_late(c);
			next_ms = clock_now_ms() + TICK_MS;
		}
	}
}

static void wake(struct connections *c)
{
	uint64_t one = 1;

	if (write(c->wake_fd, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

int connections_init(struct connections *c, struct error *err)
{
	pthread_condattr_t attr;

	memset(c, 0, sizeof(*c));
	c->scarce = (struct log_limit){.interval_ms = 60000, .burst = 1};
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake_fd < 0)
		return error_set(err, -errno, "http: eventfd: %s", strerror(errno));
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->entered, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

int connections_start(struct connections *c, int listen_fd, connections_admit admit_one, void *cls,
		      struct error *err)
{
	c->listen_fd = listen_fd;
	c->admit = admit_one;
	c->cls = cls;
	int rc = pthread_create(&c->thread, NULL, accept_all, c);
	if (rc)
		return error_set(err, -rc, "http: no thread: %s", strerror(rc));
	c->running = true;
	return 0;
}

void connections_stop(struct connections *c)
{
	if (!c->running)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_mutex_unlock(&c->lock);
	wake(c);
	pthread_join(c->thread, NULL);
	c->running = false;
}

void connections_free(struct connections *c)
{
	assert(!c->n && !c->running);
	close(c->wake_fd);
	pthread_cond_destroy(&c->entered);
	pthread_mutex_destroy(&c->lock);
}

/* --- one connection ------------------------------------------------------------------------------
 */

unsigned connections_enter(struct connections *c, int fd)
{
	unsigned i = 0;

	pthread_mutex_lock(&c->lock);
	while (i < CONNECTIONS_MAX && c->all[i].phase != CONNECTION_NONE)
		i++;
	assert(i < CONNECTIONS_MAX);
	c->all[i] = (struct connection){
		.fd = fd, .phase = CONNECTION_WAITING, .since_ms = clock_now_ms()};
	c->n++;
	c->n_entered++;
	pthread_cond_signal(&c->entered);
	pthread_mutex_unlock(&c->lock);
	return i;
}

void connections_leave(struct connections *c, unsigned i)
{
	pthread_mutex_lock(&c->lock);
	c->n_leaving -= c->all[i].phase == CONNECTION_LEAVING;
	c->n_working -= c->all[i].phase == CONNECTION_WORKING;
	c->all[i].phase = CONNECTION_NONE;
	bool was_full = c->n-- == CONNECTIONS_MAX;
	pthread_mutex_unlock(&c->lock);
	if (was_full)
		wake(c);
}

void connections_move(struct connections *c, unsigned i, enum connection_phase phase)
{
	struct connection *k = &c->all[i];

	assert(phase != CONNECTION_WORKING && phase != CONNECTION_NONE);
	pthread_mutex_lock(&c->lock);
	if (k->phase != CONNECTION_LEAVING) {
		c->n_working -= k->phase == CONNECTION_WORKING;
		k->kept |= k->phase == CONNECTION_ANSWERING;
		k->phase = phase;
		k->since_ms = clock_now_ms();
	}
	pthread_mutex_unlock(&c->lock);
}

bool connections_alive(struct connections *c, unsigned i)
{
	struct pollfd pfd = {.fd = c->all[i].fd, .events = POLLRDHUP};

	pthread_mutex_lock(&c->lock);
	bool left = c->all[i].phase == CONNECTION_LEAVING;
	pthread_mutex_unlock(&c->lock);
	return !left && poll(&pfd, 1, 0) == 0;
}

bool connections_work(struct connections *c, unsigned i, unsigned at_most)
{
	struct connection *k = &c->all[i];

	pthread_mutex_lock(&c->lock);
	bool may = k->phase != CONNECTION_LEAVING && c->n_working < at_most;
	if (may) {
		assert(k->phase == CONNECTION_RECEIVING);
		k->phase = CONNECTION_WORKING;
		c->n_working++;
	}
	pthread_mutex_unlock(&c->lock);
	return may;
}
