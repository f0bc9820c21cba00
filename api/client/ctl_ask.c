/* Questions: to the API, and to the person at the terminal. */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "api/client/ctl.h"
#include "api/client/ctl_problem.h"

int ctl_complain(int code, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("concuryctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

static const char *where(const struct ctl *c)
{
	return c->target.unix_path ? c->target.unix_path : c->target.base;
}

int ctl_tell(const struct ctl *c, const struct ctl_answer *a)
{
	fflush(c->out);
	return ctl_problem_print(a, where(c), stderr);
}

int ctl_ask(struct ctl *c, const struct ctl_request *r, struct ctl_answer *out)
{
	*out = (struct ctl_answer){.status = 0};
	if (r->path->bad)
		return ctl_complain(CTL_USAGE, "an argument is too long, or not an id");
	ctl_http_ask(c->http, r, out);
	return ctl_tell(c, out);
}

int ctl_get(struct ctl *c, const struct ctl_path *path, struct ctl_answer *out)
{
	int rc = ctl_ask(c, &(struct ctl_request){.method = "GET", .path = path}, out);

	if (!rc && !out->json)
		rc = ctl_complain(CTL_FAILED, "%s: the answer is not JSON", where(c));
	return rc;
}

void ctl_print_raw(struct ctl *c, const struct ctl_answer *a)
{
	fwrite(a->body, 1, a->len, c->out);
	if (a->len && a->body[a->len - 1] != '\n')
		fputc('\n', c->out);
}

int ctl_show(struct ctl *c, const struct ctl_path *path,
	     void (*print)(struct ctl *c, const json_t *json))
{
	struct ctl_answer a;
	int rc = ctl_get(c, path, &a);

	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc)
		print(c, a.json);
	ctl_answer_free(&a);
	return rc;
}

int ctl_confirm(const struct ctl *c, const char *fmt, ...)
{
	char line[64];
	va_list ap;

	if (c->yes)
		return CTL_OK;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return ctl_complain(CTL_USAGE, "--yes is needed where nobody can be asked");
	fflush(c->out);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" [y/N] ", stderr);
	if (!fgets(line, sizeof(line), stdin) ||
	    (strcmp(line, "y\n") != 0 && strcmp(line, "Y\n") != 0 && strcmp(line, "yes\n") != 0))
		return ctl_complain(CTL_FAILED, "nothing was changed");
	return CTL_OK;
}
