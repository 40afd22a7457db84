-- As on PostgreSQL, where the comments are. SQLite drops no constraint, so the attempts are copied.
CREATE TABLE attempt_history (
    delivery_id TEXT NOT NULL,
    attempt_no BIGINT NOT NULL,
    started_at_ms BIGINT NOT NULL,
    finished_at_ms BIGINT,
    failure_class TEXT,
    http_status BIGINT,
    remote_address TEXT,
    response_body TEXT,
    dns_us BIGINT,
    connect_us BIGINT,
    tls_us BIGINT,
    first_byte_us BIGINT,
    total_us BIGINT,
    PRIMARY KEY (delivery_id, attempt_no)
);
INSERT INTO attempt_history SELECT delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, http_status,
    remote_address, response_body, dns_us, connect_us, tls_us, first_byte_us, total_us FROM attempt;
DROP TABLE attempt;
ALTER TABLE delivery RENAME TO delivery_history;
ALTER TABLE delivery_history ADD COLUMN started_at_ms BIGINT;
ALTER TABLE delivery_history ADD COLUMN remote_address TEXT;
ALTER TABLE delivery_history ADD COLUMN dns_us BIGINT;
ALTER TABLE delivery_history ADD COLUMN connect_us BIGINT;
ALTER TABLE delivery_history ADD COLUMN tls_us BIGINT;
ALTER TABLE delivery_history ADD COLUMN first_byte_us BIGINT;
ALTER TABLE delivery_history ADD COLUMN total_us BIGINT;

CREATE TABLE delivery_queue (
    id TEXT PRIMARY KEY,
    event_id TEXT NOT NULL REFERENCES event (id),
    webhook TEXT NOT NULL,
    webhook_name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('Pending', 'Failed')),
    attempt_count BIGINT NOT NULL CHECK (attempt_count BETWEEN 0 AND 5),
    lost_count BIGINT NOT NULL DEFAULT 0,
    due_at_ms BIGINT NOT NULL,
    lease_token TEXT,
    lease_until_ms BIGINT,
    started_at_ms BIGINT,
    failure_class TEXT,
    http_status BIGINT,
    idempotency_key TEXT,
    resend_of TEXT,
    requested_by TEXT,
    resend_id TEXT,
    created_at_ms BIGINT NOT NULL
);
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

CREATE VIEW delivery AS
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token, lease_until_ms,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms,
           CAST(NULL AS BIGINT) AS finished_at_ms
    FROM delivery_queue
    UNION ALL
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, NULL, NULL,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms, finished_at_ms
    FROM delivery_history;

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
