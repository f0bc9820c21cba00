/* Watch shared memory while a child works on it, one store at a time: each state that the memory
 * goes through is one that a kill could have left. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define STORE_WINDOWS_MAX 8

/** A part of a MAP_SHARED mapping that parent and child have. */
struct store_window {
	void *base;
	size_t size;
};

/** Every state of the windows that was seen, in order, first the one before the child ran. */
struct store_trace {
	unsigned n_windows;
	struct store_window windows[STORE_WINDOWS_MAX];
	size_t image_bytes;
	unsigned n_images;
	uint8_t *images;
};

/** Fork, run fn(arg) in the child, and collect an image after every instruction that changed the
 *  windows. Aborts the test if the child dies. The windows are left as the child left them. */
void store_trace_run(struct store_trace *t, void (*fn)(void *arg), void *arg);
void store_trace_free(struct store_trace *t);

/** Copy image i into the windows. */
void store_trace_restore(const struct store_trace *t, unsigned i);

/** Copy the windows' content into a buffer of store_windows_bytes / back. */
size_t store_windows_bytes(const struct store_trace *t);
void store_windows_save(const struct store_trace *t, uint8_t *buf);
void store_windows_load(const struct store_trace *t, const uint8_t *buf);
