-- Whether a contact sees and manages its customer's webhooks in the portal.
ALTER TABLE contact ADD COLUMN manages_webhooks BOOLEAN NOT NULL DEFAULT FALSE;
