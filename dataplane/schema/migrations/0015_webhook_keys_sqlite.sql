-- As on PostgreSQL, where the comments are. No other process uses the file, so nobody is to be refused.
CREATE TABLE missing_webhook (
    webhook TEXT PRIMARY KEY,
    since_ms BIGINT NOT NULL,
    is_ending BOOLEAN NOT NULL DEFAULT FALSE
);
ALTER TABLE delivery_history ADD COLUMN webhook_missing_since_ms BIGINT;
