/* The library asks for a certificate at each handshake, and gets copies that are its own: so files
 * that are read again touch no connection. The client's certificate is verified here, within the
 * handshake, and not by the library's list of authorities, which could not be changed later. The
 * names of those authorities are not sent: a client would believe the list of the day when the
 * server was started. */
#include "api/server/tls.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

#define CHAIN_MAX 16u

const char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

/* What was read at one time. */
struct material {
	unsigned n_chain;
	gnutls_x509_crt_t *chain;
	gnutls_x509_privkey_t key;
	gnutls_x509_trust_list_t clients; /* NULL = no certificate is asked for */
};

struct tls {
	struct tls_config files;
	pthread_rwlock_t lock; /* of what follows */
	struct material now;
};

/* The library's functions are called without an argument of ours. */
static struct tls *the_tls;

/* --- reading -------------------------------------------------------------------------------------
 */

static void material_free(struct material *m)
{
	for (unsigned i = 0; i < m->n_chain; i++)
		gnutls_x509_crt_deinit(m->chain[i]);
	gnutls_free(m->chain);
	if (m->key)
		gnutls_x509_privkey_deinit(m->key);
	if (m->clients)
		gnutls_x509_trust_list_deinit(m->clients, 1);
	*m = (struct material){.n_chain = 0};
}

static int load(const char *option, const char *path, gnutls_datum_t *out, struct error *err)
{
	int rc = gnutls_load_file(path, out);

	return rc < 0 ? error_set(err, -EINVAL, "--%s %s: %s", option, path,
				  errno ? strerror(errno) : gnutls_strerror(rc))
		      : 0;
}

static void unload(gnutls_datum_t *d)
{
	if (d->data)
		gnutls_memset(d->data, 0, d->size);
	gnutls_free(d->data);
	d->data = NULL;
}

