-- Schema 4: tokens of the API.

-- Who may do what. The token itself is nowhere kept.
CREATE TABLE token (
	id        TEXT PRIMARY KEY,
	role      TEXT NOT NULL CHECK (role IN ('read', 'operate', 'admin')),
	hash      BLOB NOT NULL UNIQUE CHECK (length(hash) = 32), -- SHA-256
	created_s INTEGER NOT NULL, -- wall clock
	expires_s INTEGER NOT NULL  -- wall clock; 0: never
) STRICT;
