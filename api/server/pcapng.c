/* A file is a row of blocks: type, length, content, options, length again, all in 32-bit words of
 * the writer's byte order. */
#include "api/server/pcapng.h"

#include <stdlib.h>
#include <string.h>

enum block {
	SECTION_HEADER = 0x0a0d0d0a,
	INTERFACE_DESCRIPTION = 1,
	INTERFACE_STATISTICS = 5,
	ENHANCED_PACKET = 6,
};

enum option {
	OPT_END = 0,
	OPT_COMMENT = 1,
	SHB_USERAPPL = 4,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_TSRESOL = 9,
	ISB_IFRECV = 4,
	ISB_IFDROP = 5,
};

#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINKTYPE_ETHERNET 1

void pcapng_free(struct pcapng *p)
{
	free(p->data);
	*p = (struct pcapng){0};
}

/* Append n bytes, filled up to a whole word. */
static void put(struct pcapng *p, const void *data, size_t n)
{
	size_t padded = (n + 3) & ~(size_t)3;

	if (p->failed)
		return;
	if (p->len + padded > p->capacity) {
		size_t capacity = p->capacity ? p->capacity : 4096;
		while (capacity < p->len + padded)
			capacity *= 2;
		uint8_t *grown = realloc(p->data, capacity);
		if (!grown) {
			p->failed = true;
			return;
		}
		p->data = grown;
		p->capacity = capacity;
	}
	memset(p->data + p->len, 0, padded);
	if (n)
		memcpy(p->data + p->len, data, n);
	p->len += padded;
}

static void put_u32(struct pcapng *p, uint32_t x)
{
	put(p, &x, sizeof(x));
}

static void put_time(struct pcapng *p, uint64_t time_ns)
{
	put_u32(p, (uint32_t)(time_ns >> 32));
	put_u32(p, (uint32_t)time_ns);
}

static void put_option(struct pcapng *p, enum option code, const void *value, size_t n)
{
	uint16_t head[2] = {(uint16_t)code, (uint16_t)n};

	put(p, head, sizeof(head));
	put(p, value, n);
}

static void put_text(struct pcapng *p, enum option code, const char *text)
{
	size_t n = strlen(text);

	put_option(p, code, text, n < UINT16_MAX ? n : UINT16_MAX);
}

/* Begin a block; returns where. */
static size_t block_begin(struct pcapng *p, enum block type)
{
	size_t at = p->len;

	put_u32(p, type);
	put_u32(p, 0);
	return at;
}

static void block_end(struct pcapng *p, size_t at)
{
	put_option(p, OPT_END, NULL, 0);
	put_u32(p, (uint32_t)(p->len - at + sizeof(uint32_t)));
	if (p->failed) {
		p->len = at < p->len ? at : p->len; /* no half blocks */
		return;
	}
	uint32_t len = (uint32_t)(p->len - at);
	memcpy(p->data + at + sizeof(uint32_t), &len, sizeof(len));
}

void pcapng_begin(struct pcapng *p, const char *application)
{
	static const uint16_t version[2] = {1, 0};
	static const uint64_t length_unknown = UINT64_MAX;
	size_t at = block_begin(p, SECTION_HEADER);

	put_u32(p, BYTE_ORDER_MAGIC);
	put(p, version, sizeof(version));
	put(p, &length_unknown, sizeof(length_unknown));
	put_text(p, SHB_USERAPPL, application);
	block_end(p, at);
}

void pcapng_interface(struct pcapng *p, const char *name, const char *description, uint32_t snap)
{
	static const uint16_t link[2] = {LINKTYPE_ETHERNET, 0};
	static const uint8_t nanoseconds = 9;
	size_t at = block_begin(p, INTERFACE_DESCRIPTION);

	put(p, link, sizeof(link));
	put_u32(p, snap);
	put_text(p, IF_NAME, name);
	put_text(p, IF_DESCRIPTION, description);
	put_option(p, IF_TSRESOL, &nanoseconds, sizeof(nanoseconds));
	block_end(p, at);
}

void pcapng_packet(struct pcapng *p, uint32_t iface, uint64_t time_ns, const void *data,
		   uint32_t kept, uint32_t len, const char *comment)
{
	size_t at = block_begin(p, ENHANCED_PACKET);

	put_u32(p, iface);
	put_time(p, time_ns);
	put_u32(p, kept);
	put_u32(p, len);
	put(p, data, kept);
	put_text(p, OPT_COMMENT, comment);
	block_end(p, at);
}

void pcapng_statistics(struct pcapng *p, uint32_t iface, uint64_t time_ns, uint64_t received,
		       uint64_t dropped)
{
	size_t at = block_begin(p, INTERFACE_STATISTICS);

	put_u32(p, iface);
	put_time(p, time_ns);
	put_option(p, ISB_IFRECV, &received, sizeof(received));
	put_option(p, ISB_IFDROP, &dropped, sizeof(dropped));
	block_end(p, at);
}
