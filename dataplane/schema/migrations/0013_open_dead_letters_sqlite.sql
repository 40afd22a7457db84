-- As on PostgreSQL, where the comments are.
ALTER TABLE delivery_history ADD COLUMN resent BOOLEAN;
ALTER TABLE delivery_history ADD COLUMN set_aside_by TEXT;
ALTER TABLE delivery_history ADD COLUMN set_aside_at_ms BIGINT;
-- PostgreSQL does this beside the work, before it builds the index.
UPDATE delivery_history SET resent = TRUE WHERE status = 'DeadLetter' AND (
    EXISTS (SELECT 1 FROM delivery_history n WHERE n.event_id = delivery_history.event_id
            AND n.webhook || '' = delivery_history.webhook
            AND (n.created_at_ms, n.id) > (delivery_history.created_at_ms, delivery_history.id))
    OR EXISTS (SELECT 1 FROM delivery_queue q WHERE q.event_id = delivery_history.event_id
               AND q.webhook || '' = delivery_history.webhook));

DROP VIEW delivery;
CREATE VIEW delivery AS
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token, lease_until_ms,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms,
           CAST(NULL AS BIGINT) AS finished_at_ms, CAST(NULL AS BOOLEAN) AS resent, CAST(NULL AS TEXT) AS set_aside_by,
           CAST(NULL AS BIGINT) AS set_aside_at_ms
    FROM delivery_unfinished
    UNION ALL
    SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, NULL, NULL,
           failure_class, http_status, idempotency_key, resend_of, requested_by, resend_id, created_at_ms, finished_at_ms,
           resent, set_aside_by, set_aside_at_ms
    FROM delivery_history;
