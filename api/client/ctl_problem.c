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

/* The one fault that there is: what is said of it already. */
static bool says_all(const char *detail, const char *where, const char *fault)
{
	size_t n = strlen(where);

	return !strncmp(detail, where, n) &&
	       !strncmp(detail + n, *where ? ": " : "", *where ? 2 : 0) &&
	       !strcmp(detail + n + (*where ? 2 : 0), fault);
}

static void print_faults(const json_t *errors, const char *detail, FILE *out)
{
	char fault[1024], where[256];
	const json_t *e;
	size_t i;

	json_array_foreach(errors, i, e)
	{
		if (!*text_of(e, "pointer", where, sizeof(where)))
			text_of(e, "parameter", where, sizeof(where));
		text_of(e, "detail", fault, sizeof(fault));
		if (json_array_size(errors) > 1 || !says_all(detail, where, fault))
			fprintf(out, "  %s%s%s\n", where, *where ? ": " : "", fault);
	}
}

int ctl_problem_print(const struct ctl_answer *a, const char *url, FILE *out)
{
	char detail[1024];
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
	print_faults(json_object_get(a->json, "errors"), detail, out);
	if (a->status == 401)
		fputs("  concuryctl takes it from CONCURY_TOKEN, or --token\n", out);
	return code;
}
