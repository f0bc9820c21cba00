/* HTTP and HTTPS checks: libcurl's multi interface, driven by our epoll. The address is given as it
 * is, so nothing is ever resolved; a configured host only goes into the request, into SNI, and
 * against the certificate. A connection serves one check, as making one is what is checked too. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/health_check.h"

struct check_http {
	CURLM *multi;
	int epoll_fd;
	uint64_t due_ms;
};

/* --- libcurl's sockets and timer ------------------------------------------------------------ */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
	const struct check_http *h = ctx;
	struct epoll_event e = {.data.u64 = CHECK_HTTP_EVENT | (uint32_t)fd};

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	e.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
	if (epoll_ctl(h->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e))
		return -1; /* the transfer fails */
	curl_multi_assign(h->multi, fd, ctx);
	return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
	struct check_http *h = ctx;

	(void)multi;
	h->due_ms = timeout_ms < 0 ? UINT64_MAX : clock_now_ms() + (uint64_t)timeout_ms;
	return 0;
}

static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct check *c = ctx;
	int fd = socket(a->family, a->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->protocol);

	(void)purpose;
	if (fd < 0)
		c->open_error = errno;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* More than enough is enough: what has come is judged. */
static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
	struct check *c = ctx;
	size_t room = CHECK_BODY_MAX - c->n_body, take = size * n < room ? size * n : room;

	memcpy(c->body + c->n_body, data, take);
	c->n_body += take;
	return c->n_body == CHECK_BODY_MAX ? 0 : size * n;
}

/* --- the end of a check --------------------------------------------------------------------- */

static bool body_fits(const struct check *c)
{
	const struct check_spec *s = c->spec;
	const char *want = s->conf.expect_body;

	if (!want[0])
		return true;
	if (!s->has_regex)
		return memmem(c->body, c->n_body, want, strlen(want)) != NULL;
	c->body[c->n_body] = '\0';
	return regexec(&s->regex, c->body, 0, NULL, 0) == 0;
}

static void release(struct check *c)
{
	curl_multi_remove_handle(c->loop->http->multi, c->easy);
	curl_easy_cleanup(c->easy);
	curl_slist_free_all(c->connect_to);
	curl_slist_free_all(c->headers);
	free(c->body);
	c->easy = c->connect_to = c->headers = c->body = NULL;
}

static enum check_result judge(const struct check *c, CURLcode rc, char *error, size_t size)
{
	const struct health_conf *conf = &c->spec->conf;
	bool cut = rc == CURLE_WRITE_ERROR && c->n_body == CHECK_BODY_MAX;
	long status = 0, os_error = 0;
	char reason[64];

	if (rc == CURLE_OUT_OF_MEMORY || rc == CURLE_FAILED_INIT ||
	    (c->open_error && check_errno_is_ours(c->open_error)))
		return CHECK_SKIPPED;
	curl_easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &os_error);
	if (rc == CURLE_COULDNT_CONNECT && os_error) {
		snprintf(error, size, "cannot connect: %s",
			 strerror_r((int)os_error, reason, sizeof(reason)));
		return check_errno_is_ours((int)os_error) ? CHECK_SKIPPED : CHECK_FAILED;
	}
	if (rc != CURLE_OK && !cut) {
		snprintf(error, size, "%.120s",
			 c->curl_error[0] ? c->curl_error : curl_easy_strerror(rc));
		return CHECK_FAILED;
	}
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (!health_status_set_has(conf->expect_status, (unsigned)status)) {
		snprintf(error, size, "status %ld, expected %.80s", status, conf->expect_status);
		return CHECK_FAILED;
	}
	if (!body_fits(c)) {
		snprintf(error, size, "the body does not fit (status %ld)", status);
		return CHECK_FAILED;
	}
	return CHECK_PASSED;
}

static void finish(struct check *c, CURLcode rc)
{
	char error[HEALTH_CAUSE_LEN] = "";
	enum check_result result = judge(c, rc, error, sizeof(error));

	release(c);
	c->ended(c, result, error);
}

static void finish_all(struct check_loop *l)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(l->http->multi, &left)) != NULL) {
		char *c = NULL;
		CURLcode rc = m->data.result;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
		finish((struct check *)(void *)c, rc);
	}
}

/* --- starting one --------------------------------------------------------------------------- */

