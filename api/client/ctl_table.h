/* Tables for people: columns as wide as what is in them, numbers to the right. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CTL_CELL_LEN 64
#define CTL_COLUMNS_MAX 16

struct ctl_table;

/** Columns by blanks; one that begins with '>' is aligned to the right. Never fails: without memory
 *  it is a table that prints that. */
struct ctl_table *ctl_table_new(const char *columns);

/** The next cell, row by row; "-" if text is NULL. Control characters become '?': what others have
 *  written must not move the cursor. */
void ctl_table_add(struct ctl_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** The same of a member: a string as it is, a number in full, true and false as yes and no; else
 * "-". */
void ctl_table_member(struct ctl_table *t, const json_t *object, const char *name);

/** A number that people read: 812, 90.2k. */
void ctl_table_count(struct ctl_table *t, const json_t *object, const char *name);

/** A number of bytes: 812 B, 5.94 MiB. */
void ctl_table_bytes(struct ctl_table *t, const json_t *object, const char *name);

/** Print and free. Without a row: only `none`. */
void ctl_table_print(struct ctl_table *t, FILE *out, const char *none);

/** Free one that is not to be printed. */
void ctl_table_free(struct ctl_table *t);

/** Numbers for people; buf of 16 or more. The result is buf. */
const char *ctl_human_count(uint64_t n, char *buf, size_t size);
const char *ctl_human_bytes(uint64_t n, char *buf, size_t size);
const char *ctl_human_seconds(uint64_t s, char *buf, size_t size);

/** Replace control characters in place. */
void ctl_clean(char *text);
