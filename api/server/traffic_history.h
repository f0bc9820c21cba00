/* What VIPs carried over the last quarter of an hour: their counters every few seconds, for those who come to look only
 * once something has happened. Of a VIP that is gone nothing is kept. */
#pragma once

#include "api/server/exchange.h"

#define TRAFFIC_INTERVAL_S 10u
#define TRAFFIC_POINTS 91u /* the ends of 90 intervals: 15 minutes */

/** A VIP's counters and gauges at one moment, or those of all together. */
struct traffic_point {
	uint64_t packets, bytes; /* both ways */
	uint64_t flows, flows_pinned;
};

struct traffic_history;

/** NULL without memory. Thread: main. */
MUST_CHECK struct traffic_history *traffic_history_new(void);
void traffic_history_free(struct traffic_history *h);

/** Ask for the counters if an interval has passed. A VIP for which there is no memory is left out. Thread: one. */
void traffic_history_tick(struct traffic_history *h, const struct api_backend *b);

/** The moments and points of a VIP, or of all together (vip NULL), the oldest first; returns how many, at most
 *  TRAFFIC_POINTS. h may be NULL. Thread: any. */
unsigned traffic_history_read(struct traffic_history *h, const char *vip, int64_t *times_ms,
			      struct traffic_point *points);
