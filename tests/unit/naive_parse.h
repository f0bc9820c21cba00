/* A second parser, written to be obvious: it reads byte by byte and never looks ahead. What
 * parse_packet says is compared with it. */
#pragma once

#include "packet/parse.h"

/** As parse_packet. */
enum parse_result naive_parse(const uint8_t *data, uint32_t len, struct packet *p);

/** Whether both are the same in all that result makes valid. */
bool naive_packet_equal(const struct packet *x, const struct packet *y, enum parse_result result);
