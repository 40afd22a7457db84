-- The signing secrets that the portal has shown, so that each is shown once. Rows of before the last day are deleted.
CREATE TABLE shown_secret (
    -- SHA-256 of the secret, 256 random bits: hexadecimal.
    digest TEXT PRIMARY KEY,
    shown_at_ms BIGINT NOT NULL
);
