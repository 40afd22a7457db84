-- When a worker last saw that it is missing. If that is long ago, the time to declare it again starts over. 0: by a version that did not record it.
ALTER TABLE missing_webhook ADD COLUMN seen_ms BIGINT NOT NULL DEFAULT 0;
