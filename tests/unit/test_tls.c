/* TLS and client certificates: a real client on the other side, with an authority of the test's
 * own. */
#include <check.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/server/auth.h"
#include "api/server/tls.h"
#include "tests/unit/api_fake.h"
#include "tests/unit/raw_http.h"

static char dir[64];
static struct http_server *server;
static struct api_context api;
static struct tls *tls;

/* --- certificates --------------------------------------------------------------------------------
 */

struct identity {
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;
};

static struct identity authority, stranger; /* two authorities */

static const char *path_of(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % ARRAY_LEN(paths)];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void must(int rc)
{
	ck_assert_msg(rc >= 0, "%s", gnutls_strerror(rc));
}

/* issuer NULL: an authority. name may hold a NUL. purpose NULL: none in particular. */
static struct identity make_identity(const struct identity *issuer, const char *name, size_t len,
				     const char *purpose, uint8_t serial)
{
	struct identity id;

	must(gnutls_x509_privkey_init(&id.key));
	must(gnutls_x509_privkey_generate(id.key, GNUTLS_PK_ECDSA,
					  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
	must(gnutls_x509_crt_init(&id.crt));
	must(gnutls_x509_crt_set_version(id.crt, 3));
	must(gnutls_x509_crt_set_serial(id.crt, &serial, 1));
	must(gnutls_x509_crt_set_activation_time(id.crt, time(NULL) - 60));
	must(gnutls_x509_crt_set_expiration_time(id.crt, time(NULL) + 3600));
	must(gnutls_x509_crt_set_dn_by_oid(id.crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
					   (unsigned)len));
	must(gnutls_x509_crt_set_key(id.crt, id.key));
	must(gnutls_x509_crt_set_basic_constraints(id.crt, issuer ? 0 : 1, -1));
	if (!issuer)
		must(gnutls_x509_crt_set_key_usage(id.crt, GNUTLS_KEY_KEY_CERT_SIGN));
	if (purpose)
		must(gnutls_x509_crt_set_key_purpose_oid(id.crt, purpose, 0));
	if (issuer && !strcmp(name, "server"))
		must(gnutls_x509_crt_set_subject_alt_name(id.crt, GNUTLS_SAN_DNSNAME, "localhost",
							  9, GNUTLS_FSAN_SET));
	const struct identity *by = issuer ? issuer : &id;
	must(gnutls_x509_crt_sign2(id.crt, by->crt, by->key, GNUTLS_DIG_SHA256, 0));
	return id;
}

static void free_identity(struct identity *id)
{
	gnutls_x509_crt_deinit(id->crt);
	gnutls_x509_privkey_deinit(id->key);
}

static void write_text(const char *name, const void *text, size_t n)
{
	FILE *f = fopen(path_of(name), "we");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, n, f), n);
	fclose(f);
	chmod(path_of(name), 0600);
}

static void write_cert(const char *name, const struct identity *id)
{
	gnutls_datum_t pem;

	must(gnutls_x509_crt_export2(id->crt, GNUTLS_X509_FMT_PEM, &pem));
	write_text(name, pem.data, pem.size);
	gnutls_free(pem.data);
}

static void write_key(const char *name, const struct identity *id)
{
	gnutls_datum_t pem;

	must(gnutls_x509_privkey_export2(id->key, GNUTLS_X509_FMT_PEM, &pem));
	write_text(name, pem.data, pem.size);
	gnutls_free(pem.data);
}

static void write_server(uint8_t serial)
{
	struct identity id =
		make_identity(&authority, "server", 6, GNUTLS_KP_TLS_WWW_SERVER, serial);

	write_cert("cert", &id);
	write_key("key", &id);
	free_identity(&id);
}

/* --- the server ----------------------------------------------------------------------------------
 */

