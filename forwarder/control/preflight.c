/* Each check adds one finding for what it looked at. What belongs to one interface is in
 * preflight_iface.c and preflight_queues.c, the way to backends in preflight_dips.c.
 *
 * Reverse-path filters are not looked at: VIP packets never reach the kernel of this machine. */
#include "control/preflight.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "control/options.h"
#include "control/own_addresses.h"
#include "control/own_use.h"
#include "control/preflight_report.h"
#include "control/state_file.h"
#include "io/netdev.h"

/* linux/capability.h numbers. */
enum { NET_ADMIN = 12, NET_RAW = 13, IPC_LOCK = 14, SYS_ADMIN = 21, SYS_RESOURCE = 24, BPF = 39 };

/* First word of a file of /proc or /sys that is one line, or false. */
static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(buf, (int)size, f);

	if (f)
		fclose(f);
	return ok;
}

static void check_kernel(const struct preflight *p, struct findings *r)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	(void)p;
	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
		report_note(r, NULL, "kernel: the version cannot be read");
		return;
	}
	/* 5.18: steer asks for the length of frames in several buffers (bpf_xdp_get_buff_len). */
	if (major < 5 || (major == 5 && minor < 18))
		report_block(r, "apt-get install linux-image-amd64 && reboot",
			     "kernel: %s, but 5.18 or later is needed", u.release);
	else
		report_ok(r, "kernel: %s", u.release);
}

static void check_xdp_sockets(const struct preflight *p, struct findings *r)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	(void)p;
	if (fd < 0 && errno == EAFNOSUPPORT)
		report_block(r, "apt-get install linux-image-amd64 && reboot",
			     "kernel: built without AF_XDP sockets (CONFIG_XDP_SOCKETS)");
	if (fd >= 0)
		close(fd);
}

static void check_bpf(const struct preflight *p, struct findings *r)
{
	char line[32];

	(void)p;
	if (read_line("/proc/sys/net/core/bpf_jit_enable", line, sizeof(line)) && line[0] == '0')
		report_note(r, "sysctl -w net.core.bpf_jit_enable=1",
			    "BPF: programs are interpreted, each packet costs several times more");
	report_ok(r, "BPF: no bpffs is needed, the program stays with its interface");
}

/* How packets reach the workers; what a faster way lacks is in the log of the start. */
static void check_modes(const struct preflight *p, struct findings *r)
{
	for (unsigned i = 0; i < p->n_queues; i++) {
		const struct xsk_queue *q = &p->queues[i];
		if (i && !strcmp(q->iface, q[-1].iface) && q->mode == q[-1].mode)
			continue;
		if (q->mode == XDP_MODE_GENERIC)
			report_note(r, NULL,
				    "%s: generic XDP: the kernel makes an skb of each packet "
				    "first; the log of the start says why",
				    q->iface);
		else
			report_ok(r, "%s: XDP mode %s", q->iface, xdp_mode_name(q->mode));
	}
}

static uint64_t effective_capabilities(void)
{
	char line[256];
	uint64_t caps = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			caps = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return caps;
}

#define PRIVILEGES_FAULT "privileges: NET_ADMIN, NET_RAW and BPF are needed"
#define PRIVILEGES_FIX                                                                             \
	"run concuryd as root, or with AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW CAP_BPF "     \
	"CAP_PERFMON CAP_IPC_LOCK"

static bool has_privileges(void)
{
	uint64_t caps = effective_capabilities();

	return caps >> NET_ADMIN & 1 && caps >> NET_RAW & 1 &&
	       (caps >> SYS_ADMIN & 1 || caps >> BPF & 1);
}

int preflight_privileges(struct error *err)
{
	if (has_privileges())
		return 0;
	return error_set(err, -EPERM, PRIVILEGES_FAULT ": " PRIVILEGES_FIX);
}

static void check_privileges(const struct preflight *p, struct findings *r)
{
	(void)p;
	if (has_privileges())
		report_ok(r, "privileges: sufficient");
	else
		report_block(r, PRIVILEGES_FIX, PRIVILEGES_FAULT);
}

#define LOCKED_MIN (64u << 20)
#define LOCKED_FIX "ulimit -l unlimited    (systemd: LimitMEMLOCK=infinity)"

/* Packet buffers are locked. A start lifts the limit where it may, and else goes by CAP_IPC_LOCK,
 * which it gives up then unless it is told to keep it: an interface that comes back later needs its
 * buffers anew. */
