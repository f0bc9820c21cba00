#include "control/state_part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"

/* What makes a file ours, in the order in which a mismatch is told. */
static const struct identity {
	const char *what;
	size_t offset;
	size_t size;
} identities[] = {
#define IDENTITY(what, member)                                                                     \
	{                                                                                          \
		what, offsetof(struct state_header, member),                                       \
			sizeof(((struct state_header *)0)->member)                                 \
	}
	IDENTITY("not a file of this kind", magic),
	IDENTITY("torn: never completed", complete),
	IDENTITY("another layout version", layout),
	IDENTITY("another size of a slot", slot_bytes),
	IDENTITY("another size of a record", record_bytes),
	IDENTITY("other ring sizes", ring_records),
	IDENTITY("of another database", database_id),
	IDENTITY("of another boot", boot_id),
#undef IDENTITY
};

void state_part_close(struct state_part *p)
{
	if (p->base)
		munmap(p->base, p->bytes);
	if (p->fd >= 0)
		close(p->fd);
	p->base = NULL;
	p->fd = -1;
}

void state_part_undo(struct state_part *p)
{
	if (p->base)
		munmap(p->base, p->bytes);
	p->base = NULL;
	if (p->fd >= 0 && p->bytes_before == 0)
		(void)unlinkat(p->dirfd, p->name, 0);
	else if (p->fd >= 0 && p->bytes > p->bytes_before &&
		 ftruncate(p->fd, (off_t)p->bytes_before) != 0)
		log_warning("state", "%s/%s: %s", p->dir, p->name, strerror(errno));
	state_part_close(p);
}

int state_part_open(struct state_part *p, bool create, struct error *err)
{
	struct stat st;

	p->fd = openat(p->dirfd, p->name,
		       O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (create ? O_CREAT : 0), 0600);
	if (p->fd < 0 && errno == ENOENT && !create)
		return -ENOENT;
	if (p->fd < 0 || fstat(p->fd, &st) != 0)
		return error_set(err, -errno, "state file %s/%s: %s", p->dir, p->name,
				 strerror(errno));
	if (!S_ISREG(st.st_mode)) {
		state_part_close(p);
		return error_set(err, -EINVAL, "state file %s/%s: not a regular file", p->dir,
				 p->name);
	}
	p->bytes = (size_t)st.st_size;
	p->bytes_before = p->bytes;
	return 0;
}

int state_part_map(struct state_part *p, size_t bytes, struct error *err)
{
	size_t old_bytes = p->bytes;
	struct statvfs vfs;
	void *base;
	int rc;

	do {
		rc = posix_fallocate(p->fd, 0, (off_t)bytes);
	} while (rc == EINTR);
	if (rc != 0) {
		if (ftruncate(p->fd, (off_t)old_bytes) != 0)
			log_warning("state", "%s/%s: %s", p->dir, p->name, strerror(errno));
		uint64_t free_bytes =
			fstatvfs(p->dirfd, &vfs) == 0 ? vfs.f_bavail * vfs.f_frsize : 0;
		return error_set(err, -rc,
				 "state directory %s: %s (%s needs %zu bytes, %" PRIu64
				 " are free; see --flows and --state-dir)",
				 p->dir, strerror(rc), p->name, bytes, free_bytes);
	}
	if (bytes > p->bytes)
		p->bytes = bytes;
	/* Page tables are filled now, so that no scan of the slots pays for it. */
	base = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, p->fd, 0);
	if (base == MAP_FAILED)
		return error_set(err, -errno, "state file %s/%s: cannot map %zu bytes: %s", p->dir,
				 p->name, p->bytes, strerror(errno));
	p->base = base;
	return 0;
}

const char *state_part_mismatch(const struct state_part *p, const struct state_header *want,
				struct state_header *h)
{
	if (p->bytes < STATE_HEADER_BYTES || pread(p->fd, h, sizeof(*h), 0) != (ssize_t)sizeof(*h))
		return "torn: shorter than its header";
	for (size_t i = 0; i < ARRAY_LEN(identities); i++)
		if (memcmp((const char *)h + identities[i].offset,
			   (const char *)want + identities[i].offset, identities[i].size) != 0)
			return identities[i].what;
	return NULL;
}

int state_part_format(struct state_part *p, const struct state_header *h, size_t bytes,
		      struct error *err)
{
	int rc;

	if (ftruncate(p->fd, 0) != 0)
		return error_set(err, -errno, "state file %s/%s: %s", p->dir, p->name,
				 strerror(errno));
	p->bytes = 0;
	p->bytes_before = 0;
	rc = state_part_map(p, bytes, err);
	if (rc < 0)
		return rc;
	memcpy(p->base, h, offsetof(struct state_header, complete));
	return 0;
}

void state_part_complete(struct state_part *p)
{
	atomic_store_explicit(&state_part_header(p)->complete, STATE_COMPLETE,
			      memory_order_release);
}
