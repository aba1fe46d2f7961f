-- Schema 3: what a run wrote to its device in the measured time. Not known of earlier runs.

ALTER TABLE result ADD COLUMN device_written_bytes INTEGER CHECK (device_written_bytes >= 0);
