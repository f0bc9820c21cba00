-- Schema 6: mode gue.

-- The UDP port at which DIPs take tunnelled packets.
ALTER TABLE vip ADD COLUMN gue_port INTEGER NOT NULL DEFAULT 6080;
