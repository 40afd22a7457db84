-- The back office: what other programs write as well, described in docs/back-office.md.
-- Money is in cents (…_cents), dates without a time are YYYY-MM-DD texts. The CASTs refuse what
-- SQLite would store in a column of another type: a text or part of a number in a BIGINT, bytes in a TEXT. Times end
-- with the year 9999; what is counted has nine digits.

-- A work order may be made in the back office itself, so without a web order.
ALTER TABLE work_order RENAME TO work_order_1;
CREATE TABLE work_order (
    -- Short, without `-` and `:`, which join it with a facility.
    number TEXT NOT NULL PRIMARY KEY
        CHECK (number = CAST(number AS TEXT)) CHECK (length(number) BETWEEN 1 AND 32 AND number NOT LIKE '%-%' AND number NOT LIKE '%:%'),
    work_order_type TEXT NOT NULL
        CHECK (work_order_type IN ('Court', 'Process', 'Delivery', 'Investigation', 'PhotoCopy')),
    web_order_id TEXT REFERENCES web_order (id) CHECK (web_order_id = CAST(web_order_id AS TEXT)),
    -- Its place among the work orders of one export, from 0.
    position BIGINT NOT NULL DEFAULT 0 CHECK (position = CAST(position AS BIGINT) AND position BETWEEN 0 AND 999999999),
    customer_code TEXT NOT NULL REFERENCES customer (code) CHECK (customer_code = CAST(customer_code AS TEXT)),
    -- The person to be served, on process work orders.
    servee TEXT CHECK (servee = CAST(servee AS TEXT)),
    -- The servee in lower case, in which ProcessStatus/Search looks as well as in the servee's own.
    servee_key TEXT CHECK (servee_key = CAST(servee_key AS TEXT)),
    case_number TEXT CHECK (case_number = CAST(case_number AS TEXT)),
    caption TEXT CHECK (caption = CAST(caption AS TEXT)),
    status TEXT NOT NULL DEFAULT 'Open'
        CHECK (status IN ('Open', 'InProgress', 'OnHold', 'Completed', 'Cancelled', 'Billed')),
    -- The last number given to a note of this work order.
    last_line_item BIGINT NOT NULL DEFAULT 0
        CHECK (last_line_item = CAST(last_line_item AS BIGINT) AND last_line_item BETWEEN 0 AND 999999999),
    created_at_ms BIGINT NOT NULL
        CHECK (created_at_ms = CAST(created_at_ms AS BIGINT) AND created_at_ms BETWEEN 0 AND 253402300799999),
    UNIQUE (web_order_id, position)
);
INSERT INTO work_order (number, work_order_type, web_order_id, position, customer_code, servee, case_number, caption,
                        status, created_at_ms)
    SELECT w.number, w.work_order_type, w.web_order_id, w.position, w.customer_code, w.servee, w.case_number,
           o.caption, w.status, w.created_at_ms
    FROM work_order_1 w JOIN web_order o ON o.id = w.web_order_id;
DROP TABLE work_order_1;
CREATE INDEX work_order_by_time ON work_order (work_order_type, created_at_ms, number);
CREATE INDEX work_order_by_customer ON work_order (customer_code, work_order_type, created_at_ms, number);
CREATE INDEX work_order_by_case ON work_order (case_number) WHERE case_number IS NOT NULL;

