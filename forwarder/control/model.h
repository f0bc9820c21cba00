/* The desired state as operators write it: VIPs and DIPs, their defaults, limits and validation.
 * Pure data; no threads, no I/O. */
#pragma once

#include "control/health_conf.h"
#include "lookup/snapshot.h"

#define ID_LEN 64 /* 63 characters and NUL */
#define DIPS_PER_VIP_MAX 4096
#define WEIGHT_MAX 65535u

enum admin_state { ADMIN_UP, ADMIN_DOWN };
enum vip_quic { QUIC_FLOW, QUIC_SERVER_ID };

struct vip_conf {
	char id[ID_LEN];
	struct vip_match match; /* immutable after creation */
	enum vip_affinity affinity; /* immutable after creation */
	enum vip_mode mode;
	enum learn_overflow on_learn_overflow;
	enum vip_fragments fragments;
	bool clamp_mss; /* of SYNs, to what fits the way to the DIP */
	enum vip_quic quic;
	uint32_t quic_config_rotation; /* 0 .. SERVER_ID_ROTATION_MAX */
	uint32_t drain_timeout_s;
	uint32_t closing_pin_s;
	uint32_t idle_established_s;
	uint32_t idle_half_open_s;
	uint32_t idle_closing_s;
	uint32_t idle_udp_s;
	uint32_t gue_port; /* mode gue: the UDP port at the DIPs */
	struct health_conf health;
};

struct dip_conf {
	char id[ID_LEN];
	struct ip_addr address; /* immutable after creation */
	uint32_t port;          /* immutable; mode nat: its own; 0: the VIP's */
	uint32_t weight;        /* 0 .. WEIGHT_MAX */
	bool has_mac;           /* false: from the neighbour table */
	uint8_t mac[6];
	enum admin_state admin_state;
	uint8_t server_id_len; /* 0: none */
	uint8_t server_id[SERVER_ID_MAX];
};

/* Members of an edit that a request named. */
enum vip_member {
	VIP_M_ADDRESS = 1 << 0,
	VIP_M_PORT = 1 << 1,
	VIP_M_PROTOCOL = 1 << 2,
	VIP_M_MODE = 1 << 3,
	VIP_M_AFFINITY = 1 << 4,
	VIP_M_ON_LEARN_OVERFLOW = 1 << 5,
	VIP_M_DRAIN_TIMEOUT = 1 << 6,
	VIP_M_CLOSING_PIN = 1 << 7,
	VIP_M_IDLE_ESTABLISHED = 1 << 8,
	VIP_M_IDLE_HALF_OPEN = 1 << 9,
	VIP_M_IDLE_CLOSING = 1 << 10,
	VIP_M_IDLE_UDP = 1 << 11,
	VIP_M_GUE_PORT = 1 << 12,
	VIP_M_QUIC = 1 << 13,
	VIP_M_QUIC_CONFIG_ROTATION = 1 << 14,
	VIP_M_PORT_END = 1 << 15,
	VIP_M_FRAGMENTS = 1 << 16,
	VIP_M_CLAMP_MSS = 1 << 17,
};

enum dip_member {
	DIP_M_ADDRESS = 1 << 0,
	DIP_M_WEIGHT = 1 << 1,
	DIP_M_MAC = 1 << 2,
	DIP_M_ADMIN_STATE = 1 << 3,
	DIP_M_PORT = 1 << 4,
	DIP_M_SERVER_ID = 1 << 5,
};

/** A request's body: which members it named and their values. A member that was null in a merge patch
 *  is named with its default value. */
struct vip_edit {
	uint64_t members; /* enum vip_member, and HEALTH_M() of health_conf.h */
	struct vip_conf conf;
};

struct dip_edit {
	uint32_t members; /* enum dip_member */
	struct dip_conf conf;
};

#define FIELD_POINTER_LEN 128

