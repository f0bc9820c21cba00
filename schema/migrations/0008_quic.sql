-- Schema 8: QUIC by connection ID.

-- Whether a connection ID, or the flow alone, says where a QUIC packet goes; and by which configuration
-- the servers make their IDs.
ALTER TABLE vip ADD COLUMN quic TEXT NOT NULL DEFAULT 'flow';
ALTER TABLE vip ADD COLUMN quic_config_rotation INTEGER NOT NULL DEFAULT 0;

-- What the DIP's connection IDs say of it, in hexadecimal; NULL: nothing.
ALTER TABLE dip ADD COLUMN server_id TEXT;
