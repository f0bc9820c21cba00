-- Schema 2: agents.

-- Who may report for a DIP. The token itself is nowhere kept. A row goes with its DIP: the store
-- deletes it with the write that takes the DIP away, since the rows of `dip` are written anew with
-- every change of their VIP and so cannot be what a foreign key cascades from.
CREATE TABLE agent (
	id         TEXT PRIMARY KEY,
	vip_uid    INTEGER NOT NULL REFERENCES vip (uid) ON DELETE CASCADE,
	dip_uid    INTEGER NOT NULL UNIQUE,
	token_hash BLOB NOT NULL CHECK (length(token_hash) = 32) -- SHA-256
) STRICT;

CREATE INDEX agent_vip ON agent (vip_uid);
