/* concuryctl doctor: what the machine of the forwarder lacks, and the command that mends each
 * thing. */
#include <string.h>

#include "api/client/ctl_commands.h"
#include "api/client/ctl_table.h"

static void print_line(struct ctl *c, const char *before, const char *text)
{
	fputs(before, c->out);
	for (; *text; text++)
		fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, c->out);
	fputc('\n', c->out);
}

/* As --check prints it. */
static void print_findings(struct ctl *c, const json_t *json)
{
	const json_t *f;
	size_t i;

	json_array_foreach(json_object_get(json, "items"), i, f)
	{
		const char *rank = ctl_text(f, "rank");
		const char *command = json_string_value(json_object_get(f, "command"));
		const char *colour = !strcmp(rank, "blocks") ? "\033[31m"
				     : !strcmp(rank, "note") ? "\033[33m"
							     : "\033[32m";
		char head[32];
		snprintf(head, sizeof(head), "%s%-7.7s%s ", c->colour ? colour : "", rank,
			 c->colour ? "\033[0m" : "");
		print_line(c, head, ctl_text(f, "text"));
		if (command)
			print_line(c, "        mend: ", command);
	}
	fprintf(c->out, "%lld blocking, %lld to note\n",
		json_integer_value(json_object_get(json, "blocking")),
		json_integer_value(json_object_get(json, "to_note")));
}

int ctl_doctor(struct ctl *c, const struct ctl_call *call)
{
	struct ctl_path path;
	struct ctl_answer a;

	(void)call;
	ctl_path_set(&path, "/v1/doctor");
	int rc = ctl_get(c, &path, &a);
	if (!rc && c->json)
		ctl_print_raw(c, &a);
	else if (!rc)
		print_findings(c, a.json);
	if (!rc && json_integer_value(json_object_get(a.json, "blocking")))
		rc = CTL_FAULTY;
	if (rc == CTL_UNREACHABLE)
		fputs("  On its machine, ask the program itself what keeps it from starting:\n"
		      "  concuryd --check --interface IF\n",
		      stderr);
	ctl_answer_free(&a);
	return rc;
}