-- How the service of a process work order stands; without a row it is New.
CREATE TABLE process_status (
    work_order TEXT NOT NULL PRIMARY KEY REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    status TEXT NOT NULL DEFAULT 'New' CHECK (status IN
        ('New', 'Assigned', 'Attempted', 'OnHold', 'SkipTrace', 'Served', 'NonService', 'Cancelled')),
    serve_result TEXT CHECK (serve_result IN ('Personal', 'Substituted', 'Posted', 'Mailed', 'Entity', 'NotServed')),
    service_method TEXT CHECK (service_method = CAST(service_method AS TEXT)),
    served_at_ms BIGINT
        CHECK (served_at_ms = CAST(served_at_ms AS BIGINT) AND served_at_ms BETWEEN 0 AND 253402300799999),
    -- Who took the papers, and who that is to the servee.
    served_on_name TEXT CHECK (served_on_name = CAST(served_on_name AS TEXT)),
    served_on_relationship TEXT CHECK (served_on_relationship = CAST(served_on_relationship AS TEXT)),
    mailed_on TEXT CHECK (mailed_on = CAST(mailed_on AS TEXT)) CHECK (mailed_on LIKE '____-__-__'),
    not_served_reason TEXT CHECK (not_served_reason IN
        ('BadAddress', 'UnableToLocate', 'Evading', 'Deceased', 'Incarcerated', 'TimeExpired', 'Cancelled')),
    proof_signed_on TEXT
        CHECK (proof_signed_on = CAST(proof_signed_on AS TEXT)) CHECK (proof_signed_on LIKE '____-__-__'),
    proof_filed_on TEXT CHECK (proof_filed_on = CAST(proof_filed_on AS TEXT)) CHECK (proof_filed_on LIKE '____-__-__')
);

-- An attempt to serve; not changed once it is written.
CREATE TABLE process_attempt (
    work_order TEXT NOT NULL REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    -- From 1.
    sequence BIGINT NOT NULL CHECK (sequence = CAST(sequence AS BIGINT) AND sequence BETWEEN 1 AND 999999999),
    attempted_at_ms BIGINT NOT NULL
        CHECK (attempted_at_ms = CAST(attempted_at_ms AS BIGINT) AND attempted_at_ms BETWEEN 0 AND 253402300799999),
    -- Where it was: an IANA name, such as America/Los_Angeles.
    time_zone TEXT CHECK (time_zone = CAST(time_zone AS TEXT)),
    address TEXT CHECK (address = CAST(address AS TEXT)),
    outcome TEXT NOT NULL CHECK (outcome IN
        ('Served', 'SubServed', 'Posted', 'NoAnswer', 'NotIn', 'Refused', 'Evading', 'NoAccess', 'BusinessClosed',
         'Moved', 'Vacant', 'BadAddress', 'Other')),
    service_method TEXT CHECK (service_method = CAST(service_method AS TEXT)),
    person_served_name TEXT CHECK (person_served_name = CAST(person_served_name AS TEXT)),
    person_served_relationship TEXT CHECK (person_served_relationship = CAST(person_served_relationship AS TEXT)),
    person_served_age TEXT CHECK (person_served_age = CAST(person_served_age AS TEXT)),
    person_served_description TEXT CHECK (person_served_description = CAST(person_served_description AS TEXT)),
    comments TEXT CHECK (comments = CAST(comments AS TEXT)),
    latitude DOUBLE PRECISION CHECK (latitude = CAST(latitude AS DOUBLE PRECISION)),
    longitude DOUBLE PRECISION CHECK (longitude = CAST(longitude AS DOUBLE PRECISION)),
    gps_accuracy_meters DOUBLE PRECISION CHECK (gps_accuracy_meters = CAST(gps_accuracy_meters AS DOUBLE PRECISION)),
    photo_count BIGINT CHECK (photo_count = CAST(photo_count AS BIGINT) AND photo_count BETWEEN 0 AND 999999999),
    server_name TEXT CHECK (server_name = CAST(server_name AS TEXT)),
    -- Number and county of a registered process server.
    server_registration TEXT CHECK (server_registration = CAST(server_registration AS TEXT)),
    recorded_at_ms BIGINT NOT NULL
        CHECK (recorded_at_ms = CAST(recorded_at_ms AS BIGINT) AND recorded_at_ms BETWEEN 0 AND 253402300799999),
    PRIMARY KEY (work_order, sequence)
);

-- The stops of a photocopy work order.
CREATE TABLE facility (
    work_order TEXT NOT NULL REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    -- From 1, in the order's order.
    facility_line_item BIGINT NOT NULL
        CHECK (facility_line_item = CAST(facility_line_item AS BIGINT) AND facility_line_item BETWEEN 1 AND 999999999),
    -- The known facility's code, if it is a known one.
    facility_id TEXT CHECK (facility_id = CAST(facility_id AS TEXT)),
    name TEXT CHECK (name = CAST(name AS TEXT)),
    PRIMARY KEY (work_order, facility_line_item)
);

