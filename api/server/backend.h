/* What the API asks of the daemon behind it: a table of functions, so that the server can be tested
 * against answers made up by a test. The live one forwards to control, the workers and the sockets.
 */
#pragma once

#include "base/hugemem.h"
#include "control/agents.h"
#include "control/control.h"
#include "control/flow_page.h"
#include "control/history.h"
#include "control/own_use.h"
#include "control/preflight.h"
#include "control/trace_names.h"
#include "control/watch.h"
#include "io/port_xsk.h"

/** Packet counters of one moment, summed over all workers. */
struct api_traffic {
	unsigned n_ifaces;
	struct {
		char name[IF_NAMESIZE];
		uint64_t rx_packets;
		uint64_t rx_bytes;
		uint64_t tx_packets;
		uint64_t tx_bytes;
	} ifaces[IFACES_MAX];
	uint64_t drops[N_DROP_REASONS];
	uint64_t rx_kernel_drops; /* lost before a worker could see them */
	uint64_t unlearned;
	uint64_t lost_openings;
	uint64_t lost_datagrams;
	uint64_t lost_refreshes;
	uint64_t checksums_completed;
	uint64_t echo_replies;
	uint64_t too_big_replies;
	uint64_t quic_by_id;
	uint64_t quic_by_flow;
};

/** What does not change while the daemon runs. */
struct api_info {
	const char *commit; /* of the sources */
	enum state_file_status state_file;
	enum hugemem_kind lookup_memory;
	enum hugemem_kind umem_memory;
	unsigned n_workers;
	const int *cpus; /* by worker; -1 = not pinned */
};

/** All functions may be called by several threads at once and may block for a moment (see
 *  control/control.h, whose contracts they have). */
struct api_backend {
	void *ctx;
	struct api_info info;
	struct events *events;
	void (*change)(void *ctx, struct control_request *r);
	void (*look)(void *ctx, void (*fn)(void *arg, struct control_view *view), void *arg);
	uint64_t (*generation)(void *ctx);
	/* control/history.h */
	int (*read_history)(void *ctx, uint64_t generation, uint64_t from, uint64_t to, size_t max,
			    struct history_view *out);
	struct vip_info *(*read_vips)(void *ctx, const char *vip, bool with_dips, size_t *n);
	void (*free_vips)(struct vip_info *v, size_t n);
	void (*read_consistency)(void *ctx, struct consistency *out);
	bool (*audit)(void *ctx, struct audit *out);
	void (*explain)(void *ctx, const struct explain_question *q, struct explanation *out);
	/* control/flow_page.h */
	void (*read_flows)(void *ctx, const struct flow_query *q, struct flow_page *page);
	/* worker/trace.h, control/trace_names.h: of one trace at a time */
	int (*trace_start)(void *ctx, const struct trace_filter *f);
	unsigned (*trace_read)(void *ctx, struct trace_record *out, unsigned n);
	uint64_t (*trace_lost)(void *ctx);
	void (*trace_stop)(void *ctx);
	void (*trace_target)(void *ctx, const char *vip, const char *dip, struct trace_target *out);
	void (*trace_names)(void *ctx, struct trace_name *list, unsigned n);
	void (*read_capacity)(void *ctx, uint64_t *flows, uint64_t *capacity);
	void (*read_traffic)(void *ctx, struct api_traffic *out);
	/* control/health.h */
	void (*override_health)(void *ctx, struct health_request *r);
	void (*read_health_history)(void *ctx, const char *vip, const char *dip,
				    struct health_history *out);
	/* control/watch.h */
	unsigned (*read_interfaces)(void *ctx, struct iface_status out[IFACES_MAX]);
	/* a copy, to be freed; NULL without memory */
	unsigned (*copy_queues)(void *ctx, struct xsk_queue **out);
	void (*read_warnings)(void *ctx, struct warnings *out);
	/* control/own_use.h */
	bool (*ends_own_use)(void *ctx, const struct vip_match *m, char text[OWN_USE_LEN]);
	bool (*serving)(void *ctx);
	/* control/preflight.h */
	void (*look_at_machine)(void *ctx, struct findings *out);
	/* control/agents.h */
	enum control_status (*put_agent)(void *ctx, const char *id, const char *vip,
					 const char *dip, const uint8_t *token_hash, bool *created,
					 struct error *err);
	enum control_status (*delete_agent)(void *ctx, const char *id, struct error *err);
	struct agent_info *(*read_agents)(void *ctx, const char *id, size_t *n);
	bool (*agent_token)(void *ctx, const char *id, uint8_t *token_hash);
	void (*agent_report)(void *ctx, const char *id, const struct agent_report *r,
			     struct agent_answer *out);
};

/** The running daemon's parts, which stay the caller's and must outlive the backend. */
struct api_live {
	struct control *control;
	struct worker *const *workers;
	unsigned n_workers;
	struct xsk *xsk;
	struct supervisor *supervisor;
	struct watch *watch;
	struct history *history;
	const struct preflight
		*machine; /* as of the start; VIPs and DIPs are those of the moment */
};

/** Fill everything but info (info is the caller's to fill). live stays the caller's. */
void api_backend_live(struct api_backend *b, struct api_live *live);
