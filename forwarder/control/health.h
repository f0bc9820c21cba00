/* Health: what checks, agents and operators say of each DIP, and what control makes of it. None of it
 * is desired state: a DIP that is down by health is left out of the lookup exactly as one whose
 * admin_state is down, and its configuration stays as it was written. (verdict.c, override.c)
 *
 * The checks themselves are made by another thread (health_engine.h), which reports here. */
#pragma once

#include "base/error.h"
#include "control/model.h"

struct control;

enum health_verdict {
	VERDICT_UNKNOWN, /* not decided: a new DIP gets no packet before its first check */
	VERDICT_UP,
	VERDICT_DOWN,
};
enum health_override { OVERRIDE_NONE, OVERRIDE_UP, OVERRIDE_DOWN };

#define HEALTH_CAUSE_LEN 128
#define HEALTH_HISTORY_MAX 16
#define HEALTH_TTL_MAX_S 2592000u /* 30 days */
#define HEALTH_STEPS 10u          /* of a slow start; weights in use are in these parts */

extern const char *const health_verdict_names[];  /* unknown up down */
extern const char *const health_override_names[]; /* none up down */

/** What is kept on disk with each DIP. */
struct dip_health {
	enum health_verdict verdict;
	int64_t since_s; /* wall clock, when the verdict came; 0: it was only assumed */
	enum health_override override;
	int64_t override_until_s;      /* wall clock; 0 = without end */
	char reason[HEALTH_CAUSE_LEN]; /* of the override */
};

/** What the checks of one DIP have found. */
struct health_stats {
	uint64_t checks_total;
	uint64_t failed_total;
	int64_t last_check_ms; /* wall clock; 0 = none yet */
	uint32_t latency_us;   /* of the last one */
	uint32_t consecutive;  /* results in a row like the last one */
	bool last_ok;
	bool damped; /* it would be up again, but has gone down too often lately */
	char last_error[HEALTH_CAUSE_LEN]; /* of the last failure; "" = none yet */
};

/** A DIP's health as it is shown. */
struct dip_health_info {
	bool checked; /* the VIP has health checks */
	bool ignored; /* too few of the VIP's DIPs are up: this one is used all the same (min_up) */
	struct dip_health now;
	struct health_stats stats;
};

/** One DIP's news from whoever checks it. */
struct health_report {
	uint16_t vip_slot;
	uint16_t dip_index;
	uint32_t vip_uid;
	uint64_t dip_uid;
	enum health_verdict verdict; /* VERDICT_UNKNOWN: as it was */
	struct health_stats stats;
};

/** Take over verdicts and figures; of DIPs that are gone, or are not checked any more, they are
 *  dropped. All changed verdicts of one call, and of those that follow while they wait, go into one
 *  publish. Thread: any but control's (without control_start: the caller's). */
void control_set_health(struct control *c, const struct health_report *list, unsigned n);

/** What there is to check. */
struct health_target {
	uint16_t vip_slot;
	uint16_t dip_index;
	uint32_t vip_uid;
	uint64_t dip_uid;
	unsigned vip; /* index in health_targets.vips */
	struct ip_addr address;
	enum health_verdict verdict;
	uint64_t agent_ms; /* type agent: clock_now_ms of its agent's last report; 0 = none */
};

struct health_vip {
	struct health_conf conf;
	uint16_t port; /* to check */
};

struct health_targets {
	unsigned n;
	struct health_target *list; /* sorted by dip_uid */
	unsigned n_vips;
	struct health_vip *vips;
};

/** All DIPs that are to be checked. 0 or -ENOMEM; free with health_targets_free either way. Thread: as
 *  above. */
MUST_CHECK int control_list_health(struct control *c, struct health_targets *out);
void health_targets_free(struct health_targets *t);

/** A number that changes whenever control_list_health may answer something else. Thread: any. */
uint64_t control_health_epoch(struct control *c);

struct control_transaction;
struct change_info;

/** Set (or, with OVERRIDE_NONE, end) what a DIP counts as, whatever its checks say. */
struct health_request {
	/* in */
	char vip[ID_LEN];
	char dip[ID_LEN];
	enum health_override state;
	uint32_t ttl_s; /* it ends by itself after so long; 0 = never */
	bool override_hold;
	char reason[HEALTH_CAUSE_LEN];
	/** Not NULL: only plan it, as a dry run does. The caller's, who clears it. */
	struct control_transaction *plan;
	struct change_info *change; /* of the plan */
	/* out */
	int status;       /* enum control_status: OK, NOT_FOUND, UNAVAILABLE, NO_STORAGE, FAILED */
	char detail[192]; /* one sentence, if it is an error */
	uint32_t retry_after_s;
};

/** Carry it out; returns when it is durable and published, or refused with nothing changed. Thread: any
 *  but control's; blocks. */
void control_override_health(struct control *c, struct health_request *r);

/** The same without waiting, for one-threaded tests: *done becomes true within some control_step. */
void control_override_health_async(struct control *c, struct health_request *r, bool *done);

/** A transition: what the DIP counted as from then on, and why. */
struct health_event {
	int64_t at_ms; /* wall clock */
	char state[16];
	char cause[HEALTH_CAUSE_LEN];
};

struct health_history {
	bool found;
	unsigned n;
	struct health_event list[HEALTH_HISTORY_MAX]; /* the latest first */
};

/** The latest transitions of a DIP, of this process. Thread: any but control's. */
void control_read_health_history(struct control *c, const char *vip, const char *dip,
				 struct health_history *out);
