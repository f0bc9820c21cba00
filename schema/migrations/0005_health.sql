-- Schema 5: health checks.

-- How the DIPs of a VIP are checked; no row: they are not. What means nothing for a type has its default.
CREATE TABLE vip_health (
	vip_uid             INTEGER PRIMARY KEY REFERENCES vip (uid) ON DELETE CASCADE,
	type                TEXT NOT NULL,
	interval_ms         INTEGER NOT NULL,
	timeout_ms          INTEGER NOT NULL,
	rise                INTEGER NOT NULL,
	fall                INTEGER NOT NULL,
	jitter_percent      INTEGER NOT NULL,
	min_up              INTEGER NOT NULL,
	slow_start_s        INTEGER NOT NULL,
	damping_half_life_s INTEGER NOT NULL,
	port                INTEGER NOT NULL, -- 0: the VIP's
	path                TEXT NOT NULL,
	host                TEXT NOT NULL,
	method              TEXT NOT NULL,
	expect_status       TEXT NOT NULL,
	expect_body         TEXT NOT NULL,
	verify              INTEGER NOT NULL CHECK (verify IN (0, 1)),
	send                TEXT NOT NULL,
	expect              TEXT NOT NULL,
	name                TEXT NOT NULL,
	query_type          TEXT NOT NULL,
	expect_rcode        TEXT NOT NULL
) STRICT;

-- What was found, so that a restart does not take every DIP for up; times are wall clock, 0: none.
ALTER TABLE dip ADD COLUMN health_verdict TEXT NOT NULL DEFAULT 'unknown';
ALTER TABLE dip ADD COLUMN health_since_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dip ADD COLUMN health_override TEXT NOT NULL DEFAULT 'none';
ALTER TABLE dip ADD COLUMN health_override_until_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dip ADD COLUMN health_override_reason TEXT NOT NULL DEFAULT '';
