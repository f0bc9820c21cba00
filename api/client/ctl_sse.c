#include "api/client/ctl_sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (64u << 10)
#define DATA_MAX_BYTES (256u << 10)
#define WORD_LEN 128u

struct ctl_sse {
	ctl_on_event on_event;
	void *ctx;
	size_t n_line;
	size_t n_data;
	bool has_data;
	bool after_cr;		/* a '\n' now belongs to the line's end before */
	bool begun;		/* the first line was seen: a byte order mark may stand before it */
	char id[WORD_LEN];	/* of the event that is being read */
	char last_id[WORD_LEN]; /* of the last one that was handed over */
	char kind[WORD_LEN];
	char line[LINE_MAX_BYTES + 1];
	char data[DATA_MAX_BYTES + 1];
};

struct ctl_sse *ctl_sse_new(ctl_on_event on_event, void *ctx)
{
	struct ctl_sse *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->on_event = on_event;
	s->ctx = ctx;
	return s;
}

void ctl_sse_free(struct ctl_sse *s)
{
	free(s);
}

void ctl_sse_restart(struct ctl_sse *s)
{
	s->n_line = s->n_data = 0;
	s->has_data = s->after_cr = s->begun = false;
	s->kind[0] = '\0';
	memcpy(s->id, s->last_id, sizeof(s->id));
}

const char *ctl_sse_last_id(const struct ctl_sse *s)
{
	return s->last_id;
}

static void set_word(char *word, const char *value)
{
	/* One that is too long is worth no more than none. */
	if (strlen(value) < WORD_LEN)
		memcpy(word, value, strlen(value) + 1);
}

static bool add_data(struct ctl_sse *s, const char *value)
{
	size_t len = strlen(value);

	if (s->n_data + len + 1 > DATA_MAX_BYTES)
		return false;
	if (s->has_data)
		s->data[s->n_data++] = '\n';
	memcpy(s->data + s->n_data, value, len);
	s->n_data += len;
	s->has_data = true;
	return true;
}

/* An empty line: the event is whole. */
static bool hand_over(struct ctl_sse *s)
{
	bool more = true;

	memcpy(s->last_id, s->id, sizeof(s->last_id));
	s->data[s->n_data] = '\0';
	if (s->has_data)
		more = s->on_event(s->ctx,
				   &(struct ctl_sse_event){.id = s->last_id,
							   .kind = s->kind[0] ? s->kind : "message",
							   .data = s->data});
	s->n_data = 0;
	s->has_data = false;
	s->kind[0] = '\0';
	return more;
}

static bool take_line(struct ctl_sse *s)
{
	char *line = s->line;

	line[s->n_line] = '\0';
	if (!s->begun && !strncmp(line, "\xef\xbb\xbf", 3))
		line += 3;
	s->begun = true;
	s->n_line = 0;
	if (!*line)
		return hand_over(s);
	char *value = strchr(line, ':');
	if (value == line)
		return true; /* a comment */
	if (value)
		*value++ = '\0';
	else
		value = line + strlen(line);
	value += *value == ' ';
	if (!strcmp(line, "data"))
		return add_data(s, value);
	if (!strcmp(line, "event"))
		set_word(s->kind, value);
	else if (!strcmp(line, "id"))
		set_word(s->id, value);
	return true;
}

bool ctl_sse_feed(struct ctl_sse *s, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = data[i];
		bool second = s->after_cr && c == '\n';
		s->after_cr = c == '\r';
		if (second)
			continue;
		if (c == '\n' || c == '\r') {
			if (!take_line(s))
				return false;
		} else if (s->n_line == LINE_MAX_BYTES) {
			return false;
		} else {
			s->line[s->n_line++] = c ? c : '?';
		}
	}
	return true;
}
