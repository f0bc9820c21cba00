-- Schema 7: mode nat.

-- The port at a DIP, which mode nat translates to; 0: the VIP's.
ALTER TABLE dip ADD COLUMN port INTEGER NOT NULL DEFAULT 0 CHECK (port BETWEEN 0 AND 65535);
