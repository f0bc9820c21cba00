#include "base/hex.h"

#include <errno.h>
#include <string.h>

/* 16 is none. */
static uint8_t digit(char c)
{
	if (c >= '0' && c <= '9')
		return (uint8_t)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (uint8_t)(c - 'a' + 10);
	return c >= 'A' && c <= 'F' ? (uint8_t)(c - 'A' + 10) : 16;
}

int hex_parse(const char *text, uint8_t *out, unsigned max)
{
	size_t len = strlen(text);

	if (len == 0 || len % 2 || len / 2 > max)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (digit(text[i]) > 15)
			return -EINVAL;
	for (size_t i = 0; i < len; i += 2)
		out[i / 2] = (uint8_t)(digit(text[i]) << 4 | digit(text[i + 1]));
	return (int)(len / 2);
}
