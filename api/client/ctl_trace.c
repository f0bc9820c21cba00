/* concuryctl trace: packets as they come, as pcapng on standard output. */
#include "api/client/ctl_commands.h"

static bool on_data(void *ctx, const char *data, size_t len)
{
	struct ctl *c = ctx;

	/* Whoever reads it wants to see each packet as it comes. */
	return fwrite(data, 1, len, c->out) == len && fflush(c->out) == 0;
}

int ctl_trace(struct ctl *c, const struct ctl_call *call)
{
	static const char *const headers[] = {NULL};
	struct ctl_path path;
	struct ctl_answer a;

	if (c->terminal)
		return ctl_complain(CTL_USAGE,
				    "standard output is a terminal: | tcpdump -r -, or > "
				    "FILE");
	ctl_path_set(&path, "/v1/trace");
	ctl_path_query(&path, "vip", call->n_args ? call->args[0] : NULL);
	ctl_path_query(&path, "dip", ctl_option(call, OPT_DIP));
	ctl_path_query(&path, "src", ctl_option(call, OPT_CLIENT));
	ctl_path_query(&path, "packets", ctl_option(call, OPT_PACKETS));
	ctl_path_query(&path, "seconds", ctl_option(call, OPT_SECONDS));
	if (path.bad)
		return ctl_complain(CTL_USAGE, "an option is too long");
	ctl_http_stream(c->http, &path, headers, 0, on_data, c, &a);
	int rc = ctl_tell(c, &a);
	ctl_answer_free(&a);
	return rc;
}
