-- As on PostgreSQL, where the comment is.
ALTER TABLE work_order ADD COLUMN servee_address TEXT CHECK (servee_address = CAST(servee_address AS TEXT));
