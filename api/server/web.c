/* A path is compared with the names that were read, and never becomes one of a file, so there is
 * none that leads out of the directory. */
#include "api/server/web.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/server/precondition.h"
#include "api/server/problem.h"
#include "base/log.h"

#define FILES_MAX 64u
#define FILE_MAX ((off_t)4 << 20)
#define NAME_LEN 64u
#define INDEX "index.html"

static const struct {
	const char *suffix, *type;
} types[] = {
	{".html", "text/html; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".svg", "image/svg+xml"},
};

struct web_file {
	char name[NAME_LEN];
	const char *type;
	char *text;
	size_t len;
	char tag[ETAG_LEN];
};

struct web {
	unsigned n;
	struct web_file files[FILES_MAX];
};

/* NULL: not a file of a page. */
static const char *type_of(const char *name)
{
	size_t len = strlen(name);

	if (*name == '.' || len >= NAME_LEN ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != len)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		size_t n = strlen(types[i].suffix);
		if (len > n && !strcmp(name + len - n, types[i].suffix))
			return types[i].type;
	}
	return NULL;
}

/* -EISDIR: it is no regular file. */
static int read_text(int fd, struct web_file *f)
{
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EISDIR;
	if (st.st_size > FILE_MAX)
		return -E2BIG;
	f->text = malloc((size_t)st.st_size + 1);
	if (!f->text)
		return -ENOMEM;
	do {
		f->len += (size_t)n;
		n = read(fd, f->text + f->len, (size_t)st.st_size - f->len);
	} while (n > 0);
	return n < 0 ? -errno : 0;
}

static int read_file(struct web *w, int dirfd, const char *name)
{
	struct web_file *f = &w->files[w->n];
	struct etag e;

	if (w->n == FILES_MAX)
		return -E2BIG;
	*f = (struct web_file){.type = type_of(name)};
	memcpy(f->name, name, strlen(name) + 1); /* as type_of has seen, it fits */
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc = fd < 0 ? -errno : read_text(fd, f);
	if (fd >= 0)
		close(fd);
	etag_begin(&e);
	if (!rc)
		etag_add_bytes(&e, f->text, f->len);
	if (!etag_end(&e, f->tag) && !rc)
		rc = -ENOMEM;
	if (!rc) {
		w->n++;
		return 0;
	}
	free(f->text);
	f->text = NULL;
	return rc == -EISDIR ? 0 : rc;
}

static const struct web_file *find(const struct web *w, const char *name, size_t len)
{
	for (unsigned i = 0; i < w->n; i++)
		if (strlen(w->files[i].name) == len && !memcmp(w->files[i].name, name, len))
			return &w->files[i];
	return NULL;
}

static int read_dir(struct web *w, DIR *d, const char *path, struct error *err)
{
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		int rc = type_of(e->d_name) ? read_file(w, dirfd(d), e->d_name) : 0;
		if (rc)
			return error_set(err, rc, "--web %s: %s: %s", path, e->d_name,
					 strerror(-rc));
	}
	if (find(w, INDEX, strlen(INDEX)))
		return 0;
	return error_set(err, -ENOENT, "--web %s: there is no %s", path, INDEX);
}

static int open_dir(const char *path, struct web **out, struct error *err)
{
	DIR *d = opendir(path);
	struct web *w = calloc(1, sizeof(*w));
	int rc;

	if (!d)
		rc = error_set(err, -errno, "--web %s: %s", path, strerror(errno));
	else if (!w)
		rc = error_set(err, -ENOMEM, "--web %s: no memory", path);
	else
		rc = read_dir(w, d, path, err);
	if (d)
		closedir(d);
	if (rc || !w) {
		web_free(w);
		return rc;
	}
	log_info("web", "%s: %u files of the dashboard", path, w->n);
	*out = w;
	return 0;
}

/* Seen from the program: where `make install` puts both, and where a build does. */
static int open_default(struct web **out, struct error *err)
{
	static const char *const places[] = {"../share/concury/web", "../web"};
	char program[256], path[320];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	*out = NULL;
	if (n <= 0)
		return 0;
	program[n] = '\0';
	char *slash = strrchr(program, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(path, sizeof(path), "%s/%s/" INDEX, program, places[i]);
		if (access(path, R_OK))
			continue;
		*strrchr(path, '/') = '\0';
		return open_dir(path, out, err);
	}
	return 0;
}

int web_open(const char *dir, struct web **out, struct error *err)
{
	return dir ? open_dir(dir, out, err) : open_default(out, err);
}

void web_free(struct web *w)
{
	for (unsigned i = 0; w && i < w->n; i++)
		free(w->files[i].text);
	free(w);
}

static const struct web_file *file_of(const struct web *w, const struct api_request *req)
{
	if (!w || *req->target != '/' ||
	    (strcmp(req->method, "GET") != 0 && strcmp(req->method, "HEAD") != 0))
		return NULL;
	const char *name = req->target + 1;
	size_t len = strcspn(name, "?");
	return len ? find(w, name, len) : find(w, INDEX, strlen(INDEX));
}

bool web_answer(const struct web *w, const struct api_request *req, struct api_response *resp)
{
	const struct web_file *f = file_of(w, req);

	if (!f)
		return false;
	if (!precondition_accept(req, resp))
		return true;
	resp->page = true;
	if (precondition_settles(req, f->tag, resp))
		return true;
	char *copy = malloc(f->len + 1);
	if (!copy) {
		problem_set(resp, 500, "out of memory");
		return true;
	}
	memcpy(copy, f->text, f->len);
	response_text(resp, f->type, copy, f->len);
	return true;
}
