#include "packet/mss.h"

#include <string.h>

#include "packet/checksum.h"

#define TCP_LEN 20u
#define TCP_OFFSET_AT 12
#define TCP_CHECK_AT 16

enum { OPTION_END, OPTION_NOP, OPTION_MSS };
#define OPTION_MSS_LEN 4

/* The offset of the option's value in the TCP header, 0 if there is none. */
static uint32_t find(const uint8_t *tcp)
{
	uint32_t end = (tcp[TCP_OFFSET_AT] >> 4) * 4u;

	for (uint32_t at = TCP_LEN; at < end && tcp[at] != OPTION_END;) {
		if (tcp[at] == OPTION_NOP) {
			at++;
			continue;
		}
		if (at + 2 > end || tcp[at + 1] < 2 || at + tcp[at + 1] > end)
			return 0;
		if (tcp[at] == OPTION_MSS)
			return tcp[at + 1] == OPTION_MSS_LEN ? at + 2 : 0;
		at += tcp[at + 1];
	}
	return 0;
}

bool mss_clamp(uint8_t *data, const struct packet *p, uint32_t mtu)
{
	uint32_t headers = (p->is_v6 ? 40u : 20u) + TCP_LEN;
	uint8_t *tcp = data + p->l4_offset;
	uint32_t at = p->keep_checksum || mtu <= headers ? 0 : find(tcp);
	uint32_t offered = at ? (uint32_t)tcp[at] << 8 | tcp[at + 1] : 0, most = mtu - headers;

	if (!at || offered <= most)
		return false;
	uint8_t gone[2] = {(uint8_t)~tcp[at], (uint8_t)~tcp[at + 1]};
	uint8_t new[2] = {(uint8_t)(most >> 8), (uint8_t)most};

	memcpy(tcp + at, new, sizeof(new));
	/* Where the value begins with a word's second byte, its first is in the next word. */
	unsigned odd = at & 1;
	const uint8_t words[4] = {gone[odd], gone[!odd], new[odd], new[!odd]};
	checksum_update(tcp + TCP_CHECK_AT, checksum_add(0, words, sizeof(words)));
	return true;
}
