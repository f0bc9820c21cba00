/* What control knows of things that keep a VIP from being served: for the warnings in status and log. */
#pragma once

#include "control/control.h"

struct survey_vip {
	char id[ID_LEN];
	struct vip_match match;
	bool deleting;
	bool worn; /* fewer than min_up DIPs are up, so checks are not heeded */
	unsigned n_dips;
	unsigned n_taking; /* DIPs that are meant to take new flows: up, with weight */
};

/** A DIP without a known way to it, which is meant to get packets. */
struct survey_dip {
	uint64_t uid;
	unsigned vip; /* index in vips */
	char id[ID_LEN];
	struct ip_addr address;
	bool taking;     /* counted in n_taking */
	bool has_route;  /* so what lacks is the MAC address of the next hop, or: */
	bool not_served; /* the route leaves by an interface that is not served */
	int ifindex;     /* of the route */
};

struct survey {
	unsigned n_vips;
	struct survey_vip *vips;
	unsigned n_dips;
	struct survey_dip *dips; /* sorted by uid */
};

/** Look at every VIP. 0 or -ENOMEM (then *out is empty). Free it either way. Thread: any but
 *  control's. */
MUST_CHECK int control_survey(struct control *c, struct survey *out);
void survey_free(struct survey *s);
