/* The text is put together piece by piece, not as one document: there may be a hundred thousand
 * edits, and the control thread waits. */
#include "api/server/scribe.h"

#include <stdlib.h>

#include "api/server/codec.h"

static void append(struct scribe *s, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (s->failed || !text) {
		s->failed = true;
		return;
	}
	if (s->len + n + 1 > s->capacity) {
		size_t capacity = (s->len + n + 1) * 2;
		char *grown = realloc(s->text, capacity);
		if (!grown) {
			s->failed = true;
			return;
		}
		s->text = grown;
		s->capacity = capacity;
	}
	memcpy(s->text + s->len, text, n + 1);
	s->len += n;
}

static void append_vip(struct scribe *s, const char *name, const struct vip_conf *c)
{
	json_t *body = c ? codec_print_vip_conf(c) : json_null();
	char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(body);
	append(s, name);
	append(s, text);
	free(text);
}

static void append_dip(struct scribe *s, const char *name, const struct dip_conf *c)
{
	char text[CODEC_DIP_TEXT] = "null";

	if (c)
		codec_text_dip_conf(c, text);
	append(s, name);
	append(s, text);
}

void scribe_free(struct scribe *s)
{
	free(s->text);
	*s = (struct scribe){.text = NULL};
}

void scribe_begin(struct scribe *s)
{
	s->len = 0;
	s->n = 0;
	s->failed = false;
}

/* Ids need no escapes. */
void scribe_edited(struct scribe *s, const struct control_seen *seen)
{
	append(s, s->n++ ? ",{\"path\":\"/v1/vips/" : "[{\"path\":\"/v1/vips/");
	append(s, seen->vip);
	if (seen->dip) {
		append(s, "/dips/");
		append(s, seen->dip);
		append_dip(s, "\",\"before\":", seen->dip_before);
		append_dip(s, ",\"after\":", seen->dip_after);
	} else {
		append_vip(s, "\",\"before\":", seen->vip_before);
		append_vip(s, ",\"after\":", seen->vip_after);
	}
	append(s, seen->draining ? ",\"draining\":true}" : "}");
}

const char *scribe_text(struct scribe *s, unsigned *n_edits)
{
	*n_edits = s->n;
	append(s, s->n ? "]" : "[]");
	return s->failed ? NULL : s->text;
}
