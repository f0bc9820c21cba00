/* VIPs and DIPs as JSON. One table a resource lists its members; parsing, printing, null and the
 * refusal of unknown members all come from it. (RFC 7396) */
#pragma once

#include <jansson.h>

#include "control/control.h"

/** Read a request's body: a whole resource (replace: members without default are required) or a merge
 *  patch. id is the one of the path. Read-only members are skipped, so that what was read can be sent
 *  back. Every faulty member is appended to errors (pointers into the body); true if there is none,
 *  and only then *out is written. Thread: any. */
MUST_CHECK bool codec_parse_vip(const json_t *body, const char *id, bool replace,
				struct vip_edit *out, struct field_errors *errors);
MUST_CHECK bool codec_parse_dip(const json_t *body, const char *id, bool replace,
				struct dip_edit *out, struct field_errors *errors);

/** parent + "/" + name, escaped as JSON pointers are. (RFC 6901) */
void codec_pointer(char pointer[FIELD_POINTER_LEN], const char *parent, const char *name);

/** The resources and what a change did; NULL without memory. Thread: any. */
MUST_CHECK json_t *codec_print_vip(const struct vip_info *v);
MUST_CHECK json_t *codec_print_dip(const struct dip_info *d);
/** Only what can be written, and the id: the canonical form, always the same text for the same state. */
MUST_CHECK json_t *codec_print_vip_conf(const struct vip_conf *c);
MUST_CHECK json_t *codec_print_dip_conf(const struct dip_conf *c);
/** The same of a DIP as text, without blanks. Returns its length. (codec_text.c) */
#define CODEC_DIP_TEXT 512
size_t codec_text_dip_conf(const struct dip_conf *c, char out[CODEC_DIP_TEXT]);
MUST_CHECK json_t *codec_print_dip_health(const struct dip_health_info *h);
MUST_CHECK json_t *codec_print_health_event(const struct health_event *e);
MUST_CHECK json_t *codec_print_change(const struct change_info *c);
