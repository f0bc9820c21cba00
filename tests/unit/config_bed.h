/* The API's handlers with a real control behind them, in one thread. */
#pragma once

#include <jansson.h>

#include "api/server/exchange.h"
#include "tests/unit/world.h"

extern struct world *config_world;

void config_bed_start(void);
/** No violation may have been counted. */
void config_bed_end(void);

typedef void config_handler(struct api_request *req, struct api_response *resp);

struct config_call {
	const char *body, *query, *value, *if_match, *if_none_match, *vip, *dip;
};

/** Call a handler; returns the status of config_answer. */
unsigned config_call(config_handler *h, const char *method, struct config_call c);
extern struct api_response config_answer; /* of the last call */

/** The configuration as text (free it) and, unless NULL, its tag. */
char *config_text(char tag[ETAG_LEN]);

/** config_answer[group][name]. */
json_int_t config_number(const char *group, const char *name);
/** A member of the answer's errors; "" if there is none. */
const char *config_error(size_t i, const char *name);

#define VIP(id, port, dips)                                                                        \
	"{\"id\": \"" id "\", \"address\": \"10.9.0.100\", \"port\": " port                        \
	", \"protocol\": \"tcp\", \"dips\": [" dips "]}"
#define DIP(id, last) "{\"id\": \"" id "\", \"address\": \"10.9.0." last "\"}"
#define CONFIG(vips) "{\"vips\": [" vips "]}"
