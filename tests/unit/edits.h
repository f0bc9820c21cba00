/* Transactions put together edit by edit, for tests. */
#pragma once

#include "tests/unit/world.h"

#define EDITS_MAX 12

/** Edits and what they point at. */
struct edits {
	struct control_request r;
	struct control_transaction t;
	unsigned n;
	struct control_edit edits[EDITS_MAX];
	char ids[EDITS_MAX][2][ID_LEN];
	struct vip_edit vips[EDITS_MAX];
	struct dip_edit dips[EDITS_MAX];
};

struct edits *edits_new(void);
void edits_free(struct edits *s);

/** Append an edit that names no member yet. dip: NULL for a VIP's. */
struct control_edit *edits_add(struct edits *s, enum control_op op, const char *vip,
				const char *dip);
/** A VIP of the world's address and TCP. */
void edits_put_vip(struct edits *s, const char *vip, unsigned port);
/** A DIP of address 10.9.0.<last>. */
void edits_put_dip(struct edits *s, const char *vip, const char *dip, unsigned last,
		    uint32_t weight);
void edits_weight(struct edits *s, const char *vip, const char *dip, uint32_t weight);

/** Ask for it, and step the world until it is answered. */
enum control_status edits_run(struct edits *s, struct world *w);

/** A world with the VIP "web" (port 80) and DIPs b1, b2, ... of weight 10. */
struct world *edits_world(unsigned n_dips);
