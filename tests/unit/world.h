/* A whole forwarder in one thread for tests: workers over port_mem, control stepped by hand, a clock
 * that moves only when told, a store in memory and a state file in a temporary directory. DIPs are
 * told apart by the MAC address that a sent frame bears. */
#pragma once

#include "control/control.h"
#include "tests/unit/frames.h"

#define WORLD_WORKERS_MAX 4
#define WORLD_VIP_ADDRESS "10.9.0.100"

struct world {
	unsigned n_workers;
	uint64_t n_flows; /* capacity */
	char dir[64];     /* state directory */
	struct port *ports[WORLD_WORKERS_MAX];
	struct worker *workers[WORLD_WORKERS_MAX];
	struct fragment_cache *fragments;
	struct state_file *state;
	struct control *control;
	struct persist_state disk; /* what the last commit left */
	int fail_commit;           /* errno that the next commits fail with, 0 = none */
	unsigned n_commits;
	const struct persist_txn *txn; /* while on_submit is called */
	unsigned n_steered;
	unsigned n_unsteered_total; /* calls that took steering away */
	unsigned n_ways;            /* what steer was told of ways back */
	struct {
		struct back_key key;
		struct ip_addr vip;
	} ways[64];
	struct back_hop hop_wanted; /* what steer asks for once; ifindex 0 = nothing */
	struct back_hop hop_resolved; /* what the kernel was asked for last */
	void (*on_submit)(struct world *w); /* called in the middle of each commit */
	void (*on_poll)(struct world *w);
	void *user;
};

/** A running world without VIPs. n_flows: capacity of the flow table. */
struct world *world_new(unsigned n_workers, uint64_t n_flows);
void world_free(struct world *w);

enum world_restart { WORLD_KILL, WORLD_REBOOT };

/** The process dies (no clean end) and the next one starts: with the state file, or without. */
void world_restart(struct world *w, enum world_restart how);

/** Move the clock; the step afterwards is the caller's. */
void world_advance_ms(uint64_t ms);
uint64_t world_now_ms(void);
/** Step the wall clock alone. */
void world_step_wall_s(int64_t seconds);

/** Let control do what there is to do. */
void world_settle(struct world *w);

/** Send a frame in by queue 0 of a worker and let it run. Returns the last byte of the DIP's address
 *  that it was sent to, or 0 if it was dropped. */
unsigned world_send(struct world *w, unsigned worker, const struct frames_spec *spec);

/** A TCP packet of flow number i (client 10.1.x.y, port from i) to the VIP's port 80. flags: FRAMES_*. */
unsigned world_tcp(struct world *w, unsigned worker, uint32_t i, uint8_t flags, uint32_t payload);
unsigned world_udp(struct world *w, unsigned worker, uint32_t i);

/** Requests; each aborts the test if the answer is not `want`. The answer stays until the next one. */
struct control_request *world_put_vip(struct world *w, const char *id, enum vip_protocol protocol,
				      enum control_status want);
/** A DIP of address 10.9.0.<last>, called b<last>. */
struct control_request *world_put_dip(struct world *w, const char *vip, unsigned last,
				      uint32_t weight, enum control_status want);
struct control_request *world_set_weight(struct world *w, const char *vip, unsigned last,
					 uint32_t weight);
struct control_request *world_set_admin(struct world *w, const char *vip, unsigned last,
					enum admin_state state);
struct control_request *world_delete_dip(struct world *w, const char *vip, unsigned last,
					 bool force);
struct control_request *world_request(struct world *w, struct control_request *r);

struct consistency world_consistency(struct world *w);
/** flows of a DIP as the API would say; UINT64_MAX if it does not exist. */
uint64_t world_dip_flows(struct world *w, const char *vip, unsigned last);
