-- How many deliveries of a bulk resend were withdrawn when it was stopped. 0 of one that a version of before stopped.
ALTER TABLE resend ADD COLUMN taken_back BIGINT NOT NULL DEFAULT 0;
