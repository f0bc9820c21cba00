-- Schema 1. Never edit a migration that was released: add the next number.
-- Words and addresses are text, so that an operator can read the tables with the sqlite3 shell.

-- The one row of what is not a VIP's.
CREATE TABLE state (
	id           INTEGER PRIMARY KEY CHECK (id = 1),
	database_id  BLOB NOT NULL CHECK (length(database_id) = 16), -- random: ties state files to us
	byte_order   TEXT NOT NULL CHECK (byte_order IN ('little', 'big')), -- of the BLOBs below
	generation   INTEGER NOT NULL, -- of the last publish
	next_vip_uid INTEGER NOT NULL, -- counters that never go back
	next_dip_uid INTEGER NOT NULL
) STRICT;

-- VIPs as operators write them.
CREATE TABLE vip (
	uid                INTEGER PRIMARY KEY, -- never reused
	id                 TEXT NOT NULL UNIQUE,
	slot               INTEGER NOT NULL UNIQUE,
	address            TEXT NOT NULL,
	port               INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535), -- 0: any
	protocol           TEXT NOT NULL,
	mode               TEXT NOT NULL,
	affinity           TEXT NOT NULL,
	on_learn_overflow  TEXT NOT NULL,
	drain_timeout_s    INTEGER NOT NULL,
	closing_pin_s      INTEGER NOT NULL,
	idle_established_s INTEGER NOT NULL,
	idle_half_open_s   INTEGER NOT NULL,
	idle_closing_s     INTEGER NOT NULL,
	idle_udp_s         INTEGER NOT NULL,
	deleting           INTEGER NOT NULL CHECK (deleting IN (0, 1)),
	drain_deadline_s   INTEGER NOT NULL, -- wall clock; 0: none
	UNIQUE (address, port, protocol)
) STRICT;

-- What decides where a VIP's packets go. One BLOB for all pins of a VIP: as rows, 200,000 pins
-- would take sixty times as long.
CREATE TABLE vip_lookup (
	vip_uid  INTEGER PRIMARY KEY REFERENCES vip (uid) ON DELETE CASCADE,
	seed     INTEGER NOT NULL, -- of the flow hash; secret
	pin_seed INTEGER NOT NULL, -- re-mix seed of the Othello
	pin_n_a  INTEGER NOT NULL, -- cells of its two arrays
	pin_n_b  INTEGER NOT NULL,
	dcodes   BLOB NOT NULL CHECK (length(dcodes) % 2 = 0), -- 16-bit DIP indexes
	pins     BLOB NOT NULL CHECK (length(pins) % 32 = 0)   -- struct persist_pin
) STRICT;

CREATE TABLE dip (
	uid              INTEGER PRIMARY KEY, -- never reused; the rendezvous id
	vip_uid          INTEGER NOT NULL REFERENCES vip (uid) ON DELETE CASCADE,
	id               TEXT NOT NULL,
	dip_index        INTEGER NOT NULL CHECK (dip_index BETWEEN 1 AND 65535), -- in dcodes and pins
	address          TEXT NOT NULL,
	weight           INTEGER NOT NULL,
	mac              TEXT, -- NULL: from the neighbour table
	admin_state      TEXT NOT NULL,
	deleting         INTEGER NOT NULL CHECK (deleting IN (0, 1)),
	drain_deadline_s INTEGER NOT NULL,
	UNIQUE (vip_uid, id),
	UNIQUE (vip_uid, dip_index)
) STRICT;