-- What a photocopy stop can have reached. A tenant may add its own.
CREATE TABLE milestone (
    code BIGINT NOT NULL PRIMARY KEY CHECK (code = CAST(code AS BIGINT) AND code BETWEEN 0 AND 999999999),
    title TEXT CHECK (title = CAST(title AS TEXT)),
    -- Nothing comes after it.
    terminal BOOLEAN NOT NULL DEFAULT FALSE CHECK (terminal IN (TRUE, FALSE)),
    -- Notes/Add takes it.
    active BOOLEAN NOT NULL DEFAULT TRUE CHECK (active IN (TRUE, FALSE))
);
INSERT INTO milestone (code, title, terminal) VALUES
    (100, 'Order received', FALSE), (110, 'Order reviewed', FALSE), (120, 'Subpoena prepared', FALSE),
    (130, 'Notice to consumer served', FALSE), (140, 'Objection period running', FALSE),
    (150, 'Objection or motion to quash (hold)', FALSE), (200, 'Request sent to custodian', FALSE),
    (210, 'Custodian served', FALSE), (220, 'Custodian follow-up', FALSE), (230, 'Custodian fee requested', FALSE),
    (240, 'Custodian fee paid', FALSE), (250, 'Wrong or closed facility', FALSE), (300, 'Appointment set', FALSE),
    (310, 'Records ready', FALSE), (320, 'Records copied or received', FALSE),
    (330, 'Partial records received', FALSE), (340, 'Records incomplete, second request', FALSE),
    (400, 'Quality control', FALSE), (410, 'Delivered', FALSE), (420, 'Invoiced', FALSE), (900, 'Closed', TRUE),
    (910, 'Certificate of no records', TRUE), (920, 'Cancelled', TRUE), (930, 'Quashed', TRUE);

-- What is told about a work order. A row with a milestone is a status line.
CREATE TABLE note (
    work_order TEXT NOT NULL REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    -- From 1 in each work order.
    line_item BIGINT NOT NULL CHECK (line_item = CAST(line_item AS BIGINT) AND line_item BETWEEN 1 AND 999999999),
    -- The stop of a photocopy work order; NULL: the whole work order.
    facility_line_item BIGINT
        CHECK (facility_line_item = CAST(facility_line_item AS BIGINT) AND facility_line_item BETWEEN 1 AND 999999999),
    report TEXT CHECK (report = CAST(report AS TEXT)),
    milestone_code BIGINT REFERENCES milestone (code)
        CHECK (milestone_code = CAST(milestone_code AS BIGINT) AND milestone_code BETWEEN 0 AND 999999999),
    -- Who wrote it: `contact 1001`, `employee 100`, or a name that the back office gives.
    author TEXT CHECK (author = CAST(author AS TEXT)),
    created_at_ms BIGINT NOT NULL
        CHECK (created_at_ms = CAST(created_at_ms AS BIGINT) AND created_at_ms BETWEEN 0 AND 253402300799999),
    PRIMARY KEY (work_order, line_item),
    FOREIGN KEY (work_order, facility_line_item) REFERENCES facility (work_order, facility_line_item),
    CHECK (report IS NOT NULL OR milestone_code IS NOT NULL)
);
CREATE INDEX note_by_time ON note (created_at_ms, work_order, line_item);

