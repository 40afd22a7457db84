-- A dead letter counts until it is resent or set aside.
ALTER TABLE delivery_history
    -- True once a dead letter was resent: a later delivery carries its event to the webhook, and counts instead.
    ADD COLUMN resent BOOLEAN,
    -- Who set the dead letter aside. A resend ends that.
    ADD COLUMN set_aside_by TEXT,
    ADD COLUMN set_aside_at_ms BIGINT;

CREATE OR REPLACE VIEW delivery AS
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
