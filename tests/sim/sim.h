/* One run: a box, its clients and its operators, and the oracle, one step at a time. */
#pragma once

#include "control/internal.h"
#include "tests/sim/box.h"
#include "tests/sim/model.h"

#define SIM_VIPS 8
#define SIM_DIPS 10 /* of a VIP at a time */
#define SIM_TUPLES 512
#define SIM_PENDING 256
#define SIM_REQUESTS 4
#define SIM_TRACE 128
#define SIM_EDITS 4
#define SIM_INDEXES 64 /* DIP indexes of a VIP that are looked at */
#define SIM_UIDS 4096
#define SIM_HOMES 8
#define SIM_TARGETS 128 /* DIPs that are checked */
#define SIM_PORT 1024 /* of the first tuple's client */

/** A DIP as operators know it. */
struct sim_dip {
	uint16_t number; /* 0 = none */
	bool busy;       /* a request about it is under way */
	bool deleting;
	uint32_t weight;
	bool down;
};

/** A VIP that operators may make and delete. */
struct sim_vip {
	char id[ID_LEN];
	struct vip_conf conf;
	bool exists, busy, deleting;
	uint32_t uid; /* in the last snapshot that had it */
	int64_t may_go_s;
	struct sim_dip dips[SIM_DIPS];
	uint64_t n_edits;
	/* while other checks are asked for, they may be these still */
	struct health_conf health_before;
	enum vip_quic quic_before; /* likewise */
	bool checked; /* by control, as it was looked at last */
	/* whose its Dcodes are, by which of its DIPs are up, as long as nobody edits it */
	struct sim_homes {
		uint64_t up, homes;
	} homes[SIM_HOMES];
	uint64_t homes_of, homes_up; /* of which DIPs and edits; the last ones that were up */
	uint64_t homes_at, homes_then; /* of which generation, and all of them in one */
	unsigned n_homes;
};

/** What control was told of a DIP's health, by DIP number. Sets are bits by value. */
struct sim_health {
	uint8_t vip;
	uint8_t verdict;   /* the last one */
	uint8_t verdicts;  /* that views from now on may be made of */
	uint8_t stored;    /* that may be on disk ... */
	bool unstored;     /* ... and stay there: it has failed since */
	uint8_t overrides; /* as verdicts */
	uint64_t ends_after_ms, ended_by_ms; /* the override; 0 = it does not */
	uint8_t ending; /* overrides that end by themselves, and may be on disk until one is written */
};

/** A DIP that is checked, as whoever checks it knows it. */
struct sim_target {
	struct health_report report;
	uint16_t number;
};

/** What checks find next. */
struct sim_checks {
	struct queued_call call;
	unsigned n;
	struct sim_target list[SIM_TARGETS];
	bool look;                   /* which DIPs there are now */
	unsigned one;                /* that it is about, ... */
	uint32_t vip_uid;            /* ... or all of this VIP */
	enum health_verdict verdict; /* VERDICT_UNKNOWN: one or the other, each its own */
};

/** An override under way. */
struct sim_override {
	bool used, done;
	uint16_t number;
	struct sim_health before;
	struct health_request r;
};

/** A connection that a client may have, or a datagram flow. */
struct sim_tuple {
	unsigned vip;
	struct ip_addr src, dst;
	uint16_t sport, dport;
	uint8_t proto;
	enum segment last; /* what the client sent last */
	bool open;
	unsigned flow; /* in sim.flows: tuples of one client may share one */
	uint16_t server; /* DIP number: whose IDs its QUIC connection has; 0 = none yet */
};

/* Frames that no VIP forwards, whatever its DIPs. */
enum sim_odd {
	ODD_NONE,
	ODD_CUT,      /* shorter than its headers say */
	ODD_VERSION,  /* neither 4 nor 6 */
	ODD_FRAGMENT, /* it would write over the first one's TCP flags */
	ODD_NOT_L4,
	ODD_STRANGER, /* to an address that is no VIP's */
	ODD_ARP,
	ODD_TAGS,     /* three VLAN tags */
	ODD_PARTS,    /* several buffers, the first too small */
	N_ODDS
};

/* What a datagram is. In those of the first line the client's server has chosen the ID. */
enum sim_quic {
	QUIC_SHORT, QUIC_HANDSHAKE, QUIC_UNKNOWN /* version */,
	QUIC_CUT, /* a short header that ends within the ID, at the latest */
	QUIC_EMPTY,
	QUIC_INITIAL,
	QUIC_0RTT
};

/* What a datagram to a VIP with server IDs goes by. */
enum quic_way { QUIC_BY_NOTHING /* it bears no server's ID: by its flow */, QUIC_BY_FLOW, QUIC_BY_ID };

/** When packets came to a DIP by ID. */
struct sim_heard {
	uint64_t last_ms, idle_ms; /* 0 = not yet; idle_ms: how long it then waits for more */
	uint32_t vip_uid;
	bool unsure; /* it was about to go, perhaps, when the last one came */
};

