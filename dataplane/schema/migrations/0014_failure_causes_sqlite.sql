-- As on PostgreSQL, where the comments are.
ALTER TABLE attempt_history ADD COLUMN failure_cause TEXT;
ALTER TABLE attempt_history ADD COLUMN failure_detail TEXT;

DROP VIEW attempt;
CREATE VIEW attempt AS
    SELECT delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, http_status, remote_address,
           response_body, dns_us, connect_us, tls_us, first_byte_us, total_us, failure_cause, failure_detail
    FROM attempt_history
    UNION ALL
    SELECT id, attempt_count, started_at_ms, finished_at_ms, NULL, http_status, remote_address,
           response_body, dns_us, connect_us, tls_us, first_byte_us, total_us, NULL, NULL
    FROM delivery_history WHERE started_at_ms IS NOT NULL
    UNION ALL
    SELECT id, attempt_count, started_at_ms, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM delivery_unfinished WHERE started_at_ms IS NOT NULL;
