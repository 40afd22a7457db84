-- The last notice of each state that a webhook had before its present state: at most two rows of a webhook. Subscribers to whom it was not sent still get it.
CREATE TABLE replaced_notice (
    webhook TEXT NOT NULL REFERENCES webhook_notice (webhook) ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('Failing', 'Lost', 'Works')),
    -- The number that the notice had in webhook_notice.
    number BIGINT NOT NULL,
    -- How many deliveries the notice is about, and the most frequent failure among them.
    count BIGINT NOT NULL,
    failure_class TEXT,
    failure_cause TEXT,
    http_status BIGINT,
    PRIMARY KEY (webhook, state)
);

-- Since when workers find that the webhook is not served. An hour later the row is deleted. NULL: the webhook is served.
ALTER TABLE webhook_notice ADD COLUMN missing_since_ms BIGINT;

-- The number of the last notice when the user added the state to the subscription. Notices of this state up to this number are not sent. NULL: the subscription has had the state from its beginning, or has not had it.
ALTER TABLE subscription ADD COLUMN failing_after BIGINT;
-- As failing_after, for lost deliveries.
ALTER TABLE subscription ADD COLUMN lost_after BIGINT;
-- As failing_after, for webhooks that work again.
ALTER TABLE subscription ADD COLUMN works_after BIGINT;