static int read_chain(const char *path, struct material *m, struct error *err)
{
	gnutls_datum_t pem;

	errno = 0;
	int rc = load("tls-cert", path, &pem, err);
	if (rc)
		return rc;
	int got = gnutls_x509_crt_list_import2(&m->chain, &m->n_chain, &pem, GNUTLS_X509_FMT_PEM,
					       GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
	unload(&pem);
	if (got < 0) {
		m->n_chain = 0;
		return error_set(err, -EINVAL, "--tls-cert %s: %s", path, gnutls_strerror(got));
	}
	if (!m->n_chain || m->n_chain > CHAIN_MAX)
		return error_set(err, -EINVAL, "--tls-cert %s: 1 to %u certificates are needed",
				 path, CHAIN_MAX);
	return 0;
}

static int read_key(const char *path, struct material *m, struct error *err)
{
	gnutls_datum_t pem;

	errno = 0;
	int rc = load("tls-key", path, &pem, err);
	if (rc)
		return rc;
	rc = gnutls_x509_privkey_init(&m->key);
	if (rc >= 0)
		rc = gnutls_x509_privkey_import(m->key, &pem, GNUTLS_X509_FMT_PEM);
	unload(&pem);
	return rc < 0 ? error_set(err, -EINVAL, "--tls-key %s: %s", path, gnutls_strerror(rc)) : 0;
}

static int check_pair(const struct tls_config *files, const struct material *m, struct error *err)
{
	uint8_t cert_id[64], key_id[64];
	size_t cert_len = sizeof(cert_id), key_len = sizeof(key_id);

	if (gnutls_x509_crt_get_key_id(m->chain[0], GNUTLS_KEYID_USE_SHA256, cert_id, &cert_len) ||
	    gnutls_x509_privkey_get_key_id(m->key, GNUTLS_KEYID_USE_SHA256, key_id, &key_len) ||
	    cert_len != key_len || memcmp(cert_id, key_id, key_len) != 0)
		return error_set(err, -EINVAL, "--tls-key %s: not the key of %s", files->key,
				 files->cert);
	if (gnutls_x509_crt_get_expiration_time(m->chain[0]) < clock_wall_s())
		log_warning("tls", "%s has expired", files->cert);
	return 0;
}

static int read_authorities(const char *path, struct material *m, struct error *err)
{
	gnutls_datum_t pem;

	errno = 0;
	int rc = load("tls-client-ca", path, &pem, err);
	if (rc)
		return rc;
	rc = gnutls_x509_trust_list_init(&m->clients, 0);
	if (rc >= 0)
		rc = gnutls_x509_trust_list_add_trust_mem(m->clients, &pem, NULL,
							  GNUTLS_X509_FMT_PEM, 0, 0);
	unload(&pem);
	if (rc > 0)
		return 0;
	return error_set(err, -EINVAL, "--tls-client-ca %s: %s", path,
			 rc ? gnutls_strerror(rc) : "no certificate in it");
}

int tls_reload(struct tls *t, struct error *err)
{
	struct material m = {.n_chain = 0};
	int rc = read_chain(t->files.cert, &m, err);

	if (!rc)
		rc = read_key(t->files.key, &m, err);
	if (!rc)
		rc = check_pair(&t->files, &m, err);
	if (!rc && t->files.client_ca)
		rc = read_authorities(t->files.client_ca, &m, err);
	if (!rc) {
		pthread_rwlock_wrlock(&t->lock);
		struct material old = t->now;
		t->now = m;
		m = old;
		pthread_rwlock_unlock(&t->lock);
	}
	material_free(&m);
	return rc;
}

int tls_new(const struct tls_config *c, struct tls **out, struct error *err)
{
	struct tls *t = calloc(1, sizeof(*t));

	assert(!the_tls);
	if (!t)
		return error_set(err, -ENOMEM, "tls: no memory");
	t->files = *c;
	pthread_rwlock_init(&t->lock, NULL);
	int rc = tls_reload(t, err);
	if (rc) {
		tls_free(t);
		return rc;
	}
	the_tls = t;
	*out = t;
	return 0;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	if (the_tls == t)
		the_tls = NULL;
	material_free(&t->now);
	pthread_rwlock_destroy(&t->lock);
	free(t);
}

/* --- handshakes ----------------------------------------------------------------------------------
 */

static int verify_chain(gnutls_x509_crt_t *chain, unsigned n)
{
	gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
					 .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
	unsigned status = GNUTLS_CERT_INVALID;

	pthread_rwlock_rdlock(&the_tls->lock);
	if (!the_tls->now.clients ||
	    gnutls_x509_trust_list_verify_crt2(the_tls->now.clients, chain, n, &purpose, 1, 0,
					       &status, NULL) < 0)
		status = GNUTLS_CERT_INVALID;
	pthread_rwlock_unlock(&the_tls->lock);
	return status ? GNUTLS_E_CERTIFICATE_ERROR : 0;
}

/* Called within the handshake; anything but 0 ends it. */
static int verify_client(gnutls_session_t session)
{
	gnutls_x509_crt_t chain[CHAIN_MAX];
	unsigned n = 0, n_read = 0;
	const gnutls_datum_t *der = gnutls_certificate_get_peers(session, &n);
	int rc = 0;

	if (!der || !n || n > CHAIN_MAX)
		return GNUTLS_E_CERTIFICATE_ERROR;
	for (; !rc && n_read < n; n_read++) {
		rc = gnutls_x509_crt_init(&chain[n_read]);
		if (rc)
			break;
		rc = gnutls_x509_crt_import(chain[n_read], &der[n_read], GNUTLS_X509_FMT_DER);
	}
	if (!rc)
		rc = verify_chain(chain, n);
	for (unsigned i = 0; i < n_read; i++)
		gnutls_x509_crt_deinit(chain[i]);
	return rc;
}

/* Copies of ours, for the library to free. Called with the lock. */
static int copy_material(const struct material *m, gnutls_pcert_st **certs, gnutls_privkey_t *key)
{
	unsigned n = m->n_chain;
	gnutls_pcert_st *list = gnutls_calloc(n, sizeof(*list));
	gnutls_privkey_t copy = NULL;

	if (!list)
		return GNUTLS_E_MEMORY_ERROR;
	int rc = gnutls_pcert_import_x509_list(list, m->chain, &n, 0);
	if (rc < 0) {
		gnutls_free(list);
		return rc;
	}
	rc = gnutls_privkey_init(&copy);
	if (rc >= 0)
		rc = gnutls_privkey_import_x509(copy, m->key, GNUTLS_PRIVKEY_IMPORT_COPY);
	if (rc < 0) {
		for (unsigned i = 0; i < n; i++)
			gnutls_pcert_deinit(&list[i]);
		gnutls_free(list);
		if (copy)
			gnutls_privkey_deinit(copy);
		return rc;
	}
	*certs = list;
	*key = copy;
	return 0;
}

int tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
		 gnutls_pcert_st **certs, unsigned *n_certs, gnutls_ocsp_data_st **ocsp,
		 unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
	struct tls *t = the_tls;

	(void)info;
	pthread_rwlock_rdlock(&t->lock);
	bool asks = t->now.clients != NULL;
	int rc = copy_material(&t->now, certs, key);
	*n_certs = t->now.n_chain;
	pthread_rwlock_unlock(&t->lock);
	if (rc)
		return rc;
	*ocsp = NULL;
	*n_ocsp = 0;
	*flags = GNUTLS_CERT_RETR_DEINIT_ALL;
	if (asks) {
		gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
		gnutls_session_set_verify_function(session, verify_client);
	}
	return 0;
}

/* --- names ---------------------------------------------------------------------------------------
 */

/* A name with a NUL in it, or too long a one, is nobody's. */
static void add_name(struct cert_names *out, const char *text, size_t len)
{
	if (out->n == CERT_NAMES_MAX || !len || len >= CERT_NAME_LEN || memchr(text, 0, len))
		return;
	memcpy(out->list[out->n], text, len);
	out->list[out->n++][len] = '\0';
}

static void read_names(gnutls_x509_crt_t crt, struct cert_names *out)
{
	char text[CERT_NAME_LEN];
	size_t len = sizeof(text);

	if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, text, &len) == 0)
		add_name(out, text, len);
	for (unsigned i = 0; out->n < CERT_NAMES_MAX; i++) {
		len = sizeof(text);
		int type = gnutls_x509_crt_get_subject_alt_name(crt, i, text, &len, NULL);
		if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			break;
		if (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_RFC822NAME ||
		    type == GNUTLS_SAN_URI)
			add_name(out, text, len);
	}
}

void tls_peer_names(gnutls_session_t session, struct cert_names *out)
{
	unsigned n = 0;
	const gnutls_datum_t *der = gnutls_certificate_get_peers(session, &n);
	gnutls_x509_crt_t crt;

	out->n = 0;
	if (!der || !n || gnutls_x509_crt_init(&crt))
		return;
	if (gnutls_x509_crt_import(crt, &der[0], GNUTLS_X509_FMT_DER) == 0)
		read_names(crt, out);
	gnutls_x509_crt_deinit(crt);
}
