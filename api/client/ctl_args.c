/* Options may stand anywhere, those of a command after its words. getopt is not used because a
 * letter means what the command says: -f is a file here and "follow" there. */
#include "api/client/ctl_args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct ctl_option ctl_options[N_CTL_OPTIONS] = {
#define X(id, name, letter, value, words, help) {#id, name, letter, value, words, help},
	CTL_OPTIONS(X)
#undef X
};

/* --- the tables ----------------------------------------------------------------------------------
 */

/* The k-th word of a list, or false. */
static bool nth_word(const char *list, unsigned k, const char **word, size_t *len)
{
	for (;; k--) {
		list += strspn(list, " ");
		*len = strcspn(list, " ");
		*word = list;
		if (!*len || !k)
			return *len > 0;
		list += *len;
	}
}

bool ctl_args_pattern(const struct ctl_command *command, unsigned k, struct ctl_pattern *out)
{
	const char *word;
	size_t len;
	unsigned n = 0;

	while (nth_word(command->args, n, &word, &len))
		n++;
	if (!n || !nth_word(command->args, k < n ? k : n - 1, &word, &len))
		return false;
	bool repeated = len > 3 && !strncmp(word + len - 3, "...", 3);
	bool bracket = *word == '[';
	if (k >= n && !repeated)
		return false;
	len -= repeated ? 3 : 0;
	snprintf(out->name, sizeof(out->name), "%.*s", (int)(len - 2 * bracket), word + bracket);
	out->optional = bracket || k >= n;
	return true;
}

bool ctl_args_takes(const struct ctl_command *command, enum ctl_option_id id)
{
	const char *word;
	size_t len;

	if (id <= OPT_HELP)
		return true;
	for (unsigned i = 0; command && nth_word(command->options, i, &word, &len); i++)
		if (strlen(ctl_options[id].id) == len && !strncmp(ctl_options[id].id, word, len))
			return true;
	return false;
}

enum ctl_option_id ctl_args_option(const struct ctl_command *command, const char *word,
				   const char **value)
{
	*value = NULL;
	for (unsigned i = 0; i < N_CTL_OPTIONS; i++) {
		const struct ctl_option *o = &ctl_options[i];
		size_t len = strlen(o->name);
		if (!ctl_args_takes(command, (enum ctl_option_id)i))
			continue;
		if (!strncmp(word, "--", 2)) {
			if (strncmp(word + 2, o->name, len) != 0 || !strchr("=", word[2 + len]))
				continue;
			*value = word[2 + len] ? word + 3 + len : NULL;
			return (enum ctl_option_id)i;
		}
		if (o->letter && word[1] == o->letter) {
			*value = word[2] ? word + 2 : NULL;
			return (enum ctl_option_id)i;
		}
	}
	return N_CTL_OPTIONS;
}

const struct ctl_command *ctl_args_find(const char *group, const char *verb)
{
	for (size_t i = 0; i < ctl_n_commands; i++)
		if (!strcmp(ctl_commands[i].group, group) && !strcmp(ctl_commands[i].verb, verb))
			return &ctl_commands[i];
	return NULL;
}

bool ctl_args_is_group(const char *word)
{
	for (size_t i = 0; i < ctl_n_commands; i++)
		if (*word && !strcmp(ctl_commands[i].group, word))
			return true;
	return false;
}

/* --- the command line ----------------------------------------------------------------------------
 */

/* argv[*at] is an option; moves *at to its last word. */
static int take_option(int argc, char *const *argv, int *at, struct ctl_call *c, struct error *err)
{
	const char *word = argv[*at], *value;
	enum ctl_option_id id = ctl_args_option(c->command, word, &value);

	if (id == N_CTL_OPTIONS)
		return error_set(err, -EINVAL, "%.64s: not an option%s (see --help)", word,
				 c->command ? " of this command" : " before a command");
	const struct ctl_option *o = &ctl_options[id];
	if (!o->value && value)
		return error_set(err, -EINVAL, "%.64s: --%s takes no value", word, o->name);
	if (o->value && !value) {
		if (*at + 1 == argc)
			return error_set(err, -EINVAL, "--%s: %s is needed", o->name, o->value);
		value = argv[++*at];
	}
	c->options[id] = o->value ? value : "";
	return 0;
}

int ctl_args_word(const char *word, struct ctl_call *c, struct error *err)
{
	if (c->n_args == CTL_ARGS_MAX)
		return error_set(err, -EINVAL, "%.64s: too many arguments", word);
	c->args[c->n_args++] = word;
	if (c->command)
		return 0;
	if (c->n_args == 1) {
		c->command = ctl_args_find("", word);
		if (!c->command && !ctl_args_is_group(word))
			return error_set(err, -EINVAL, "%.64s: not a command (see --help)", word);
	} else {
		c->command = ctl_args_find(c->args[0], word);
		if (!c->command)
			return error_set(err, -EINVAL,
					 "%s %.64s: not a command (see concuryctl %s --help)",
					 c->args[0], word, c->args[0]);
	}
	if (c->command)
		c->n_args = 0;
	return 0;
}

static int check_arguments(const struct ctl_call *c, struct error *err)
{
	const struct ctl_command *k = c->command;
	struct ctl_pattern p;

	if (!ctl_args_pattern(k, c->n_args ? c->n_args - 1 : 0, &p) && c->n_args)
		return error_set(err, -EINVAL, "%.64s: one argument too many (see --help)",
				 c->args[c->n_args - 1]);
	if (ctl_args_pattern(k, c->n_args, &p) && !p.optional)
		return error_set(err, -EINVAL, "%s is needed: concuryctl %s%s%s %s", p.name,
				 k->group, *k->group ? " " : "", k->verb, k->args);
	return 0;
}

int ctl_args_parse(int argc, char *const *argv, struct ctl_call *out, struct error *err)
{
	struct ctl_call c = {.command = NULL};
	bool only_words = false;
	int rc = 0;

	for (int i = 1; !rc && i < argc; i++) {
		if (!only_words && !strcmp(argv[i], "--"))
			only_words = true;
		else if (!only_words && argv[i][0] == '-' && argv[i][1])
			rc = take_option(argc, argv, &i, &c, err);
		else
			rc = ctl_args_word(argv[i], &c, err);
	}
	if (rc)
		return rc;
	bool asks_itself = ctl_option(&c, OPT_HELP) || ctl_option(&c, OPT_VERSION);
	if (!asks_itself && c.command)
		rc = check_arguments(&c, err);
	else if (!asks_itself && c.n_args)
		rc = error_set(err, -EINVAL, "%s: which one? (see concuryctl %s --help)", c.args[0],
			       c.args[0]);
	if (!rc)
		*out = c;
	return rc;
}
