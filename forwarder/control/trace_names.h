/* Traces name VIPs and DIPs as operators do; workers know numbers. */
#pragma once

#include "control/control.h"

struct trace_target {
	bool vip_found;
	bool dip_found; /* true if none was asked for */
	uint32_t vip_uid;
	uint16_t dip; /* index */
};

/** What a trace of this VIP (and, unless NULL, DIP) filters by. Thread: any but control's; blocks. */
void control_trace_target(struct control *c, const char *vip, const char *dip,
			  struct trace_target *out);

/** One frame's decision, and what it is called. */
struct trace_name {
	/* in, of a trace_record */
	uint32_t vip_uid;
	uint32_t dcode;
	uint16_t dip;
	uint8_t reason;
	/* out: "" = it is gone, or there was none */
	char vip[ID_LEN];
	char dip_id[ID_LEN];
	const char *why; /* home pin exact reroll none: reroll where the home DIP is another one by now */
};

/** Name n decisions. Thread: any but control's; blocks. */
void control_trace_names(struct control *c, struct trace_name *list, unsigned n);
