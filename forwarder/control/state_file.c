/* Why several files, and how each may change its size:
 *
 * The flow slots are the last thing in DIR/flows, so a larger --flows extends the file in place and
 * every slot keeps its offset. A smaller one keeps the larger file: flows that are known are worth
 * more than the memory, which is given back by the next boot or by removing the file.
 *
 * Rings stand in a file for each worker, so that another number of workers touches neither the
 * slots nor other workers' rings. A ring that no worker writes any more but that still holds
 * records is kept and shown, for control to drain it; the start after that removes it.
 *
 * A file is formatted in this order: cut to nothing (which takes the old completion mark away), all
 * space allocated (zeroed by the kernel), header, and the mark last. Killed in between, it counts
 * as torn and is formatted anew. Growing allocates first and then stores the new count, one 64-bit
 * word. A ring file bears the random id of the flows file it was made for, so rings never outlive
 * the slots they belong with. Space is allocated on every open, holes or not: a full file system is
 * an error message at start and never a SIGBUS later. A start that fails gives the space back.
 *
 * The lock is on the directory: it covers all files, and is there before the first one is looked
 * at. /dev/shm is writable for everyone: a directory that another user made, or can write to, is
 * refused, and no symbolic link is followed in it. */
#include "control/state_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/entropy.h"
#include "base/log.h"
#include "control/state_part.h"

static const uint32_t ring_records[N_LEARN_RINGS] = {
	[RING_OPENING] = STATE_OPENING_RECORDS,
	[RING_DATAGRAM] = STATE_DATAGRAM_RECORDS,
	[RING_REFRESH] = STATE_REFRESH_RECORDS,
};

struct state_file {
	const char *dir; /* the caller's; used while opening only */
	int dirfd;
	enum state_file_status status;
	uint64_t n_flows;
	unsigned n_workers;
	struct state_header header; /* what our files bear; magic and n_flows differ */
	struct state_part flows;
	struct state_part rings[STATE_WORKERS_MAX];
};

static size_t ring_offset(enum learn_ring_id ring)
{
	size_t at = STATE_HEADER_BYTES;

	for (unsigned i = 0; i < (unsigned)ring; i++)
		at += learn_ring_bytes(ring_records[i]);
	return at;
}

static size_t rings_bytes(void)
{
	return ring_offset(N_LEARN_RINGS);
}

static size_t flows_bytes(uint64_t n_flows)
{
	return STATE_HEADER_BYTES + n_flows * FLOW_SLOT_BYTES;
}

/* --- the flow slots ------------------------------------------------------ */

