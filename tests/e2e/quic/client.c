/* A QUIC client with one connection, which can change its address.
 *
 *   client ADDRESS PORT LOCAL_ADDRESS
 *
 * It prints "ready" when the handshake is confirmed, and reads commands, a line each:
 *
 *   get N PAUSE     ask for N bytes of the pattern; stop taking them near PAUSE, and print "paused"
 *   go              take the rest; at the end print "got SERVER"
 *   move ADDRESS    migrate to a new socket of this address; print "moved" when the path is
 * validated rebind ADDRESS  send from a new socket without knowing, as behind a NAT that has
 * forgotten cid             print "cid HEX PORT": the server's ID that is in use, and the own port
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/quic/peer.h"

static struct quic_socket sockets[SOCKETS_MAX];
static struct quic_peer peer = {.sockets = sockets, .out.stream = -1};
static struct sockaddr_storage server;
static socklen_t server_len;
static struct {
	int64_t stream;
	char name[NAME_LEN];
	uint64_t got, wanted, pause, withheld;
	bool held;
} answer = {.stream = -1};

/* --- what comes ---------------------------------------------------------------------------- */

static void allow(uint64_t n)
{
	ngtcp2_conn_extend_max_stream_offset(peer.conn, answer.stream, n);
	ngtcp2_conn_extend_max_offset(peer.conn, n);
}

static int take_data(ngtcp2_conn *conn, uint32_t flags, int64_t stream, uint64_t offset,
		     const uint8_t *data, size_t len, void *arg, void *of_stream)
{
	(void)conn;
	(void)arg;
	(void)of_stream;
	if (stream != answer.stream || offset != answer.got)
		peer_die("data of another stream, or out of order");
	for (size_t i = 0; i < len; i++, offset++)
		if (offset < NAME_LEN)
			answer.name[offset] = (char)data[i];
		else if (data[i] != peer_pattern(offset - NAME_LEN))
			peer_die("wrong data at %lu", (unsigned long)offset);
	answer.got = offset;
	if (!answer.held && answer.pause && answer.got >= answer.pause) {
		answer.held = true;
		printf("paused\n");
	}
	if (answer.held)
		answer.withheld += len;
	else
		allow(len);
	if (flags & NGTCP2_STREAM_DATA_FLAG_FIN) {
		if (answer.got != NAME_LEN + answer.wanted)
			peer_die("%lu bytes, not %lu", (unsigned long)answer.got,
				 (unsigned long)answer.wanted);
		printf("got %.*s\n", NAME_LEN, answer.name);
		answer.stream = -1;
	}
	return 0;
}

static int confirmed(ngtcp2_conn *conn, void *arg)
{
	(void)conn;
	(void)arg;
	printf("ready\n");
	return 0;
}

static int path_validated(ngtcp2_conn *conn, uint32_t flags, const ngtcp2_path *path,
			  ngtcp2_path_validation_result result, void *arg)
{
	(void)conn;
	(void)flags;
	(void)path;
	(void)arg;
	printf(result == NGTCP2_PATH_VALIDATION_RESULT_SUCCESS ? "moved\n" : "not moved\n");
	return 0;
}

static int new_cid(ngtcp2_conn *conn, ngtcp2_cid *cid, uint8_t *token, size_t len, void *arg)
{
	(void)conn;
	(void)arg;
	cid->datalen = len;
	peer_random(cid->data, len);
	peer_random(token, NGTCP2_STATELESS_RESET_TOKENLEN);
	return 0;
}

/* --- commands ------------------------------------------------------------------------------ */

static struct quic_socket *open_next(const char *address)
{
	if (peer.n_sockets == SOCKETS_MAX)
		peer_die("too many sockets");
	peer_open(&sockets[peer.n_sockets], address, 0);
	return &sockets[peer.n_sockets++];
}

static void get(uint64_t n, uint64_t pause)
{
	memset(&answer, 0, sizeof(answer));
	answer.wanted = n;
	answer.pause = pause;
	if (ngtcp2_conn_open_bidi_stream(peer.conn, &answer.stream, NULL))
		peer_die("no stream can be opened");
	peer.out = (struct quic_answer){.stream = answer.stream};
	peer.out.head_len =
		(uint64_t)snprintf(peer.out.head, sizeof(peer.out.head), "%lu\n", (unsigned long)n);
}

static void go_on(void)
{
	answer.held = false;
	answer.pause = 0;
	allow(answer.withheld);
	answer.withheld = 0;
}

static void move(const char *address)
{
	struct quic_socket *s = open_next(address);
	ngtcp2_path path = {.local = {(struct sockaddr *)&s->local, s->len},
			    .remote = {(struct sockaddr *)&server, server_len}};
	int rc = ngtcp2_conn_initiate_immediate_migration(peer.conn, &path, peer_now());

	if (rc)
		peer_die("no migration: %s", ngtcp2_strerror(rc));
}

