-- When API keys were last used. Processes store it every five minutes; rows of more than a year ago are deleted.
CREATE TABLE api_key_use (
    -- The key's fingerprint, as statuses and the portal show it.
    fingerprint TEXT PRIMARY KEY,
    last_used_at_ms BIGINT NOT NULL
);