/* What the ring files of these workers will take of the space that is free now. */
static uint64_t rings_missing(const struct state_file *f, unsigned n_workers)
{
	uint64_t bytes = 0;

	for (unsigned w = 0; w < n_workers; w++) {
		struct stat st;
		uint64_t has = 0;

		if (fstatat(f->dirfd, f->rings[w].name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			has = (uint64_t)st.st_blocks * 512;
		bytes += has < rings_bytes() ? rings_bytes() - has : 0;
	}
	return bytes;
}

/* --flows was not given: the default, or what fits half of the space that the rings leave. */
static int flows_default(struct state_file *f, unsigned n_workers, uint64_t *n_flows,
			 struct error *err)
{
	uint64_t n_free, for_rings = rings_missing(f, n_workers), fit = 0;
	struct statvfs vfs;

	if (fstatvfs(f->dirfd, &vfs) != 0)
		return error_set(err, -errno, "state directory %s: %s", f->dir, strerror(errno));
	n_free = vfs.f_bavail * vfs.f_frsize;
	if (n_free > for_rings)
		fit = (n_free - for_rings) / 2 / FLOW_SLOT_BYTES;
	if (fit < STATE_FLOWS_MIN)
		return error_set(err, -ENOSPC,
				 "state directory %s: %" PRIu64 " bytes free, too few for %u flows "
				 "and %" PRIu64 " bytes of the workers' rings",
				 f->dir, n_free, STATE_FLOWS_MIN, for_rings);
	*n_flows = STATE_FLOWS_DEFAULT;
	if (fit < STATE_FLOWS_DEFAULT) {
		*n_flows = fit;
		log_warning("state",
			    "room for %" PRIu64 " flows only (half of the space free in %s)", fit,
			    f->dir);
	}
	return 0;
}

static int flows_format(struct state_file *f, const struct state_file_config *c, struct error *err)
{
	uint64_t n_flows = c->n_flows;
	int rc;

	if (ftruncate(f->flows.fd, 0) != 0) /* before the free space is asked for */
		return error_set(err, -errno, "state file %s/%s: %s", f->dir, f->flows.name,
				 strerror(errno));
	f->flows.bytes_before = 0;
	if (n_flows == 0) {
		rc = flows_default(f, c->n_workers, &n_flows, err);
		if (rc < 0)
			return rc;
	}
	entropy_fill(f->header.flows_id, sizeof(f->header.flows_id));
	f->header.n_flows = n_flows;
	rc = state_part_format(&f->flows, &f->header, flows_bytes(n_flows), err);
	if (rc < 0)
		return rc;
	state_part_complete(&f->flows);
	f->n_flows = n_flows;
	return 0;
}

static int flows_keep(struct state_file *f, uint64_t had, uint64_t n_flows, struct error *err)
{
	uint64_t n = n_flows > had ? n_flows : had;
	int rc;

	rc = state_part_map(&f->flows, flows_bytes(n), err);
	if (rc < 0)
		return rc;
	if (n_flows != 0 && n_flows < had)
		log_info("state",
			 "%s/%s keeps room for %" PRIu64 " flows, not %" PRIu64
			 " (it shrinks at the next boot, or when removed while concuryd is down)",
			 f->dir, f->flows.name, had, n_flows);
	f->n_flows = n;
	return 0;
}

static int flows_open(struct state_file *f, const struct state_file_config *c, struct error *err)
{
	struct state_header h;
	const char *why;
	int rc;

	rc = state_part_open(&f->flows, true, err);
	if (rc < 0)
		return rc;
	if (f->flows.bytes == 0) {
		f->status = STATE_NEW;
		return flows_format(f, c, err);
	}
	why = state_part_mismatch(&f->flows, &f->header, &h);
	if (!why && (h.n_flows > STATE_FLOWS_MAX || f->flows.bytes < flows_bytes(h.n_flows)))
		why = "torn: shorter than its slots";
	if (why) {
		log_warning("state", "%s/%s replaced (%s)", f->dir, f->flows.name, why);
		f->status = STATE_REPLACED;
		return flows_format(f, c, err);
	}
	f->status = STATE_KEPT;
	memcpy(f->header.flows_id, h.flows_id, sizeof(h.flows_id));
	return flows_keep(f, h.n_flows, c->n_flows, err);
}

/* --- the rings ----------------------------------------------------------- */

static struct state_header ring_header(const struct state_file *f)
{
	struct state_header h = f->header;

	memcpy(h.magic, "concury rings", sizeof("concury rings"));
	h.n_flows = 0;
	return h;
}

/* Why the open file cannot be kept, or NULL; *n_unread: records that wait in it. */
static const char *ring_mismatch(const struct state_file *f, const struct state_part *p,
				 uint64_t *n_unread)
{
	struct state_header want = ring_header(f), h;
	const char *why = state_part_mismatch(p, &want, &h);

	*n_unread = 0;
	if (why)
		return why;
	if (memcmp(h.flows_id, want.flows_id, sizeof(h.flows_id)) != 0)
		return "made for other flow slots";
	if (p->bytes < rings_bytes())
		return "torn: shorter than its rings";
	for (unsigned i = 0; i < N_LEARN_RINGS; i++) {
		struct learn_ring r;
		off_t at = (off_t)ring_offset((enum learn_ring_id)i);

		if (pread(p->fd, &r, sizeof(r), at) != (ssize_t)sizeof(r))
			return "unreadable";
		uint64_t n = atomic_load(&r.head) - atomic_load(&r.tail);
		if (r.n != ring_records[i] || n > r.n)
			return "damaged: impossible positions";
		*n_unread += n;
	}
	return NULL;
}

static int ring_open(struct state_file *f, unsigned worker, struct error *err)
{
	struct state_part *p = &f->rings[worker];
	struct state_header h = ring_header(f);
	uint64_t n_unread;
	int rc;

	rc = state_part_open(p, true, err);
	if (rc < 0)
		return rc;
	if (p->bytes > 0) {
		const char *why = ring_mismatch(f, p, &n_unread);
		if (!why)
			return state_part_map(p, rings_bytes(), err);
		log_info("state", "%s/%s replaced (%s)", f->dir, p->name, why);
		state_file_set_learned(f, false); /* its records are lost */
	}
	rc = state_part_format(p, &h, rings_bytes(), err);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < N_LEARN_RINGS; i++)
		state_file_ring(f, worker, (enum learn_ring_id)i)->n = ring_records[i];
	state_part_complete(p);
	return 0;
}

/* Workers whose rings are needed: those that will run, and all up to the last one with unread
 * records. The files of the others are removed. */
static int rings_count(struct state_file *f, unsigned n_workers, unsigned *n, struct error *err)
{
	for (*n = STATE_WORKERS_MAX; *n > n_workers; (*n)--) {
		struct state_part *p = &f->rings[*n - 1];
		uint64_t n_unread = 0;
		int rc = state_part_open(p, false, err);

		if (rc == -ENOENT)
			continue;
		if (rc < 0)
			return rc;
		if (ring_mismatch(f, p, &n_unread))
			n_unread = 0;
		state_part_close(p);
		if (n_unread)
			break;
		if (unlinkat(f->dirfd, p->name, 0) != 0)
			return error_set(err, -errno, "state file %s/%s: cannot remove: %s", f->dir,
					 p->name, strerror(errno));
	}
	return 0;
}

static int rings_open(struct state_file *f, unsigned n_workers, struct error *err)
{
	int rc = rings_count(f, n_workers, &f->n_workers, err);

	for (unsigned w = 0; w < f->n_workers && rc == 0; w++)
		rc = ring_open(f, w, err);
	return rc;
}

/* --- the whole ----------------------------------------------------------- */

static int header_init(struct state_header *h, const struct state_file_config *c, struct error *err)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = file ? fread(h->boot_id, 1, STATE_BOOT_ID_BYTES, file) : 0;

	if (file)
		fclose(file);
	if (n != STATE_BOOT_ID_BYTES)
		return error_set(err, -EIO, "state: cannot read /proc/sys/kernel/random/boot_id");
	memcpy(h->magic, "concury flows", sizeof("concury flows"));
	h->layout = STATE_LAYOUT;
	h->slot_bytes = FLOW_SLOT_BYTES;
	h->record_bytes = sizeof(struct learn_record);
	memcpy(h->ring_records, ring_records, sizeof(h->ring_records));
	memcpy(h->database_id, c->database_id, sizeof(h->database_id));
	atomic_store(&h->complete, STATE_COMPLETE);
	return 0;
}

