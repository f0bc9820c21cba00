/* The scripts stay plain .sql files that the sqlite3 shell can run; the assembler puts their bytes
 * here. Paths are seen from the root of the tree, where the compiler runs. */
#include "schema/migrations.h"

#define EMBED(symbol, path)                                                                        \
	extern const char symbol[];                                                                \
	__asm__(".pushsection .rodata\n" #symbol ":\n\t.incbin \"" path                            \
		"\"\n\t.byte 0\n\t.popsection\n")

EMBED(migration_0001_initial, "schema/migrations/0001_initial.sql");
EMBED(migration_0002_agents, "schema/migrations/0002_agents.sql");
EMBED(migration_0003_change_log, "schema/migrations/0003_change_log.sql");
EMBED(migration_0004_tokens, "schema/migrations/0004_tokens.sql");
EMBED(migration_0005_health, "schema/migrations/0005_health.sql");
EMBED(migration_0006_gue, "schema/migrations/0006_gue.sql");
EMBED(migration_0007_dip_port, "schema/migrations/0007_dip_port.sql");
EMBED(migration_0008_quic, "schema/migrations/0008_quic.sql");
EMBED(migration_0009_prefixes, "schema/migrations/0009_prefixes.sql");
EMBED(migration_0010_fragments, "schema/migrations/0010_fragments.sql");
EMBED(migration_0011_clamp_mss, "schema/migrations/0011_clamp_mss.sql");

const char *const migrations[SCHEMA_VERSION] = {
	migration_0001_initial,	  migration_0002_agents,    migration_0003_change_log,
	migration_0004_tokens,	  migration_0005_health,    migration_0006_gue,
	migration_0007_dip_port,  migration_0008_quic,	    migration_0009_prefixes,
	migration_0010_fragments, migration_0011_clamp_mss,
};
