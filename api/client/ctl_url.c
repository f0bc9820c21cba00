#include "api/client/ctl_url.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define UNRESERVED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

int ctl_target_parse(const char *url, struct ctl_target *out, struct error *err)
{
	size_t len = strlen(url);

	if (!strncmp(url, "unix:", 5)) {
		/* "unix:///run/x" is often written too. */
		const char *path = url + 5 + (strncmp(url + 5, "///", 3) ? 0 : 2);
		if (*path != '/')
			return error_set(err, -EINVAL, "%s: unix:/PATH is needed", url);
		snprintf(out->base, sizeof(out->base), "http://localhost");
		out->unix_path = path;
		return 0;
	}
	size_t scheme = strncmp(url, "https://", 8) ? 7 : 8;
	if (scheme == 7 && strncmp(url, "http://", 7) != 0)
		return error_set(err, -EINVAL,
				 "%s: http://HOST[:PORT], https://HOST[:PORT] or unix:/PATH is "
				 "needed",
				 url);
	while (len > scheme && url[len - 1] == '/')
		len--;
	if (len == scheme || strcspn(url + scheme, "/?#@ ") < len - scheme)
		return error_set(err, -EINVAL, "%s: a host and port, and nothing more, is needed",
				 url);
	if (len >= sizeof(out->base))
		return error_set(err, -EINVAL, "%.64s...: too long", url);
	memcpy(out->base, url, len);
	out->base[len] = '\0';
	out->unix_path = NULL;
	return 0;
}

/* --- paths ---------------------------------------------------------------------------------------
 */

static void add(struct ctl_path *p, const char *text, size_t n)
{
	size_t len = strlen(p->text);

	if (p->bad || n >= sizeof(p->text) - len) {
		p->bad = true;
		return;
	}
	memcpy(p->text + len, text, n);
	p->text[len + n] = '\0';
}

static void add_encoded(struct ctl_path *p, const char *text)
{
	char code[4];

	for (; *text; text++) {
		if (strchr(UNRESERVED, *text)) {
			add(p, text, 1);
			continue;
		}
		snprintf(code, sizeof(code), "%%%02X", (unsigned)(unsigned char)*text);
		add(p, code, 3);
	}
}

void ctl_path_set(struct ctl_path *p, const char *pattern, ...)
{
	const char *hole;
	va_list ap;

	*p = (struct ctl_path){.bad = false};
	va_start(ap, pattern);
	for (; (hole = strstr(pattern, "%s")) != NULL; pattern = hole + 2) {
		add(p, pattern, (size_t)(hole - pattern));
		const char *id = va_arg(ap, const char *);
		/* Libraries and proxies resolve these, encoded or not. */
		if (!*id || !strcmp(id, ".") || !strcmp(id, ".."))
			p->bad = true;
		add_encoded(p, id);
	}
	va_end(ap);
	add(p, pattern, strlen(pattern));
}

void ctl_path_query(struct ctl_path *p, const char *name, const char *value)
{
	if (!value)
		return;
	add(p, p->has_query ? "&" : "?", 1);
	add_encoded(p, name);
	add(p, "=", 1);
	add_encoded(p, value);
	p->has_query = true;
}