static int directory_open(struct state_file *f, struct error *err)
{
	struct stat st;

	if (mkdir(f->dir, 0700) != 0 && errno != EEXIST)
		return error_set(err, -errno, "state directory %s: cannot make it: %s", f->dir,
				 strerror(errno));
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (f->dirfd < 0 || fstat(f->dirfd, &st) != 0)
		return error_set(err, -errno, "state directory %s: %s", f->dir, strerror(errno));
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & S_IWOTH))
		return error_set(
			err, -EPERM,
			"state directory %s: other users can write to it (uid %u, mode %o)", f->dir,
			st.st_uid, st.st_mode & 07777u);
	if (flock(f->dirfd, LOCK_EX | LOCK_NB) != 0)
		return error_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno,
				 "state directory %s: %s", f->dir,
				 errno == EWOULDBLOCK ? "in use by another process"
						      : strerror(errno));
	f->flows = (struct state_part){.dir = f->dir, .dirfd = f->dirfd, .name = "flows", .fd = -1};
	for (unsigned w = 0; w < STATE_WORKERS_MAX; w++) {
		f->rings[w] = (struct state_part){.dir = f->dir, .dirfd = f->dirfd, .fd = -1};
		snprintf(f->rings[w].name, sizeof(f->rings[w].name), "rings.%hhu", (uint8_t)w);
	}
	return 0;
}

