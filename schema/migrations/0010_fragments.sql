-- Schema 10: where packets go that come in fragments.

-- With their flow, or by the client's address alone.
ALTER TABLE vip ADD COLUMN fragments TEXT NOT NULL DEFAULT 'flow';
