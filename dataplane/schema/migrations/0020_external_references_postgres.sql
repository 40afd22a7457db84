-- The caller's own key of an order, for searches. Rows of before get theirs beside the work, before the index is built.
ALTER TABLE web_order ADD COLUMN external_reference TEXT;
