-- Where service on the servee was ordered to be tried first, in one line: two servees may have one name.
ALTER TABLE work_order ADD COLUMN servee_address TEXT;