static void start(bool with_client_ca, const char *token_file)
{
	static char cert[128], key[128], ca[128], tokens[128];
	const struct tls_config files = {
		.cert = cert, .key = key, .client_ca = with_client_ca ? ca : NULL};
	const struct auth_config who = {.store = api_fake_store,
					.token_file = token_file ? tokens : NULL};
	const char *listen[] = {"https:127.0.0.1:0"};
	const struct http_config config = {.n = 1, .listen = listen, .has_tls = true};
	struct error err;

	snprintf(cert, sizeof(cert), "%s/cert", dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	snprintf(ca, sizeof(ca), "%s/ca", dir);
	snprintf(tokens, sizeof(tokens), "%s/tokens", dir);
	if (token_file)
		write_text("tokens", token_file, strlen(token_file));
	ck_assert_msg(auth_new(&who, &api.auth, &err) == 0, "%s", err.message);
	ck_assert_msg(tls_new(&files, &tls, &err) == 0, "%s", err.message);
	ck_assert_msg(http_open(&config, &server, &err) == 0, "%s", err.message);
	ck_assert_msg(http_start(server, &api, &err) == 0, "%s", err.message);
	ck_assert_str_eq(http_listener_kind(server, 0), " (TLS)");
}

static void set_up(void)
{
	signal(SIGPIPE, SIG_IGN);
	memset(&api_fake, 0, sizeof(api_fake));
	api_fake_context(&api);
	snprintf(dir, sizeof(dir), "/tmp/test_tls.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	authority = make_identity(NULL, "authority", 9, NULL, 1);
	stranger = make_identity(NULL, "authority", 9, NULL, 1);
	write_cert("ca", &authority);
	write_server(10);
}

static void tear_down(void)
{
	static const char *const names[] = {"ca", "cert", "key", "tokens"};

	http_close(server);
	tls_free(tls);
	auth_free(api.auth);
	server = NULL;
	tls = NULL;
	free_identity(&authority);
	free_identity(&stranger);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unlink(path_of(names[i]));
	rmdir(dir);
}

/* --- a client ------------------------------------------------------------------------------------
 */

struct client {
	int fd;
	gnutls_certificate_credentials_t cred;
	gnutls_session_t session;
	bool open;
};

static bool open_client(struct client *c, const struct identity *id, const char *priority)
{
	struct timeval limit = {.tv_sec = 10};

	*c = (struct client){.fd = http_connect(http_listener_text(server, 0))};
	ck_assert_int_ge(c->fd, 0);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	must(gnutls_certificate_allocate_credentials(&c->cred));
	must(gnutls_certificate_set_x509_trust(c->cred, &authority.crt, 1));
	if (id)
		must(gnutls_certificate_set_x509_key(c->cred, (gnutls_x509_crt_t *)&id->crt, 1,
						     id->key));
	must(gnutls_init(&c->session, GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT));
	must(gnutls_priority_set_direct(c->session, priority, NULL));
	must(gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->cred));
	gnutls_session_set_verify_cert(c->session, "localhost", 0);
	gnutls_transport_set_int(c->session, c->fd);
	int rc;
	do
		rc = gnutls_handshake(c->session);
	while (rc < 0 && !gnutls_error_is_fatal(rc));
	c->open = rc >= 0;
	return c->open;
}

static void close_client(struct client *c)
{
	gnutls_deinit(c->session);
	gnutls_certificate_free_credentials(c->cred);
	close(c->fd);
}

/* The status of an answer; 0 if none comes. */
static int ask(struct client *c, const char *target)
{
	char text[4096];
	size_t have = 0;
	int status = 0;

	int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
	if (gnutls_record_send(c->session, text, (size_t)n) != n)
		return 0;
	/* All of the answer, so that another can follow. */
	while (have < sizeof(text) - 1) {
		ssize_t got = gnutls_record_recv(c->session, text + have, sizeof(text) - 1 - have);
		if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)
			continue;
		if (got <= 0)
			return 0;
		have += (size_t)got;
		text[have] = '\0';
		char *length = strstr(text, "Content-Length: ");
		char *body = strstr(text, "\r\n\r\n");
		if (length && body &&
		    have >= (size_t)(body + 4 - text) + strtoul(length + 16, NULL, 10))
			break;
	}
	return sscanf(text, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

/* One request over a connection of its own; 0: refused. */
static int status_for(const struct identity *id, const char *target)
{
	struct client c;

	int status = open_client(&c, id, "NORMAL") ? ask(&c, target) : 0;
	close_client(&c);
	return status;
}

static int serial_of(struct client *c)
{
	unsigned n;
	const gnutls_datum_t *der = gnutls_certificate_get_peers(c->session, &n);
	gnutls_x509_crt_t crt;
	uint8_t serial[20];
	size_t len = sizeof(serial);

	must(gnutls_x509_crt_init(&crt));
	must(gnutls_x509_crt_import(crt, der, GNUTLS_X509_FMT_DER));
	must(gnutls_x509_crt_get_serial(crt, serial, &len));
	gnutls_x509_crt_deinit(crt);
	return serial[len - 1];
}

/* --- tests ---------------------------------------------------------------------------------------
 */

START_TEST(versions)
{
	struct client c;

	start(false, NULL);
	ck_assert_int_eq(status_for(NULL, "/livez"), 200);
	ck_assert_int_eq(status_for(NULL, "/v1/vips"), 200);
	ck_assert(open_client(&c, NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.2"));
	ck_assert_int_eq(ask(&c, "/livez"), 200);
	close_client(&c);
	ck_assert(!open_client(&c, NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.1:%COMPAT"));
	close_client(&c);
}
END_TEST

START_TEST(clear_text_gets_nothing)
{
	static const char text[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char answer[512] = "";

	start(false, NULL);
	int fd = http_connect(http_listener_text(server, 0));
	struct timeval limit = {.tv_sec = 30};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	http_send(fd, text, sizeof(text) - 1);
	ssize_t n = recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL);
	ck_assert(n < 0 || !memmem(answer, (size_t)n, "HTTP", 4));
	close(fd);
}
END_TEST

START_TEST(files_are_read_again)
{
	struct client before, after;
	struct error err;

	start(false, NULL);
	ck_assert(open_client(&before, NULL, "NORMAL"));
	ck_assert_int_eq(serial_of(&before), 10);
	ck_assert_int_eq(ask(&before, "/livez"), 200);
	write_server(11);
	ck_assert_msg(tls_reload(tls, &err) == 0, "%s", err.message);
	ck_assert(open_client(&after, NULL, "NORMAL"));
	ck_assert_int_eq(serial_of(&after), 11);
	ck_assert_int_eq(ask(&after, "/livez"), 200);
	ck_assert_int_eq(ask(&before, "/livez"), 200); /* the old one goes on */
	close_client(&before);
	close_client(&after);
}
END_TEST

static const struct {
	const char *file;
	const char *text; /* NULL: remove it */
	const char *says;
} bad_files[] = {
	{"cert", NULL, "--tls-cert"},	       {"cert", "", "--tls-cert"},
	{"cert", "nonsense", "--tls-cert"},    {"key", NULL, "--tls-key"},
	{"key", "nonsense", "--tls-key"},      {"ca", NULL, "--tls-client-ca"},
	{"ca", "nonsense", "--tls-client-ca"},
};

START_TEST(bad_files_change_nothing)
{
	struct identity client = make_identity(&authority, "c", 1, GNUTLS_KP_TLS_WWW_CLIENT, 5);
	struct error err;

	start(true, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		if (bad_files[i].text)
			write_text(bad_files[i].file, bad_files[i].text, strlen(bad_files[i].text));
		else
			unlink(path_of(bad_files[i].file));
		ck_assert_int_eq(tls_reload(tls, &err), -EINVAL);
		ck_assert_msg(strstr(err.message, bad_files[i].says) != NULL, "%s", err.message);
		ck_assert_int_eq(status_for(&client, "/livez"), 200);
		write_cert("ca", &authority);
		write_server(10);
	}
	write_key("key", &client); /* that of another certificate */
	ck_assert_int_eq(tls_reload(tls, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.message, "not the key of"));
	ck_assert_int_eq(status_for(&client, "/livez"), 200);
	free_identity(&client);
}
END_TEST

START_TEST(clients_show_who_they_are)
{
	struct identity ops = make_identity(&authority, "ops", 3, GNUTLS_KP_TLS_WWW_CLIENT, 2);
	struct identity any = make_identity(&authority, "nobody", 6, NULL, 3);
	struct identity nul = make_identity(&authority, "ops\0x", 5, NULL, 4);
	struct identity wrong = make_identity(&authority, "ops", 3, GNUTLS_KP_TLS_WWW_SERVER, 5);
	struct identity foreign = make_identity(&stranger, "ops", 3, GNUTLS_KP_TLS_WWW_CLIENT, 6);
	struct identity own = make_identity(NULL, "ops", 3, NULL, 7);
	struct error err;

	start(true, "operate ops cert:ops\nread names cert:localhost\n");
	ck_assert_int_eq(status_for(&ops, "/v1/vips"), 200);
	ck_assert_int_eq(status_for(&ops, "/v1/tokens"), 403);
	ck_assert_int_eq(status_for(&any, "/livez"), 200);
	ck_assert_int_eq(status_for(&any, "/v1/vips"), 401);
	ck_assert_int_eq(status_for(&nul, "/v1/vips"), 401);
	ck_assert_int_eq(status_for(NULL, "/livez"), 0);
	ck_assert_int_eq(status_for(&wrong, "/livez"), 0);
	ck_assert_int_eq(status_for(&foreign, "/livez"), 0);
	ck_assert_int_eq(status_for(&own, "/livez"), 0);

	/* Another authority from now on. */
	write_cert("ca", &stranger);
	ck_assert_msg(tls_reload(tls, &err) == 0, "%s", err.message);
	ck_assert_int_eq(status_for(&foreign, "/v1/vips"), 200);
	ck_assert_int_eq(status_for(&ops, "/v1/vips"), 0);
	free_identity(&ops);
	free_identity(&any);
	free_identity(&nul);
	free_identity(&wrong);
	free_identity(&foreign);
	free_identity(&own);
}
END_TEST

/* Alternative names count too. */
START_TEST(alternative_names)
{
	struct identity server_too = make_identity(&authority, "server", 6, NULL, 8);

	start(true, "read names cert:localhost\n");
	ck_assert_int_eq(status_for(&server_too, "/v1/vips"), 200);
	free_identity(&server_too);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tls");
	TCase *tc = tcase_create("tls");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, versions);
	tcase_add_test(tc, clear_text_gets_nothing);
	tcase_add_test(tc, files_are_read_again);
	tcase_add_test(tc, bad_files_change_nothing);
	tcase_add_test(tc, clients_show_who_they_are);
	tcase_add_test(tc, alternative_names);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