static void undo(struct state_file *f)
{
	for (unsigned w = 0; w < STATE_WORKERS_MAX; w++)
		state_part_undo(&f->rings[w]);
	state_part_undo(&f->flows);
	state_file_close(f);
}

int state_file_open(const struct state_file_config *c, struct state_file **out, struct error *err)
{
	static const char *const words[] = {
		[STATE_KEPT] = "kept", [STATE_NEW] = "made", [STATE_REPLACED] = "replaced"};
	struct state_file *f;
	int rc;

	if (c->n_workers < 1 || c->n_workers > STATE_WORKERS_MAX)
		return error_set(err, -EINVAL, "workers: 1 to %u", STATE_WORKERS_MAX);
	if (c->n_flows > STATE_FLOWS_MAX)
		return error_set(err, -EINVAL, "flows: at most %u", STATE_FLOWS_MAX);
	f = calloc(1, sizeof(*f));
	if (!f)
		return error_set(err, -ENOMEM, "state: no memory");
	f->dir = c->dir;
	f->dirfd = -1;
	f->flows.fd = -1;
	for (unsigned w = 0; w < STATE_WORKERS_MAX; w++)
		f->rings[w].fd = -1;
	rc = header_init(&f->header, c, err);
	if (rc == 0)
		rc = directory_open(f, err);
	if (rc == 0)
		rc = flows_open(f, c, err);
	if (rc == 0)
		rc = rings_open(f, c->n_workers, err);
	if (rc < 0) {
		undo(f);
		return rc;
	}
	state_part_header(&f->flows)->n_flows = f->n_flows; /* grown by now, if it does */
	log_info("state", "%s/flows %s, room for %" PRIu64 " flows", f->dir, words[f->status],
		 f->n_flows);
	f->dir = NULL;
	*out = f;
	return 0;
}

void state_file_close(struct state_file *f)
{
	if (!f)
		return;
	for (unsigned w = 0; w < STATE_WORKERS_MAX; w++)
		state_part_close(&f->rings[w]);
	state_part_close(&f->flows);
	if (f->dirfd >= 0)
		close(f->dirfd); /* unlocks */
	free(f);
}

enum state_file_status state_file_status(const struct state_file *f)
{
	return f->status;
}

uint64_t state_file_n_flows(const struct state_file *f)
{
	return f->n_flows;
}

bool state_file_learned(const struct state_file *f)
{
	return atomic_load(&state_part_header(&f->flows)->learned) != 0;
}

void state_file_set_learned(struct state_file *f, bool learned)
{
	atomic_store(&state_part_header(&f->flows)->learned, learned);
}

struct flow_slot *state_file_slots(struct state_file *f)
{
	return (struct flow_slot *)(f->flows.base + STATE_HEADER_BYTES);
}

struct learn_ring *state_file_ring(struct state_file *f, unsigned worker, enum learn_ring_id ring)
{
	assert(worker < f->n_workers && ring < N_LEARN_RINGS);
	return (struct learn_ring *)(f->rings[worker].base + ring_offset(ring));
}

unsigned state_file_n_workers(const struct state_file *f)
{
	return f->n_workers;
}