/** One faulty member. */
struct field_error {
	char pointer[FIELD_POINTER_LEN]; /* JSON pointer, "/weight"; "" = the whole */
	char code[32];    /* word: required, out_of_range, bad_value, immutable, duplicate, ... */
	char detail[160]; /* for people */
};

#define FIELD_ERRORS_MAX 64

struct field_errors {
	unsigned n;      /* at most FIELD_ERRORS_MAX are kept */
	unsigned n_more; /* the others are only counted */
	char prefix[48]; /* goes before each pointer: "/operations/3/body" */
	struct field_error list[FIELD_ERRORS_MAX];
};

/** How many were found. */
static inline unsigned field_errors_count(const struct field_errors *e)
{
	return e->n + e->n_more;
}

/** Append one. */
void field_errors_add(struct field_errors *e, const char *pointer, const char *code,
		      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/** The documented defaults; id, match empty. */
void vip_conf_defaults(struct vip_conf *c);
void dip_conf_defaults(struct dip_conf *c);

/** True for `[a-z0-9]([a-z0-9._-]{0,62})`. */
bool model_id_valid(const char *id);

/** Put the edit's members into *c. replace: members not named get their defaults first (PUT). */
void vip_conf_apply(struct vip_conf *c, const struct vip_edit *e, bool replace);
void dip_conf_apply(struct dip_conf *c, const struct dip_edit *e, bool replace);

/** True if the edit names every member that creation needs (VIP: address, port, protocol; DIP:
 *  address); each missing one is appended as "required". For PUT. */
bool vip_edit_complete(const struct vip_edit *e, struct field_errors *errors);
bool dip_edit_complete(const struct dip_edit *e, struct field_errors *errors);

/** True if `now` differs from `was` in nothing that cannot change after creation; each member that
 *  does is appended as "immutable". */
bool vip_conf_same_identity(const struct vip_conf *was, const struct vip_conf *now,
			    struct field_errors *errors);
bool dip_conf_same_identity(const struct dip_conf *was, const struct dip_conf *now,
			    struct field_errors *errors);

/** Check every member's range; all faults are appended to *errors. True if there is none. A DIP also
 *  depends on its VIP (address, mode): when these change, check each DIP again. */
bool vip_conf_validate(const struct vip_conf *c, struct field_errors *errors);
bool dip_conf_validate(const struct dip_conf *c, const struct vip_conf *vip,
		       struct field_errors *errors);

/** The port at the DIP of packets to this VIP: its own in mode nat, if it has one, else the VIP's; 0 = that
 *  of the packet. */
static inline uint16_t dip_conf_port(const struct dip_conf *c, const struct vip_conf *vip)
{
	return c->port ? (uint16_t)c->port : vip->match.port;
}

/** True if every member that can be written is the same (id included). */
bool vip_conf_equal(const struct vip_conf *x, const struct vip_conf *y);
bool dip_conf_equal(const struct dip_conf *x, const struct dip_conf *y);

/** Refresh interval of a VIP: 5 s, at most a quarter of its shortest idle time-out. */
uint32_t vip_conf_refresh_ms(const struct vip_conf *c);

/** Words of the API for each enum, indexed by value, NULL-terminated. */
extern const char *const vip_protocol_names[]; /* tcp udp any */
extern const char *const vip_mode_names[];     /* l2 ipip gue nat */
extern const char *const vip_affinity_names[]; /* flow client */
extern const char *const learn_overflow_names[]; /* forward drop */
extern const char *const vip_fragments_names[];  /* flow client */
extern const char *const admin_state_names[];    /* up down */
extern const char *const vip_quic_names[];       /* flow server-id */

#define SERVER_ID_STRLEN (2 * SERVER_ID_MAX + 1)

/** A server ID from an even number of hexadecimal digits, 2 to 30. 0 or -EINVAL. */
MUST_CHECK int dip_conf_parse_server_id(struct dip_conf *c, const char *text);
/** And back, in small letters; "" for none. Returns buf. */
const char *dip_conf_format_server_id(const struct dip_conf *c, char buf[SERVER_ID_STRLEN]);