/** A packet that went in. */
struct sim_packet {
	uint16_t id, tuple;
	enum sim_quic quic; /* of a datagram, ... */
	uint16_t server;    /* ... with the ID of this DIP, ... */
	bool rotated;	    /* ... in another configuration than the VIP's */
	enum segment segment;
	enum sim_odd odd;
	bool first_of_some; /* a first fragment: treated as whole, but by another worker */
	uint16_t len;    /* of the frame */
	uint16_t l3_offset, l3_len;
};

struct sim_lane { /* to a worker */
	struct sim_packet pending[SIM_PENDING];
	unsigned first, n;
	uint64_t n_received; /* of the worker's counter, as last seen */
	unsigned n_undecided; /* received, but neither sent nor dropped yet */
	/* what its counters must be, over the life of a process */
	uint64_t rx_bytes, tx_packets, tx_bytes;
	uint64_t quic_by[QUIC_BY_ID + 1];
	uint64_t drops[N_DROP_REASONS];
	uint64_t maybe[N_DROP_REASONS]; /* more of that reason, or of learn_overflow */
};

struct sim_request {
	bool used, done;
	struct control_request r;
	unsigned vip;
	struct sim_dip *dip;
	struct sim_dip before; /* if it is refused */
};

/** Several edits in one piece, under way. */
struct sim_change {
	bool used, done;
	bool bad; /* it has one more edit, which must be refused, and all with it */
	unsigned n;
	unsigned vips[SIM_EDITS];
	struct sim_dip *dips[SIM_EDITS];
	uint32_t weights[SIM_EDITS]; /* that they get */
	struct control_request r;
	struct control_transaction t;
	struct control_edit edits[SIM_EDITS + 1];
	char ids[SIM_EDITS + 1][ID_LEN];
	struct dip_edit bodies[SIM_EDITS + 1];
};

struct sim_mood { /* how often what happens, of 10,000 steps; drawn for each run */
	unsigned clients, control, worker, request, tick, leap, kill, reboot, disk, hops, audit,
		agents, wall, health;
};

struct sim {
	uint64_t seed;
	uint64_t step;
	uint64_t n_packets;
	struct prng random;
	struct box *box;
	struct backends *backends;
	struct model *model;
	struct sim_mood mood;
	unsigned burst_max;
	unsigned odd_share; /* one in so many frames is odd */
	unsigned fragment_share; /* so many are first fragments */
	struct sim_vip vips[SIM_VIPS];
	struct sim_tuple tuples[SIM_TUPLES];
	unsigned n_tuples, n_hot;
	struct model_flow flows[SIM_TUPLES];
	struct sim_lane lanes[BOX_WORKERS_MAX];
	struct sim_request requests[SIM_REQUESTS];
	struct sim_change change;
	struct sim_health healths[65536];
	struct sim_heard heard[65536];
	struct sim_checks checks;
	struct sim_override override;
	uint16_t next_packet, next_dip;
	unsigned lane_salt; /* which worker gets which tuple */
	/* while the process lives: to a DIP, by its number, and to a VIP, by its uid */
	struct sim_traffic {
		uint64_t packets, bytes;
	} traffic[65536], vip_traffic[SIM_UIDS];
	unsigned n_forgotten; /* flows */
	struct consistency seen; /* as it was read last */
	struct queued_call counters_call;
	struct audit audit; /* the last one that was asked for */
	bool auditing;
	unsigned n_audits; /* before it */
	uint64_t generation; /* last seen published */
	int64_t wall_stepped_s; /* forwards, since the process began */
	bool resync;         /* operators must look what became of their requests */
	unsigned n_kills, n_reboots, n_answered, n_refused, n_publishes, n_dropped; /* n_publishes: also the epoch */
	uint64_t n_drops[N_DROP_REASONS];
	uint64_t n_counter_checks, n_transactions;
	unsigned n_agreements; /* agents whose word was compared with control's */
	unsigned n_open_agreed; /* their open connections that control knows */
	uint64_t n_by_id, n_strays; /* packets sent by ID; those of them whose flow is elsewhere */
	uint64_t n_verdicts, n_switches, n_overrides, n_health_checks, n_dcode_checks;
	bool trace; /* print what happens at once */
	struct sim_event {
		uint64_t step;
		const char *what;
		long a, b, c, d;
	} events[SIM_TRACE];
	uint64_t n_events;
	char fault[256]; /* empty: all is well */
};