static void rebind(const char *address)
{
	struct quic_socket *last = &sockets[peer.n_sockets - 1], new;

	peer_open(&new, address, 0);
	close(last->fd);
	last->fd = new.fd; /* and its address as the connection believes it stays */
}

static void print_cid(void)
{
	const ngtcp2_cid *cid = ngtcp2_conn_get_dcid(peer.conn);
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);

	if (getsockname(sockets[peer.n_sockets - 1].fd, (struct sockaddr *)&local, &len))
		peer_die("a socket without a name");
	printf("cid ");
	for (size_t i = 0; i < cid->datalen; i++)
		printf("%02x", cid->data[i]);
	printf(" %u\n", ntohs(local.ss_family == AF_INET
				      ? ((const struct sockaddr_in *)&local)->sin_port
				      : ((const struct sockaddr_in6 *)&local)->sin6_port));
}

static void obey(const char *line)
{
	unsigned long n, pause;
	char address[64];

	if (sscanf(line, "get %lu %lu", &n, &pause) == 2)
		get(n, pause);
	else if (strcmp(line, "go\n") == 0)
		go_on();
	else if (sscanf(line, "move %63s", address) == 1)
		move(address);
	else if (sscanf(line, "rebind %63s", address) == 1)
		rebind(address);
	else if (strcmp(line, "cid\n") == 0)
		print_cid();
	else
		peer_die("no such command: %s", line);
	if (!peer_send(&peer))
		peer_die("the connection is over");
}

/* --- the program --------------------------------------------------------------------------- */

static void connect_to(const char *address, uint16_t port, const char *local)
{
	struct quic_socket *s = open_next(local);
	gnutls_certificate_credentials_t credentials;
	ngtcp2_callbacks callbacks;
	ngtcp2_settings settings;
	ngtcp2_transport_params params;
	ngtcp2_cid dcid = {.datalen = 18}, scid = {.datalen = 8};

	server_len = peer_address(address, port, &server);
	ngtcp2_path path = {.local = {(struct sockaddr *)&s->local, s->len},
			    .remote = {(struct sockaddr *)&server, server_len}};
	peer_random(dcid.data, dcid.datalen);
	peer_random(scid.data, scid.datalen);
	peer_fill(&callbacks, &settings, &params);
	callbacks.client_initial = ngtcp2_crypto_client_initial_cb;
	callbacks.recv_retry = ngtcp2_crypto_recv_retry_cb;
	callbacks.recv_stream_data = take_data;
	callbacks.handshake_confirmed = confirmed;
	callbacks.path_validation = path_validated;
	callbacks.get_new_connection_id = new_cid;
	if (gnutls_certificate_allocate_credentials(&credentials) ||
	    ngtcp2_conn_client_new(&peer.conn, &dcid, &scid, &path, NGTCP2_PROTO_VER_V1, &callbacks,
				   &settings, &params, NULL, &peer))
		peer_die("no connection can be made");
	peer_start_tls(&peer, credentials, GNUTLS_CLIENT | GNUTLS_NO_END_OF_EARLY_DATA);
	if (!peer_send(&peer))
		peer_die("nothing can be sent");
}

static void read_packets(const struct quic_socket *s)
{
	struct sockaddr_storage from;
	uint8_t data[65536];

	for (;;) {
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(s->fd, data, sizeof(data), 0, (struct sockaddr *)&from, &len);
		if (n <= 0)
			return;
		if (!peer_receive(&peer, s, (const struct sockaddr *)&from, len, data, (size_t)n))
			peer_die("the connection is over");
	}
}

int main(int argc, char **argv)
{
	char line[128];

	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll shall see what is not read yet */
	if (argc != 4)
		peer_die("ADDRESS PORT LOCAL_ADDRESS are needed");
	connect_to(argv[1], (uint16_t)atoi(argv[2]), argv[3]);
	for (;;) {
		struct pollfd p[SOCKETS_MAX + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
		for (unsigned i = 0; i < peer.n_sockets; i++)
			p[1 + i] = (struct pollfd){.fd = sockets[i].fd, .events = POLLIN};
		poll(p, 1 + peer.n_sockets, peer_timeout_ms(&peer, 1000));
		for (unsigned i = 0; i < peer.n_sockets; i++)
			read_packets(&sockets[i]);
		if (p[0].revents) {
			if (!fgets(line, sizeof(line), stdin))
				return 0;
			obey(line);
		}
		if (!peer_expire(&peer))
			peer_die("the connection is over");
	}
}
