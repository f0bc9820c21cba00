/* Errors of BPF calls with the kernel's own reason, which is only in what libbpf prints. By thread. */
#pragma once

#include "base/error.h"

#define BPF_REASON_LEN 160

/** Keep libbpf's warnings instead of printing them, from now on. */
void bpf_error_collect(void);

/** Forget the reason; before a call whose failure is to be told. */
void bpf_error_clear(void);

/** Fill *err: the interface's name (ifindex; 0: none), what could not be done, rc's meaning, and the last
 *  warning since bpf_error_clear. Returns rc. */
int bpf_error_set(struct error *err, int rc, int ifindex, const char *what);

/** The reason, kept over further calls. */
void bpf_error_save(char reason[BPF_REASON_LEN]);
void bpf_error_restore(const char reason[BPF_REASON_LEN]);
