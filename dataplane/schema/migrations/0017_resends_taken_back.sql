-- How many deliveries of a bulk resend were withdrawn when it was stopped: what is left of its count may have been deleted by retention.
ALTER TABLE resend ADD COLUMN taken_back BIGINT NOT NULL DEFAULT 0;
UPDATE resend SET taken_back = count - (SELECT count(*) FROM delivery WHERE delivery.resend_id = resend.id)
    WHERE stopped_at_ms IS NOT NULL;
