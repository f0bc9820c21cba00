/* A QUIC server whose connection IDs bear its server ID, by the plaintext algorithm of
 * draft-ietf-quic-load-balancers.
 *
 *   server ADDRESS PORT NAME SERVER_ID CERTIFICATE KEY
 *
 * It prints "ready", and "stray" for each packet of a connection that is not one of its own. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/quic/peer.h"

#define CONNS_MAX 256
#define CIDS_MAX 32 /* of a connection at a time */
#define NONCE_LEN 8u
#define REQUEST_MAX 32

struct server_conn {
	struct quic_peer peer;
	bool used;
	ngtcp2_cid cids[CIDS_MAX];
	unsigned n_cids;
	char request[REQUEST_MAX];
	size_t request_len;
};

static struct quic_socket own;
static gnutls_certificate_credentials_t credentials;
static const char *name;
static uint8_t server_id[15];
static size_t id_len;
static struct server_conn conns[CONNS_MAX];

/* --- connection IDs ------------------------------------------------------------------------ */

static size_t cid_len(void)
{
	return 1 + id_len + NONCE_LEN;
}

/* Configuration 0; the low bits of the first octet may be anything. */
static void make_cid(ngtcp2_cid *cid)
{
	cid->datalen = cid_len();
	peer_random(cid->data, cid->datalen);
	cid->data[0] &= 0x1f;
	memcpy(cid->data + 1, server_id, id_len);
}

static void add_cid(struct server_conn *c, const ngtcp2_cid *cid)
{
	if (c->n_cids == CIDS_MAX)
		peer_die("more connection IDs than there is room for");
	c->cids[c->n_cids++] = *cid;
}

static int new_cid(ngtcp2_conn *conn, ngtcp2_cid *cid, uint8_t *token, size_t len, void *arg)
{
	(void)conn;
	(void)len; /* that of the first one, which is of this form too */
	make_cid(cid);
	peer_random(token, NGTCP2_STATELESS_RESET_TOKENLEN);
	add_cid(arg, cid);
	return 0;
}

static int remove_cid(ngtcp2_conn *conn, const ngtcp2_cid *cid, void *arg)
{
	struct server_conn *c = arg;

	(void)conn;
	for (unsigned i = 0; i < c->n_cids; i++)
		if (ngtcp2_cid_eq(&c->cids[i], cid))
			c->cids[i] = c->cids[--c->n_cids];
	return 0;
}

static struct server_conn *find(const uint8_t *cid, size_t len)
{
	ngtcp2_cid wanted;

	if (len > NGTCP2_MAX_CIDLEN)
		return NULL;
	ngtcp2_cid_init(&wanted, cid, len);
	for (unsigned i = 0; i < CONNS_MAX; i++)
		for (unsigned k = 0; conns[i].used && k < conns[i].n_cids; k++)
			if (ngtcp2_cid_eq(&conns[i].cids[k], &wanted))
				return &conns[i];
	return NULL;
}

/* --- connections --------------------------------------------------------------------------- */

static int take_data(ngtcp2_conn *conn, uint32_t flags, int64_t stream, uint64_t offset,
		     const uint8_t *data, size_t len, void *arg, void *of_stream)
{
	struct server_conn *c = arg;

	(void)conn;
	(void)offset;
	(void)of_stream;
	if (c->request_len + len >= REQUEST_MAX)
		return NGTCP2_ERR_CALLBACK_FAILURE;
	memcpy(c->request + c->request_len, data, len);
	c->request_len += len;
	if (!(flags & NGTCP2_STREAM_DATA_FLAG_FIN))
		return 0;
	c->request[c->request_len] = '\0';
	c->request_len = 0;
	c->peer.out = (struct quic_answer){
		.stream = stream, .head_len = NAME_LEN, .n = strtoull(c->request, NULL, 10)};
	snprintf(c->peer.out.head, NAME_LEN, "%s", name);
	return 0;
}

