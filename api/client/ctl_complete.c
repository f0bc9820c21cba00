/* Completion. The script for the shell knows nothing of commands: it hands over the words up to the
 * cursor (the last one is being written) and gets back the ones that may stand there. Ids come from
 * the daemon, where one answers soon. */
#include <string.h>

#include "api/client/ctl_args.h"
#include "api/client/ctl_commands.h"
#include "api/client/ctl_help.h"
#include "api/client/ctl_members.h"
#include "api/client/ctl_setup.h"

#define ASK_MS 1000u

/* Words are split at blanks alone, unlike COMP_WORDS. What bash takes for a word begins after the
 * last '=' or ':', and so must what it gets. */
static const char script[] =
	"_concuryctl() {\n"
	"\tlocal line=${COMP_LINE:0:COMP_POINT} words word cut=\n"
	"\tread -ra words <<< \"$line\"\n"
	"\t[[ $line == *[[:space:]] ]] && words+=(\"\")\n"
	"\tword=${words[${#words[@]}-1]}\n"
	"\tcase $word in *[=:]*) cut=${word%\"${word##*[=:]}\"} ;; esac\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r word; do\n"
	"\t\tCOMPREPLY+=(\"${word#\"$cut\"}\")\n"
	"\tdone < <(\"${words[0]}\" complete -- \"${words[@]:1}\" 2> /dev/null)\n"
	"\t[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
	"\treturn 0\n"
	"}\n"
	"complete -o default -F _concuryctl concuryctl\n";

int ctl_completion(struct ctl *c, const struct ctl_call *call)
{
	if (strcmp(call->args[0], "bash") != 0)
		return ctl_complain(CTL_USAGE, "%.64s: only bash is known", call->args[0]);
	fputs(script, c->out);
	return CTL_OK;
}

int ctl_man(struct ctl *c, const struct ctl_call *call)
{
	(void)call;
	ctl_man_print(c->out);
	return CTL_OK;
}

/* --- words ---------------------------------------------------------------------------------------
 */

struct completion {
	struct ctl *c;
	FILE *out;
	const char *begun; /* the word that is being written */
};

static void offer(const struct completion *k, const char *before, const char *word, size_t len)
{
	char text[160];

	if ((size_t)snprintf(text, sizeof(text), "%s%.*s", before, (int)len, word) >=
		    sizeof(text) ||
	    strncmp(text, k->begun, strlen(k->begun)) != 0)
		return;
	fprintf(k->out, "%s\n", text);
}

static void offer_words(const struct completion *k, const char *before, const char *list)
{
	for (; *list; list += strspn(list, " ")) {
		size_t len = strcspn(list, " ");
		offer(k, before, list, len);
		list += len;
	}
}

static void offer_options(const struct completion *k, const struct ctl_command *command)
{
	for (unsigned i = 0; i < N_CTL_OPTIONS; i++)
		if (ctl_args_takes(command, (enum ctl_option_id)i))
			offer(k, "--", ctl_options[i].name, strlen(ctl_options[i].name));
}

static void offer_commands(const struct completion *k, const char *group)
{
	for (size_t i = 0; i < ctl_n_commands; i++) {
		const struct ctl_command *o = &ctl_commands[i];
		const char *word = *o->group && !*group ? o->group : o->verb;
		bool again = i && !*group && *o->group && !strcmp(o->group, (o - 1)->group);
		if (!again && (!*group || !strcmp(o->group, group)))
			offer(k, "", word, strlen(word));
	}
}

static void offer_ids(const struct completion *k, const struct ctl_path *path, const char *member)
{
	struct ctl_request r = {.method = "GET", .path = path, .timeout_ms = ASK_MS};
	struct ctl_answer a;
	const json_t *item;
	size_t i;

	if (path->bad || !k->c->http)
		return;
	ctl_http_ask(k->c->http, &r, &a);
	json_array_foreach(json_object_get(a.json, "items"), i, item)
	{
		const json_t *id = json_object_get(item, member);
		char number[32];
		snprintf(number, sizeof(number), "%lld", json_integer_value(id));
		const char *text = json_is_string(id) ? json_string_value(id) : number;
		offer(k, "", text, strlen(text));
	}
	ctl_answer_free(&a);
}