-- The invoice headers, one table per family. A row is new until its detected_at_ms is set, which the detector does in
-- the transaction that queues its deliveries; a row that comes with one is never announced. The small indexes hold the
-- new ones only.
CREATE TABLE photo_copy_invoice (
    invoice_number TEXT NOT NULL PRIMARY KEY
        CHECK (invoice_number = CAST(invoice_number AS TEXT)) CHECK (length(invoice_number) BETWEEN 1 AND 64),
    work_order TEXT NOT NULL REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    facility_line_item BIGINT
        CHECK (facility_line_item = CAST(facility_line_item AS BIGINT) AND facility_line_item BETWEEN 1 AND 999999999),
    -- Without a zone: 2026-11-21, or 2026-11-21T09:30:00.
    invoice_date TEXT
        CHECK (invoice_date = CAST(invoice_date AS TEXT) AND (invoice_date LIKE '____-__-__' OR invoice_date LIKE '____-__-__T__:__%' OR invoice_date LIKE '____-__-__ __:__%')
        AND invoice_date NOT LIKE '%Z' AND invoice_date NOT LIKE '%z' AND invoice_date NOT LIKE '%[%' AND invoice_date NOT LIKE '%+%' AND invoice_date NOT LIKE '____-__-__%-%'),
    bill_to_customer_code TEXT CHECK (bill_to_customer_code = CAST(bill_to_customer_code AS TEXT)),
    amount_cents BIGINT
        CHECK (amount_cents = CAST(amount_cents AS BIGINT) AND amount_cents BETWEEN -99999999999999 AND 99999999999999),
    created_at_ms BIGINT NOT NULL
        CHECK (created_at_ms = CAST(created_at_ms AS BIGINT) AND created_at_ms BETWEEN 0 AND 253402300799999),
    detected_at_ms BIGINT
        CHECK (detected_at_ms = CAST(detected_at_ms AS BIGINT) AND detected_at_ms BETWEEN 0 AND 253402300799999)
);
CREATE INDEX photo_copy_invoice_new ON photo_copy_invoice (invoice_number) WHERE detected_at_ms IS NULL;
CREATE INDEX photo_copy_invoice_by_time ON photo_copy_invoice (created_at_ms, invoice_number);
CREATE INDEX photo_copy_invoice_by_work_order ON photo_copy_invoice (work_order);

CREATE TABLE court_invoice (
    invoice_number TEXT NOT NULL PRIMARY KEY
        CHECK (invoice_number = CAST(invoice_number AS TEXT)) CHECK (length(invoice_number) BETWEEN 1 AND 64),
    work_order TEXT NOT NULL REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    invoice_date TEXT
        CHECK (invoice_date = CAST(invoice_date AS TEXT) AND (invoice_date LIKE '____-__-__' OR invoice_date LIKE '____-__-__T__:__%' OR invoice_date LIKE '____-__-__ __:__%')
        AND invoice_date NOT LIKE '%Z' AND invoice_date NOT LIKE '%z' AND invoice_date NOT LIKE '%[%' AND invoice_date NOT LIKE '%+%' AND invoice_date NOT LIKE '____-__-__%-%'),
    bill_to_customer_code TEXT CHECK (bill_to_customer_code = CAST(bill_to_customer_code AS TEXT)),
    created_at_ms BIGINT NOT NULL
        CHECK (created_at_ms = CAST(created_at_ms AS BIGINT) AND created_at_ms BETWEEN 0 AND 253402300799999),
    detected_at_ms BIGINT
        CHECK (detected_at_ms = CAST(detected_at_ms AS BIGINT) AND detected_at_ms BETWEEN 0 AND 253402300799999)
);
CREATE INDEX court_invoice_new ON court_invoice (invoice_number) WHERE detected_at_ms IS NULL;
CREATE INDEX court_invoice_by_time ON court_invoice (created_at_ms, invoice_number);
CREATE INDEX court_invoice_by_work_order ON court_invoice (work_order);

CREATE TABLE delivery_invoice (
    invoice_number TEXT NOT NULL PRIMARY KEY
        CHECK (invoice_number = CAST(invoice_number AS TEXT)) CHECK (length(invoice_number) BETWEEN 1 AND 64),
    work_order TEXT NOT NULL REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    invoice_date TEXT
        CHECK (invoice_date = CAST(invoice_date AS TEXT) AND (invoice_date LIKE '____-__-__' OR invoice_date LIKE '____-__-__T__:__%' OR invoice_date LIKE '____-__-__ __:__%')
        AND invoice_date NOT LIKE '%Z' AND invoice_date NOT LIKE '%z' AND invoice_date NOT LIKE '%[%' AND invoice_date NOT LIKE '%+%' AND invoice_date NOT LIKE '____-__-__%-%'),
    bill_to_customer_code TEXT CHECK (bill_to_customer_code = CAST(bill_to_customer_code AS TEXT)),
    created_at_ms BIGINT NOT NULL
        CHECK (created_at_ms = CAST(created_at_ms AS BIGINT) AND created_at_ms BETWEEN 0 AND 253402300799999),
    detected_at_ms BIGINT
        CHECK (detected_at_ms = CAST(detected_at_ms AS BIGINT) AND detected_at_ms BETWEEN 0 AND 253402300799999)
);
CREATE INDEX delivery_invoice_new ON delivery_invoice (invoice_number) WHERE detected_at_ms IS NULL;
CREATE INDEX delivery_invoice_by_time ON delivery_invoice (created_at_ms, invoice_number);
CREATE INDEX delivery_invoice_by_work_order ON delivery_invoice (work_order);

