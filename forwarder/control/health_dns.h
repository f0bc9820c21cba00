/* A DNS query, and what its answer says of a server's health. Pure. (RFC 1035) */
#pragma once

#include "control/health_conf.h"

#define HEALTH_DNS_MAX 512

/** The query of this configuration's name and type. Its length. */
size_t health_dns_query(const struct health_conf *c, uint16_t id, uint8_t out[HEALTH_DNS_MAX]);

enum dns_judgement { DNS_GOOD, DNS_BAD, DNS_NOT_OURS };

/** Judge a datagram. DNS_BAD: error (of size bytes) says why. DNS_NOT_OURS: wait for another. */
enum dns_judgement health_dns_judge(const struct health_conf *c, uint16_t id, const uint8_t *answer,
				    size_t n, char *error, size_t size);
