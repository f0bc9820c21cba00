#include "tests/experiment/segment.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <string.h>

#include "tests/unit/frames.h"

#define WINDOW 65535
#define TTL 64

struct headers {
	struct ether_header eth;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

_Static_assert(sizeof(struct headers) + sizeof(struct words) <= SEGMENT_MAX, "a frame fits");

/* Of the TCP segment, its checksum field included: 0 in a whole one. */
static uint16_t tcp_sum(const uint8_t *tcp, uint32_t len, uint32_t src, uint32_t dst)
{
	uint8_t pseudo[12] = {[9] = IPPROTO_TCP, [11] = (uint8_t)len};
	uint32_t src_be = htonl(src), dst_be = htonl(dst);

	memcpy(pseudo, &src_be, 4);
	memcpy(pseudo + 4, &dst_be, 4);
	return (uint16_t)~frames_sum16(tcp, len, frames_sum16(pseudo, sizeof(pseudo), 0));
}

uint32_t segment_build(uint8_t frame[SEGMENT_MAX], const struct segment *s)
{
	uint32_t words = s->has_words ? WORDS_LEN : 0;
	struct headers h = {
		.eth.ether_type = htons(ETHERTYPE_IP),
		.ip = {.version = 4,
		       .ihl = 5,
		       .tot_len = htons((uint16_t)(sizeof(h.ip) + sizeof(h.tcp) + words)),
		       .frag_off = htons(IP_DF),
		       .ttl = TTL,
		       .protocol = IPPROTO_TCP,
		       .saddr = htonl(s->src),
		       .daddr = htonl(s->dst)},
		.tcp = {.source = htons(s->sport),
			.dest = htons(s->dport),
			.seq = htonl(s->seq),
			.ack_seq = htonl(s->ack),
			.doff = 5,
			.window = htons(WINDOW)},
	};
	uint8_t *tcp = frame + sizeof(h) - sizeof(h.tcp);

	memcpy(h.eth.ether_dhost, s->dst_mac, 6);
	memcpy(h.eth.ether_shost, s->src_mac, 6);
	h.tcp.th_flags = s->flags;
	h.ip.check = htons((uint16_t)~frames_sum16(&h.ip, sizeof(h.ip), 0));
	memcpy(frame, &h, sizeof(h));
	if (words)
		memcpy(frame + sizeof(h), &s->words, WORDS_LEN);
	uint16_t sum_be = htons(tcp_sum(tcp, (uint32_t)sizeof(h.tcp) + words, s->src, s->dst));
	memcpy(tcp + 16, &sum_be, 2);
	return (uint32_t)sizeof(h) + words;
}

bool segment_read(const uint8_t *frame, uint32_t len, struct segment *s)
{
	struct headers h;

	if (len < sizeof(h))
		return false;
	memcpy(&h, frame, sizeof(h));
	uint32_t total = ntohs(h.ip.tot_len), bare = sizeof(h.ip) + sizeof(h.tcp);
	if (h.eth.ether_type != htons(ETHERTYPE_IP) || h.ip.version != 4 || h.ip.ihl != 5 ||
	    h.ip.protocol != IPPROTO_TCP || h.tcp.doff != 5 ||
	    (total != bare && total != bare + WORDS_LEN) || len < sizeof(h.eth) + total)
		return false;
	*s = (struct segment){
		.src = ntohl(h.ip.saddr),
		.dst = ntohl(h.ip.daddr),
		.sport = ntohs(h.tcp.source),
		.dport = ntohs(h.tcp.dest),
		.seq = ntohl(h.tcp.seq),
		.ack = ntohl(h.tcp.ack_seq),
		.flags = h.tcp.th_flags,
		.has_words = total != bare,
	};
	memcpy(s->dst_mac, h.eth.ether_dhost, 6);
	memcpy(s->src_mac, h.eth.ether_shost, 6);
	if (s->has_words)
		memcpy(&s->words, frame + sizeof(h), WORDS_LEN);
	return tcp_sum(frame + sizeof(h) - sizeof(h.tcp), total - (uint32_t)sizeof(h.ip), s->src,
		       s->dst) == 0;
}
