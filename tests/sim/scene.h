/* For the scenarios: a forwarder stepped by hand (tests/unit/world.h), and flows whose DIPs are
 * remembered. A scenario that does not hold ends its process. */
#pragma once

#include "control/internal.h"
#include "tests/unit/world.h"

#define SCENE_FLOWS 1024

/** Where flows were sent first, by number. */
struct scene {
	struct world *w;
	uint8_t dips[SCENE_FLOWS];
};

/** End the process with this sentence unless the condition holds. */
#define MUST(condition, what) scene_must(condition, what)
void scene_must(bool holds, const char *what);

/** A VIP "v" of one protocol; conf: its time-outs and policies (from vip_conf_defaults, address, port
 *  and protocol set here), NULL = defaults. DIPs b1 .. bn of weight 10. */
void scene_open(struct scene *s, unsigned n_workers, uint64_t n_flows, enum vip_protocol protocol,
		const struct vip_conf *conf, unsigned n_dips);
void scene_close(struct scene *s);

/** TCP flows first .. first + n - 1 open (SYN, payload) / speak once; each must be on its DIP. */
void scene_connect(struct scene *s, unsigned first, unsigned n);
void scene_must_stay(struct scene *s, unsigned first, unsigned n);

/** A flow that lives on the DIP `on` though its hash names another: on's weight goes down until one of
 *  the connected flows is pinned. Returns its number. */
unsigned scene_pin(struct scene *s, unsigned on, unsigned n);

/** Time passes in steps of 100 ms, and control does what falls due. */
void scene_wait_s(struct scene *s, unsigned seconds);

/** Change weights so that Dcodes move, and publish. */
void scene_shake(struct scene *s, unsigned dip, uint32_t weight);

/** Push the seen entry of a flow out of its worker's cache. */
void scene_evict(struct scene *s);

#define SCENARIOS(X)                                                                               \
	X(1, late_flow_stays, lose_late_flows)                                                     \
	X(2, records_in_order, merge_by_ring)                                                      \
	X(3, suppressed_datagram, deadline_without_slack)                                          \
	X(4, lost_refresh, clock_runs_over_loss)                                                   \
	X(5, long_absence, clock_runs_while_away)                                                  \
	X(6, pins_over_reboot, reboot_forgets_pins)                                                \
	X(7, stale_entry_drops, stale_entry_carries)                                               \
	X(8, late_end_of_agent, agent_ends_the_next)                                               \
	X(9, flow_lands_on_leaver, remove_with_flows)                                              \
	X(10, index_rests, reuse_index_at_once)                                                    \
	X(11, payload_revives, payload_after_fin_ends)                                             \
	X(12, spoofed_reset, rst_ends_at_once)                                                     \
	X(13, reroll_by_weight, reroll_to_weightless)                                              \
	X(14, proxy_with_few_ports, keep_dead_pins)                                                \
	X(15, ports_are_flows, one_flow_for_all_ports)                                             \
	X(16, false_alarm, down_rehomes_idle)                                                      \
	X(17, flood_of_strangers, forget_established_first)                                        \
	X(18, crash_before_swap, restart_forgets_flows)                                            \
	X(19, leaver_and_newcomer, reuse_leaving_index)                                            \
	X(20, equal_hashes, ignore_clashes)                                                        \
	X(21, kill_after_reboot, kill_ends_hold)                                                   \
	X(22, two_workers_tell, older_record_counts)                                               \
	X(23, list_sent_again, redate_list)                                                        \
	X(24, health_flap, down_gives_up_dcodes)                                                   \
	X(25, all_checks_fail, heed_below_min_up)                                                  \
	X(26, verdict_over_kill, forget_verdicts)                                                  \
	X(27, client_comes_back, trust_old_places)                                                 \
	X(28, exact_flow_again, exact_by_slot)                                                     \
	X(29, connection_without_flow, drain_without_ids)                                          \
	X(30, foreign_ids, learn_by_id)

#define SCENARIO_PROTOTYPE(number, name, fault) void scenario_##name(void);
SCENARIOS(SCENARIO_PROTOTYPE)
#undef SCENARIO_PROTOTYPE
