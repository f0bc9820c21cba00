/* concuryctl: concuryd's API from the command line. Reads the command line by the table of
 * commands, finds out where to ask, and runs the command. */
#include "api/client/ctl.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "api/client/ctl_args.h"
#include "api/client/ctl_help.h"
#include "api/client/ctl_setup.h"

/* With a standard descriptor closed, the next socket would take its number. */
static void open_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int run(const struct ctl_call *call)
{
	struct ctl c = {.http = NULL};
	struct error err;

	if (ctl_setup_output(&c, call, &err) || ctl_setup_target(&c, call, &err))
		return ctl_complain(CTL_USAGE, "%s", err.message);
	if (ctl_http_open(&c.target, &c.http, &err))
		return ctl_complain(CTL_FAILED, "%s", err.message);
	int code = call->command->run(&c, call);
	ctl_http_close(c.http);
	return code;
}

int main(int argc, char **argv)
{
	struct ctl_call call;
	struct error err;
	int code;

	open_standard_descriptors();
	signal(SIGPIPE, SIG_IGN); /* a short write is found out at the end */
	if (ctl_args_parse(argc, argv, &call, &err)) {
		code = ctl_complain(CTL_USAGE, "%s", err.message);
	} else if (ctl_option(&call, OPT_VERSION)) {
		puts("concuryctl " CONCURY_VERSION " (" CONCURY_COMMIT ")");
		code = CTL_OK;
	} else if (ctl_option(&call, OPT_HELP) || !call.command) {
		ctl_help_print(&call, ctl_option(&call, OPT_HELP) ? stdout : stderr);
		code = ctl_option(&call, OPT_HELP) ? CTL_OK : CTL_USAGE;
	} else {
		code = run(&call);
	}
	if (fflush(stdout) || ferror(stdout))
		return ctl_complain(CTL_FAILED, "standard output cannot be written");
	return code;
}