CREATE TABLE investigation_invoice (
    invoice_number TEXT NOT NULL PRIMARY KEY
        CHECK (invoice_number = CAST(invoice_number AS TEXT)) CHECK (length(invoice_number) BETWEEN 1 AND 64),
    work_order TEXT NOT NULL REFERENCES work_order (number) CHECK (work_order = CAST(work_order AS TEXT)),
    invoice_date TEXT
        CHECK (invoice_date = CAST(invoice_date AS TEXT) AND (invoice_date LIKE '____-__-__' OR invoice_date LIKE '____-__-__T__:__%' OR invoice_date LIKE '____-__-__ __:__%')
        AND invoice_date NOT LIKE '%Z' AND invoice_date NOT LIKE '%z' AND invoice_date NOT LIKE '%[%' AND invoice_date NOT LIKE '%+%' AND invoice_date NOT LIKE '____-__-__%-%'),
    bill_to_customer_code TEXT CHECK (bill_to_customer_code = CAST(bill_to_customer_code AS TEXT)),
    created_at_ms BIGINT NOT NULL
        CHECK (created_at_ms = CAST(created_at_ms AS BIGINT) AND created_at_ms BETWEEN 0 AND 253402300799999),
    detected_at_ms BIGINT
        CHECK (detected_at_ms = CAST(detected_at_ms AS BIGINT) AND detected_at_ms BETWEEN 0 AND 253402300799999)
);
CREATE INDEX investigation_invoice_new ON investigation_invoice (invoice_number) WHERE detected_at_ms IS NULL;
CREATE INDEX investigation_invoice_by_time ON investigation_invoice (created_at_ms, invoice_number);
CREATE INDEX investigation_invoice_by_work_order ON investigation_invoice (work_order);

-- What an event is about, so that all deliveries of an order, a work order or an invoice are found.
ALTER TABLE event ADD COLUMN web_order_id TEXT;
ALTER TABLE event ADD COLUMN work_order TEXT;
ALTER TABLE event ADD COLUMN invoice_number TEXT;
UPDATE event SET web_order_id = subject;
DROP INDEX event_by_subject;
ALTER TABLE event DROP COLUMN subject;
CREATE INDEX event_by_web_order ON event (web_order_id) WHERE web_order_id IS NOT NULL;
CREATE INDEX event_by_work_order ON event (work_order) WHERE work_order IS NOT NULL;
CREATE INDEX event_by_invoice ON event (invoice_number) WHERE invoice_number IS NOT NULL;

-- Many dead letters sent again by one request: who, when, what, and who stopped it.
CREATE TABLE resend (
    id TEXT PRIMARY KEY,
    webhook TEXT NOT NULL,
    webhook_name TEXT NOT NULL,
    from_ms BIGINT,
    to_ms BIGINT,
    per_second BIGINT NOT NULL,
    -- Deliveries it made.
    count BIGINT NOT NULL,
    requested_by TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    stopped_by TEXT,
    stopped_at_ms BIGINT
);
-- Of a resend: who asked for it, and as part of which request for many.
ALTER TABLE delivery ADD COLUMN requested_by TEXT;
ALTER TABLE delivery ADD COLUMN resend_id TEXT;
CREATE INDEX delivery_by_resend ON delivery (resend_id, status) WHERE resend_id IS NOT NULL;
CREATE INDEX delivery_finished ON delivery (finished_at_ms) WHERE finished_at_ms IS NOT NULL;
-- A webhook's dead letters by time.
CREATE INDEX delivery_dead ON delivery (webhook, created_at_ms) WHERE status = 'DeadLetter';
