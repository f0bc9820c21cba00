/* TLS for the listeners, from files that may be read again while connections go on: each handshake takes
 * what was read last, and a connection keeps what it was made with. TLS 1.2 and 1.3. One set of files a
 * process. */
#pragma once

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "api/server/exchange.h"

struct tls_config {
	const char *cert;      /* PEM: ours, then those that lead to its root */
	const char *key;       /* PEM */
	const char *client_ca; /* PEM; NULL = clients need no certificate */
};

struct tls;

/** Read the files; c's strings are the caller's and stay. -EINVAL, err naming the file. Thread: main. */
MUST_CHECK int tls_new(const struct tls_config *c, struct tls **out, struct error *err);

/** After the last connection. NULL is fine. Thread: main. */
void tls_free(struct tls *t);

/** Read the files again; on failure what was read before stays. Thread: main. */
MUST_CHECK int tls_reload(struct tls *t, struct error *err);

/** The names in the certificate of a session's client, which its handshake has verified: common name, DNS
 *  names, mail addresses, URIs. n is 0 if clients need none. Thread: the connection's. */
void tls_peer_names(gnutls_session_t session, struct cert_names *out);

/** For the HTTP library: gives a handshake its certificate and says what is wanted of the client. */
int tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
		 gnutls_pcert_st **certs, unsigned *n_certs, gnutls_ocsp_data_st **ocsp,
		 unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags);

extern const char tls_priorities[];
