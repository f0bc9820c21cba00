/* What the QUIC client and server of the tests have in common: a connection by ngtcp2 and GnuTLS, and how its
 * packets come and go. Both speak in requests "N\n" on a stream of their own, which the server answers with
 * its name, NAME_LEN bytes, and N bytes of a pattern. One thread. */
#pragma once

#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdbool.h>
#include <sys/socket.h>

#define NAME_LEN 16
#define PACKET_MAX 1452
#define SOCKETS_MAX 16

/** A socket, and the address that the connection takes it to have. */
struct quic_socket {
	int fd;
	struct sockaddr_storage local;
	socklen_t len;
};

/** What goes out on a stream: head, then n bytes of the pattern, then its end. */
struct quic_answer {
	int64_t stream; /* -1: none */
	char head[NAME_LEN];
	uint64_t head_len, n, sent;
};

struct quic_peer {
	ngtcp2_conn *conn;
	gnutls_session_t tls;
	ngtcp2_crypto_conn_ref ref;
	struct quic_answer out;
	const struct quic_socket *sockets;
	unsigned n_sockets;
};

uint64_t peer_now(void);
void peer_random(uint8_t *data, size_t len);
uint8_t peer_pattern(uint64_t offset);

/** Open a socket of this address (port 0: any). Ends the program if that does not go. */
void peer_open(struct quic_socket *s, const char *address, uint16_t port);
/** Read an address of a command line. Ends the program if it is none. */
socklen_t peer_address(const char *text, uint16_t port, struct sockaddr_storage *out);

/** The callbacks that are the same for both; settings and what is allowed to the other side. */
void peer_fill(ngtcp2_callbacks *c, ngtcp2_settings *s, ngtcp2_transport_params *t);
/** TLS for p->conn. Ends the program if that does not go. */
void peer_start_tls(struct quic_peer *p, gnutls_certificate_credentials_t credentials,
		    unsigned flags);
/** Send all that may be sent now. False once the connection is over. */
bool peer_send(struct quic_peer *p);
/** A packet has come to s. False once the connection is over. */
bool peer_receive(struct quic_peer *p, const struct quic_socket *s, const struct sockaddr *from,
		  socklen_t from_len, const uint8_t *data, size_t len);
/** Do what is due, and send. False once the connection is over. */
bool peer_expire(struct quic_peer *p);
/** Milliseconds until something is due, at least 0 and at most max_ms. */
int peer_timeout_ms(const struct quic_peer *p, int max_ms);
void peer_free(struct quic_peer *p);

__attribute__((noreturn, format(printf, 1, 2))) void peer_die(const char *fmt, ...);
