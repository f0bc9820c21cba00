/* A DIP's desired state as text: what json_dumps (JSON_COMPACT) makes of codec_print_dip_conf,
 * without the tree. A document of a hundred thousand DIPs is written twice while the control thread
 * waits: for the change log, and for its ETag. No text of a DIP needs an escape. */
#include <assert.h>
#include <stdio.h>

#include "api/server/codec.h"
#include "api/server/codec_fields.h"

static size_t put(char *to, const char *text)
{
	size_t n = strlen(text);

	memcpy(to, text, n + 1);
	return n;
}

static size_t put_quoted(char *to, const char *text)
{
	size_t n = put(to + 1, text);

	to[0] = to[n + 1] = '"';
	to[n + 2] = '\0';
	return n + 2;
}

static size_t put_number(char *to, uint32_t number)
{
	char digits[16], *d = &digits[sizeof(digits) - 1];

	*d = '\0';
	do
		*--d = (char)('0' + number % 10);
	while (number /= 10);
	return put(to, d);
}

static size_t put_u32(const struct field *f, char *to, const char *at)
{
	uint32_t number;

	memcpy(&number, at, sizeof(number));
	return f->kind == K_PORT && !number ? put(to, "null") : put_number(to, number);
}

static size_t put_address(char *to, const char *at)
{
	struct ip_addr a;
	char text[IP_ADDR_STRLEN];

	memcpy(&a, at, sizeof(a));
	return put_quoted(to, ip_addr_format(&a, text));
}

static size_t put_word(const struct field *f, char *to, const char *at)
{
	int word;

	memcpy(&word, at, sizeof(word));
	return put_quoted(to, f->words[word]);
}

static size_t put_value(const struct field *f, char *to, const struct dip_conf *c)
{
	const char *at = (const char *)c + (f->offset - offsetof(struct dip_info, conf));
	char text[SERVER_ID_STRLEN > MAC_STRLEN ? SERVER_ID_STRLEN : MAC_STRLEN];

	switch (f->kind) {
	case K_ID:
		return put_quoted(to, at);
	case K_ADDRESS:
		return put_address(to, at);
	case K_WORD:
		return put_word(f, to, at);
	case K_MAC:
		return c->has_mac ? put_quoted(to, mac_format(c->mac, text)) : put(to, "null");
	case K_SERVER_ID:
		return c->server_id_len ? put_quoted(to, dip_conf_format_server_id(c, text))
					: put(to, "null");
	default:
		assert(f->kind == K_U32 || f->kind == K_PORT);
		return put_u32(f, to, at);
	}
}

size_t codec_text_dip_conf(const struct dip_conf *c, char out[CODEC_DIP_TEXT])
{
	size_t n = 0;

	for (const struct field *f = dip_fields; f->name; f++) {
		if (f->kind != K_ID && !f->member)
			continue;
		n += put(out + n, n ? "," : "{");
		n += put_quoted(out + n, f->name);
		n += put(out + n, ":");
		n += put_value(f, out + n, c);
		assert(n + 128 <= CODEC_DIP_TEXT);
	}
	n += put(out + n, "}");
	return n;
}
