-- Events that were made to try a webhook. Their deliveries, resends too, carry X-Service-Test and count in no health and no alert.
CREATE TABLE test_event (
    id TEXT PRIMARY KEY REFERENCES event (id) ON DELETE CASCADE,
    -- The uid of the webhook that gets it.
    webhook TEXT NOT NULL
);
CREATE INDEX test_event_by_webhook ON test_event (webhook);
