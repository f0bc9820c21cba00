/* Known flows, some at a time. */
#pragma once

#include "control/control.h"

#define FLOW_PAGE_MAX 1000u

enum flow_state { FLOW_IS_HALF_OPEN, FLOW_IS_ESTABLISHED, FLOW_IS_CLOSING, FLOW_IS_UNPROVEN };
extern const char *const flow_state_names[]; /* half_open established closing unproven; NULL ends */

/** Which flows are meant; and where to go on. */
struct flow_query {
	const char *vip;
	const char *dip; /* NULL = any */
	bool has_client;
	struct ip_addr client;
	int pinned; /* 0, 1; -1 = either */
	int state;  /* enum flow_state; -1 = any */
	uint32_t from; /* 0, or `next` of the page before */
	unsigned limit; /* 1 to FLOW_PAGE_MAX */
};

struct flow_info {
	struct ip_addr client;
	uint16_t client_port; /* this and the next two: 0 for flows of affinity `client` */
	uint16_t port;        /* of the VIP */
	uint8_t proto;        /* IPPROTO_* */
	char dip[ID_LEN];     /* "" = it was cut, and the flow is about to be forgotten */
	enum flow_state state;
	bool pinned;
	bool exact;
	uint32_t age_s;  /* since the last opening; up to 49 days */
	uint32_t idle_s; /* since something was recorded of it: at most once in a refresh interval */
};

struct flow_page {
	bool vip_found;
	bool dip_found; /* true without a dip in the query */
	bool failed;    /* no memory */
	bool more;      /* there may be more: ask again from `next` */
	uint32_t next;
	unsigned n;
	struct flow_info *list; /* the caller's, of `limit` */
};

/** Look at the next some thousand places of the flow table, or at fewer if the page is full before. A page
 *  may be empty though there is more. Each flow that is known all the while from the first page to the
 *  last is in one of them, once. Thread: any but control's; blocks. */
void control_read_flows(struct control *c, const struct flow_query *q, struct flow_page *page);
