-- As on PostgreSQL, where the comment is.
ALTER TABLE web_order ADD COLUMN external_reference TEXT CHECK (external_reference = CAST(external_reference AS TEXT));
UPDATE web_order SET external_reference = json_extract(body, '$.externalReference')
    WHERE instr(body, '"externalReference":') > 0;
