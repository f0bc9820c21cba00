/* Connections that live and speak every few seconds, and new ones at a steady rate, through a
 * forwarder under whatever else happens to it. Usage: crowd PREFIX BACKENDS LIVE NEW_PER_S. Prints
 * "open" when the LIVE ones are; goes on until standard input ends, lets what is under way end,
 * asks every live connection once more, and prints its figures as one line of JSON.
 *
 * A connection's first SYN-ACK names its backend. A segment from another one, or a RST, is a moved
 * connection; if nothing of it was answered yet it counts as reset instead: to a forwarder it may
 * be half-open, and forgotten among the flood's. When it opened and when it was reset is among the
 * figures, so that whoever knows the forwarder's counters can tell whether that is what happened.
 * Lost frames are sent again, as by any stack; what took longer than PATIENCE_MS has failed. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "tests/experiment/crowd.h"
#include "tests/unit/frames.h"

enum {
	PERIOD_MS = 3000, /* between a live connection's answer and its next word */
	RTO_MS = 250,	  /* doubles up to RTO_MAX_MS */
	RTO_MAX_MS = 500,
	PATIENCE_MS = 20000,
	NEW_TURNS = 2,	   /* exchanges of a new connection */
	NEW_MAX_S = 60,	   /* room for so long */
	OPEN_PER_MS = 4,   /* live ones, at the start */
	SCAN_EVERY_MS = 5, /* timers */
};

enum conn_state { UNUSED, OPENING, ASKING, IDLE, CLOSING, DONE, MOVED, RESET, FAILED };

struct conn {
	uint8_t state;
	uint8_t home; /* backend */
	uint16_t rto_ms;
	uint32_t isn, peer_isn;
	uint32_t turn;
	uint32_t since_ms, due_ms; /* of this opening or exchange; of the next timer */
	uint32_t n_repeats;	   /* of what it said last */
};

struct crowd {
	uint32_t n_live, n_conns, n_used;
	uint32_t new_per_s;
	struct conn *conns; /* live ones first */
	struct lane lane;
	struct backend backends[CROWD_BACKENDS_MAX + 1];
	unsigned n_backends;
	uint32_t vip;
	uint32_t now_ms;
	uint32_t last_turn; /* of live ones, which wait then; UINT32_MAX: none */
	uint64_t rng;
	uint64_t n_exchanges, n_repeats;
	uint32_t live_moved, live_failed, new_done, new_moved, new_reset, new_failed, slowest_ms;
};

static bool is_live(const struct crowd *c, const struct conn *k)
{
	return k < c->conns + c->n_live;
}

static uint32_t number_of(const struct crowd *c, const struct conn *k)
{
	return (uint32_t)(k - c->conns);
}

/* --- what a client says --------------------------------------------------------------------------
 */

static void say(struct crowd *c, const struct conn *k, uint8_t flags, uint32_t seq, uint32_t ack)
{
	uint32_t i = number_of(c, k);
	struct segment s = {
		.src = 10u << 24 | 64u << 16 | i / CROWD_PORTS,
		.dst = c->vip,
		.sport = (uint16_t)(CROWD_PORTS + i % CROWD_PORTS),
		.dport = 80,
		.seq = seq,
		.ack = ack,
		.flags = flags,
		.has_words = flags & FRAMES_PSH,
		.words = {.number = i, .turn = k->turn},
	};

	crowd_mac(s.src_mac, 1);
	crowd_mac(s.dst_mac, 2);
	crowd_send(&c->lane, &s);
}

/* What its state wants to be said, for the first time or again. */
static void speak(struct crowd *c, struct conn *k)
{
	uint32_t seq = k->isn + 1 + k->turn * WORDS_LEN;
	uint32_t ack = k->peer_isn + 1 + k->turn * WORDS_LEN;

	if (k->state == OPENING)
		say(c, k, FRAMES_SYN, k->isn, 0);
	else if (k->state == ASKING)
		say(c, k, FRAMES_PSH | FRAMES_ACK, seq, ack);
	else
		say(c, k, FRAMES_FIN | FRAMES_ACK, seq, ack);
	k->due_ms = c->now_ms + k->rto_ms;
}

static void begin(struct crowd *c, struct conn *k, enum conn_state state)
{
	k->state = (uint8_t)state;
	k->rto_ms = RTO_MS;
	k->since_ms = c->now_ms;
	k->n_repeats = 0;
	speak(c, k);
}

static void connect_one(struct crowd *c)
{
	struct conn *k = &c->conns[c->n_used++];

	*k = (struct conn){.isn = (uint32_t)frames_random(&c->rng)};
	begin(c, k, OPENING);
}

