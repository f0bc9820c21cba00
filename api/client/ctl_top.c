/* concuryctl top: looks about once a second, and draws over the whole terminal. The screen before
 * is kept by the terminal itself (alternate screen) and comes back at the end, also after a signal.
 */
#include "api/client/ctl_top.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "api/client/ctl_commands.h"
#include "base/clock.h"

#define ENTER_SCREEN "\033[?1049h\033[?25l"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"
#define INTERVAL_MIN_MS 100u
#define INTERVAL_MAX_MS 3600000u

static volatile sig_atomic_t ended;

static void on_end(int signal_number)
{
	ended = signal_number;
}

/* --- looking -------------------------------------------------------------------------------------
 */

/* The document at a path. After a failure, which *failed holds, nothing more is asked. */
static json_t *ask(struct ctl *c, const struct ctl_path *path, struct ctl_answer *failed)
{
	struct ctl_answer a;

	if (failed->body || failed->error[0])
		return NULL;
	ctl_http_ask(c->http, &(struct ctl_request){.method = "GET", .path = path}, &a);
	if (a.status != 200) {
		*failed = a;
		return NULL;
	}
	json_t *json = json_incref(a.json);
	ctl_answer_free(&a);
	return json;
}

static json_t *ask_plain(struct ctl *c, const char *path, struct ctl_answer *failed)
{
	struct ctl_path p;

	ctl_path_set(&p, path);
	return ask(c, &p, failed);
}

/* False: *failed says why, and is to be freed. */
static bool look(struct ctl *c, struct ctl_top_look *out, struct ctl_answer *failed)
{
	const json_t *v;
	size_t i;

	*failed = (struct ctl_answer){.status = 0};
	*out = (struct ctl_top_look){.at_ms = clock_now_ms()};
	out->status = ask_plain(c, "/v1/status", failed);
	out->counters = ask_plain(c, "/v1/counters", failed);
	out->consistency = ask_plain(c, "/v1/consistency", failed);
	out->vips = ask_plain(c, "/v1/vips", failed);
	out->dips = json_object();
	json_array_foreach(json_object_get(out->vips, "items"), i, v)
	{
		struct ctl_path path;
		struct ctl_answer gone = {.status = 0};
		ctl_path_set(&path, "/v1/vips/%s/dips", ctl_text(v, "id"));
		json_t *dips = ask(c, &path, &gone);
		if (dips && json_object_set_new(out->dips, ctl_text(v, "id"), dips))
			break;
		ctl_answer_free(&gone); /* a VIP may go in between */
	}
	if (!failed->body && !failed->error[0])
		return true;
	ctl_top_look_free(out);
	return false;
}

/* --- once ----------------------------------------------------------------------------------------
 */

static void pause_ms(unsigned ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static int tell(struct ctl *c, struct ctl_answer *failed)
{
	int rc = ctl_tell(c, failed);

	ctl_answer_free(failed);
	return rc;
}

static int print_once(struct ctl *c, unsigned interval_ms)
{
	struct ctl_top_look before, now;
	struct ctl_answer failed;
	int rc = CTL_OK;

	if (!look(c, &before, &failed))
		return tell(c, &failed);
	pause_ms(interval_ms);
	if (look(c, &now, &failed)) {
		ctl_top_print(&before, &now, 0, 0, 0, c->out);
		ctl_top_look_free(&now);
	} else {
		rc = tell(c, &failed);
	}
	ctl_top_look_free(&before);
	return rc;
}

/* --- live ----------------------------------------------------------------------------------------
 */

struct screen {
	unsigned skip;
	unsigned n_lines;
	const char *fault; /* in the last line; NULL = none */
};

static void draw(struct ctl *c, struct screen *s, const struct ctl_top_look *before,
		 const struct ctl_top_look *now)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	if (!f)
		return;
	/* The last line is for faults: a newline there would scroll. */
	s->n_lines = ctl_top_print(before, now, (size.ws_row ? size.ws_row : 24) - 1,
				   size.ws_col ? size.ws_col : 80, s->skip, f);
	if (fclose(f) == 0) {
		fputs("\033[H", c->out);
		for (const char *line = text; *line;) {
			const char *end = strchr(line, '\n');
			fprintf(c->out, "%.*s\033[K\r\n", (int)(end - line), line);
			line = end + 1;
		}
		fprintf(c->out, "\033[J%s", s->fault ? s->fault : "");
		fflush(c->out);
	}
	free(text);
}

