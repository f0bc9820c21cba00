#include "tests/unit/check_server.h"

#include <arpa/inet.h>
#include <check.h>
#include <gnutls/x509.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void serve_tls(struct check_server *s, int fd)
{
	gnutls_session_t session;
	char request[1024];

	gnutls_init(&session, GNUTLS_SERVER);
	gnutls_set_default_priority(session);
	gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, s->tls);
	gnutls_transport_set_int(session, fd);
	gnutls_handshake_set_timeout(session, 20000);
	if (gnutls_handshake(session) == 0 &&
	    gnutls_record_recv(session, request, sizeof(request)) > 0) {
		gnutls_record_send(session, s->reply, strlen(s->reply));
		gnutls_bye(session, GNUTLS_SHUT_WR);
	}
	gnutls_deinit(session);
}

static void serve_tcp(struct check_server *s, int fd)
{
	size_t n = 0;
	ssize_t got;

	if (s->tls) {
		serve_tls(s, fd);
		return;
	}
	while (n < sizeof(s->request) - 1 &&
	       (got = recv(fd, s->request + n, sizeof(s->request) - 1 - n, 0)) > 0) {
		n += (size_t)got;
		s->request[n] = '\0';
		if (s->blurts || strstr(s->request, "\r\n\r\n"))
			break;
	}
	if (s->reply)
		send(fd, s->reply, s->n_reply ? s->n_reply : strlen(s->reply), MSG_NOSIGNAL);
	if (s->stall || !s->reply)
		while (recv(fd, s->request, sizeof(s->request), 0) > 0)
			;
}

static void *server_main(void *arg)
{
	struct check_server *s = arg;
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	if (s->udp) {
		ssize_t n;
		while ((n = recvfrom(s->fd, s->request, sizeof(s->request), 0,
				     (struct sockaddr *)&from, &len)) > 0)
			if (s->reply)
				sendto(s->fd, s->reply, s->n_reply ? s->n_reply : strlen(s->reply),
				       0, (struct sockaddr *)&from, len);
		return NULL;
	}
	for (;;) {
		int fd = accept(s->fd, NULL, NULL);
		if (fd < 0)
			return NULL;
		serve_tcp(s, fd);
		close(fd);
	}
}

void check_server_bind(struct check_server *s)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr *a = s->v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t len = s->v6 ? sizeof(v6) : sizeof(v4);

	s->fd = socket(a->sa_family, s->udp ? SOCK_DGRAM : SOCK_STREAM, 0);
	ck_assert_int_ge(s->fd, 0);
	ck_assert_int_eq(bind(s->fd, a, len), 0);
	ck_assert_int_eq(getsockname(s->fd, a, &len), 0);
	s->port = ntohs(s->v6 ? v6.sin6_port : v4.sin_port);
}

void check_server_start(struct check_server *s)
{
	check_server_bind(s);
	if (!s->udp)
		ck_assert_int_eq(listen(s->fd, 16), 0);
	ck_assert_int_eq(pthread_create(&s->thread, NULL, server_main, s), 0);
}

void check_server_stop(struct check_server *s)
{
	if (s->udp) { /* a datagram socket that is shut down still waits: wake it with an empty one
		       */
		struct sockaddr_in a = {.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
					.sin_port = htons(s->port)};
		sendto(s->fd, "", 0, 0, (struct sockaddr *)&a, sizeof(a));
	} else {
		shutdown(s->fd, SHUT_RDWR);
	}
	pthread_join(s->thread, NULL);
	close(s->fd);
}

struct check_server check_server_nobody(bool udp)
{
	struct check_server s = {.udp = udp};

	check_server_bind(&s);
	close(s.fd);
	return s;
}

gnutls_certificate_credentials_t check_server_self_signed(void)
{
	gnutls_certificate_credentials_t cred;
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;
	static const char serial[] = {1};

	gnutls_x509_privkey_init(&key);
	ck_assert_int_eq(
		gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
					     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
		0);
	gnutls_x509_crt_init(&crt);
	gnutls_x509_crt_set_version(crt, 3);
	gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
	gnutls_x509_crt_set_activation_time(crt, time(NULL) - 3600);
	gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 3600);
	gnutls_x509_crt_set_dn(crt, "CN=example.org", NULL);
	gnutls_x509_crt_set_key(crt, key);
	ck_assert_int_eq(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
	gnutls_certificate_allocate_credentials(&cred);
	ck_assert_int_eq(gnutls_certificate_set_x509_key(cred, &crt, 1, key), 0);
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_privkey_deinit(key);
	return cred;
}

static void *name_server_main(void *arg)
{
	struct check_name_server *ns = arg;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	uint8_t m[512];
	ssize_t n;

	while ((n = recvfrom(ns->s.fd, m, sizeof(m), 0, (struct sockaddr *)&from, &len)) > 0) {
		m[2] |= 0x80;
		m[3] = (uint8_t)ns->rcode;
		if (ns->lie)
			m[n - 3] ^= 1; /* another type */
		if (ns->strays_first) {
			m[0] ^= 1;
			sendto(ns->s.fd, m, (size_t)n, 0, (struct sockaddr *)&from, len);
			m[0] ^= 1;
			sendto(ns->s.fd, m, 5, 0, (struct sockaddr *)&from, len);
		}
		sendto(ns->s.fd, m, (size_t)n, 0, (struct sockaddr *)&from, len);
	}
	return NULL;
}

void check_name_server_start(struct check_name_server *ns)
{
	ns->s.udp = true;
	check_server_bind(&ns->s);
	ck_assert_int_eq(pthread_create(&ns->s.thread, NULL, name_server_main, ns), 0);
}