static void offer_members(const struct completion *k, const struct ctl_member *members)
{
	for (; members->name; members++) {
		char before[64];
		size_t len = (size_t)snprintf(before, sizeof(before), "%s=", members->name);
		if (strchr(k->begun, '=') && !strncmp(k->begun, before, len))
			offer_words(k, before, members->words);
		else if (!strchr(k->begun, '='))
			offer(k, "", before, len);
	}
}

static void offer_argument(const struct completion *k, const struct ctl_call *call)
{
	struct ctl_pattern p;
	struct ctl_path path;

	if (!ctl_args_pattern(call->command, call->n_args, &p))
		return;
	if (!strcmp(p.name, "VIP")) {
		ctl_path_set(&path, "/v1/vips");
		offer_ids(k, &path, "id");
	} else if (!strcmp(p.name, "DIP")) {
		ctl_path_set(&path, "/v1/vips/%s/dips", call->args[0]);
		offer_ids(k, &path, "id");
	} else if (!strcmp(p.name, "MEMBER=VALUE")) {
		offer_members(k, strcmp(call->command->group, "vip") ? ctl_dip_members
								     : ctl_vip_members);
	} else if (!strcmp(p.name, "VERSION")) {
		ctl_path_set(&path, "/v1/config/versions");
		offer_ids(k, &path, "version");
	} else if (!strcmp(p.name, "TOKEN")) {
		ctl_path_set(&path, "/v1/tokens");
		offer_ids(k, &path, "id");
	} else if (!strcmp(p.name, "SHELL")) {
		offer(k, "", "bash", 4);
	} else if (!strncmp(p.name, "up|", 3)) {
		offer_words(k, "", "up down");
	}
}

/* What the words before the cursor come to; mistakes among them are passed by. Returns the option
 * whose value is being written, or N_CTL_OPTIONS. */
static enum ctl_option_id read_before(const char *const *words, unsigned n, struct ctl_call *call)
{
	struct error ignored;

	*call = (struct ctl_call){.command = NULL};
	for (unsigned i = 0; i < n; i++) {
		const char *value;
		if (words[i][0] != '-' || !words[i][1]) {
			if (ctl_args_word(words[i], call, &ignored))
				return OPT_HELP; /* after what is no command: nothing follows */
			continue;
		}
		enum ctl_option_id id = ctl_args_option(call->command, words[i], &value);
		if (id == N_CTL_OPTIONS)
			continue;
		if (ctl_options[id].value && !value && ++i == n)
			return id;
		call->options[id] = value ? value : ctl_options[id].value ? words[i] : "";
	}
	return N_CTL_OPTIONS;
}

int ctl_complete(struct ctl *c, const struct ctl_call *line)
{
	unsigned n = line->n_args ? line->n_args - 1 : 0;
	struct completion k = {.c = c, .out = c->out, .begun = line->n_args ? line->args[n] : ""};
	struct ctl_call call;
	struct error ignored;
	const char *value;
	enum ctl_option_id open = read_before(line->args, n, &call);

	if (ctl_setup_target(c, &call, &ignored))
		return CTL_OK;
	if (open != N_CTL_OPTIONS) {
		offer_words(&k, "", ctl_options[open].words);
	} else if (k.begun[0] == '-') {
		open = ctl_args_option(call.command, k.begun, &value);
		char before[64];
		snprintf(before, sizeof(before), "%.*s", value ? (int)(value - k.begun) : 0,
			 k.begun);
		if (open != N_CTL_OPTIONS && value)
			offer_words(&k, before, ctl_options[open].words);
		else
			offer_options(&k, call.command);
	} else if (call.command) {
		offer_argument(&k, &call);
	} else {
		offer_commands(&k, call.n_args ? call.args[0] : "");
	}
	return CTL_OK;
}
