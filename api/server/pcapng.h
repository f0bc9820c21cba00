/* Packet captures in the pcapng format (draft-ietf-opsawg-pcapng), as tcpdump and wireshark read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A file that grows; all zero is an empty one. */
struct pcapng {
	uint8_t *data; /* malloc */
	size_t len;
	size_t capacity;
	bool failed; /* out of memory: what was written since is not there */
};

void pcapng_free(struct pcapng *p);

/** The head of a file: once, first. application: who writes it. */
void pcapng_begin(struct pcapng *p, const char *application);

/** An interface; they count from 0. Ethernet, times in nanoseconds. snap: bytes kept of a packet. */
void pcapng_interface(struct pcapng *p, const char *name, const char *description, uint32_t snap);

/** A packet. time_ns: since 1970. */
void pcapng_packet(struct pcapng *p, uint32_t iface, uint64_t time_ns, const void *data,
		   uint32_t kept, uint32_t len, const char *comment);

/** What an interface received, and what of it is not in the file. */
void pcapng_statistics(struct pcapng *p, uint32_t iface, uint64_t time_ns, uint64_t received,
		       uint64_t dropped);
