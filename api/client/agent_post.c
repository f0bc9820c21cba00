#include "api/client/agent_post.h"

#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ANSWER_MAX (256u << 10)
#define SOON_MS 250L /* at least this long for what takes a round trip, */
#define SLOW_MAX 16L /* and at most so many times as long for a peer that is slow */

struct agent_post {
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	char url[512];
	char error[CURL_ERROR_SIZE];
	char *body;
	char *answer;
	size_t answer_len;
	bool busy;
	int hangups;	 /* epoll: tells that the idle connection has been closed */
	long soon_ms;	 /* half an interval: an ACK takes no longer, nor does an answer */
	long connect_ms; /* what the next connection may take, TLS included */
	long answer_ms;	 /* and what its answer may take, beyond */
};

/* --- the report ----------------------------------------------------------------------------------
 */

static json_t *print_news(const struct agent_outgoing *r, const struct agent_news *n)
{
	char src[IP_ADDR_STRLEN], dst[IP_ADDR_STRLEN];

	return json_pack("{s:s, s:s, s:i, s:i, s:s, s:I}", "src", ip_addr_format(&n->key.src, src),
			 "dst", ip_addr_format(&n->key.dst, dst), "sport", (int)n->key.sport,
			 "dport", (int)n->key.dport, "protocol",
			 n->key.proto == IPPROTO_TCP ? "tcp" : "udp", "age_ms",
			 (json_int_t)agent_talk_age_ms(r, n));
}

