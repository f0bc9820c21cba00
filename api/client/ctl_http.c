#include "api/client/ctl_http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define TIMEOUT_MS 60000u /* a change waits for the publish before it */
#define CONNECT_MS 5000L
#define ANSWER_MAX (256u << 20)

struct ctl_http {
	const struct ctl_target *target;
	CURL *easy;
	char error[CURL_ERROR_SIZE];
};

/* A transfer under way. */
struct transfer {
	struct ctl_http *h;
	struct ctl_answer *out;
	ctl_on_data on_data; /* NULL = gather all */
	void *ctx;
	uint64_t last_ms; /* when something came */
	unsigned idle_ms;
	bool ended; /* by us */
};

/* --- what comes ----------------------------------------------------------------------------------
 */

static bool gather(struct ctl_answer *a, const char *data, size_t n)
{
	if (a->len + n > ANSWER_MAX)
		return false;
	char *grown = realloc(a->body, a->len + n + 1);
	if (!grown)
		return false;
	a->body = grown;
	memcpy(a->body + a->len, data, n);
	a->len += n;
	a->body[a->len] = '\0';
	return true;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	long status = 0;

	t->last_ms = clock_now_ms();
	curl_easy_getinfo(t->h->easy, CURLINFO_RESPONSE_CODE, &status);
	if (!t->on_data || status != 200)
		return gather(t->out, data, size * n) ? size * n : 0;
	if (t->on_data(t->ctx, data, size * n))
		return size * n;
	t->ended = true;
	return 0;
}

static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
	static const char name[] = "etag:";
	struct transfer *t = arg;
	size_t len = size * n;

	if (len > sizeof(name) - 1 && !strncasecmp(data, name, sizeof(name) - 1)) {
		const char *value = data + sizeof(name) - 1;
		size_t left = len - (sizeof(name) - 1);
		while (left && (*value == ' ' || *value == '\t')) {
			value++;
			left--;
		}
		while (left && strchr(" \r\n", value[left - 1]))
			left--;
		snprintf(t->out->etag, sizeof(t->out->etag), "%.*s", (int)left, value);
	}
	return len;
}

/* Called about once a second, too, while nothing comes. */
static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct transfer *t = arg;

	(void)a, (void)b, (void)c, (void)d;
	if (t->idle_ms && clock_now_ms() - t->last_ms >= t->idle_ms)
		t->ended = true;
	return t->ended;
}

/* --- what goes -----------------------------------------------------------------------------------
 */

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
	char line[1024];

	if (!value)
		return true;
	if ((size_t)snprintf(line, sizeof(line), "%s%s", name, value) >= sizeof(line) ||
	    strpbrk(line, "\r\n"))
		return false;
	struct curl_slist *grown = curl_slist_append(*list, line);
	if (grown)
		*list = grown;
	return grown != NULL;
}

static void set_target(struct ctl_http *h)
{
	const struct ctl_target *t = h->target;
	CURL *e = h->easy;

	curl_easy_reset(e); /* connections are kept */
	if (t->unix_path)
		curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, t->unix_path);
	if (t->ca_file)
		curl_easy_setopt(e, CURLOPT_CAINFO, t->ca_file);
	if (t->cert)
		curl_easy_setopt(e, CURLOPT_SSLCERT, t->cert);
	if (t->key)
		curl_easy_setopt(e, CURLOPT_SSLKEY, t->key);
	h->error[0] = '\0';
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_NOPROXY, "*"); /* the token is for concuryd alone */
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
}

static void perform(struct transfer *t, const char *path, struct curl_slist *headers)
{
	CURL *e = t->h->easy;
	struct ctl_answer *out = t->out;
	char url[sizeof(t->h->target->base) + sizeof(((struct ctl_path *)0)->text)];

	snprintf(url, sizeof(url), "%s%s", t->h->target->base, path);
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
	t->last_ms = clock_now_ms();
	CURLcode rc = curl_easy_perform(e);
	curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &out->status);
	if (rc != CURLE_OK && !t->ended) {
		out->status = 0;
		snprintf(out->error, sizeof(out->error), "%s",
			 t->h->error[0] ? t->h->error : curl_easy_strerror(rc));
		return;
	}
	if (!out->body && !gather(out, "", 0)) {
		out->status = 0;
		snprintf(out->error, sizeof(out->error), "out of memory");
		return;
	}
	out->json = json_loadb(out->body, out->len, 0, NULL);
}

