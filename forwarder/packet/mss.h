/* The maximum segment size that a SYN offers. (RFC 9293 3.7.1, RFC 6691) */
#pragma once

#include "packet/parse.h"

/** Lower what a TCP packet's MSS option offers to what an IP packet of mtu bytes without options has room
 *  for, and bring its checksum up to date; a wrong one stays wrong. Nothing is done without the option,
 *  to options that are malformed, to a packet with keep_checksum, or if mtu has no room for the headers. p:
 *  of this frame, TCP, of kind PACKET_FLOW or PACKET_FIRST. True if the frame was changed. Thread: any. */
bool mss_clamp(uint8_t *data, const struct packet *p, uint32_t mtu);
