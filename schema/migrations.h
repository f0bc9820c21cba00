/* The numbered SQL scripts that make and upgrade the database, embedded in the program. */
#pragma once

/** Schema number that this program writes: PRAGMA user_version of the database. */
#define SCHEMA_VERSION 11

/** migrations[i] takes a database of schema i to schema i + 1. SQL text, run by the store within one
 *  transaction (so it must not begin or commit one, nor set user_version). Thread: any. */
extern const char *const migrations[SCHEMA_VERSION];
