/* The members of each resource: the tables that parsing and printing share. Offsets are those of
 * struct vip_info and struct dip_info, which hold the writable part (conf) and what is only shown. */
#pragma once

#include "control/control.h"

enum field_kind {
	K_ID,
	K_ADDRESS,
	K_PREFIX, /* address and host_bits of a vip_match */
	K_U16,
	K_U32,
	K_U64,
	K_WORD, /* an enum */
	K_FLAG, /* a bool that is shown as a word */
	K_MAC,  /* has_mac and mac of a dip_conf */
	K_SERVER_ID, /* server_id_len and server_id of a dip_conf */
	K_TEXT,   /* an array of max + 1 bytes */
	K_BOOL,
	K_PORT,   /* a uint32_t; 0 is shown as null */
	K_PORT_END, /* the same, a uint16_t */
	K_OBJECT,
	K_HEALTH, /* the health_conf of a VIP: an object, or null for no checks */
	K_DRAIN,  /* a drain_info, shown while it is on */
	K_DIP_HEALTH, /* a dip_health_info */
	K_IN_USE,     /* a weight in parts of HEALTH_STEPS */
	K_CHANGE, /* a member of answers that is only known to be skipped */
};

struct field {
	const char *name; /* NULL ends a table */
	enum field_kind kind;
	size_t offset;
	uint64_t member; /* bit of enum vip_member or dip_member, HEALTH_M(); 0 = read-only */
	uint32_t max;    /* of integers; 0 = what the model says; of texts: bytes */
	bool required;
	const char *const *words;
	const struct field *nested;
};

/** Tables end with a NULL name; the printed order is theirs. */
extern const struct field vip_fields[];
extern const struct field dip_fields[];
