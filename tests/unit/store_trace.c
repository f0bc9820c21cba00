/* The windows' pages are read-only in the child. A store faults; the handler makes them writable
 * and sets the processor's trap flag, so that the same instruction runs and traps behind itself;
 * that handler takes the image and closes the pages again. So no store goes unseen, in whatever
 * order compiler and processor do them: SIGKILL ends a process between two instructions, and
 * whoever reads the memory then sees all stores before that point and none after. */
#include "tests/unit/store_trace.h"

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define IMAGES_MAX 4096u
#define TRAP_FLAG 0x100

static struct store_trace *tracing; /* the child's */
static unsigned *n_images;	    /* shared */

/* --- windows -------------------------------------------------------------------------------- */

size_t store_windows_bytes(const struct store_trace *t)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < t->n_windows; i++)
		bytes += t->windows[i].size;
	return bytes;
}

void store_windows_save(const struct store_trace *t, uint8_t *buf)
{
	for (unsigned i = 0; i < t->n_windows; i++) {
		memcpy(buf, t->windows[i].base, t->windows[i].size);
		buf += t->windows[i].size;
	}
}

void store_windows_load(const struct store_trace *t, const uint8_t *buf)
{
	for (unsigned i = 0; i < t->n_windows; i++) {
		memcpy(t->windows[i].base, buf, t->windows[i].size);
		buf += t->windows[i].size;
	}
}

static uint8_t *image_of(const struct store_trace *t, unsigned i)
{
	return t->images + (size_t)i * t->image_bytes;
}

void store_trace_restore(const struct store_trace *t, unsigned i)
{
	store_windows_load(t, image_of(t, i));
}

/* --- the child ------------------------------------------------------------------------------ */

static bool windows_changed(const struct store_trace *t)
{
	const uint8_t *last = image_of(t, *n_images - 1);

	for (unsigned i = 0; i < t->n_windows; i++) {
		if (memcmp(last, t->windows[i].base, t->windows[i].size) != 0)
			return true;
		last += t->windows[i].size;
	}
	return false;
}

static void pages_protect(const struct store_trace *t, int protection)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (unsigned i = 0; i < t->n_windows; i++) {
		uintptr_t from = (uintptr_t)t->windows[i].base & ~(page - 1);
		uintptr_t to = (uintptr_t)t->windows[i].base + t->windows[i].size;
		if (mprotect((void *)from, to - from, protection) != 0)
			_exit(2);
	}
}

static void trap_flag(void *context, bool set)
{
#ifdef __x86_64__
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	*flags = set ? *flags | TRAP_FLAG : *flags & ~(greg_t)TRAP_FLAG;
#else
	(void)context;
	(void)set;
	_exit(3); /* single steps are known for x86-64 only */
#endif
}

static bool in_windows(const void *address)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), a = (uintptr_t)address;

	for (unsigned i = 0; i < tracing->n_windows; i++) {
		uintptr_t base = (uintptr_t)tracing->windows[i].base;
		if (a >= (base & ~(page - 1)) && a < base + tracing->windows[i].size + page)
			return true;
	}
	return false;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	if (!in_windows(info->si_addr))
		_exit(4); /* a real one */
	pages_protect(tracing, PROT_READ | PROT_WRITE);
	trap_flag(context, true);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (windows_changed(tracing)) {
		if (*n_images == IMAGES_MAX)
			_exit(5);
		store_windows_save(tracing, image_of(tracing, (*n_images)++));
	}
	pages_protect(tracing, PROT_READ);
	trap_flag(context, false);
}

static void child_run(struct store_trace *t, void (*fn)(void *arg), void *arg)
{
	struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	tracing = t;
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGTRAP, &trap, NULL);
	pages_protect(t, PROT_READ);
	fn(arg);
	_exit(0);
}

/* --- the parent ----------------------------------------------------------------------------- */

static void *shared_new(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

void store_trace_run(struct store_trace *t, void (*fn)(void *arg), void *arg)
{
	int status;

	t->image_bytes = store_windows_bytes(t);
	t->images = shared_new(IMAGES_MAX * t->image_bytes);
	n_images = shared_new(sizeof(*n_images));
	store_windows_save(t, t->images);
	*n_images = 1;
	pid_t pid = fork();
	if (pid == 0)
		child_run(t, fn, arg);
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "the traced child ended with %#x", status);
	ck_assert_msg(!windows_changed(t), "a store went unseen");
	t->n_images = *n_images;
	munmap(n_images, sizeof(*n_images));
}

void store_trace_free(struct store_trace *t)
{
	munmap(t->images, IMAGES_MAX * t->image_bytes);
	*t = (struct store_trace){0};
}
