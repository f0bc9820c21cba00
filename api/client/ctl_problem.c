#include "api/client/ctl_problem.h"

#include <string.h>

#include "api/client/ctl.h"
#include "api/client/ctl_table.h"

int ctl_problem_exit(const struct ctl_answer *a)
{
	switch (a->status) {
	case 0:
	case 503:
		return CTL_UNREACHABLE;
	case 409:
	case 412:
	case 428:
		return CTL_CONFLICT;
	default:
		return a->status >= 200 && a->status < 300 ? CTL_OK : CTL_FAILED;
	}
}

/* A member of the document, safe for a terminal; "" if it is no string. */
static const char *text_of(const json_t *object, const char *name, char *buf, size_t size)
{
	const char *text = json_string_value(json_object_get(object, name));

	snprintf(buf, size, "%s", text ? text : "");
	ctl_clean(buf);
	return buf;
}

int ctl_problem_print(const struct ctl_answer *a, const char *url, FILE *out)
{
	char detail[1024], where[256];
	const json_t *e;
	size_t i;
	int code = ctl_problem_exit(a);

	if (code == CTL_OK)
		return code;
	if (!a->status) {
		fprintf(out, "concuryctl: %s: %s\n", url, a->error);
		return code;
	}
	if (!*text_of(a->json, "detail", detail, sizeof(detail)))
		text_of(a->json, "title", detail, sizeof(detail));
	fprintf(out, "concuryctl: HTTP %ld: %s\n", a->status,
		*detail ? detail : "(it does not say why; is this concuryd?)");
	json_array_foreach(json_object_get(a->json, "errors"), i, e)
	{
		if (!*text_of(e, "pointer", where, sizeof(where)))
			text_of(e, "parameter", where, sizeof(where));
		fprintf(out, "  %s%s%s\n", where, *where ? ": " : "",
			text_of(e, "detail", detail, sizeof(detail)));
	}
	return code;
}
