/* The sockets the API is served on: TCP, or a Unix socket of mode 0660. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/error.h"

struct listener {
	int fd; /* listening, non-blocking; -1 = closed */
	bool is_unix;
	bool has_file; /* Unix: one that is to be removed */
	bool loopback;	     /* TCP: no other machine reaches it */
	bool tls;	     /* as the specification says, or by default */
	bool clear_text;     /* the specification says so */
	bool read_only;      /* for the user of this module */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of a Unix socket */
	dev_t dev; /* the socket file that was made, so that no other is removed */
	ino_t ino;
	char text[128]; /* for the log: "127.0.0.1:8080", "unix:/run/concury.sock" */
};

/** Listen on "ADDR:PORT", "[V6ADDR]:PORT", "localhost:PORT" (port 0: one the kernel picks, see text)
 *  or "unix:PATH". Before an address "https:" asks for TLS, "http:" for none; else has_tls decides.
 *  A socket file that nobody listens on any more is replaced. -EACCES: not a loopback address, and
 *  neither TLS nor "http:"; -EADDRINUSE; -EINVAL; what the kernel says. *out is written only on
 *  success. */
MUST_CHECK int listener_open(const char *spec, bool has_tls, struct listener *out,
			     struct error *err);

/** Close (unless fd is -1) and remove the socket file that listener_open made. */
void listener_close(struct listener *l);
