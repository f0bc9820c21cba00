/* How the checks of preflight say what they find. */
#pragma once

#include "control/preflight.h"

/** One finding; fix is the command that mends it (NULL = there is none). */
void report_ok(struct findings *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_note(struct findings *r, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void report_block(struct findings *r, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** The checks of every interface. */
void preflight_ifaces(const struct preflight *p, struct findings *r);

/** What spreads packets over an interface's queues: RSS, rings, and what drivers refuse. fd: a
 * socket for ioctls. */
void preflight_queues(const struct preflight *p, const struct xsk_iface *dev, int fd,
		      struct findings *r);

/** The way to every DIP. */
void preflight_dips(const struct preflight *p, struct findings *r);
