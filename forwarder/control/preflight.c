/* Each check prints one line for what it found, and under it the command that mends it. Three
 * ranks: ok, note (works, but slower or not as meant), and blocks (concuryd would not start, or no
 * packet would get through). What belongs to one interface is in preflight_iface.c.
 *
 * Reverse-path filters are not looked at: VIP packets never reach the kernel of this machine. */
#include "control/preflight.h"

#include <errno.h>
#include <ifaddrs.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "control/preflight_report.h"
#include "control/state_file.h"

/* linux/capability.h numbers. */
enum { NET_ADMIN = 12, NET_RAW = 13, IPC_LOCK = 14, SYS_ADMIN = 21, BPF = 39 };

/* First word of a file of /proc or /sys that is one line, or false. */
static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(buf, (int)size, f);

	if (f)
		fclose(f);
	return ok;
}

static void check_kernel(const struct preflight *p, struct report *r)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	(void)p;
	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
		report_note(r, NULL, "kernel: the version cannot be read");
		return;
	}
	/* 5.10: a UMEM shared by sockets of several queues and devices. */
	if (major < 5 || (major == 5 && minor < 10))
		report_block(r, "apt-get install linux-image-amd64 && reboot",
			     "kernel: %s, but 5.10 or later is needed", u.release);
	else
		report_ok(r, "kernel: %s", u.release);
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

static void check_privileges(const struct preflight *p, struct report *r)
{
	uint64_t caps = effective_capabilities();
	bool admin = caps >> SYS_ADMIN & 1;

	(void)p;
	if (!(caps >> NET_ADMIN & 1) || !(caps >> NET_RAW & 1) || (!admin && !(caps >> BPF & 1)))
		report_block(r,
			     "run concuryd as root, or with AmbientCapabilities=CAP_NET_ADMIN "
			     "CAP_NET_RAW CAP_BPF CAP_PERFMON CAP_IPC_LOCK",
			     "privileges: NET_ADMIN, NET_RAW and BPF are needed");
	else
		report_ok(r, "privileges: sufficient");
}

static void check_locked_memory(const struct preflight *p, struct report *r)
{
	struct rlimit limit;

	(void)p;
	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY || effective_capabilities() >> IPC_LOCK & 1)
		report_ok(r, "locked memory: no limit applies");
	else if (limit.rlim_cur < (64u << 20))
		report_block(r, "ulimit -l unlimited    (systemd: LimitMEMLOCK=infinity)",
			     "locked memory: %llu KiB are too little for the packet buffers",
			     (unsigned long long)limit.rlim_cur / 1024);
}

static void check_huge_pages(const struct preflight *p, struct report *r)
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

static void check_cores(const struct preflight *p, struct report *r)
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

/* The closest directory on the way to path that exists, in a buffer of PATH_MAX. */
static const char *existing_parent(const char *path, char *buf)
{
	snprintf(buf, PATH_MAX, "%s", path);
	while (access(buf, F_OK) && strcmp(buf, "/") != 0 && strcmp(buf, ".") != 0) {
		char copy[PATH_MAX];
		snprintf(copy, sizeof(copy), "%s", buf);
		snprintf(buf, PATH_MAX, "%s", dirname(copy));
	}
	return buf;
}

static void check_state_dir(const struct preflight *p, struct report *r)
{
	char buf[PATH_MAX];
	char fix[64];
	struct statvfs fs;
	const char *dir = existing_parent(p->state_dir, buf);

	if (statvfs(dir, &fs) || access(dir, W_OK)) {
		report_block(r, NULL, "state directory %s: %s", p->state_dir, strerror(errno));
		return;
	}
	/* What an earlier run left there is used again, so it counts as free only if it is removed.
	 */
	uint64_t n_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	uint64_t n_flows = p->n_flows ? p->n_flows : STATE_FLOWS_MIN;
	if (n_bytes / FLOW_SLOT_BYTES < n_flows && access(p->state_dir, F_OK)) {
		snprintf(fix, sizeof(fix), "--flows %llu, or another --state-dir",
			 (unsigned long long)(n_bytes / FLOW_SLOT_BYTES / 2));
		report_block(r, fix,
			     "state directory %s: %llu MiB free are too little for %llu flows",
			     p->state_dir, (unsigned long long)n_bytes >> 20,
			     (unsigned long long)n_flows);
	} else {
		report_ok(r, "state directory %s: %llu MiB free", p->state_dir,
			  (unsigned long long)n_bytes >> 20);
	}
}

static void check_database(const struct preflight *p, struct report *r)
{
	char copy[PATH_MAX];
	char fix[PATH_MAX + 32];

	snprintf(copy, sizeof(copy), "%s", p->database);
	const char *dir = dirname(copy);
	if (p->database_in_use) {
		report_note(r, NULL, "database %s: in use, so another concuryd runs", p->database);
	} else if (p->database_fault) {
		report_block(r, NULL, "database: %s", p->database_fault);
	} else if (access(dir, W_OK)) {
		snprintf(fix, sizeof(fix), "mkdir -p %s", dir);
		report_block(r, errno == ENOENT ? fix : NULL, "database directory %s: %s", dir,
			     strerror(errno));
	} else {
		report_ok(r, "database %s: %u VIPs", p->database, p->n_vips);
	}
}

/* The address of a socket address, or false. */
static bool address_of(const struct sockaddr *sa, struct ip_addr *out)
{
	if (sa && sa->sa_family == AF_INET) {
		*out = ip_addr_v4(&((const struct sockaddr_in *)(const void *)sa)->sin_addr);
		return true;
	}
	if (sa && sa->sa_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
		       sizeof(*out));
		return true;
	}
	return false;
}

static bool is_local(const struct ifaddrs *list, const struct ip_addr *a)
{
	struct ip_addr own;

	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		if (address_of(i->ifa_addr, &own) && ip_addr_equal(&own, a))
			return true;
	return false;
}

/* Nobody answers ARP or ND for a VIP unless the kernel does, or a router is told the way. */
static void check_vips(const struct preflight *p, struct report *r)
{
	struct ifaddrs *list = NULL;
	char text[IP_ADDR_STRLEN];
	char fix[128];

	if (getifaddrs(&list))
		return;
	for (unsigned i = 0; i < p->n_vips; i++) {
		const struct ip_addr *a = &p->vips[i].match.address;
		ip_addr_format(a, text);
		if (is_local(list, a)) {
			report_ok(r, "VIP %s: %s is on an interface", p->vips[i].id, text);
			continue;
		}
		snprintf(fix, sizeof(fix), "ip address add %s/%d dev %s", text,
			 ip_addr_is_v4(a) ? 32 : 128, p->n_ifaces ? p->ifaces[0] : "IF");
		report_note(r, fix,
			    "VIP %s: %s is on no interface here; clients reach it only if a router "
			    "sends it here",
			    p->vips[i].id, text);
	}
	freeifaddrs(list);
}

unsigned preflight_run(const struct preflight *p, FILE *out)
{
	static void (*const checks[])(const struct preflight *, struct report *) = {
		check_kernel,	  check_privileges, check_locked_memory,
		check_huge_pages, check_cores,	    check_state_dir,
		check_database,	  preflight_ifaces, check_vips,
	};
	struct report r = {.out = out};

	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		checks[i](p, &r);
	fprintf(out, "%u blocking, %u to note\n", r.n_blocking, r.n_notes);
	return r.n_blocking;
}
