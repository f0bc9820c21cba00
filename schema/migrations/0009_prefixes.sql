-- Schema 9: VIPs of several addresses ("10.9.0.0/24" in address) and ports.

-- Two VIPs may differ in the end of their port ranges alone. SQLite cannot drop the old constraint, so
-- the table is made anew; what refers to it does so by its name.
CREATE TABLE vip_new (
	uid                INTEGER PRIMARY KEY, -- never reused
	id                 TEXT NOT NULL UNIQUE,
	slot               INTEGER NOT NULL UNIQUE,
	address            TEXT NOT NULL, -- or a prefix, its length behind a slash
	port               INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535), -- 0: any
	port_end           INTEGER NOT NULL DEFAULT 0, -- of a range; 0: port alone
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
	gue_port           INTEGER NOT NULL DEFAULT 6080,
	quic               TEXT NOT NULL DEFAULT 'flow',
	quic_config_rotation INTEGER NOT NULL DEFAULT 0,
	UNIQUE (address, port, port_end, protocol)
) STRICT;
INSERT INTO vip_new (uid, id, slot, address, port, protocol, mode, affinity, on_learn_overflow,
	drain_timeout_s, closing_pin_s, idle_established_s, idle_half_open_s, idle_closing_s, idle_udp_s,
	deleting, drain_deadline_s, gue_port, quic, quic_config_rotation)
SELECT uid, id, slot, address, port, protocol, mode, affinity, on_learn_overflow,
	drain_timeout_s, closing_pin_s, idle_established_s, idle_half_open_s, idle_closing_s, idle_udp_s,
	deleting, drain_deadline_s, gue_port, quic, quic_config_rotation FROM vip;
DROP TABLE vip;
ALTER TABLE vip_new RENAME TO vip;
