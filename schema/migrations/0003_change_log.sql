-- Schema 3: what was changed, when and by whom.

-- One row for each accepted request, written with the change itself. Versions have no gaps; the newest
-- row always stays, so that numbers never go back. Bounded: control/history.h says how.
CREATE TABLE change_log (
	version           INTEGER PRIMARY KEY,
	at_ms             INTEGER NOT NULL, -- wall clock
	author            TEXT NOT NULL,
	action            TEXT NOT NULL,
	generation_before INTEGER NOT NULL,
	generation        INTEGER NOT NULL,
	n_edits           INTEGER NOT NULL,
	edits             TEXT NOT NULL -- JSON: [{"path": ..., "before": ..., "after": ...}, ...]
) STRICT;
