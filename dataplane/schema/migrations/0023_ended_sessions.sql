-- The sessions of the portal that their users have ended. No token of such a session is accepted or renewed. At most one row for each sign-in of the last 12 hours. A sign-out deletes the rows of sessions that would have ended by now.
CREATE TABLE ended_session (
    -- SHA-256 of the session's random id: hexadecimal.
    session_digest TEXT PRIMARY KEY,
    -- When the session ends in any case.
    until_ms BIGINT NOT NULL
);
CREATE INDEX ended_session_by_time ON ended_session (until_ms);