static void end(struct crowd *c, struct conn *k, enum conn_state state)
{
	bool live = is_live(c, k);

	c->live_moved += live && (state == MOVED || state == RESET);
	c->live_failed += live && state == FAILED;
	c->new_done += !live && state == DONE;
	c->new_moved += !live && state == MOVED;
	c->new_reset += !live && state == RESET;
	c->new_failed += !live && state == FAILED;
	k->due_ms = c->now_ms;
	k->state = (uint8_t)state;
}

/* --- what it hears -------------------------------------------------------------------------------
 */

static void answered(struct crowd *c, struct conn *k)
{
	uint32_t took_ms = c->now_ms - k->since_ms;

	c->n_exchanges++;
	if (took_ms > c->slowest_ms)
		c->slowest_ms = took_ms;
	k->turn++;
	if (is_live(c, k)) {
		k->state = IDLE;
		k->due_ms = c->now_ms + PERIOD_MS;
	} else {
		begin(c, k, k->turn < NEW_TURNS ? ASKING : CLOSING);
	}
}

static void hear(struct crowd *c, struct conn *k, const struct segment *s, unsigned backend)
{
	if (k->state == UNUSED || k->state >= DONE)
		return;
	if (k->state == OPENING) {
		if (s->flags != (FRAMES_SYN | FRAMES_ACK) || s->ack != k->isn + 1)
			return;
		k->home = (uint8_t)backend;
		k->peer_isn = s->seq;
		say(c, k, FRAMES_ACK, k->isn + 1, k->peer_isn + 1);
		uint32_t since_ms = k->since_ms;
		begin(c, k, ASKING);
		k->since_ms = since_ms; /* an opening lasts until its first answer */
	} else if (backend != k->home || (s->flags & FRAMES_RST)) {
		end(c, k, k->turn ? MOVED : RESET);
	} else if (s->has_words && k->state == ASKING && s->words.turn == k->turn &&
		   s->words.number == number_of(c, k) && s->words.backend == backend &&
		   s->seq == k->peer_isn + 1 + k->turn * WORDS_LEN) {
		answered(c, k);
	} else if ((s->flags & FRAMES_FIN) && k->state == CLOSING) {
		say(c, k, FRAMES_ACK, s->ack, s->seq + 1);
		end(c, k, DONE);
	}
}

static void take(void *ctx, const uint8_t *frame, uint32_t len)
{
	struct crowd *c = ctx;
	struct segment s;
	uint8_t mac[6];

	if (!segment_read(frame, len, &s) || s.src != c->vip)
		return;
	uint32_t i = crowd_number(s.dst, s.dport);
	unsigned backend = s.src_mac[5] - 10u;
	crowd_mac(mac, 10 + backend);
	if (i < c->n_used && memcmp(mac, s.src_mac, sizeof(mac)) == 0)
		hear(c, &c->conns[i], &s, backend);
}

/* --- time ----------------------------------------------------------------------------------------
 */

static void timer(struct crowd *c, struct conn *k)
{
	if (k->state == IDLE) {
		begin(c, k, ASKING);
		return;
	}
	if (c->now_ms - k->since_ms > PATIENCE_MS) {
		end(c, k, FAILED);
		return;
	}
	c->n_repeats++;
	k->n_repeats++;
	k->rto_ms = (uint16_t)(2 * k->rto_ms < RTO_MAX_MS ? 2 * k->rto_ms : RTO_MAX_MS);
	speak(c, k);
}

static void run_timers(struct crowd *c)
{
	for (uint32_t i = 0; i < c->n_used; i++) {
		struct conn *k = &c->conns[i];
		if (k->state == UNUSED || k->state >= DONE || (int32_t)(c->now_ms - k->due_ms) < 0)
			continue;
		if (k->state == IDLE && k->turn >= c->last_turn)
			continue;
		timer(c, k);
	}
}

static void poll_all(struct crowd *c)
{
	c->now_ms = (uint32_t)clock_now_ms();
	lane_flush(&c->lane);
	for (unsigned d = 1; d <= c->n_backends; d++)
		backend_poll(&c->backends[d]);
	lane_poll(&c->lane, take, c);
	lane_flush(&c->lane);
}

/* One millisecond, about. */
static void pass(struct crowd *c)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	static uint32_t scanned_ms;

	poll_all(c);
	if (c->now_ms - scanned_ms >= SCAN_EVERY_MS) {
		scanned_ms = c->now_ms;
		run_timers(c);
	}
	nanosleep(&nap, NULL);
}

