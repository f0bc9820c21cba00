#include "io/bpf_error.h"

#include <bpf/libbpf.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_warning[BPF_REASON_LEN];

static int keep_warning(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level != LIBBPF_WARN)
		return 0;
	int n = vsnprintf(last_warning, sizeof(last_warning), fmt, ap);
	if (n > (int)sizeof(last_warning) - 1)
		n = (int)sizeof(last_warning) - 1;
	while (n > 0 && last_warning[n - 1] == '\n')
		last_warning[--n] = '\0';
	return 0;
}

void bpf_error_collect(void)
{
	libbpf_set_print(keep_warning);
}

void bpf_error_clear(void)
{
	last_warning[0] = '\0';
}

int bpf_error_set(struct error *err, int rc, int ifindex, const char *what)
{
	char name[IF_NAMESIZE] = "?";

	if (ifindex)
		if_indextoname((unsigned)ifindex, name);
	return error_set(err, rc, "%s%s%s: %s%s%s%s", ifindex ? name : "", ifindex ? ": " : "",
			 what, strerror(-rc), last_warning[0] ? " (" : "", last_warning,
			 last_warning[0] ? ")" : "");
}

void bpf_error_save(char reason[BPF_REASON_LEN])
{
	memcpy(reason, last_warning, BPF_REASON_LEN);
}

void bpf_error_restore(const char reason[BPF_REASON_LEN])
{
	memcpy(last_warning, reason, BPF_REASON_LEN);
}
