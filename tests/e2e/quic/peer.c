#include "tests/e2e/quic/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PERIOD 65521u /* of the pattern */
#define PIECE_MAX 16384u
#define PRIORITY                                                                                   \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305:-GROUP-ALL:"    \
	"+GROUP-X25519:+GROUP-SECP256R1:%DISABLE_TLS13_COMPAT_MODE"

void peer_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("error ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	exit(EXIT_FAILURE);
}

uint64_t peer_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NGTCP2_SECONDS + (uint64_t)ts.tv_nsec;
}

void peer_random(uint8_t *data, size_t len)
{
	if (getrandom(data, len, 0) != (ssize_t)len)
		peer_die("no random bytes");
}

uint8_t peer_pattern(uint64_t offset)
{
	uint64_t at = offset % PERIOD;

	return (uint8_t)(at * 31 ^ at >> 8);
}

/* --- sockets ------------------------------------------------------------------------------- */

socklen_t peer_address(const char *text, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
		memcpy(out, &v4, sizeof(v4));
		return sizeof(v4);
	}
	if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1)
		peer_die("no address: %s", text);
	memcpy(out, &v6, sizeof(v6));
	return sizeof(v6);
}

void peer_open(struct quic_socket *s, const char *address, uint16_t port)
{
	s->len = peer_address(address, port, &s->local);
	s->fd = socket(s->local.ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (s->fd < 0 || bind(s->fd, (const struct sockaddr *)&s->local, s->len) ||
	    getsockname(s->fd, (struct sockaddr *)&s->local, &s->len))
		peer_die("a socket of %s: %s", address, strerror(errno));
}

static const struct quic_socket *socket_of(const struct quic_peer *p, const ngtcp2_addr *local)
{
	for (unsigned i = p->n_sockets; i-- > 0;)
		if (p->sockets[i].len == local->addrlen &&
		    memcmp(&p->sockets[i].local, local->addr, local->addrlen) == 0)
			return &p->sockets[i];
	peer_die("a packet for an address that is none of ours");
}

/* --- a connection -------------------------------------------------------------------------- */

static void fill_random(uint8_t *dest, size_t len, const ngtcp2_rand_ctx *ctx)
{
	(void)ctx;
	peer_random(dest, len);
}

void peer_fill(ngtcp2_callbacks *c, ngtcp2_settings *s, ngtcp2_transport_params *t)
{
	*c = (ngtcp2_callbacks){
		.recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
		.encrypt = ngtcp2_crypto_encrypt_cb,
		.decrypt = ngtcp2_crypto_decrypt_cb,
		.hp_mask = ngtcp2_crypto_hp_mask_cb,
		.rand = fill_random,
		.update_key = ngtcp2_crypto_update_key_cb,
		.delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
		.delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
		.get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
		.version_negotiation = ngtcp2_crypto_version_negotiation_cb,
	};
	ngtcp2_settings_default(s);
	s->initial_ts = peer_now();
	ngtcp2_transport_params_default(t);
	t->initial_max_streams_bidi = 100;
	t->initial_max_stream_data_bidi_local = 128 << 10;
	t->initial_max_stream_data_bidi_remote = 128 << 10;
	t->initial_max_data = 1 << 20;
	t->max_idle_timeout = 60 * NGTCP2_SECONDS;
	t->active_connection_id_limit = 7;
}

static ngtcp2_conn *conn_of(ngtcp2_crypto_conn_ref *ref)
{
	return ((struct quic_peer *)ref->user_data)->conn;
}

void peer_start_tls(struct quic_peer *p, gnutls_certificate_credentials_t credentials,
		    unsigned flags)
{
	const gnutls_datum_t protocol = {(unsigned char *)"pattern", 7};

	p->ref = (ngtcp2_crypto_conn_ref){.get_conn = conn_of, .user_data = p};
	if (gnutls_init(&p->tls, flags) || gnutls_priority_set_direct(p->tls, PRIORITY, NULL) ||
	    gnutls_alpn_set_protocols(p->tls, &protocol, 1, GNUTLS_ALPN_MANDATORY) ||
	    gnutls_credentials_set(p->tls, GNUTLS_CRD_CERTIFICATE, credentials))
		peer_die("TLS cannot be set up");
	gnutls_session_set_ptr(p->tls, &p->ref);
	if (flags & GNUTLS_SERVER ? ngtcp2_crypto_gnutls_configure_server_session(p->tls)
				  : ngtcp2_crypto_gnutls_configure_client_session(p->tls))
		peer_die("TLS cannot be set up for QUIC");
	ngtcp2_conn_set_tls_native_handle(p->conn, p->tls);
}

void peer_free(struct quic_peer *p)
{
	ngtcp2_conn_del(p->conn);
	gnutls_deinit(p->tls);
}

/* --- packets ------------------------------------------------------------------------------- */

/* The next bytes of the answer, which stay where they are: they may have to be sent again. */
static ngtcp2_vec next_piece(struct quic_answer *a)
{
	static uint8_t pattern[PERIOD + PIECE_MAX];

	if (a->sent < a->head_len)
		return (ngtcp2_vec){(uint8_t *)a->head + a->sent, a->head_len - a->sent};
	for (size_t i = sizeof(pattern); !pattern[1] && i-- > 0;)
		pattern[i] = peer_pattern(i);
	uint64_t at = a->sent - a->head_len, left = a->n - at;
	return (ngtcp2_vec){pattern + at % PERIOD, left < PIECE_MAX ? left : PIECE_MAX};
}

/* One packet, with a piece of the answer unless it is blocked. Bytes, 0 or an error. */
static ngtcp2_ssize write_packet(struct quic_peer *p, bool blocked, ngtcp2_path_storage *path,
				 uint8_t *data)
{
	struct quic_answer *a = &p->out;
	bool speak = a->stream >= 0 && !blocked;
	ngtcp2_vec piece = speak ? next_piece(a) : (ngtcp2_vec){NULL, 0};
	bool last = speak && a->sent + piece.len == a->head_len + a->n;
	ngtcp2_ssize taken = -1;
	ngtcp2_ssize n = ngtcp2_conn_writev_stream(
		p->conn, &path->path, NULL, data, PACKET_MAX, &taken,
		last ? NGTCP2_WRITE_STREAM_FLAG_FIN : NGTCP2_WRITE_STREAM_FLAG_NONE,
		speak ? a->stream : -1, &piece, speak, peer_now());

	if (n >= 0 && taken >= 0) {
		a->sent += (uint64_t)taken;
		if (last && (size_t)taken == piece.len)
			a->stream = -1;
	}
	return n;
}

bool peer_send(struct quic_peer *p)
{
	uint8_t data[PACKET_MAX];
	bool blocked = false;

	for (;;) {
		ngtcp2_path_storage path;
		ngtcp2_path_storage_zero(&path);
		ngtcp2_ssize n = write_packet(p, blocked, &path, data);
		if (n == NGTCP2_ERR_STREAM_DATA_BLOCKED || n == NGTCP2_ERR_STREAM_SHUT_WR) {
			blocked = true;
			continue;
		}
		if (n < 0)
			return false;
		if (n == 0)
			break;
		/* One that is lost is sent again. */
		(void)!sendto(socket_of(p, &path.path.local)->fd, data, (size_t)n, 0,
			      path.path.remote.addr, path.path.remote.addrlen);
	}
	ngtcp2_conn_update_pkt_tx_time(p->conn, peer_now());
	return true;
}

bool peer_receive(struct quic_peer *p, const struct quic_socket *s, const struct sockaddr *from,
		  socklen_t from_len, const uint8_t *data, size_t len)
{
	struct quic_socket local = *s;
	ngtcp2_path path = {.local = {(struct sockaddr *)&local.local, local.len},
			    .remote = {(struct sockaddr *)from, from_len}};
	int rc = ngtcp2_conn_read_pkt(p->conn, &path, NULL, data, len, peer_now());

	return (rc == 0 || rc == NGTCP2_ERR_DISCARD_PKT) && peer_send(p);
}

bool peer_expire(struct quic_peer *p)
{
	uint64_t now = peer_now();

	if (ngtcp2_conn_get_expiry(p->conn) > now)
		return true;
	return ngtcp2_conn_handle_expiry(p->conn, now) == 0 && peer_send(p);
}

int peer_timeout_ms(const struct quic_peer *p, int max_ms)
{
	uint64_t now = peer_now(), at = ngtcp2_conn_get_expiry(p->conn);

	if (at <= now)
		return 0;
	uint64_t ms = (at - now) / NGTCP2_MILLISECONDS + 1;
	return ms < (uint64_t)max_ms ? (int)ms : max_ms;
}
