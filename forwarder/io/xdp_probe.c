#include "io/xdp_probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int xdp_probe_read(int ifindex, struct xdp_probe *out, struct error *err)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, q);
	struct bpf_prog_info info = {0};
	struct xdp_probe probe = {0};
	uint32_t len = sizeof(info);

	int rc = bpf_xdp_query(ifindex, 0, &q);
	if (rc < 0)
		return error_set(err, rc, "cannot query the XDP program: %s", strerror(-rc));
	probe.id = q.drv_prog_id ? q.drv_prog_id : q.skb_prog_id ? q.skb_prog_id : q.hw_prog_id;
	probe.generic = probe.id && probe.id == q.skb_prog_id;
	int fd = probe.id ? bpf_prog_get_fd_by_id(probe.id) : -1;
	if (fd >= 0) {
		if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0)
			snprintf(probe.name, sizeof(probe.name), "%s", info.name);
		close(fd);
	}
	probe.ours = strcmp(probe.name, "steer") == 0;
	*out = probe;
	return 0;
}
