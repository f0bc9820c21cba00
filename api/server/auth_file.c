#include "api/server/auth_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define LINE_LEN 512

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hash(const char *text, uint8_t hash[TOKEN_HASH_LEN])
{
	if (strlen(text) != 2 * (size_t)TOKEN_HASH_LEN)
		return false;
	for (unsigned i = 0; i < TOKEN_HASH_LEN; i++) {
		int hi = hex_value(text[2 * i]);
		int lo = hex_value(text[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return false;
		hash[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}

static bool parse_uid(const char *text, uint32_t *uid)
{
	size_t len = strlen(text);
	unsigned long long n = len && len <= 10 && strspn(text, "0123456789") == len
				       ? strtoull(text, NULL, 10)
				       : UINT64_MAX;

	*uid = (uint32_t)n;
	return n < UINT32_MAX; /* the last one means no user */
}

static const char *parse_proof(const char *text, struct auth_line *l)
{
	if (!strncmp(text, "sha256:", 7))
		return parse_hash(text + 7, l->hash) ? NULL : "sha256: needs 64 hex digits";
	if (!strncmp(text, "cert:", 5)) {
		l->proof = PROOF_CERT;
		size_t len = strlen(text + 5);
		if (!len || len >= sizeof(l->cert))
			return "cert: needs a name";
		memcpy(l->cert, text + 5, len + 1);
		return NULL;
	}
	if (!strncmp(text, "uid:", 4)) {
		l->proof = PROOF_UID;
		return parse_uid(text + 4, &l->uid) ? NULL : "uid: needs a number";
	}
	if (!token_text_valid(text))
		return "a token has 16 to 128 visible ASCII characters";
	return token_hash(text, l->hash) ? NULL : "no hash could be made";
}

/* What is wrong with the line, or NULL. *empty: it means nothing. */
static const char *parse_line(char *line, struct auth_line *l, bool *empty)
{
	char *rest = NULL;
	const char *role = strtok_r(line, " \t\r\n", &rest);
	const char *id = strtok_r(NULL, " \t\r\n", &rest);
	const char *proof = strtok_r(NULL, " \t\r\n", &rest);

	memset(l, 0, sizeof(*l));
	*empty = !role || *role == '#';
	if (*empty)
		return NULL;
	l->role = auth_role_parse(role);
	if (!l->role)
		return "the first word must be read, operate or admin";
	if (!id || !model_id_valid(id))
		return "the second word must be a name: [a-z0-9]([a-z0-9._-]{0,62})";
	snprintf(l->id, sizeof(l->id), "%s", id);
	if (!proof || strtok_r(NULL, " \t\r\n", &rest))
		return "three words are needed: ROLE NAME TOKEN";
	return parse_proof(proof, l);
}

static const char *take_line(char *line, struct auth_file *f)
{
	struct auth_line l;
	bool empty;
	const char *fault = parse_line(line, &l, &empty);

	if (fault || empty)
		return fault;
	for (unsigned i = 0; i < f->n; i++)
		if (!strcmp(f->lines[i].id, l.id))
			return "the name is there twice";
	if (f->n == AUTH_FILE_MAX)
		return "too many lines: 256 are read";
	f->lines[f->n++] = l;
	return NULL;
}

/* The next line without its end; false at the end of the file. *fault: it can be none. */
static bool next_line(FILE *in, char line[LINE_LEN], const char **fault)
{
	size_t n = 0;
	int c;

	*fault = NULL;
	while ((c = getc(in)) != EOF && c != '\n') {
		if (c == '\0')
			*fault = "a NUL: it is not a text";
		else if (n == LINE_LEN - 1)
			*fault = "the line is too long";
		else
			line[n++] = (char)c;
	}
	line[n] = '\0';
	return c != EOF || n || *fault;
}

static int read_lines(FILE *in, const char *path, struct auth_file *f, struct error *err)
{
	const char *fault;
	char line[LINE_LEN];
	unsigned number = 0;
	int rc = 0;

	while (!rc && next_line(in, line, &fault)) {
		number++;
		if (!fault)
			fault = take_line(line, f);
		if (fault)
			rc = error_set(err, -EINVAL, "--token-file %s, line %u: %s", path, number,
				       fault);
	}
	if (!rc && ferror(in))
		rc = error_set(err, -EIO, "--token-file %s: cannot be read", path);
	gnutls_memset(line, 0, sizeof(line));
	return rc;
}

/* Opening a pipe would wait for somebody to write into it. NULL with errno. */
static FILE *open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");

	if (!in && fd >= 0)
		close(fd);
	return in;
}

int auth_file_read(const char *path, struct auth_file *out, struct error *err)
{
	struct auth_file *f = calloc(1, sizeof(*f));
	FILE *in = f ? open_file(path) : NULL;
	struct stat st;
	int rc;

	if (!in) {
		rc = f ? -errno : -ENOMEM;
		free(f);
		return error_set(err, rc, "--token-file %s: %s", path, strerror(-rc));
	}
	if (fstat(fileno(in), &st))
		rc = error_set(err, -errno, "--token-file %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = error_set(err, -EINVAL,
			       "--token-file %s: not a regular file, as which it can be read again",
			       path);
	else if (st.st_mode & (S_IWGRP | S_IWOTH) || (st.st_uid && st.st_uid != geteuid()))
		rc = error_set(err, -EINVAL,
			       "--token-file %s: others may write it (chown root, chmod 600)",
			       path);
	else
		rc = read_lines(in, path, f, err);
	fclose(in);
	if (!rc) {
		*out = *f;
		if (st.st_mode & S_IROTH)
			log_warning("auth", "%s: every user can read it (chmod 600)", path);
	}
	free(f);
	return rc;
}
