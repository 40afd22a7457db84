-- How often a user was signed out everywhere. A token that was issued before the last time is refused.
ALTER TABLE contact ADD COLUMN sign_outs BIGINT NOT NULL DEFAULT 0;
ALTER TABLE employee ADD COLUMN sign_outs BIGINT NOT NULL DEFAULT 0;
