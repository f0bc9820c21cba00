/* What the service manager that started us wants to know. */
#pragma once

/** Tell it a state ("READY=1", "STOPPING=1"), where it asks to be told: one datagram to the socket that NOTIFY_SOCKET
 *  names. Without one nothing is done; what cannot be sent is logged and otherwise no error, as the manager has a
 *  time-out of its own. (sd_notify(3)) Thread: main; does not block. */
void notify_manager(const char *state);
