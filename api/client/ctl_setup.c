#include "api/client/ctl_setup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *first_of(const char *a, const char *b)
{
	return a ? a : b && *b ? b : NULL;
}

static int read_token(const char *path, char *buf, int size, struct error *err)
{
	FILE *f = fopen(path, "re");
	char *line = f ? fgets(buf, size, f) : NULL;

	if (f)
		fclose(f);
	if (line)
		line[strcspn(line, "\r\n")] = '\0';
	if (!line || !*line)
		return error_set(err, -1, "--token-file %.128s: no token in its first line", path);
	return 0;
}

int ctl_setup_target(struct ctl *c, const struct ctl_call *call, struct error *err)
{
	static char token[512];
	struct ctl_target *t = &c->target;
	const char *url = first_of(ctl_option(call, OPT_URL), getenv("CONCURY_URL"));
	const char *file = ctl_option(call, OPT_TOKEN_FILE);

	if (ctl_target_parse(url ? url : CTL_URL_DEFAULT, t, err))
		return -1;
	t->token = first_of(ctl_option(call, OPT_TOKEN), getenv("CONCURY_TOKEN"));
	t->ca_file = ctl_option(call, OPT_CA_FILE);
	t->cert = ctl_option(call, OPT_CERT);
	t->key = ctl_option(call, OPT_KEY);
	if (!file || ctl_option(call, OPT_TOKEN))
		return 0;
	t->token = token;
	return read_token(file, token, sizeof(token), err);
}

int ctl_setup_output(struct ctl *c, const struct ctl_call *call, struct error *err)
{
	const char *format = ctl_option(call, OPT_OUTPUT);

	c->out = stdout;
	c->json = format && !strcmp(format, "json");
	if (format && !c->json && strcmp(format, "table") != 0)
		return error_set(err, -1, "--output %.64s: table or json", format);
	c->yes = ctl_option(call, OPT_YES) != NULL;
	c->terminal = isatty(STDOUT_FILENO);
	const char *no_color = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	c->colour =
		c->terminal && !(no_color && *no_color) && !(terminal && !strcmp(terminal, "dumb"));
	return 0;
}
