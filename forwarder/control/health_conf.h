/* How the DIPs of a VIP are checked, as operators write it: the member `health` of a VIP. Every member
 * stands once, in the table health_members; defaults, edits, validation and the database walk it.
 * Pure data; no threads, no I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

enum health_type {
	HEALTH_NONE, /* every DIP counts as up */
	HEALTH_TCP,
	HEALTH_HTTP,
	HEALTH_HTTPS,
	HEALTH_UDP,
	HEALTH_DNS,
	HEALTH_AGENT,
	N_HEALTH_TYPES,
};
enum health_method { HEALTH_GET, HEALTH_HEAD, HEALTH_OPTIONS };
enum health_query { QUERY_A, QUERY_AAAA, QUERY_NS, QUERY_SOA, QUERY_MX, QUERY_TXT };
enum health_rcode {
	RCODE_NOERROR,
	RCODE_FORMERR,
	RCODE_SERVFAIL,
	RCODE_NXDOMAIN,
	RCODE_NOTIMP,
	RCODE_REFUSED,
};

#define HEALTH_TEXT_LEN 256 /* 255 bytes and NUL */
#define HEALTH_INTERVAL_MIN_MS 100u

struct health_conf {
	enum health_type type;
	uint32_t interval_ms;
	uint32_t timeout_ms;
	uint32_t rise;           /* successes in a row that bring a DIP up */
	uint32_t fall;           /* failures in a row that take it down */
	uint32_t jitter_percent; /* of interval_ms, either way */
	uint32_t min_up;         /* with fewer up, all are used */
	uint32_t slow_start_s;   /* 0 = full weight at once */
	uint32_t damping_half_life_s; /* of the penalty for going down; 0 = none */
	uint32_t port;                /* 0 = the VIP's */
	enum health_method method;
	bool verify; /* https: the certificate, and that it is for host */
	enum health_query query_type;
	enum health_rcode expect_rcode;
	char path[HEALTH_TEXT_LEN];
	char host[HEALTH_TEXT_LEN];        /* "" = the DIP's address */
	char expect_status[HEALTH_TEXT_LEN]; /* "200-299,301" */
	char expect_body[HEALTH_TEXT_LEN];   /* "" = any; a part of the body, or "regex:..." */
	char send[HEALTH_TEXT_LEN];          /* text, or "hex:..." */
	char expect[HEALTH_TEXT_LEN];        /* the same */
	char name[HEALTH_TEXT_LEN];          /* to be resolved */
};

enum health_kind { HEALTH_NUMBER, HEALTH_TEXT, HEALTH_FLAG, HEALTH_WORD };

/** One member: bit, name, where it lies, and for which types it means something. */
struct health_member {
	const char *name;
	enum health_kind kind;
	size_t offset;
	uint32_t types; /* bit for each enum health_type */
	uint32_t initial, min, max; /* of numbers; initial of the others too */
	const char *text;           /* initial of texts */
	const char *const *words;
};

#define N_HEALTH_MEMBERS 21
extern const struct health_member health_members[N_HEALTH_MEMBERS];

/** Bit of a member in vip_edit.members: the upper half, in the order of the table. */
#define HEALTH_M(place) (1ull << (32 + (place)))
#define HEALTH_M_ALL (((1ull << N_HEALTH_MEMBERS) - 1) << 32)
enum health_place {
	HEALTH_P_TYPE,
	HEALTH_P_INTERVAL,
	HEALTH_P_TIMEOUT,
	HEALTH_P_RISE,
	HEALTH_P_FALL,
	HEALTH_P_JITTER,
	HEALTH_P_MIN_UP,
	HEALTH_P_SLOW_START,
	HEALTH_P_DAMPING,
	HEALTH_P_PORT,
	HEALTH_P_PATH,
	HEALTH_P_HOST,
	HEALTH_P_METHOD,
	HEALTH_P_EXPECT_STATUS,
	HEALTH_P_EXPECT_BODY,
	HEALTH_P_VERIFY,
	HEALTH_P_SEND,
	HEALTH_P_EXPECT,
	HEALTH_P_NAME,
	HEALTH_P_QUERY_TYPE,
	HEALTH_P_EXPECT_RCODE,
};

struct field_errors;
struct vip_match;

void health_conf_defaults(struct health_conf *c);

/** Put the members (bits as above) of `edit` into *c. Members that mean nothing for a type that the edit
 *  sets get their defaults, unless the edit names them. */
void health_conf_apply(struct health_conf *c, const struct health_conf *edit, uint64_t members);

/** Append every fault, "/health/..." its pointer. */
void health_conf_validate(const struct health_conf *c, const struct vip_match *match,
			  struct field_errors *errors);

/** True if a check of this type heeds the member (one bit). */
bool health_member_applies(uint64_t member, enum health_type type);

/** True if both ask a DIP the same question: type, port, and what is sent and expected. */
bool health_conf_same_question(const struct health_conf *x, const struct health_conf *y);

/** True if every member is the same. */
bool health_conf_equal(const struct health_conf *x, const struct health_conf *y);

/** Bytes that a text of `send` or `expect` stands for. How many, or -EINVAL. */
MUST_CHECK int health_bytes(const char *text, uint8_t out[HEALTH_TEXT_LEN]);

/** True if a set as "200-299,301" is well formed / has the status. */
bool health_status_set_valid(const char *set);
bool health_status_set_has(const char *set, unsigned status);

/** Words of the API, by value, NULL-terminated. */
extern const char *const health_type_names[];
extern const char *const health_method_names[];
extern const char *const health_query_names[];
extern const char *const health_rcode_names[];
