-- As on PostgreSQL, where the comments are.
CREATE TABLE hand_off (
    batch TEXT NOT NULL,
    webhook TEXT NOT NULL,
    webhook_name TEXT NOT NULL,
    deliveries TEXT NOT NULL,
    lease_until_ms BIGINT NOT NULL,
    started_at_ms BIGINT NOT NULL,
    PRIMARY KEY (batch, webhook)
);
CREATE VIEW delivery_unfinished AS
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token, lease_until_ms, started_at_ms,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms
    FROM delivery_queue
    UNION ALL
    SELECT d.key, d.value, h.webhook, h.webhook_name, 'Pending', CAST(1 AS BIGINT), h.started_at_ms, h.batch || d.key,
           h.lease_until_ms, h.started_at_ms, CAST(NULL AS TEXT), CAST(NULL AS BIGINT), CAST(NULL AS TEXT), CAST(NULL AS TEXT),
           CAST(NULL AS TEXT), CAST(NULL AS TEXT), h.started_at_ms
    FROM hand_off h CROSS JOIN json_each(h.deliveries) d
    WHERE h.batch > '' AND NOT EXISTS (SELECT 1 FROM delivery_history f WHERE f.id = d.key);

DROP VIEW delivery;
CREATE VIEW delivery AS
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token, lease_until_ms,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms,
           CAST(NULL AS BIGINT) AS finished_at_ms
    FROM delivery_unfinished
    UNION ALL
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, NULL, NULL,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms, finished_at_ms
    FROM delivery_history;

DROP VIEW attempt;
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
    FROM delivery_unfinished WHERE started_at_ms IS NOT NULL;
