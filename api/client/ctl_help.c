#include "api/client/ctl_help.h"

#include <string.h>

#include "api/client/ctl_args.h"

#define TEXT_COLUMN 26u
#define LINE_END 98u

static const struct {
	int code;
	const char *when;
} exits[] = {
#define X(id, code, when) {code, when},
	CTL_EXITS(X)
#undef X
};

/* Words of a text from a column on, wrapped; `at` columns of the line are full. */
static void print_wrapped(FILE *out, unsigned at, unsigned column, const char *text)
{
	if (at + 1 >= column && at) {
		fputc('\n', out);
		at = 0;
	}
	fprintf(out, "%*s", (int)(column - at), "");
	at = column;
	for (bool first = true; *text; first = false) {
		size_t len = strcspn(text, " ");
		if (!first && at + 1 + len > LINE_END) {
			fprintf(out, "\n%*s", (int)column, "");
			at = column;
		} else if (!first) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)len, text);
		at += (unsigned)len;
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void print_option(FILE *out, const struct ctl_option *o)
{
	char letter[8] = "    ";
	char head[64];

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	int n = snprintf(head, sizeof(head), "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
			 o->value ? o->value : "");
	fputs(head, out);
	print_wrapped(out, (unsigned)n, TEXT_COLUMN, o->help);
}

static void print_line(FILE *out, const struct ctl_command *k)
{
	char head[128];
	int n = snprintf(head, sizeof(head), "  %s%s%s %s", k->group, *k->group ? " " : "", k->verb,
			 k->args);

	fputs(head, out);
	print_wrapped(out, (unsigned)n, 44, k->summary);
}

static void help_of_command(const struct ctl_command *k, FILE *out)
{
	fprintf(out, "usage: concuryctl %s%s%s%s%s [options]\n\n", k->group, *k->group ? " " : "",
		k->verb, *k->args ? " " : "", k->args);
	print_wrapped(out, 0, 0, k->summary);
	if (k->detail)
		print_wrapped(out, 0, 0, k->detail);
	if (*k->options)
		fputs("\n", out);
	for (unsigned i = OPT_HELP + 1; i < N_CTL_OPTIONS; i++)
		if (ctl_args_takes(k, (enum ctl_option_id)i))
			print_option(out, &ctl_options[i]);
	fputs("\nOptions of every command: concuryctl --help\n", out);
}

void ctl_help_print(const struct ctl_call *call, FILE *out)
{
	const char *group = call->n_args && !call->command ? call->args[0] : NULL;

	if (call->command) {
		help_of_command(call->command, out);
		return;
	}
	fprintf(out, "usage: concuryctl %s%sCOMMAND [ARGUMENT]... [options]\n\n",
		group ? group : "", group ? " " : "");
	for (size_t i = 0; i < ctl_n_commands; i++)
		if (!group || !strcmp(ctl_commands[i].group, group))
			print_line(out, &ctl_commands[i]);
	if (group)
		return;
	fputs("\nOptions of every command (more: concuryctl COMMAND --help):\n", out);
	for (unsigned i = 0; i <= OPT_HELP; i++)
		print_option(out, &ctl_options[i]);
	fputs("\nExit codes:\n", out);
	for (size_t i = 0; i < ARRAY_LEN(exits); i++) {
		fprintf(out, "  %d", exits[i].code);
		print_wrapped(out, 3, 5, exits[i].when);
	}
}

/* --- the man page --------------------------------------------------------------------------------
 */

/* Text as it stands, whatever troff would make of it. */
static void roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else
			fputc(*text, out);
	}
}

