-- When a webhook's last delivery succeeded, and when its last one was given up, however many others there are since.
CREATE INDEX delivery_by_end ON delivery (webhook, status, finished_at_ms) WHERE finished_at_ms IS NOT NULL;