static void check_locked_memory(const struct preflight *p, struct findings *r)
{
	uint64_t caps = effective_capabilities();
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	unsigned long long kib = (unsigned long long)limit.rlim_cur / 1024;
	bool may_lift = limit.rlim_max == RLIM_INFINITY || caps >> SYS_RESOURCE & 1;
	bool may_lock = caps >> IPC_LOCK & 1;
	if (limit.rlim_cur == RLIM_INFINITY || (may_lift && !p->running) ||
	    (may_lock && (p->running || p->keep_ipc_lock)))
		report_ok(r, "locked memory: no limit applies");
	else if (may_lock || p->running)
		report_note(r, LOCKED_FIX ", or --keep-ipc-lock",
			    "locked memory: at most %llu KiB %s, so an interface that vanishes may "
			    "need a restart to be served again",
			    kib, p->running ? "now" : "once it is started");
	else if (limit.rlim_cur < LOCKED_MIN)
		report_block(r, LOCKED_FIX ", or CAP_IPC_LOCK",
			     "locked memory: %llu KiB are too little for the packet buffers", kib);
	else
		report_note(r, LOCKED_FIX ", or CAP_IPC_LOCK",
			    "locked memory: at most %llu KiB, without CAP_IPC_LOCK: if the packet "
			    "buffers of all queues are more, a start fails",
			    kib);
}

static void check_huge_pages(const struct preflight *p, struct findings *r)
{
	char line[128];
	unsigned long n_free = 0;
	bool thp = read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line)) &&
		   !strstr(line, "[never]");

	(void)p;
	if (read_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", line,
		      sizeof(line)))
		n_free = strtoul(line, NULL, 10);
	if (n_free)
		report_ok(r, "huge pages: %lu of 2 MiB are reserved and free", n_free);
	else
		report_note(r, "sysctl -w vm.nr_hugepages=64",
			    "huge pages: none is reserved and free, %s",
			    thp ? "transparent ones are used" : "and transparent ones are off");
}

static void check_cores(const struct preflight *p, struct findings *r)
{
	cpu_set_t set;
	unsigned n;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	n = (unsigned)CPU_COUNT(&set);
	if (p->n_workers >= n && n > 1)
		report_note(r, "start it with fewer --workers",
			    "cores: %u for %u workers, none is left for control", n, p->n_workers);
	else
		report_ok(r, "cores: %u", n);
}

/* The directory that path lies in, in a buffer of PATH_MAX. */
static const char *parent(const char *path, char *buf)
{
	snprintf(buf, PATH_MAX, "%s", path);
	return dirname(buf);
}

/* The start makes the state directory, but not what it lies in. */
static bool check_state_place(const struct preflight *p, const char *dir, struct findings *r)
{
	char fix[PATH_MAX + 64];
	struct stat st;

	if (stat(dir, &st)) {
		snprintf(fix, sizeof(fix), "mkdir -p %s", dir);
		report_block(r, fix, "state directory %s: %s: %s", p->state_dir, dir,
			     strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode)) {
		report_block(r, "another --state-dir", "state directory %s: %s is not a directory",
			     p->state_dir, dir);
		return false;
	}
	if (access(dir, W_OK)) {
		report_block(r, "run concuryd as root, or with another --state-dir",
			     "state directory %s: %s", p->state_dir, strerror(errno));
		return false;
	}
	return true;
}

static void check_state_dir(const struct preflight *p, struct findings *r)
{
	char buf[PATH_MAX];
	char fix[64];
	struct statvfs fs;
	bool is_there = access(p->state_dir, F_OK) == 0;
	const char *dir = is_there ? p->state_dir : parent(p->state_dir, buf);

	if (!check_state_place(p, dir, r))
		return;
	if (statvfs(dir, &fs)) {
		report_block(r, "another --state-dir", "state directory %s: %s", p->state_dir,
			     strerror(errno));
		return;
	}
	/* What an earlier run left there is used again, so it counts as free only if it is removed.
	 */
	uint64_t n_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	uint64_t n_flows = p->n_flows ? p->n_flows : STATE_FLOWS_MIN;
	if (n_bytes / FLOW_SLOT_BYTES < n_flows && !is_there) {
		snprintf(fix, sizeof(fix), "--flows %llu, or another --state-dir",
			 (unsigned long long)(n_bytes / FLOW_SLOT_BYTES / 2));
		report_block(r, fix,
			     "state directory %s: %llu MiB free are too little for %llu flows",
			     p->state_dir, (unsigned long long)n_bytes >> 20,
			     (unsigned long long)n_flows);
	} else {
		report_ok(r, "state directory %s: %llu MiB free%s", p->state_dir,
			  (unsigned long long)n_bytes >> 20,
			  is_there ? "" : "; the start makes it");
	}
}

/* Another concuryd holds the database, and knows its VIPs. */
static void note_running(const struct preflight *p, struct findings *r)
{
	const char *listen = p->listen ? p->listen : "ADDR:PORT";
	bool is_unix = !strncmp(listen, "unix:", 5);
	char fix[256];

	snprintf(fix, sizeof(fix), "curl %s%s%s/v1/status    (its \"warnings\")",
		 is_unix ? "--unix-socket " : "http://", is_unix ? listen + 5 : listen,
		 is_unix ? " http://localhost" : "");
	report_note(r, fix,
		    "database %s: a concuryd that runs holds it, and watches its VIPs and "
		    "interfaces itself",
		    p->database);
}

