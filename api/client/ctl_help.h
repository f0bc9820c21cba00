/* Help and the man page, from the tables of commands, options and exit codes. */
#pragma once

#include "api/client/ctl.h"

/** Help on what the call names: the program, a group of commands, or a command. */
void ctl_help_print(const struct ctl_call *call, FILE *out);

/** concuryctl(1), in troff with the man macros. */
void ctl_man_print(FILE *out);
