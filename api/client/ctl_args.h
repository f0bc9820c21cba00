/* concuryctl's command line, read by the table of commands. */
#pragma once

#include "api/client/ctl.h"

/** One word of a command's argument pattern. */
struct ctl_pattern {
	char name[32];
	bool optional;
};

/** The k-th argument's pattern of a command (the last one is for all that follow, if it is
 * repeated). False: the command takes no such argument. */
bool ctl_args_pattern(const struct ctl_command *command, unsigned k, struct ctl_pattern *out);

/** Whether an option is for this command; NULL = for the whole program. */
bool ctl_args_takes(const struct ctl_command *command, enum ctl_option_id id);

/** The option of a word like "--url", "--url=X" or "-oX" (of a letter: what command takes).
 * N_CTL_OPTIONS: none. *value: what comes with it in the word, or NULL. */
enum ctl_option_id ctl_args_option(const struct ctl_command *command, const char *word,
				   const char **value);

/** The command of a group and verb, or NULL. */
const struct ctl_command *ctl_args_find(const char *group, const char *verb);
bool ctl_args_is_group(const char *word);

/** Take a word of the command line: a part of the command, until it is known, then an argument. 0,
 * or -EINVAL with err set. */
MUST_CHECK int ctl_args_word(const char *word, struct ctl_call *c, struct error *err);

/** Read the command line. 0, or -EINVAL with err set. Without a command, or with "--help" after a
 * part of one, command is NULL and args hold the words. */
MUST_CHECK int ctl_args_parse(int argc, char *const *argv, struct ctl_call *out, struct error *err);