static void set_url(const struct check *c)
{
	const struct check_spec *s = c->spec;
	const char *scheme = s->conf.type == HEALTH_HTTPS ? "https" : "http";
	char address[IP_ADDR_STRLEN], host[HEALTH_TEXT_LEN + 8], url[2 * HEALTH_TEXT_LEN + 64];
	bool v6 = !ip_addr_is_v4(&c->address);

	ip_addr_format(&c->address, address);
	snprintf(host, sizeof(host), "%s%s%s", v6 ? "[" : "", address, v6 ? "]" : "");
	if (s->conf.host[0]) {
		/* Without its port: that is the one to check. */
		snprintf(host, sizeof(host), "%s", s->conf.host);
		char *colon = host[0] == '[' ? strstr(host, "]:") : strchr(host, ':');
		if (colon)
			colon[host[0] == '['] = '\0';
	}
	snprintf(url, sizeof(url), "%s://%s:%u%s", scheme, host, s->port, s->conf.path);
	curl_easy_setopt(c->easy, CURLOPT_URL, url);
}

static bool set_host(struct check *c)
{
	const struct check_spec *s = c->spec;
	char address[IP_ADDR_STRLEN], text[HEALTH_TEXT_LEN + IP_ADDR_STRLEN + 32];
	bool v6 = !ip_addr_is_v4(&c->address);

	ip_addr_format(&c->address, address);
	snprintf(text, sizeof(text), "::%s%s%s:%u", v6 ? "[" : "", address, v6 ? "]" : "", s->port);
	c->connect_to = curl_slist_append(NULL, text);
	if (s->conf.host[0]) {
		snprintf(text, sizeof(text), "Host: %s", s->conf.host);
		c->headers = curl_slist_append(NULL, text);
	}
	curl_easy_setopt(c->easy, CURLOPT_CONNECT_TO, c->connect_to);
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
	return c->connect_to && (c->headers || !s->conf.host[0]);
}

static void set_request(struct check *c)
{
	const struct health_conf *conf = &c->spec->conf;
	CURL *e = c->easy;

	set_url(c);
	if (conf->method == HEALTH_HEAD)
		curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
	else if (conf->method == HEALTH_OPTIONS)
		curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "OPTIONS");
	curl_easy_setopt(e, CURLOPT_USERAGENT, "concury/" CONCURY_VERSION);
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PROXY, ""); /* whatever the environment says */
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, (long)conf->verify);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, conf->verify ? 2L : 0L);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 4096L);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->curl_error);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, c);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(e, CURLOPT_PRIVATE, c);
}

static struct check_http *http_new(int epoll_fd)
{
	struct check_http *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->epoll_fd = epoll_fd;
	h->due_ms = UINT64_MAX;
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		free(h);
		return NULL;
	}
	h->multi = curl_multi_init();
	if (!h->multi) {
		curl_global_cleanup();
		free(h);
		return NULL;
	}
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	return h;
}

void check_http_start(struct check *c)
{
	if (!c->loop->http)
		c->loop->http = http_new(c->loop->epoll_fd);
	c->open_error = 0;
	c->n_body = 0;
	c->curl_error[0] = '\0';
	c->easy = c->loop->http ? curl_easy_init() : NULL;
	c->body = c->easy ? malloc(CHECK_BODY_MAX + 1) : NULL;
	if (c->body && set_host(c)) {
		set_request(c);
		if (curl_multi_add_handle(c->loop->http->multi, c->easy) == CURLM_OK)
			return;
	}
	if (c->easy)
		release(c);
	c->ended(c, CHECK_SKIPPED, "out of memory");
}

void check_http_abort(struct check *c)
{
	if (c->easy)
		release(c);
}

void check_http_event(struct check_loop *l, int fd, uint32_t events)
{
	int what = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
		   (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		   (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
	int running;

	if (!l->http)
		return;
	curl_multi_socket_action(l->http->multi, fd, what, &running);
	finish_all(l);
}

uint64_t check_http_due_ms(const struct check_loop *l)
{
	return l->http ? l->http->due_ms : UINT64_MAX;
}

void check_http_timer(struct check_loop *l)
{
	int running;

	if (!l->http || clock_now_ms() < l->http->due_ms)
		return;
	l->http->due_ms = UINT64_MAX; /* it sets the next one */
	curl_multi_socket_action(l->http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	finish_all(l);
}

void check_http_close(struct check_loop *l)
{
	if (!l->http)
		return;
	curl_multi_cleanup(l->http->multi);
	curl_global_cleanup();
	free(l->http);
	l->http = NULL;
}
