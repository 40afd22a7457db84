-- Who did what: docs/audit.md. Ids, times and counts; the address is the one exception.
CREATE TABLE audit (
    at_ms BIGINT NOT NULL,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    -- NULL: no one signed in.
    actor TEXT,
    subject TEXT,
    address TEXT,
    request_id TEXT,
    count BIGINT NOT NULL,
    -- In the order in which they are listed.
    PRIMARY KEY (at_ms, id)
);