static void refuse(struct ctl_answer *out, const char *why)
{
	out->status = 0;
	snprintf(out->error, sizeof(out->error), "%s", why);
}

/* A shell takes the quotes of an ETag away. */
static bool add_etag(struct curl_slist **list, const char *etag)
{
	char quoted[1024];

	if (!etag || strchr(etag, '"') || !strcmp(etag, "*"))
		return add_header(list, "If-Match: ", etag);
	return (size_t)snprintf(quoted, sizeof(quoted), "\"%s\"", etag) < sizeof(quoted) &&
	       add_header(list, "If-Match: ", quoted);
}

void ctl_http_ask(struct ctl_http *h, const struct ctl_request *r, struct ctl_answer *out)
{
	struct transfer t = {.h = h, .out = out};
	struct curl_slist *headers = NULL;
	char *body = r->body ? json_dumps(r->body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	*out = (struct ctl_answer){.status = 0};
	set_target(h);
	curl_easy_setopt(h->easy, CURLOPT_CUSTOMREQUEST, r->method);
	curl_easy_setopt(h->easy, CURLOPT_TIMEOUT_MS,
			 (long)(r->timeout_ms ? r->timeout_ms : TIMEOUT_MS));
	bool good = !r->body || body;
	if (body) {
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, body);
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
		good = add_header(&headers,
				  "Content-Type: ", r->type ? r->type : "application/json") &&
		       add_header(&headers, "Expect:", "");
	}
	good = good && add_header(&headers, "Authorization: Bearer ", h->target->token) &&
	       add_etag(&headers, r->if_match) &&
	       add_header(&headers, "If-None-Match: ", r->create_only ? "*" : NULL);
	if (good)
		perform(&t, r->path->text, headers);
	else
		refuse(out, "the request cannot be made (token or ETag too long, or no memory)");
	curl_slist_free_all(headers);
	free(body);
}

void ctl_http_stream(struct ctl_http *h, const struct ctl_path *path, const char *const *more,
		     unsigned idle_ms, ctl_on_data on_data, void *ctx, struct ctl_answer *out)
{
	struct transfer t = {
		.h = h, .out = out, .on_data = on_data, .ctx = ctx, .idle_ms = idle_ms};
	struct curl_slist *headers = NULL;

	*out = (struct ctl_answer){.status = 0};
	set_target(h);
	curl_easy_setopt(h->easy, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(h->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(h->easy, CURLOPT_XFERINFODATA, &t);
	bool good = add_header(&headers, "Authorization: Bearer ", h->target->token);
	for (; good && *more; more++)
		good = add_header(&headers, "", *more);
	if (good)
		perform(&t, path->text, headers);
	else
		refuse(out, "the request cannot be made (too long, or no memory)");
	curl_slist_free_all(headers);
}

void ctl_answer_free(struct ctl_answer *a)
{
	json_decref(a->json);
	free(a->body);
	*a = (struct ctl_answer){.status = 0};
}

int ctl_http_open(const struct ctl_target *target, struct ctl_http **out, struct error *err)
{
	struct ctl_http *h = calloc(1, sizeof(*h));

	if (!h || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(h);
		return error_set(err, -ENOMEM, "libcurl cannot be set up");
	}
	h->target = target;
	h->easy = curl_easy_init();
	if (!h->easy) {
		ctl_http_close(h);
		return error_set(err, -ENOMEM, "libcurl cannot be set up");
	}
	*out = h;
	return 0;
}

void ctl_http_close(struct ctl_http *h)
{
	if (!h)
		return;
	curl_easy_cleanup(h->easy);
	curl_global_cleanup();
	free(h);
}
