/* What the API says when it refuses, for people; and which exit code that is. */
#pragma once

#include <stdio.h>

#include "api/client/ctl_http.h"

/** The enum ctl_exit of an answer. */
int ctl_problem_exit(const struct ctl_answer *a);

/** Print an answer that is not 2xx: its detail, then a line for each faulty member or parameter.
 * Prints nothing for 2xx. Returns ctl_problem_exit. url: where was asked. */
int ctl_problem_print(const struct ctl_answer *a, const char *url, FILE *out);
