-- Schema 11: VIPs whose SYNs offer no larger segments than fit the way to the DIP.

ALTER TABLE vip ADD COLUMN clamp_mss INTEGER NOT NULL DEFAULT 0;