static void check_database(const struct preflight *p, struct findings *r)
{
	char buf[PATH_MAX];
	char fix[2 * PATH_MAX + 64];
	const char *dir = parent(p->database, buf);

	if (p->database_in_use) {
		note_running(p, r);
	} else if (p->database_fault) {
		snprintf(fix, sizeof(fix),
			 "mv %s %s.bad    (then restore a backup, or start with no VIPs)",
			 p->database, p->database);
		report_block(r, fix, "database: %s", p->database_fault);
	} else if (access(dir, F_OK) && !strcmp(p->database, OPTIONS_DATABASE)) {
		report_ok(r, "database %s: the start makes it, and its directory", p->database);
	} else if (access(dir, F_OK)) {
		snprintf(fix, sizeof(fix), "mkdir -p %s", dir);
		report_block(r, fix, "database directory %s: %s", dir, strerror(errno));
	} else if (access(dir, W_OK)) {
		report_block(r, "run concuryd as root, or with another --database",
			     "database directory %s: %s", dir, strerror(errno));
	} else if (access(p->database, F_OK)) {
		report_ok(r, "database %s: the start makes it", p->database);
	} else {
		report_ok(r, "database %s: %u VIPs", p->database, p->n_vips);
	}
}

/* The first interface that can be served, for advice. */
static const char *first_usable(const struct preflight *p)
{
	struct xsk_iface dev;
	struct error err;

	for (unsigned i = 0; i < p->n_ifaces; i++)
		if (!netdev_read(p->ifaces[i], &dev, &err))
			return p->ifaces[i];
	return "IF";
}

/* Whether a whole prefix is routed here only the routers know; that it is not this host itself is
 * what can be seen. */
static void check_prefix(const struct vip_conf *vip, const struct own_addresses *own,
			 struct findings *r)
{
	const struct ip_addr *inside = own_addresses_within(own, &vip->match);
	char text[IP_PREFIX_STRLEN], own_text[IP_ADDR_STRLEN];
	char fix[128];

	ip_prefix_format(&vip->match.address, vip->match.host_bits, text);
	report_note(
		r, own_addresses_route_command(&vip->match, fix, sizeof(fix)),
		"VIP %s: %s must be routed here; %s", vip->id, text,
		ip_addr_is_v4(&vip->match.address)
			? "for clients on this segment the kernel answers ARP with a local route"
			: "the kernel does not answer neighbour discovery for a prefix");
	if (inside)
		report_note(r, NULL,
			    "VIP %s: %s holds this host's own address %s: connections to it go to "
			    "the DIPs",
			    vip->id, text, ip_addr_format(inside, own_text));
}

/* Nobody answers ARP or ND for a VIP unless the kernel does, or a router is told the way. */
static void check_vips(const struct preflight *p, struct findings *r)
{
	const char *ifname = first_usable(p);
	struct own_addresses own;
	char text[IP_ADDR_STRLEN];
	char use[OWN_USE_LEN], fix[128];

	if (own_addresses_read(&own)) {
		report_note(r, NULL, "the addresses of this host cannot be read");
		return;
	}
	for (unsigned i = 0; i < p->n_vips; i++) {
		const struct ip_addr *a = &p->vips[i].match.address;
		if (own_use_ended_by(&p->vips[i].match, use))
			report_note(r, NULL, "VIP %s: %s", p->vips[i].id, use);
		if (p->vips[i].match.host_bits) {
			check_prefix(&p->vips[i], &own, r);
			continue;
		}
		ip_addr_format(a, text);
		if (own_addresses_have(&own, a))
			report_ok(r, "VIP %s: %s is on an interface", p->vips[i].id, text);
		else
			report_note(r, own_addresses_add_command(a, ifname, fix, sizeof(fix)),
				    "VIP %s: %s is on no interface here: unless it is routed here, "
				    "clients get no answer to %s",
				    p->vips[i].id, text,
				    ip_addr_is_v4(a) ? "ARP" : "neighbour discovery");
	}
	own_addresses_free(&own);
}

void preflight_look(const struct preflight *p, struct findings *out)
{
	/* start: only a start needs it. The running one has given up privileges. */
	static const struct {
		void (*look)(const struct preflight *, struct findings *);
		bool start;
	} checks[] = {
		{check_kernel, false},	      {check_xdp_sockets, true}, {check_privileges, true},
		{check_locked_memory, false}, {check_huge_pages, false}, {check_cores, false},
		{check_state_dir, true},      {check_database, true},	 {check_bpf, false},
		{preflight_ifaces, false},    {check_modes, false},	 {check_vips, false},
		{preflight_dips, false},
	};

	*out = (struct findings){.n = 0};
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (!p->running || !checks[i].start)
			checks[i].look(p, out);
}

unsigned preflight_run(const struct preflight *p, FILE *out)
{
	struct findings f;

	preflight_look(p, &f);
	unsigned n_blocking = f.n_of[FINDING_BLOCKS];
	for (unsigned i = 0; i < f.n; i++) {
		fprintf(out, "%-7s %s\n", finding_rank_name(f.list[i].rank), f.list[i].text);
		if (f.list[i].command)
			fprintf(out, "        mend: %s\n", f.list[i].command);
	}
	fprintf(out, "%u blocking, %u to note\n", n_blocking, f.n_of[FINDING_NOTE]);
	findings_free(&f);
	return n_blocking;
}