static struct server_conn *accept_conn(const ngtcp2_pkt_hd *hd, const struct sockaddr *from,
				       socklen_t from_len)
{
	ngtcp2_callbacks callbacks;
	ngtcp2_settings settings;
	ngtcp2_transport_params params;
	ngtcp2_path path = {.local = {(struct sockaddr *)&own.local, own.len},
			    .remote = {(struct sockaddr *)from, from_len}};
	struct server_conn *c = conns;
	ngtcp2_cid cid;

	while (c->used)
		if (++c == conns + CONNS_MAX)
			peer_die("more connections than there is room for");
	*c = (struct server_conn){.used = true,
				  .peer = {.sockets = &own, .n_sockets = 1, .out.stream = -1}};
	peer_fill(&callbacks, &settings, &params);
	callbacks.recv_client_initial = ngtcp2_crypto_recv_client_initial_cb;
	callbacks.recv_stream_data = take_data;
	callbacks.get_new_connection_id = new_cid;
	callbacks.remove_connection_id = remove_cid;
	params.original_dcid = hd->dcid;
	make_cid(&cid);
	add_cid(c, &cid);
	add_cid(c, &hd->dcid);
	if (ngtcp2_conn_server_new(&c->peer.conn, &hd->scid, &cid, &path, hd->version, &callbacks,
				   &settings, &params, NULL, c))
		peer_die("no connection can be made");
	peer_start_tls(&c->peer, credentials,
		       GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET | GNUTLS_NO_END_OF_EARLY_DATA);
	return c;
}

static void end_if(struct server_conn *c, bool over)
{
	if (!over)
		return;
	peer_free(&c->peer);
	c->used = false;
}

static void take_packet(const uint8_t *data, size_t len, const struct sockaddr *from,
			socklen_t from_len)
{
	ngtcp2_version_cid v;
	ngtcp2_pkt_hd hd;

	if (ngtcp2_pkt_decode_version_cid(&v, data, len, cid_len()))
		return;
	struct server_conn *c = find(v.dcid, v.dcidlen);
	if (!c && (data[0] & 0x80) && ngtcp2_accept(&hd, data, len) == 0)
		c = accept_conn(&hd, from, from_len);
	if (c)
		end_if(c, !peer_receive(&c->peer, &own, from, from_len, data, len));
	else
		printf("stray\n");
}

static void read_id(const char *text)
{
	for (; text[0] && text[1] && id_len < sizeof(server_id); text += 2) {
		const char octet[3] = {text[0], text[1], '\0'};
		server_id[id_len++] = (uint8_t)strtoul(octet, NULL, 16);
	}
}

int main(int argc, char **argv)
{
	uint8_t data[65536];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 7)
		peer_die("ADDRESS PORT NAME SERVER_ID CERTIFICATE KEY are needed");
	name = argv[3];
	read_id(argv[4]);
	if (gnutls_certificate_allocate_credentials(&credentials) ||
	    gnutls_certificate_set_x509_key_file(credentials, argv[5], argv[6],
						 GNUTLS_X509_FMT_PEM))
		peer_die("%s and %s are no certificate and its key", argv[5], argv[6]);
	peer_open(&own, argv[1], (uint16_t)atoi(argv[2]));
	printf("ready\n");
	for (;;) {
		struct pollfd p = {.fd = own.fd, .events = POLLIN};
		int wait_ms = 1000;
		for (unsigned i = 0; i < CONNS_MAX; i++)
			if (conns[i].used)
				wait_ms = peer_timeout_ms(&conns[i].peer, wait_ms);
		poll(&p, 1, wait_ms);
		struct sockaddr_storage from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(own.fd, data, sizeof(data), 0, (struct sockaddr *)&from,
				     &from_len);
		if (n > 0)
			take_packet(data, (size_t)n, (const struct sockaddr *)&from, from_len);
		for (unsigned i = 0; i < CONNS_MAX; i++)
			if (conns[i].used)
				end_if(&conns[i], !peer_expire(&conns[i].peer));
	}
}