/* steps.c */
struct sim *sim_new(uint64_t seed);
void sim_free(struct sim *s);
/** One step. False once something is wrong. */
bool sim_step(struct sim *s);
/** End the last process and hold it to leave nothing. */
void sim_end(struct sim *s);
/** Remember what happens; what: a printf format for four longs. */
void sim_event(struct sim *s, const char *what, long a, long b, long c, long d);
void sim_print_events(const struct sim *s);
/** What control knows of the flow that the oracle complains about. */
void sim_explain(const struct sim *s);
void sim_wrong(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Look at what control published since the last look. */
void sim_check_published(struct sim *s);
/** True one time in n. */
static inline bool sim_chance(struct sim *s, unsigned n)
{
	return prng_below(&s->random, n) == 0;
}

/** Control and each worker run once. */
void sim_run_all(struct sim *s);

/* traffic.c */
void traffic_init(struct sim *s);
/** Clients send some packets. */
void traffic_send(struct sim *s);
unsigned traffic_worker(const struct sim *s, unsigned tuple);
/** The key of a tuple's flow in a view. */
void traffic_key(const struct vip_view *v, const struct sim_tuple *t, struct flow_key *key);
/** The VIP's view that a tuple's packets meet now, or NULL. */
const struct vip_view *traffic_view(const struct sim *s, const struct snapshot *snapshot,
				    const struct sim_tuple *t);
/** The VIP of sim.vips that a view is of, or NULL. */
struct sim_vip *traffic_vip(struct sim *s, const struct vip_view *v);

/* quic.c */
/** Whether a VIP goes by connection IDs. */
void quic_draw_vip(struct sim *s, struct vip_conf *conf);
void quic_dip_conf(unsigned vip, uint16_t number, struct dip_conf *conf);
/** What a datagram of this tuple is, how long, and its bytes. */
void quic_draw(struct sim *s, struct sim_tuple *t, struct sim_packet *p);
uint32_t quic_payload_len(struct sim *s, const struct sim_tuple *t, const struct sim_packet *p);
void quic_write(const struct sim *s, const struct sim_tuple *t, const struct sim_packet *p,
		uint8_t *payload, uint32_t len);
/** What a datagram goes by; index: of the DIP, if by ID. */
enum quic_way quic_way(const struct vip_view *v, const struct sim_packet *p, uint16_t *index);
/** A datagram was sent to a DIP. */
void quic_sent(struct sim *s, const struct sim_packet *p, const struct vip_view *v, uint16_t dip,
	       bool by_id);
/** A snapshot was published. */
void quic_published(struct sim *s, const struct snapshot *snapshot);

/* exits.c */
/** See by which exit a worker's packets have left, and whether it is the one they must leave by. */
void exits_collect(struct sim *s, unsigned worker);
/** The process is gone, and what it held. */
void exits_killed(struct sim *s, bool rebooted);

/* counters.c */
/** Have control compare its counters with what is so, as soon as it answers calls. */
void counters_ask(struct sim *s);
/** Ask for an audit. */
void counters_audit(struct sim *s);
void counters_killed(struct sim *s);

/* transactions.c */
/** Ask for several edits at once. */
void transaction_ask(struct sim *s);
/** Take the answer, if it came. */
void transaction_answer(struct sim *s);
/** A new process answers: is all of it there, or nothing? */
void transaction_resync(struct sim *s);

/* checks.c */
/* What the last views may have been made of, and the next ones, is a set: a verdict can come in the
 * middle of a plan. */
static inline uint8_t bit(unsigned value)
{
	return (uint8_t)(1u << value);
}
static inline uint16_t number_of(const struct ip_addr *a)
{
	return (uint16_t)(a->b[14] << 8 | a->b[15]);
}
/** How a VIP is to be checked, if it is. */
void checks_draw(struct sim *s, struct sim_vip *v);
/** That is asked for now. */
void checks_asked(struct sim *s, const struct sim_vip *v);
/** Which VIPs control checks now. */
void checks_look(struct sim *s);
/** Checks find something. */
void checks_find(struct sim *s);
void checks_killed(struct sim *s);

/* verdicts.c */
void verdicts_new_dip(struct sim *s, unsigned vip, uint16_t number);
/** Checks find something, or somebody overrides them. */
void verdicts_step(struct sim *s);
/** Take the answer to an override, if it came. */
void verdicts_answers(struct sim *s);
/** Where control has heeded all that it was told: is it so? end: it must have. */
void verdicts_check(struct sim *s, bool end);
/** struct model.down_by_health; ctx: the sim. */
bool verdicts_may_be_down(void *ctx, uint16_t number);
/** From now on commits fail. */
void verdicts_disk_fails(struct sim *s);
void verdicts_killed(struct sim *s);
/** A new process answers: has it what was written? */
void verdicts_resync(struct sim *s);

/* operator.c */
void operator_init(struct sim *s);
/** Ask for something. */
void operator_request(struct sim *s);
/** Take the answers that came. */
void operator_answers(struct sim *s);
/** The wall clock was stepped: a deadline on disk is nearer by that for the next process. */
void operator_wall_stepped(struct sim *s, int64_t seconds);
/** The process is gone: what was under way may have been done or not. */
void operator_killed(struct sim *s);
/** A new process answers: compare what it has with what was answered, and go on from there. */
void operator_resync(struct sim *s);
