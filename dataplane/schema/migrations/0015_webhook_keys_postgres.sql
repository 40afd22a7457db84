-- From here on a row names its webhook by key, `namespace/name/customerCode`, in place of the uid. Workers give older rows their keys.
-- delivery_queue.webhook: The webhook's key: `namespace/name/customerCode`. A row from before keys has the uid of the Webhook object, until a worker has replaced it.
-- delivery_history.webhook: The webhook's key: `namespace/name/customerCode`. A row from before keys has the uid of the Webhook object, until a worker has replaced it.
-- test_event.webhook: The key of the webhook that gets it.

-- Webhooks that are not declared any more and have queued deliveries.
CREATE TABLE missing_webhook (
    webhook TEXT PRIMARY KEY,
    since_ms BIGINT NOT NULL,
    -- Whether what is queued for it is being ended.
    is_ending BOOLEAN NOT NULL DEFAULT FALSE
);

-- Of a delivery that ended because its webhook was missing: since when it was.
ALTER TABLE delivery_history ADD COLUMN webhook_missing_since_ms BIGINT;
-- A worker of before does not know a key, and would end such a delivery after two minutes. This refuses its transaction, until the
-- worker is replaced. Rows of before, which have a uid, can still be marked.
ALTER TABLE delivery_history ADD CONSTRAINT delivery_history_webhook_gone
    CHECK (failure_class <> 'WebhookGone' OR webhook_missing_since_ms IS NOT NULL OR webhook NOT LIKE '%/%/%') NOT VALID;
