/* What the deterministic simulation (tests/sim) needs inside production code: named rules that it can
 * switch off, to prove that it would notice; points between two steps at which it may run something
 * else, or end the process; notes of what cannot be seen from outside; and sizes that it makes small,
 * so that what is full once a year is full all the time. In a production build all of it is nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*           name                     the rule that is broken while it is on */
#define FAULTS(X)                                                                                  \
	X(skip_ring_drain, "a publish drains the rings once all workers are parked")               \
	X(swap_unparked, "a publish waits until all workers are parked")                           \
	X(skip_accident_check, "a plan checks every known flow against its arrays")                \
	X(lose_late_flows, "flows learned since the check get exact entries")                      \
	X(persist_after_publish, "a change is on disk before it is published")                     \
	X(merge_by_ring, "records of a worker are applied in the order of their numbers")          \
	X(deadline_without_slack, "a deadline allows for a suppressed packet")                     \
	X(clock_runs_over_loss, "idle clocks stand still over lost records")                       \
	X(clock_runs_while_away, "idle clocks stand still while no process forwards")              \
	X(reboot_forgets_pins, "pins of the database become known flows")                          \
	X(kill_ends_hold, "the hold after a reboot begins anew after a kill")                      \
	X(stale_entry_carries, "a datagram that cannot be told is dropped if the VIP says so")     \
	X(remove_with_flows, "a DIP that drains is not removed under a flow")                      \
	X(reuse_index_at_once, "a removed DIP's index rests for a refresh interval")               \
	X(payload_after_fin_ends, "payload after a FIN revives the flow")                          \
	X(rst_ends_at_once, "a closing flow keeps its pin for closing_pin_s")                      \
	X(reroll_to_weightless, "Dcodes of a DIP that is down go to DIPs with weight")             \
	X(keep_dead_pins, "pins of ended flows are purged")                                        \
	X(one_flow_for_all_ports, "flows of an any-port VIP are told apart by port")               \
	X(down_rehomes_idle, "an idle flow stays on a DIP that is down")                           \
	X(forget_established_first, "cheap flows are forgotten before established ones")           \
	X(restart_forgets_flows, "flows in the state file outlive the process")                    \
	X(reuse_leaving_index, "a DIP does not take the index of one that leaves with it")         \
	X(agent_ends_the_next, "an agent's end is of the connection that it names, not of a later one") \
	X(older_record_counts, "a worker's older record does not turn back a clock")                  \
	X(trust_old_places, "what a worker told before a loss does not count for its clients after it") \
	X(exact_by_slot, "a VIP that is not planned keeps its exact entries")                      \
	X(redate_list, "a list that an agent sends again keeps the date of its making")             \
	X(down_gives_up_dcodes, "a DIP that is down keeps its Dcodes")                             \
	X(heed_below_min_up, "with fewer DIPs up than min_up all are used")                        \
	X(forget_verdicts, "a verdict is on disk with the publish that heeds it")                  \
	X(ignore_clashes, "flows with equal hashes go to the exact table")                         \
	X(learn_by_id, "a packet that its ID sends elsewhere tells nothing of its flow")           \
	X(drain_without_ids, "what drains waits for connections that only their IDs know")

#ifdef CONCURY_FAULTS

enum fault {
#define FAULT_ENUM(name, text) FAULT_##name,
	FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
		N_FAULTS
};

/* Defined by the simulation. */
extern bool fault_on[N_FAULTS];
extern uint64_t fault_hash_mask; /* of every flow hash, to make equal ones */
void fault_point(void);
void fault_wait(void); /* others run before it returns */
void fault_note_forgotten(const void *flow_slot);

#define FAULT(name) (fault_on[FAULT_##name])
#define FAULT_POINT() fault_point()
#define FAULT_WAIT() (fault_wait(), true)
#define FAULT_NOTE(what, arg) fault_note_##what(arg)
#define FAULT_HASH(h) ((h) & fault_hash_mask)
#define SIM_SIZE(usual, small) (small)

#else

/** True while the rule is switched off. */
#define FAULT(name) 0
/** Between two steps. */
#define FAULT_POINT() ((void)0)
/** Instead of waiting in the kernel; false: wait there. */
#define FAULT_WAIT() false
#define FAULT_NOTE(what, arg) ((void)0)
#define FAULT_HASH(h) (h)
/** A size in production, and in the simulation. */
#define SIM_SIZE(usual, small) (usual)

#endif
