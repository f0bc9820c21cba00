/* Network namespaces for tests and benches. They have no name and no mount, so the kernel removes them,
 * and the veth pairs in them, with the process, however it ends. Needs root and `ip`. */
#pragma once

#include <stdint.h>

/** A new namespace, lo up; the calling thread stays where it is. Its descriptor; aborts on failure. */
int netns_new(void);

/** Move the calling thread into a namespace; aborts on failure. */
void netns_enter(int ns);

/** Run a shell command in the calling thread's namespace; returns its exit status (0 = success). */
int netns_sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** A veth pair with n queues each way on both sides: name in ns, peer in peer_ns, both up, offloads as
 *  the kernel sets them. Aborts on failure. */
void netns_veth(int ns, const char *name, int peer_ns, const char *peer, unsigned n_queues);

/** A packet socket on an interface of the calling thread's namespace, which sees what comes in, not
 *  what is sent by it. Non-blocking. Aborts on failure. */
int netns_packet_socket(const char *ifname);

/** MAC address of an interface of the calling thread's namespace. Aborts on failure. */
void netns_mac(const char *ifname, uint8_t mac[6]);