/* Those of the first n connections that are in one of the states from .. to. */
static uint32_t count(const struct crowd *c, uint32_t n, enum conn_state from, enum conn_state to)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++)
		found += c->conns[i].state >= from && c->conns[i].state <= to;
	return found;
}

/* --- its life ------------------------------------------------------------------------------------
 */

static void open_live(struct crowd *c)
{
	while (c->n_used < c->n_live) {
		for (unsigned k = 0; k < OPEN_PER_MS && c->n_used < c->n_live; k++)
			connect_one(c);
		pass(c);
	}
	while (count(c, c->n_live, OPENING, OPENING))
		pass(c);
}

static bool told_to_end(void)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&in, 1, 0) != 0;
}

static void live_on(struct crowd *c)
{
	uint64_t start_ms = clock_now_ms();

	while (!told_to_end()) {
		uint64_t due = c->n_live + (clock_now_ms() - start_ms) * c->new_per_s / 1000;
		while (c->n_used < due && c->n_used < c->n_conns)
			connect_one(c);
		pass(c);
	}
}

/* What is under way ends; then each live connection is asked once more. */
static void settle(struct crowd *c)
{
	c->last_turn = 0;
	while (count(c, c->n_used, OPENING, ASKING) || count(c, c->n_used, CLOSING, CLOSING))
		pass(c);
	for (uint32_t i = 0; i < c->n_live; i++) {
		if (c->conns[i].state == IDLE)
			begin(c, &c->conns[i], ASKING);
		if (i % LANE_BURST == 0)
			pass(c);
	}
	while (count(c, c->n_live, ASKING, ASKING))
		pass(c);
}

/* Those that were reset: by the clock, in ms, their first SYN and their reset; how often their
 * first words went out again before it. */
static void print_resets(const struct crowd *c)
{
	uint64_t now_ms = clock_now_ms();
	const char *comma = "";

	for (uint32_t i = c->n_live; i < c->n_used; i++) {
		const struct conn *k = &c->conns[i];
		if (k->state != RESET)
			continue;
		printf("%s[%lu, %lu, %u]", comma,
		       (unsigned long)(now_ms - ((uint32_t)now_ms - k->since_ms)),
		       (unsigned long)(now_ms - ((uint32_t)now_ms - k->due_ms)), k->n_repeats);
		comma = ", ";
	}
}

static void print(const struct crowd *c)
{
	printf("{\"live\": %u, \"live_moved\": %u, \"live_failed\": %u, \"new_tried\": %u, "
	       "\"new_done\": %u, \"new_moved\": %u, \"new_reset\": %u, \"new_failed\": %u, "
	       "\"exchanges\": %lu, "
	       "\"repeats\": %lu, \"slowest_ms\": %u, \"resets\": [",
	       count(c, c->n_live, IDLE, IDLE), c->live_moved, c->live_failed,
	       c->n_used - c->n_live, c->new_done, c->new_moved, c->new_reset, c->new_failed,
	       (unsigned long)c->n_exchanges, (unsigned long)c->n_repeats, c->slowest_ms);
	print_resets(c);
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct crowd c = {.last_turn = UINT32_MAX, .vip = 10u << 24 | 9u << 16 | 100};
	char netns[64];

	c.n_backends = argc == 5 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	if (c.n_backends == 0 || c.n_backends > CROWD_BACKENDS_MAX) {
		fprintf(stderr, "usage: crowd PREFIX BACKENDS LIVE NEW_PER_S\n");
		return EXIT_FAILURE;
	}
	c.n_live = (uint32_t)strtoul(argv[3], NULL, 10);
	c.new_per_s = (uint32_t)strtoul(argv[4], NULL, 10);
	c.n_conns = c.n_live + c.new_per_s * NEW_MAX_S;
	c.conns = calloc(c.n_conns, sizeof(*c.conns));
	c.rng = entropy_u64() | 1;
	c.now_ms = (uint32_t)clock_now_ms();
	if (!c.conns)
		abort();
	snprintf(netns, sizeof(netns), "%sclient", argv[1]);
	lane_open(&c.lane, netns);
	for (unsigned d = 1; d <= c.n_backends; d++) {
		snprintf(netns, sizeof(netns), "%sb%u", argv[1], d);
		backend_open(&c.backends[d], netns, d, c.n_conns);
	}
	open_live(&c);
	printf("open\n");
	fflush(stdout);
	live_on(&c);
	settle(&c);
	print(&c);
	for (unsigned d = 1; d <= c.n_backends; d++)
		backend_close(&c.backends[d]);
	lane_close(&c.lane);
	free(c.conns);
	return EXIT_SUCCESS;
}