static json_t *print_list(const struct agent_outgoing *r, bool ended)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < r->n; i++) {
		/* Datagram flows end by their time-out alone. */
		if (r->news[i].ended != ended || (ended && r->news[i].key.proto != IPPROTO_TCP))
			continue;
		if (json_array_append_new(list, print_news(r, &r->news[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static char *print_report(const struct agent_outgoing *r, const struct agent_state *s)
{
	uint64_t clock_ms = agent_talk_clock_ms(r, s);
	json_t *o = json_pack("{s:s, s:I, s:s, s:I, s:{s:I, s:I, s:I}, s:o, s:o}", "instance",
			      s->instance, "sequence", (json_int_t)r->sequence, "kind",
			      r->full ? "full" : "delta", "orphans", (json_int_t)s->orphans, "load",
			      "connections", (json_int_t)s->connections, "cpus",
			      (json_int_t)s->cpus, "load_percent", (json_int_t)s->load_percent,
			      "opened", print_list(r, false), "ended", print_list(r, true));
	int failed = o == NULL;

	if (o && r->full) {
		failed |= json_object_set_new(o, "part", json_integer(r->part));
		failed |= json_object_set_new(o, "more", json_boolean(r->more));
	}
	if (o && clock_ms)
		failed |= json_object_set_new(o, "clock_ms", json_integer((json_int_t)clock_ms));
	char *text = failed ? NULL : json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

/* --- the answer ----------------------------------------------------------------------------------
 */

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
	struct agent_post *p = arg;
	size_t bytes = size * n;

	if (p->answer_len + bytes > ANSWER_MAX)
		return 0;
	char *grown = realloc(p->answer, p->answer_len + bytes + 1);
	if (!grown)
		return 0;
	p->answer = grown;
	memcpy(p->answer + p->answer_len, data, bytes);
	p->answer_len += bytes;
	p->answer[p->answer_len] = '\0';
	return bytes;
}

static void parse_vips(json_t *list, struct agent_reply *out)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *v = json_array_get(list, i);
		const char *address, *protocol;
		int port, port_end = 0;
		struct agent_vip *vip = &out->vips[out->n_vips];
		if (out->n_vips == AGENT_VIPS_MAX ||
		    json_unpack(v, "{s:s, s:i, s:s}", "address", &address, "port", &port,
				"protocol", &protocol) ||
		    port < 0 || port > 65535 ||
		    ip_prefix_parse(address, &vip->address, &vip->host_bits))
			continue;
		if (json_is_integer(json_object_get(v, "port_end")))
			port_end = (int)json_integer_value(json_object_get(v, "port_end"));
		vip->port = (uint16_t)port;
		vip->port_end = (uint16_t)(port_end > port && port_end <= 65535 ? port_end : 0);
		vip->proto = 0;
		if (!strcmp(protocol, "tcp"))
			vip->proto = IPPROTO_TCP;
		else if (!strcmp(protocol, "udp"))
			vip->proto = IPPROTO_UDP;
		out->n_vips++;
	}
}

/* False: it is not what the API answers. */
static bool parse_answer(const char *text, struct agent_reply *out)
{
	json_error_t err;
	json_int_t ack, clock_ms;
	const char *instance;
	int resync, refused;
	json_t *vips, *o = json_loads(text ? text : "", 0, &err);
	bool good = o && !json_unpack(o, "{s:I, s:s, s:b, s:I, s:i, s:o}", "ack", &ack, "instance",
				      &instance, "resync", &resync, "clock_ms", &clock_ms,
				      "refused", &refused, "vips", &vips);

	if (good) {
		out->ack = (uint64_t)ack;
		out->resync = resync;
		out->clock_ms = (uint64_t)clock_ms;
		out->refused = (unsigned)refused;
		snprintf(out->instance, sizeof(out->instance), "%s", instance);
		parse_vips(vips, out);
	}
	json_decref(o);
	return good;
}

/* What a problem document says. */
static void parse_problem(const char *text, struct agent_reply *out)
{
	json_error_t err;
	const char *detail = "";
	json_t *o = json_loads(text ? text : "", 0, &err);

	if (o && json_unpack(o, "{s:s}", "detail", &detail))
		detail = "";
	snprintf(out->error, sizeof(out->error), "HTTP status %ld%s%.100s", out->status,
		 *detail ? ": " : "", detail);
	json_decref(o);
}

static long twice(long ms, long base_ms)
{
	return ms * 2 < base_ms * SLOW_MAX ? ms * 2 : base_ms * SLOW_MAX;
}

/* Nobody at all, or a peer that takes its time over TLS, or over the answer? Those two get more. */
static void judge(struct agent_post *p, CURLcode rc)
{
	curl_off_t tcp_us = 0, tls_us = 0, sent_us = 0;

	curl_easy_getinfo(p->easy, CURLINFO_CONNECT_TIME_T, &tcp_us);
	curl_easy_getinfo(p->easy, CURLINFO_APPCONNECT_TIME_T, &tls_us);
	curl_easy_getinfo(p->easy, CURLINFO_PRETRANSFER_TIME_T, &sent_us);
	if (rc == CURLE_OK) {
		p->answer_ms = p->soon_ms;
		if (tls_us < p->soon_ms * 1000 / 2)
			p->connect_ms = p->soon_ms;
	} else if (rc == CURLE_OPERATION_TIMEDOUT && sent_us > 0) {
		p->answer_ms = twice(p->answer_ms, p->soon_ms);
	} else if (rc == CURLE_OPERATION_TIMEDOUT && tcp_us > 0) {
		p->connect_ms = twice(p->connect_ms, p->soon_ms);
	}
}

static void watch_for_hangup(struct agent_post *p)
{
	struct epoll_event e = {.events = EPOLLRDHUP | EPOLLONESHOT};
	curl_socket_t fd = CURL_SOCKET_BAD;

	if (curl_easy_getinfo(p->easy, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK &&
	    fd != CURL_SOCKET_BAD && epoll_ctl(p->hangups, EPOLL_CTL_MOD, fd, &e))
		(void)epoll_ctl(p->hangups, EPOLL_CTL_ADD, fd, &e);
}

static void finish(struct agent_post *p, CURLcode rc, struct agent_reply *out)
{
	judge(p, rc);
	watch_for_hangup(p);
	*out = (struct agent_reply){.status = 0};
	if (rc != CURLE_OK) {
		snprintf(out->error, sizeof(out->error), "%.150s",
			 p->error[0] ? p->error : curl_easy_strerror(rc));
	} else {
		curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &out->status);
		if (out->status != 200) {
			parse_problem(p->answer, out);
		} else if (!parse_answer(p->answer, out)) {
			out->status = 0;
			snprintf(out->error, sizeof(out->error), "the answer is not concuryd's");
		}
	}
	curl_multi_remove_handle(p->multi, p->easy);
	free(p->body);
	free(p->answer);
	p->body = p->answer = NULL;
	p->answer_len = 0;
	p->busy = false;
}

/* --- sending -------------------------------------------------------------------------------------
 */

int agent_post_send(struct agent_post *p, const struct agent_outgoing *r,
		    const struct agent_state *s)
{
	p->body = print_report(r, s);
	if (!p->body)
		return -ENOMEM;
	p->error[0] = '\0';
	curl_easy_setopt(p->easy, CURLOPT_CONNECTTIMEOUT_MS, p->connect_ms);
	curl_easy_setopt(p->easy, CURLOPT_TIMEOUT_MS, p->connect_ms + p->answer_ms);
	curl_easy_setopt(p->easy, CURLOPT_POSTFIELDS, p->body);
	curl_easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(p->body));
	if (curl_multi_add_handle(p->multi, p->easy) != CURLM_OK) {
		free(p->body);
		p->body = NULL;
		return -ENOMEM;
	}
	p->busy = true;
	return 0;
}

bool agent_post_busy(const struct agent_post *p)
{
	return p->busy;
}

int agent_post_hangup_fd(const struct agent_post *p)
{
	return p->hangups;
}

bool agent_post_hung_up(struct agent_post *p)
{
	struct epoll_event e;

	return epoll_wait(p->hangups, &e, 1, 0) == 1 && !p->busy;
}

bool agent_post_wait(struct agent_post *p, struct curl_waitfd *more, unsigned n_more,
		     unsigned timeout_ms, struct agent_reply *reply)
{
	int running, left;
	CURLMsg *m;

	curl_multi_perform(p->multi, &running);
	curl_multi_poll(p->multi, more, n_more, (int)timeout_ms, NULL);
	curl_multi_perform(p->multi, &running);
	while ((m = curl_multi_info_read(p->multi, &left)) != NULL) {
		if (m->msg != CURLMSG_DONE)
			continue;
		finish(p, m->data.result, reply);
		return true;
	}
	return false;
}

/* What a cut network holds is given up soon, and sent again over a connection of its own: TCP's
 * own retries would come ever later. A forwarder that has it and is slow to answer is not a cut. */
static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	const struct agent_post *p = arg;
	unsigned ms = (unsigned)p->soon_ms;

	/* (Fails on a Unix socket, which needs none.) */
	(void)purpose;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	return CURL_SOCKOPT_OK;
}

static int set_up(struct agent_post *p, const struct agent_options *o)
{
	char line[192];
	bool over_unix = !strncmp(o->url, "unix:", 5);

	p->soon_ms = (long)o->interval_ms / 2 > SOON_MS ? (long)o->interval_ms / 2 : SOON_MS;
	p->connect_ms = p->soon_ms;
	p->answer_ms = p->soon_ms;
	snprintf(p->url, sizeof(p->url), "%s/v1/agents/%s/reports",
		 over_unix ? "http://localhost" : o->url, o->id);
	snprintf(line, sizeof(line), "Authorization: Bearer %s", o->token);
	struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
	struct curl_slist *grown = list ? curl_slist_append(list, line) : NULL;
	p->headers = grown;
	if (grown)
		grown = curl_slist_append(grown, "Expect:");
	if (!grown || curl_easy_setopt(p->easy, CURLOPT_URL, p->url) != CURLE_OK)
		return -ENOMEM;
	if (over_unix &&
	    curl_easy_setopt(p->easy, CURLOPT_UNIX_SOCKET_PATH, o->url + 5) != CURLE_OK)
		return -ENOMEM;
	if ((o->ca_file && curl_easy_setopt(p->easy, CURLOPT_CAINFO, o->ca_file) != CURLE_OK) ||
	    (o->cert && curl_easy_setopt(p->easy, CURLOPT_SSLCERT, o->cert) != CURLE_OK) ||
	    (o->key && curl_easy_setopt(p->easy, CURLOPT_SSLKEY, o->key) != CURLE_OK))
		return -ENOMEM;
	curl_easy_setopt(p->easy, CURLOPT_HTTPHEADER, p->headers);
	curl_easy_setopt(p->easy, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(p->easy, CURLOPT_WRITEDATA, p);
	curl_easy_setopt(p->easy, CURLOPT_ERRORBUFFER, p->error);
	curl_easy_setopt(p->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(p->easy, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(p->easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(p->easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
	curl_easy_setopt(p->easy, CURLOPT_SOCKOPTDATA, p);
	return 0;
}

int agent_post_open(const struct agent_options *o, struct agent_post **out, struct error *err)
{
	struct agent_post *p = calloc(1, sizeof(*p));

	if (!p || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(p);
		return error_set(err, -ENOMEM, "libcurl cannot be set up");
	}
	p->multi = curl_multi_init();
	p->easy = curl_easy_init();
	p->hangups = epoll_create1(EPOLL_CLOEXEC);
	if (!p->multi || !p->easy || p->hangups < 0 || set_up(p, o)) {
		agent_post_close(p);
		return error_set(err, -ENOMEM, "libcurl cannot be set up for %s", o->url);
	}
	*out = p;
	return 0;
}

void agent_post_close(struct agent_post *p)
{
	if (!p)
		return;
	if (p->busy)
		curl_multi_remove_handle(p->multi, p->easy);
	curl_easy_cleanup(p->easy);
	curl_multi_cleanup(p->multi);
	curl_slist_free_all(p->headers);
	if (p->hangups >= 0)
		close(p->hangups);
	free(p->body);
	free(p->answer);
	free(p);
	curl_global_cleanup();
}
