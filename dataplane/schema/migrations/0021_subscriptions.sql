-- Who gets an e-mail when the state of a webhook changes: at most 20 rows of a user, 40 of the contacts of a customer, 160 of all contacts, and 200 in all. A row ends when its user loses the right to see webhooks.
CREATE TABLE subscription (
    id TEXT PRIMARY KEY,
    user_kind TEXT NOT NULL CHECK (user_kind IN ('contact', 'employee')),
    -- The code of the contact or employee.
    user_code TEXT NOT NULL,
    -- An address that the user typed. NULL: the contact's own.
    email TEXT,
    -- The webhook's key. NULL: all webhooks that the user may see.
    webhook TEXT,
    on_failing BOOLEAN NOT NULL,
    on_lost BOOLEAN NOT NULL,
    on_works BOOLEAN NOT NULL,
    -- When the owner of the address confirmed it. NULL: the address gets one message, with the link that confirms it.
    confirmed_at_ms BIGINT,
    -- The number of the last notice that the subscriber was sent.
    sent_number BIGINT NOT NULL,
    -- When the next message may be sent. It is later while a process sends a message, and after a message that could not be sent.
    due_at_ms BIGINT NOT NULL,
    -- How many times in a row the message could not be sent.
    failures BIGINT NOT NULL DEFAULT 0,
    created_at_ms BIGINT NOT NULL
);

-- What was last announced of each webhook.
CREATE TABLE webhook_notice (
    webhook TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('Failing', 'Lost', 'Works')),
    -- Counts notices in the order of their commits. 0: the state was not announced.
    number BIGINT NOT NULL,
    -- When each state was last announced.
    failing_at_ms BIGINT,
    lost_at_ms BIGINT,
    works_at_ms BIGINT,
    -- Deliveries that were lost until then are known.
    lost_until_ms BIGINT,
    -- How many deliveries the notice is about, and the most frequent failure among them.
    count BIGINT NOT NULL,
    failure_class TEXT,
    failure_cause TEXT,
    http_status BIGINT
);

-- The links in the messages that were sent, or that could not be sent. They bound how many messages a tenant and a user send in an hour, also when their subscription has ended, and how many ask the owner of one address to confirm it. Rows of more than 90 days ago are deleted.
CREATE TABLE mail_link (
    -- SHA-256 of the token in the link: hexadecimal.
    token_digest TEXT PRIMARY KEY,
    subscription_id TEXT NOT NULL,
    -- The user of the subscription.
    user_kind TEXT NOT NULL,
    user_code TEXT NOT NULL,
    -- SHA-256 of the address that the message asks its owner to confirm: hexadecimal. NULL: the message is about webhooks.
    address_digest TEXT,
    sent_at_ms BIGINT NOT NULL
);
CREATE INDEX mail_link_by_time ON mail_link (sent_at_ms);

-- The addresses whose owners want no messages about webhooks. No user can subscribe with one. At most 10,000 rows: the oldest are deleted.
CREATE TABLE refused_address (
    -- SHA-256 of the address: hexadecimal.
    address_digest TEXT PRIMARY KEY,
    refused_at_ms BIGINT NOT NULL
);

INSERT INTO counter (name, value) VALUES ('notice', 0);
