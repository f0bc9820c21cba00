#include "api/server/etag.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/codec.h"

#define DIGEST_LEN 32 /* of which half is shown: chance does not make two states meet */

/* What is hashed of a resource is its canonical JSON, so that a new member needs nothing here; kind
 * and state set apart what would else read the same. */
static void add(struct etag *e, const char *kind, const char *text, bool deleting)
{
	e->failed |= !text;
	if (!e->failed) {
		e->failed |= gnutls_hash(e->hash, kind, strlen(kind)) < 0;
		e->failed |= gnutls_hash(e->hash, text, strlen(text)) < 0;
		e->failed |= gnutls_hash(e->hash, deleting ? "-\n" : "+\n", 2) < 0;
	}
}

void etag_begin(struct etag *e)
{
	e->failed = gnutls_hash_init(&e->hash, GNUTLS_DIG_SHA256) < 0;
	if (e->failed)
		e->hash = NULL;
}

void etag_add_vip(struct etag *e, const struct vip_conf *c, bool deleting)
{
	json_t *body = codec_print_vip_conf(c);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	add(e, "vip", text, deleting);
	free(text);
}

void etag_add_dip(struct etag *e, const struct dip_conf *c, bool deleting)
{
	char text[CODEC_DIP_TEXT];

	codec_text_dip_conf(c, text);
	add(e, "dip", text, deleting);
}

void etag_add_bytes(struct etag *e, const void *data, size_t n)
{
	e->failed = e->failed || gnutls_hash(e->hash, data, n) < 0;
}

bool etag_end(struct etag *e, char out[ETAG_LEN])
{
	uint8_t digest[DIGEST_LEN] = {0};
	size_t n = 0;

	if (e->hash)
		gnutls_hash_deinit(e->hash, digest);
	if (e->failed)
		return false;
	out[n++] = '"';
	for (int i = 0; i < DIGEST_LEN / 2; i++)
		n += (size_t)snprintf(out + n, ETAG_LEN - n, "%02x", digest[i]);
	out[n++] = '"';
	out[n] = '\0';
	return true;
}

bool etag_of_vip(const struct vip_conf *c, bool deleting, char out[ETAG_LEN])
{
	struct etag e;

	etag_begin(&e);
	etag_add_vip(&e, c, deleting);
	return etag_end(&e, out);
}

bool etag_of_dip(const struct dip_conf *c, bool deleting, char out[ETAG_LEN])
{
	struct etag e;

	etag_begin(&e);
	etag_add_dip(&e, c, deleting);
	return etag_end(&e, out);
}

bool etag_of_view(struct control_view *view, char out[ETAG_LEN])
{
	struct control_view_vip v;
	struct etag e;
	bool deleting;

	etag_begin(&e);
	for (unsigned i = 0; control_view_vip(view, i, &v); i++) {
		etag_add_vip(&e, v.conf, v.deleting);
		for (unsigned k = 0; k < v.n_dips; k++) {
			const struct dip_conf *d = control_view_dip(&v, k, &deleting);
			etag_add_dip(&e, d, deleting);
		}
	}
	e.failed |= control_view_failed(view);
	return etag_end(&e, out);
}

/* --- lists of them ------------------------------------------------------------------------- */

/* One entity tag: its end, or NULL if there is none. (RFC 9110 8.8.3) */
static const char *skip_tag(const char *at, const char **quoted, bool *weak)
{
	*weak = !strncmp(at, "W/", 2);
	if (*weak)
		at += 2;
	if (*at != '"')
		return NULL;
	*quoted = at++;
	while (*at && *at != '"' && *at != ' ' && (unsigned char)*at >= 0x21 && *at != 0x7f)
		at++;
	return *at == '"' ? at + 1 : NULL;
}

/* To the next tag of a list. Elements may be empty, but are set apart by commas. (RFC 9110 5.6.1)
 */
static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t,");
}

static bool element_ends(const char *at)
{
	at += strspn(at, " \t");
	return *at == '\0' || *at == ',';
}

bool etag_list_valid(const char *list)
{
	const char *at = skip_blanks(list), *quoted;
	unsigned n = 0;
	bool weak;

	if (!strcmp(list, "*"))
		return true;
	while (*at) {
		at = skip_tag(at, &quoted, &weak);
		if (!at || !element_ends(at))
			return false;
		at = skip_blanks(at);
		n++;
	}
	return n != 0;
}

bool etag_list_has(const char *list, const char *tag, bool weak)
{
	const char *at = skip_blanks(list), *quoted, *end;
	bool is_weak;

	if (!*tag)
		return false;
	if (!strcmp(list, "*"))
		return true;
	while (*at && (end = skip_tag(at, &quoted, &is_weak))) {
		size_t len = (size_t)(end - quoted);
		if ((weak || !is_weak) && len == strlen(tag) && !memcmp(quoted, tag, len))
			return true;
		at = skip_blanks(end);
	}
	return false;
}
