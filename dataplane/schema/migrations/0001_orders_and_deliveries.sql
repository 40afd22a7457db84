-- Runs as it is on PostgreSQL and on SQLite: BIGINT, TEXT, BOOLEAN and BYTEA mean the same to both.
-- Times are milliseconds since 1970 in UTC (…_ms). Texts from outside are bounded by the API, not here.

CREATE TABLE customer (
    code TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL
);

CREATE TABLE contact (
    code TEXT PRIMARY KEY,
    customer_code TEXT NOT NULL REFERENCES customer (code),
    email TEXT NOT NULL,
    -- The e-mail address in lower case: what a userId is compared with.
    email_key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    -- NULL: no usable password, so no sign-in.
    password_hash TEXT,
    active BOOLEAN NOT NULL,
    created_at_ms BIGINT NOT NULL
);

CREATE TABLE employee (
    code TEXT PRIMARY KEY,
    user_name TEXT NOT NULL,
    user_key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    password_hash TEXT,
    administrator BOOLEAN NOT NULL,
    active BOOLEAN NOT NULL,
    created_at_ms BIGINT NOT NULL
);

-- The next web order, contact and work order numbers. A row is locked until its transaction ends.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);

INSERT INTO counter (name, value) VALUES
    ('web_order', 0), ('contact', 1000), ('employee', 100),
    ('Court', 1000000), ('Process', 1000000), ('Delivery', 1000000), ('Investigation', 1000000),
    ('PhotoCopy', 1000000);

CREATE TABLE web_order (
    id TEXT PRIMARY KEY,
    order_type TEXT NOT NULL,
    customer_code TEXT NOT NULL REFERENCES customer (code),
    status TEXT NOT NULL,
    -- Set on photocopy orders only.
    finalized BOOLEAN,
    -- The order as its client sent it, in canonical JSON.
    body TEXT NOT NULL,
    case_number TEXT,
    caption TEXT,
    client_matter_number TEXT,
    -- What `text` of Orders/Search looks in, in lower case; never restricted (class A) fields.
    search_text TEXT NOT NULL,
    -- Counts the saves: an update states which one it has read.
    version BIGINT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    exported_at_ms BIGINT
);
CREATE INDEX web_order_by_time ON web_order (created_at_ms, id);
CREATE INDEX web_order_by_customer ON web_order (customer_code, created_at_ms, id);

-- What an export makes in the back office.
CREATE TABLE work_order (
    number TEXT PRIMARY KEY,
    -- One of the back office's five families: Court, Process, Delivery, Investigation, PhotoCopy.
    work_order_type TEXT NOT NULL,
    web_order_id TEXT NOT NULL REFERENCES web_order (id),
    -- Its place among the work orders of one export, from 0.
    position BIGINT NOT NULL,
    customer_code TEXT NOT NULL,
    -- The person to be served, on process work orders.
    servee TEXT,
    case_number TEXT,
    status TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    UNIQUE (web_order_id, position)
);

-- An event, once, whatever the number of webhooks: `body` is the envelope, the very bytes that are signed and sent.
CREATE TABLE event (
    id TEXT PRIMARY KEY,
    code TEXT NOT NULL,
    customer_code TEXT NOT NULL,
    -- What it is about: a web order id, a work order or an invoice number.
    subject TEXT NOT NULL,
    body BYTEA NOT NULL,
    occurred_at_ms BIGINT NOT NULL
);
CREATE INDEX event_by_subject ON event (subject);

CREATE TABLE delivery (
    id TEXT PRIMARY KEY,
    event_id TEXT NOT NULL REFERENCES event (id),
    -- The uid of the Webhook object; its name is kept for people.
    webhook TEXT NOT NULL,
    webhook_name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('Pending', 'Failed', 'Succeeded', 'DeadLetter')),
    -- Counted before the POST. The bound is the contract's; a sixth attempt can't even be stored.
    attempt_count BIGINT NOT NULL CHECK (attempt_count BETWEEN 0 AND 5),
    due_at_ms BIGINT NOT NULL,
    -- Who is making an attempt, and until when nobody else may.
    lease_token TEXT,
    lease_until_ms BIGINT,
    -- Of the last attempt.
    failure_class TEXT,
    http_status BIGINT,
    response_body TEXT,
    idempotency_key TEXT,
    resend_of TEXT,
    created_at_ms BIGINT NOT NULL,
    finished_at_ms BIGINT,
    UNIQUE (webhook, idempotency_key)
);
-- Small by nature: only what is still to be done. The sweep reads it whole, so that no order of commits hides a row.
CREATE INDEX delivery_due ON delivery (due_at_ms, id) WHERE status IN ('Pending', 'Failed');
CREATE INDEX delivery_by_event ON delivery (event_id);
CREATE INDEX delivery_by_time ON delivery (created_at_ms, id);

CREATE TABLE attempt (
    delivery_id TEXT NOT NULL REFERENCES delivery (id),
    -- 1 to 5.
    attempt_no BIGINT NOT NULL,
    started_at_ms BIGINT NOT NULL,
    -- NULL while it runs.
    finished_at_ms BIGINT,
    -- NULL if it succeeded, or while it runs.
    failure_class TEXT,
    http_status BIGINT,
    remote_address TEXT,
    response_body TEXT,
    dns_us BIGINT,
    connect_us BIGINT,
    tls_us BIGINT,
    first_byte_us BIGINT,
    total_us BIGINT,
    PRIMARY KEY (delivery_id, attempt_no)
);

-- What a write answered, so that the same Idempotency-Key gets the same answer and nothing is done twice.
CREATE TABLE idempotency (
    -- Who sent it: a contact's or an employee's code, with its kind.
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    route TEXT NOT NULL,
    -- SHA-256 of the request's body; the body itself is not kept.
    request_digest TEXT NOT NULL,
    answer_status BIGINT NOT NULL,
    answer_body TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_by_time ON idempotency (created_at_ms);