static void man_option(FILE *out, const struct ctl_option *o)
{
	fputs(".TP\n", out);
	if (o->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
	fputs("\\fB\\-\\-", out);
	roff(out, o->name);
	fputs("\\fR", out);
	if (o->value)
		fprintf(out, " \\fI%s\\fR", o->value);
	fputc('\n', out);
	roff(out, o->help);
	fputc('\n', out);
}

static void man_command(FILE *out, const struct ctl_command *k)
{
	fputs(".TP\n\\fB", out);
	roff(out, k->group);
	fputs(*k->group ? " " : "", out);
	roff(out, k->verb);
	fputs("\\fR", out);
	if (*k->args) {
		fputs(" \\fI", out);
		roff(out, k->args);
		fputs("\\fR", out);
	}
	for (unsigned i = OPT_HELP + 1; i < N_CTL_OPTIONS; i++) {
		const struct ctl_option *o = &ctl_options[i];
		if (!ctl_args_takes(k, (enum ctl_option_id)i))
			continue;
		fputs(" [\\fB\\-\\-", out);
		roff(out, o->name);
		fputs("\\fR", out);
		if (o->value)
			fprintf(out, " \\fI%s\\fR", o->value);
		fputc(']', out);
	}
	fputc('\n', out);
	roff(out, k->summary);
	fputc('\n', out);
	if (k->detail) {
		roff(out, k->detail);
		fputc('\n', out);
	}
}

static const char man_head[] =
	".TH CONCURYCTL 1 \"\" \"Concury " CONCURY_VERSION "\" \"Concury\"\n"
	".SH NAME\nconcuryctl \\- manage a Concury load balancer\n"
	".SH SYNOPSIS\n.B concuryctl\n\\fICOMMAND\\fR [\\fIARGUMENT\\fR]... [\\fIoptions\\fR]\n"
	".SH DESCRIPTION\n"
	"Each command is one or a few questions to the HTTP API of\n.BR concuryd (8).\n"
	"It prints tables for people, with rounded numbers; with \\fB\\-o json\\fR what the API\n"
	"answers, byte for byte. Complaints go to standard error.\n"
	".PP\n"
	"\\fIMEMBER=VALUE\\fR sets a member of the resource as the API names it: "
	"\\fBweight=2\\fR,\n"
	"\\fBidle_timeout_s.udp=120\\fR, \\fBmac=null\\fR. Numbers, true, false, null and what "
	"begins\n"
	"with a quote, bracket or brace are JSON, all else is text.\n";

static const char man_tail[] =
	".SH ENVIRONMENT\n"
	".TP\n\\fBCONCURY_URL\\fR, \\fBCONCURY_TOKEN\\fR\n"
	"As \\fB\\-\\-url\\fR and \\fB\\-\\-token\\fR, which go before them.\n"
	".TP\n\\fBNO_COLOR\\fR\nNo colour on the terminal, if it is set.\n"
	".SH FILES\nCompletion for bash: \\fBsource <(concuryctl completion bash)\\fR.\n"
	".SH EXAMPLES\n.nf\n"
	"concuryctl vip create web 10.9.0.100:80/tcp\n"
	"concuryctl dip add web b1 10.9.0.11 weight=2\n"
	"concuryctl dip drain web b1 \\-\\-wait\n"
	"concuryctl config get > config.json\n"
	"concuryctl config apply \\-f config.json \\-\\-dry\\-run\n"
	".fi\n"
	".SH SEE ALSO\n.BR concuryd (8),\n.BR concury\\-agent (8)\n";

void ctl_man_print(FILE *out)
{
	fputs(man_head, out);
	fputs(".SH COMMANDS\n", out);
	for (size_t i = 0; i < ctl_n_commands; i++)
		man_command(out, &ctl_commands[i]);
	fputs(".SH OPTIONS\n", out);
	for (unsigned i = 0; i < N_CTL_OPTIONS; i++)
		man_option(out, &ctl_options[i]);
	fputs(".SH EXIT STATUS\n", out);
	for (size_t i = 0; i < ARRAY_LEN(exits); i++) {
		fprintf(out, ".TP\n\\fB%d\\fR\n", exits[i].code);
		roff(out, exits[i].when);
		fputc('\n', out);
	}
	fputs(man_tail, out);
}
