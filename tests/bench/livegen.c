#include "tests/bench/livegen.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/livegen_map.h"

#define BATCH 64
/* A call sets up a pool of pages and tears it down: make it long; a signal ends it. */
#define REPEAT (1 << 30)

struct livegen {
	struct bpf_object *object;
	int prog_fd;
	int map_fd;
	int cpu;
	uint8_t frame[256];
	uint32_t len;
	_Atomic bool stop;
	_Atomic bool ended;
	int rc;
	pthread_t thread;
};

static void on_signal(int sig)
{
	(void)sig; /* it only has to interrupt */
}

static void *run(void *arg)
{
	struct livegen *g = arg;
	struct bpf_test_run_opts o;

	if (g->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(g->cpu, &set);
		(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	}
	memset(&o, 0, sizeof(o));
	o.sz = sizeof(o);
	o.data_in = g->frame;
	o.data_size_in = g->len;
	o.repeat = REPEAT;
	o.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
	o.batch_size = BATCH;
	while (!atomic_load(&g->stop)) {
		int rc = bpf_prog_test_run_opts(g->prog_fd, &o);

		if (rc < 0 && rc != -EINTR) {
			g->rc = rc;
			break;
		}
	}
	atomic_store(&g->ended, true);
	return NULL;
}

/* The object lies beside the benches: build/bench/X, build/tests/bench/livegen.bpf.o. */
static void object_path(char *path, size_t len)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	snprintf(path, len, "%s/../tests/bench/livegen.bpf.o", dirname(exe));
}

static int load(struct livegen *g, const struct livegen_config *c, struct error *err)
{
	struct livegen_map m = {.ifindex = (uint32_t)c->ifindex, .n_flows = c->n_flows};
	const uint32_t zero = 0;
	char path[PATH_MAX + 64];

	object_path(path, sizeof(path));
	g->object = bpf_object__open_file(path, NULL);
	if (!g->object)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	int rc = bpf_object__load(g->object);
	if (rc < 0)
		return error_set(err, rc, "cannot load %s: %s", path, strerror(-rc));
	g->prog_fd = bpf_program__fd(bpf_object__find_program_by_name(g->object, "livegen"));
	g->map_fd = bpf_object__find_map_fd_by_name(g->object, "config");
	if (g->prog_fd < 0 || g->map_fd < 0)
		return error_set(err, -ENOENT, "%s is another program's", path);
	if (bpf_map_update_elem(g->map_fd, &zero, &m, BPF_ANY) < 0)
		return error_set(err, -errno, "cannot configure the generator: %s",
				 strerror(errno));
	return 0;
}

int livegen_start(const struct livegen_config *c, struct livegen **out, struct error *err)
{
	struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
	struct livegen *g = calloc(1, sizeof(*g));
	int rc;

	if (!g)
		return error_set(err, -ENOMEM, "no memory for the generator");
	if (c->len > sizeof(g->frame) || c->n_flows == 0) {
		rc = error_set(err, -EINVAL, "frame too long, or no flows");
		goto fail;
	}
	memcpy(g->frame, c->frame, c->len);
	g->len = c->len;
	g->cpu = c->cpu;
	if ((rc = load(g, c, err)) < 0)
		goto fail;
	sigaction(SIGUSR1, &action, NULL);
	rc = -pthread_create(&g->thread, NULL, run, g);
	if (rc < 0) {
		error_set(err, rc, "cannot start the generator: %s", strerror(-rc));
		goto fail;
	}
	*out = g;
	return 0;
fail:
	bpf_object__close(g->object);
	free(g);
	return rc;
}

uint64_t livegen_frames(const struct livegen *g)
{
	struct livegen_map m = {0};
	const uint32_t zero = 0;

	return bpf_map_lookup_elem(g->map_fd, &zero, &m) < 0 ? 0 : m.n_frames;
}

int livegen_stop(struct livegen *g)
{
	if (!g)
		return 0;
	atomic_store(&g->stop, true);
	/* A signal that comes just before the call is lost: again, until the thread has ended. */
	while (!atomic_load(&g->ended)) {
		pthread_kill(g->thread, SIGUSR1);
		usleep(10000);
	}
	pthread_join(g->thread, NULL);
	int rc = g->rc;
	bpf_object__close(g->object);
	free(g);
	return rc;
}
