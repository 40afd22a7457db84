-- What is unfinished moves into a small table of its own; what is finished stays where it is. No statement here reads or
-- writes a finished delivery, so that the locks are held for milliseconds, however many there are.

-- Waits for the transactions of workers and requests of before; each later one of theirs fails.
ALTER TABLE delivery RENAME TO delivery_history;
ALTER TABLE attempt RENAME TO attempt_history;
SET LOCAL enable_seqscan = off;

-- Attempts of unfinished deliveries have no row in the history.
ALTER TABLE attempt_history DROP CONSTRAINT attempt_delivery_id_fkey;
-- Of the attempt that succeeded: failed ones have rows in attempt_history.
ALTER TABLE delivery_history
    ADD COLUMN started_at_ms BIGINT,
    ADD COLUMN remote_address TEXT,
    ADD COLUMN dns_us BIGINT,
    ADD COLUMN connect_us BIGINT,
    ADD COLUMN tls_us BIGINT,
    ADD COLUMN first_byte_us BIGINT,
    ADD COLUMN total_us BIGINT;

-- The deliveries that are still to be made. Changed in place: only its primary key and columns that never change are
-- indexed.
CREATE TABLE delivery_queue (
    id TEXT PRIMARY KEY,
    event_id TEXT NOT NULL REFERENCES event (id),
    -- The uid of the Webhook object; its name is kept for people.
    webhook TEXT NOT NULL,
    webhook_name TEXT NOT NULL,
    -- Failed: the last attempt failed.
    status TEXT NOT NULL CHECK (status IN ('Pending', 'Failed')),
    -- Counted before the POST. The bound is the contract's; a sixth attempt can't even be stored.
    attempt_count BIGINT NOT NULL CHECK (attempt_count BETWEEN 0 AND 5),
    -- How many of them ended with the worker that made them.
    lost_count BIGINT NOT NULL DEFAULT 0,
    due_at_ms BIGINT NOT NULL,
    -- Of the attempt that is being made: who makes it, until when nobody else may, and since when it runs.
    lease_token TEXT,
    lease_until_ms BIGINT,
    started_at_ms BIGINT,
    -- Of the last attempt that has ended.
    failure_class TEXT,
    http_status BIGINT,
    idempotency_key TEXT,
    resend_of TEXT,
    requested_by TEXT,
    resend_id TEXT,
    created_at_ms BIGINT NOT NULL
) WITH (fillfactor = 50);
INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token,
                            lease_until_ms, started_at_ms, failure_class, http_status, idempotency_key, resend_of,
                            requested_by, resend_id, created_at_ms)
    SELECT d.id, d.event_id, d.webhook, d.webhook_name, d.status, d.attempt_count, d.due_at_ms, d.lease_token,
           d.lease_until_ms, (SELECT a.started_at_ms FROM attempt_history a
                              WHERE a.delivery_id = d.id AND a.attempt_no = d.attempt_count AND a.finished_at_ms IS NULL),
           d.failure_class, d.http_status, d.idempotency_key, d.resend_of, d.requested_by, d.resend_id, d.created_at_ms
    FROM delivery_history d WHERE d.status IN ('Pending', 'Failed');
DELETE FROM attempt_history WHERE finished_at_ms IS NULL AND delivery_id IN (SELECT id FROM delivery_queue);
DELETE FROM delivery_history WHERE status IN ('Pending', 'Failed');
CREATE INDEX delivery_queue_by_event ON delivery_queue (event_id);
CREATE UNIQUE INDEX delivery_queue_key ON delivery_queue (webhook, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX delivery_queue_by_resend ON delivery_queue (resend_id) WHERE resend_id IS NOT NULL;

DROP INDEX delivery_due;
ALTER TABLE delivery_history DROP COLUMN lease_token;
ALTER TABLE delivery_history DROP COLUMN lease_until_ms;

-- All deliveries. Programs of before fail on it when they write.
CREATE VIEW delivery AS
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token, lease_until_ms,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms,
           CAST(NULL AS BIGINT) AS finished_at_ms
    FROM delivery_queue
    UNION ALL
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, NULL, NULL,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms, finished_at_ms
    FROM delivery_history;

-- All attempts: those that have failed, the one that succeeded, and the one that is being made.
CREATE VIEW attempt AS
    SELECT delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, http_status, remote_address,
           response_body, dns_us, connect_us, tls_us, first_byte_us, total_us
    FROM attempt_history
    UNION ALL
    SELECT id, attempt_count, started_at_ms, finished_at_ms, NULL, http_status, remote_address,
           response_body, dns_us, connect_us, tls_us, first_byte_us, total_us
    FROM delivery_history WHERE started_at_ms IS NOT NULL
    UNION ALL
    SELECT id, attempt_count, started_at_ms, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM delivery_queue WHERE started_at_ms IS NOT NULL;