/* True: it is to end. */
static bool on_key(struct screen *s, char key)
{
	switch (key) {
	case 'q':
	case 3: /* ^C, where the terminal sends it so */
		return true;
	case 'j':
	case 'B': /* of arrow down, ESC [ B */
		s->skip += s->skip + 1 < s->n_lines;
		return false;
	case 'k':
	case 'A':
		s->skip -= s->skip > 0;
		return false;
	default:
		return false;
	}
}

/* Draws until it is time for the next look; true: it is to end. */
static bool wait_or_end(struct ctl *c, struct screen *s, const struct ctl_top_look *before,
			const struct ctl_top_look *now, uint64_t until_ms)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char keys[32];

	for (uint64_t t; !ended && (t = clock_now_ms()) < until_ms;) {
		draw(c, s, before, now);
		if (poll(&in, 1, (int)(until_ms - t)) <= 0)
			continue;
		ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
		if (n <= 0)
			return true;
		for (ssize_t i = 0; i < n; i++)
			if (on_key(s, keys[i]))
				return true;
	}
	return ended != 0;
}

/* A restart of concuryd is no reason to end. */
static int loop(struct ctl *c, unsigned interval_ms)
{
	struct ctl_top_look looks[2], next;
	struct ctl_answer failed;
	struct screen s = {.skip = 0};
	unsigned wait_ms = INTERVAL_MIN_MS;

	if (!look(c, &looks[0], &failed))
		return tell(c, &failed);
	looks[1] = (struct ctl_top_look){.at_ms = 0};
	while (!wait_or_end(c, &s, &looks[0], looks[1].status ? &looks[1] : &looks[0],
			    clock_now_ms() + wait_ms)) {
		bool good = look(c, &next, &failed);
		s.fault = good ? NULL : "concuryd does not answer; trying on";
		if (good && looks[1].status) {
			ctl_top_look_free(&looks[0]);
			looks[0] = looks[1];
		}
		if (good)
			looks[1] = next;
		else
			ctl_answer_free(&failed);
		wait_ms = interval_ms;
	}
	ctl_top_look_free(&looks[0]);
	ctl_top_look_free(&looks[1]);
	return CTL_OK;
}

static int run_on_terminal(struct ctl *c, unsigned interval_ms)
{
	struct sigaction end = {.sa_handler = on_end};
	struct termios was, raw;

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	if (tcgetattr(STDIN_FILENO, &was))
		return ctl_complain(CTL_FAILED, "the terminal cannot be set up");
	raw = was;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(ENTER_SCREEN, c->out);
	int rc = loop(c, interval_ms);
	fputs(LEAVE_SCREEN, c->out);
	fflush(c->out);
	tcsetattr(STDIN_FILENO, TCSANOW, &was);
	return rc;
}

int ctl_top(struct ctl *c, const struct ctl_call *call)
{
	const char *text = ctl_option(call, OPT_INTERVAL);
	double seconds = 1;
	char *end = NULL;

	if (text)
		seconds = strtod(text, &end);
	if (text && (end == text || *end || !(seconds * 1000 >= INTERVAL_MIN_MS) ||
		     seconds * 1000 > INTERVAL_MAX_MS))
		return ctl_complain(CTL_USAGE, "--interval %.32s: seconds, 0.1 to 3600", text);
	unsigned interval_ms = (unsigned)(seconds * 1000);
	if (c->terminal && isatty(STDIN_FILENO) && !c->json)
		return run_on_terminal(c, interval_ms);
	return print_once(c, interval_ms);
}
