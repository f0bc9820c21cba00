/* For tests of the state file: a directory of the test's own, a known content, and questions about
 * it. Include <check.h> first. */
#pragma once

#include "control/state_file.h"

#define STATE_TEST_FLOWS 5000u

/** The state directory; shell commands see it as $D. */
extern char state_dir[64];

struct state_file_config state_config(uint64_t n_flows, unsigned n_workers);

/** Open; must succeed. */
struct state_file *state_open_with(const struct state_file_config *c);
struct state_file *state_open(uint64_t n_flows, unsigned n_workers);

/** Opening must fail with this code and this word in the message. */
void state_check_refused(const struct state_file_config *c, int code, const char *word);

/** A shell command that must succeed / remove the directory. */
void state_sh(const char *command);
void state_wipe(void);

/** Write a pattern over all slots and into each ring, with unread records. */
void state_fill(struct state_file *f);

/** True if the first n slots, or a ring, hold what state_fill wrote / if the slots from one on, or a
 *  ring, are as new. */
bool state_slots_kept(struct state_file *f, uint64_t n);
bool state_ring_kept(struct state_file *f, unsigned worker, unsigned ring);
bool state_slots_zero(struct state_file *f, uint64_t from);
bool state_ring_new(struct state_file *f, unsigned worker, unsigned ring);

/** True if `what` holds for each ring of workers [from, to). */
bool state_rings_are(struct state_file *f, unsigned from, unsigned to,
		     bool (*what)(struct state_file *, unsigned, unsigned));

/** The directory as a process with 2 workers left it that filled everything. */
void state_leave_filled(void);

/** Run the suite with a seed that is printed ($SEED repeats one); the exit status. */
int state_run(Suite *suite);
