/* Answers that say what is wrong: application/problem+json. (RFC 9457) */
#pragma once

#include "api/server/exchange.h"

/** Answer with a problem: type and title follow from the status, detail is the formatted sentence. */
void problem_set(struct api_response *resp, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Add "errors" to a problem, one entry for each fault. A pointer that starts with '?' names a query
 *  parameter ("parameter" instead of "pointer"). */
void problem_add_errors(struct api_response *resp, const struct field_errors *errors);

/** Answer 400 because of the query: the first error's parameter in the sentence, and all listed. */
void problem_query(struct api_response *resp, const struct field_errors *errors);

/** The same because of one parameter's value; wanted: what it should be. */
void problem_parameter(struct api_response *resp, const char *name, const char *wanted);

/** A JSON string of text that a client may have chosen: bytes that are not UTF-8 become '?'. NULL
 *  without memory. */
MUST_CHECK json_t *problem_text(const char *text);

/** What is sent when there is no memory to build an answer. */
extern const char problem_out_of_memory[];
