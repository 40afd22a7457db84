CREATE TABLE api_key_use (
    fingerprint text NOT NULL,
    last_used_at_ms bigint NOT NULL
);
CREATE TABLE attempt_history (
    delivery_id text NOT NULL,
    attempt_no bigint NOT NULL,
    started_at_ms bigint NOT NULL,
    finished_at_ms bigint,
    failure_class text,
    http_status bigint,
    remote_address text,
    response_body text,
    dns_us bigint,
    connect_us bigint,
    tls_us bigint,
    first_byte_us bigint,
    total_us bigint,
    failure_cause text,
    failure_detail text
);
CREATE TABLE delivery_history (
    id text NOT NULL,
    event_id text NOT NULL,
    webhook text NOT NULL,
    webhook_name text NOT NULL,
    status text NOT NULL,
    attempt_count bigint NOT NULL,
    due_at_ms bigint NOT NULL,
    failure_class text,
    http_status bigint,
    response_body text,
    idempotency_key text,
    resend_of text,
    created_at_ms bigint NOT NULL,
    finished_at_ms bigint,
    requested_by text,
    resend_id text,
    started_at_ms bigint,
    remote_address text,
    dns_us bigint,
    connect_us bigint,
    tls_us bigint,
    first_byte_us bigint,
    total_us bigint,
    resent boolean,
    set_aside_by text,
    set_aside_at_ms bigint,
    webhook_missing_since_ms bigint,
    CONSTRAINT delivery_attempt_count_check CHECK (((attempt_count >= 0) AND (attempt_count <= 5))),
    CONSTRAINT delivery_status_check CHECK ((status = ANY (ARRAY['Pending'::text, 'Failed'::text, 'Succeeded'::text, 'DeadLetter'::text])))
);
CREATE TABLE delivery_queue (
    id text NOT NULL,
    event_id text NOT NULL,
    webhook text NOT NULL,
    webhook_name text NOT NULL,
    status text NOT NULL,
    attempt_count bigint NOT NULL,
    lost_count bigint DEFAULT 0 NOT NULL,
    due_at_ms bigint NOT NULL,
    lease_token text,
    lease_until_ms bigint,
    started_at_ms bigint,
    failure_class text,
    http_status bigint,
    idempotency_key text,
    resend_of text,
    requested_by text,
    resend_id text,
    created_at_ms bigint NOT NULL,
    CONSTRAINT delivery_queue_attempt_count_check CHECK (((attempt_count >= 0) AND (attempt_count <= 5))),
    CONSTRAINT delivery_queue_status_check CHECK ((status = ANY (ARRAY['Pending'::text, 'Failed'::text])))
)
WITH (fillfactor='50');
CREATE TABLE hand_off (
    batch text NOT NULL,
    webhook text NOT NULL,
    webhook_name text NOT NULL,
    deliveries text NOT NULL,
    lease_until_ms bigint NOT NULL,
    started_at_ms bigint NOT NULL
)
WITH (toast_tuple_target='8160');
ALTER TABLE ONLY hand_off ALTER COLUMN deliveries SET STORAGE EXTERNAL;
CREATE VIEW delivery_unfinished AS
 SELECT delivery_queue.id,
    delivery_queue.event_id,
    delivery_queue.webhook,
    delivery_queue.webhook_name,
    delivery_queue.status,
    delivery_queue.attempt_count,
    delivery_queue.due_at_ms,
    delivery_queue.lease_token,
    delivery_queue.lease_until_ms,
    delivery_queue.started_at_ms,
    delivery_queue.failure_class,
    delivery_queue.http_status,
    delivery_queue.idempotency_key,
    delivery_queue.resend_of,
    delivery_queue.requested_by,
    delivery_queue.resend_id,
    delivery_queue.created_at_ms
   FROM delivery_queue
UNION ALL
 SELECT d.key AS id,
    d.value AS event_id,
    h.webhook,
    h.webhook_name,
    'Pending'::text AS status,
    (1)::bigint AS attempt_count,
    h.started_at_ms AS due_at_ms,
    (h.batch || d.key) AS lease_token,
    h.lease_until_ms,
    h.started_at_ms,
    NULL::text AS failure_class,
    NULL::bigint AS http_status,
    NULL::text AS idempotency_key,
    NULL::text AS resend_of,
    NULL::text AS requested_by,
    NULL::text AS resend_id,
    h.started_at_ms AS created_at_ms
   FROM (hand_off h
     CROSS JOIN LATERAL json_each_text((h.deliveries)::json) d(key, value))
  WHERE ((h.batch > ''::text) AND (NOT (EXISTS ( SELECT 1
           FROM delivery_history f
          WHERE (f.id = d.key)))));
CREATE VIEW attempt AS
 SELECT attempt_history.delivery_id,
    attempt_history.attempt_no,
    attempt_history.started_at_ms,
    attempt_history.finished_at_ms,
    attempt_history.failure_class,
    attempt_history.http_status,
    attempt_history.remote_address,
    attempt_history.response_body,
    attempt_history.dns_us,
    attempt_history.connect_us,
    attempt_history.tls_us,
    attempt_history.first_byte_us,
    attempt_history.total_us,
    attempt_history.failure_cause,
    attempt_history.failure_detail
   FROM attempt_history
UNION ALL
 SELECT delivery_history.id AS delivery_id,
    delivery_history.attempt_count AS attempt_no,
    delivery_history.started_at_ms,
    delivery_history.finished_at_ms,
    NULL::text AS failure_class,
    delivery_history.http_status,
    delivery_history.remote_address,
    delivery_history.response_body,
    delivery_history.dns_us,
    delivery_history.connect_us,
    delivery_history.tls_us,
    delivery_history.first_byte_us,
    delivery_history.total_us,
    NULL::text AS failure_cause,
    NULL::text AS failure_detail
   FROM delivery_history
  WHERE (delivery_history.started_at_ms IS NOT NULL)
UNION ALL
 SELECT delivery_unfinished.id AS delivery_id,
    delivery_unfinished.attempt_count AS attempt_no,
    delivery_unfinished.started_at_ms,
    NULL::bigint AS finished_at_ms,
    NULL::text AS failure_class,
    NULL::bigint AS http_status,
    NULL::text AS remote_address,
    NULL::text AS response_body,
    NULL::bigint AS dns_us,
    NULL::bigint AS connect_us,
    NULL::bigint AS tls_us,
    NULL::bigint AS first_byte_us,
    NULL::bigint AS total_us,
    NULL::text AS failure_cause,
    NULL::text AS failure_detail
   FROM delivery_unfinished
  WHERE (delivery_unfinished.started_at_ms IS NOT NULL);
CREATE TABLE audit (
    at_ms bigint NOT NULL,
    id text NOT NULL,
    event text NOT NULL,
    actor text,
    subject text,
    address text,
    request_id text,
    count bigint NOT NULL,
    detail text
);
CREATE TABLE contact (
    code text NOT NULL,
    customer_code text NOT NULL,
    email text NOT NULL,
    email_key text NOT NULL,
    name text NOT NULL,
    password_hash text,
    active boolean NOT NULL,
    created_at_ms bigint NOT NULL,
    sign_outs bigint DEFAULT 0 NOT NULL,
    manages_webhooks boolean DEFAULT false NOT NULL
);
CREATE TABLE counter (
    name text NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE court_invoice (
    invoice_number text NOT NULL,
    work_order text NOT NULL,
    invoice_date text,
    bill_to_customer_code text,
    created_at_ms bigint NOT NULL,
    detected_at_ms bigint,
    CONSTRAINT court_invoice_bill_to_customer_code_check CHECK ((bill_to_customer_code = bill_to_customer_code)),
    CONSTRAINT court_invoice_created_at_ms_check CHECK (((created_at_ms = created_at_ms) AND ((created_at_ms >= 0) AND (created_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT court_invoice_detected_at_ms_check CHECK (((detected_at_ms = detected_at_ms) AND ((detected_at_ms >= 0) AND (detected_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT court_invoice_invoice_date_check CHECK (((invoice_date = invoice_date) AND ((invoice_date ~~ '____-__-__'::text) OR (invoice_date ~~ '____-__-__T__:__%'::text) OR (invoice_date ~~ '____-__-__ __:__%'::text)) AND (invoice_date !~~ '%Z'::text) AND (invoice_date !~~ '%z'::text) AND (invoice_date !~~ '%[%'::text) AND (invoice_date !~~ '%+%'::text) AND (invoice_date !~~ '____-__-__%-%'::text))),
    CONSTRAINT court_invoice_invoice_number_check CHECK ((invoice_number = invoice_number)),
    CONSTRAINT court_invoice_invoice_number_check1 CHECK (((length(invoice_number) >= 1) AND (length(invoice_number) <= 64))),
    CONSTRAINT court_invoice_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE customer (
    code text NOT NULL,
    name text NOT NULL,
    created_at_ms bigint NOT NULL
);
CREATE VIEW delivery AS
 SELECT delivery_unfinished.id,
    delivery_unfinished.event_id,
    delivery_unfinished.webhook,
    delivery_unfinished.webhook_name,
    delivery_unfinished.status,
    delivery_unfinished.attempt_count,
    delivery_unfinished.due_at_ms,
    delivery_unfinished.lease_token,
    delivery_unfinished.lease_until_ms,
    delivery_unfinished.failure_class,
    delivery_unfinished.http_status,
    delivery_unfinished.idempotency_key,
    delivery_unfinished.resend_of,
    delivery_unfinished.requested_by,
    delivery_unfinished.resend_id,
    delivery_unfinished.created_at_ms,
    NULL::bigint AS finished_at_ms,
    NULL::boolean AS resent,
    NULL::text AS set_aside_by,
    NULL::bigint AS set_aside_at_ms
   FROM delivery_unfinished
UNION ALL
 SELECT delivery_history.id,
    delivery_history.event_id,
    delivery_history.webhook,
    delivery_history.webhook_name,
    delivery_history.status,
    delivery_history.attempt_count,
    delivery_history.due_at_ms,
    NULL::text AS lease_token,
    NULL::bigint AS lease_until_ms,
    delivery_history.failure_class,
    delivery_history.http_status,
    delivery_history.idempotency_key,
    delivery_history.resend_of,
    delivery_history.requested_by,
    delivery_history.resend_id,
    delivery_history.created_at_ms,
    delivery_history.finished_at_ms,
    delivery_history.resent,
    delivery_history.set_aside_by,
    delivery_history.set_aside_at_ms
   FROM delivery_history;
CREATE TABLE delivery_invoice (
    invoice_number text NOT NULL,
    work_order text NOT NULL,
    invoice_date text,
    bill_to_customer_code text,
    created_at_ms bigint NOT NULL,
    detected_at_ms bigint,
    CONSTRAINT delivery_invoice_bill_to_customer_code_check CHECK ((bill_to_customer_code = bill_to_customer_code)),
    CONSTRAINT delivery_invoice_created_at_ms_check CHECK (((created_at_ms = created_at_ms) AND ((created_at_ms >= 0) AND (created_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT delivery_invoice_detected_at_ms_check CHECK (((detected_at_ms = detected_at_ms) AND ((detected_at_ms >= 0) AND (detected_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT delivery_invoice_invoice_date_check CHECK (((invoice_date = invoice_date) AND ((invoice_date ~~ '____-__-__'::text) OR (invoice_date ~~ '____-__-__T__:__%'::text) OR (invoice_date ~~ '____-__-__ __:__%'::text)) AND (invoice_date !~~ '%Z'::text) AND (invoice_date !~~ '%z'::text) AND (invoice_date !~~ '%[%'::text) AND (invoice_date !~~ '%+%'::text) AND (invoice_date !~~ '____-__-__%-%'::text))),
    CONSTRAINT delivery_invoice_invoice_number_check CHECK ((invoice_number = invoice_number)),
    CONSTRAINT delivery_invoice_invoice_number_check1 CHECK (((length(invoice_number) >= 1) AND (length(invoice_number) <= 64))),
    CONSTRAINT delivery_invoice_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE employee (
    code text NOT NULL,
    user_name text NOT NULL,
    user_key text NOT NULL,
    name text NOT NULL,
    password_hash text,
    administrator boolean NOT NULL,
    active boolean NOT NULL,
    created_at_ms bigint NOT NULL,
    sign_outs bigint DEFAULT 0 NOT NULL
);
CREATE TABLE ended_session (
    session_digest text NOT NULL,
    until_ms bigint NOT NULL
);
CREATE TABLE event (
    id text NOT NULL,
    code text NOT NULL,
    customer_code text NOT NULL,
    body bytea NOT NULL,
    occurred_at_ms bigint NOT NULL,
    web_order_id text,
    work_order text,
    invoice_number text
);
CREATE TABLE facility (
    work_order text NOT NULL,
    facility_line_item bigint NOT NULL,
    facility_id text,
    name text,
    CONSTRAINT facility_facility_id_check CHECK ((facility_id = facility_id)),
    CONSTRAINT facility_facility_line_item_check CHECK (((facility_line_item = facility_line_item) AND ((facility_line_item >= 1) AND (facility_line_item <= 999999999)))),
    CONSTRAINT facility_name_check CHECK ((name = name)),
    CONSTRAINT facility_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE idempotency (
    caller text NOT NULL,
    key text NOT NULL,
    route text NOT NULL,
    request_digest text NOT NULL,
    answer_status bigint NOT NULL,
    answer_body text NOT NULL,
    created_at_ms bigint NOT NULL
);
CREATE TABLE investigation_invoice (
    invoice_number text NOT NULL,
    work_order text NOT NULL,
    invoice_date text,
    bill_to_customer_code text,
    created_at_ms bigint NOT NULL,
    detected_at_ms bigint,
    CONSTRAINT investigation_invoice_bill_to_customer_code_check CHECK ((bill_to_customer_code = bill_to_customer_code)),
    CONSTRAINT investigation_invoice_created_at_ms_check CHECK (((created_at_ms = created_at_ms) AND ((created_at_ms >= 0) AND (created_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT investigation_invoice_detected_at_ms_check CHECK (((detected_at_ms = detected_at_ms) AND ((detected_at_ms >= 0) AND (detected_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT investigation_invoice_invoice_date_check CHECK (((invoice_date = invoice_date) AND ((invoice_date ~~ '____-__-__'::text) OR (invoice_date ~~ '____-__-__T__:__%'::text) OR (invoice_date ~~ '____-__-__ __:__%'::text)) AND (invoice_date !~~ '%Z'::text) AND (invoice_date !~~ '%z'::text) AND (invoice_date !~~ '%[%'::text) AND (invoice_date !~~ '%+%'::text) AND (invoice_date !~~ '____-__-__%-%'::text))),
    CONSTRAINT investigation_invoice_invoice_number_check CHECK ((invoice_number = invoice_number)),
    CONSTRAINT investigation_invoice_invoice_number_check1 CHECK (((length(invoice_number) >= 1) AND (length(invoice_number) <= 64))),
    CONSTRAINT investigation_invoice_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE mail_link (
    token_digest text NOT NULL,
    subscription_id text NOT NULL,
    user_kind text NOT NULL,
    user_code text NOT NULL,
    address_digest text,
    sent_at_ms bigint NOT NULL
);
CREATE TABLE milestone (
    code bigint NOT NULL,
    title text,
    terminal boolean DEFAULT false NOT NULL,
    active boolean DEFAULT true NOT NULL,
    CONSTRAINT milestone_active_check CHECK ((active = ANY (ARRAY[true, false]))),
    CONSTRAINT milestone_code_check CHECK (((code = code) AND ((code >= 0) AND (code <= 999999999)))),
    CONSTRAINT milestone_terminal_check CHECK ((terminal = ANY (ARRAY[true, false]))),
    CONSTRAINT milestone_title_check CHECK ((title = title))
);
CREATE TABLE missing_webhook (
    webhook text NOT NULL,
    since_ms bigint NOT NULL,
    is_ending boolean DEFAULT false NOT NULL,
    seen_ms bigint DEFAULT 0 NOT NULL
);
CREATE TABLE note (
    work_order text NOT NULL,
    line_item bigint NOT NULL,
    facility_line_item bigint,
    report text,
    milestone_code bigint,
    author text,
    created_at_ms bigint NOT NULL,
    CONSTRAINT note_author_check CHECK ((author = author)),
    CONSTRAINT note_check CHECK (((report IS NOT NULL) OR (milestone_code IS NOT NULL))),
    CONSTRAINT note_created_at_ms_check CHECK (((created_at_ms = created_at_ms) AND ((created_at_ms >= 0) AND (created_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT note_facility_line_item_check CHECK (((facility_line_item = facility_line_item) AND ((facility_line_item >= 1) AND (facility_line_item <= 999999999)))),
    CONSTRAINT note_line_item_check CHECK (((line_item = line_item) AND ((line_item >= 1) AND (line_item <= 999999999)))),
    CONSTRAINT note_milestone_code_check CHECK (((milestone_code = milestone_code) AND ((milestone_code >= 0) AND (milestone_code <= 999999999)))),
    CONSTRAINT note_report_check CHECK ((report = report)),
    CONSTRAINT note_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE photo_copy_invoice (
    invoice_number text NOT NULL,
    work_order text NOT NULL,
    facility_line_item bigint,
    invoice_date text,
    bill_to_customer_code text,
    amount_cents bigint,
    created_at_ms bigint NOT NULL,
    detected_at_ms bigint,
    CONSTRAINT photo_copy_invoice_amount_cents_check CHECK (((amount_cents = amount_cents) AND ((amount_cents >= '-99999999999999'::bigint) AND (amount_cents <= '99999999999999'::bigint)))),
    CONSTRAINT photo_copy_invoice_bill_to_customer_code_check CHECK ((bill_to_customer_code = bill_to_customer_code)),
    CONSTRAINT photo_copy_invoice_created_at_ms_check CHECK (((created_at_ms = created_at_ms) AND ((created_at_ms >= 0) AND (created_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT photo_copy_invoice_detected_at_ms_check CHECK (((detected_at_ms = detected_at_ms) AND ((detected_at_ms >= 0) AND (detected_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT photo_copy_invoice_facility_line_item_check CHECK (((facility_line_item = facility_line_item) AND ((facility_line_item >= 1) AND (facility_line_item <= 999999999)))),
    CONSTRAINT photo_copy_invoice_invoice_date_check CHECK (((invoice_date = invoice_date) AND ((invoice_date ~~ '____-__-__'::text) OR (invoice_date ~~ '____-__-__T__:__%'::text) OR (invoice_date ~~ '____-__-__ __:__%'::text)) AND (invoice_date !~~ '%Z'::text) AND (invoice_date !~~ '%z'::text) AND (invoice_date !~~ '%[%'::text) AND (invoice_date !~~ '%+%'::text) AND (invoice_date !~~ '____-__-__%-%'::text))),
    CONSTRAINT photo_copy_invoice_invoice_number_check CHECK ((invoice_number = invoice_number)),
    CONSTRAINT photo_copy_invoice_invoice_number_check1 CHECK (((length(invoice_number) >= 1) AND (length(invoice_number) <= 64))),
    CONSTRAINT photo_copy_invoice_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE process_attempt (
    work_order text NOT NULL,
    sequence bigint NOT NULL,
    attempted_at_ms bigint NOT NULL,
    time_zone text,
    address text,
    outcome text NOT NULL,
    service_method text,
    person_served_name text,
    person_served_relationship text,
    person_served_age text,
    person_served_description text,
    comments text,
    latitude double precision,
    longitude double precision,
    gps_accuracy_meters double precision,
    photo_count bigint,
    server_name text,
    server_registration text,
    recorded_at_ms bigint NOT NULL,
    CONSTRAINT process_attempt_address_check CHECK ((address = address)),
    CONSTRAINT process_attempt_attempted_at_ms_check CHECK (((attempted_at_ms = attempted_at_ms) AND ((attempted_at_ms >= 0) AND (attempted_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT process_attempt_comments_check CHECK ((comments = comments)),
    CONSTRAINT process_attempt_gps_accuracy_meters_check CHECK ((gps_accuracy_meters = gps_accuracy_meters)),
    CONSTRAINT process_attempt_latitude_check CHECK ((latitude = latitude)),
    CONSTRAINT process_attempt_longitude_check CHECK ((longitude = longitude)),
    CONSTRAINT process_attempt_outcome_check CHECK ((outcome = ANY (ARRAY['Served'::text, 'SubServed'::text, 'Posted'::text, 'NoAnswer'::text, 'NotIn'::text, 'Refused'::text, 'Evading'::text, 'NoAccess'::text, 'BusinessClosed'::text, 'Moved'::text, 'Vacant'::text, 'BadAddress'::text, 'Other'::text]))),
    CONSTRAINT process_attempt_person_served_age_check CHECK ((person_served_age = person_served_age)),
    CONSTRAINT process_attempt_person_served_description_check CHECK ((person_served_description = person_served_description)),
    CONSTRAINT process_attempt_person_served_name_check CHECK ((person_served_name = person_served_name)),
    CONSTRAINT process_attempt_person_served_relationship_check CHECK ((person_served_relationship = person_served_relationship)),
    CONSTRAINT process_attempt_photo_count_check CHECK (((photo_count = photo_count) AND ((photo_count >= 0) AND (photo_count <= 999999999)))),
    CONSTRAINT process_attempt_recorded_at_ms_check CHECK (((recorded_at_ms = recorded_at_ms) AND ((recorded_at_ms >= 0) AND (recorded_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT process_attempt_sequence_check CHECK (((sequence = sequence) AND ((sequence >= 1) AND (sequence <= 999999999)))),
    CONSTRAINT process_attempt_server_name_check CHECK ((server_name = server_name)),
    CONSTRAINT process_attempt_server_registration_check CHECK ((server_registration = server_registration)),
    CONSTRAINT process_attempt_service_method_check CHECK ((service_method = service_method)),
    CONSTRAINT process_attempt_time_zone_check CHECK ((time_zone = time_zone)),
    CONSTRAINT process_attempt_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE process_status (
    work_order text NOT NULL,
    status text DEFAULT 'New'::text NOT NULL,
    serve_result text,
    service_method text,
    served_at_ms bigint,
    served_on_name text,
    served_on_relationship text,
    mailed_on text,
    not_served_reason text,
    proof_signed_on text,
    proof_filed_on text,
    CONSTRAINT process_status_mailed_on_check CHECK ((mailed_on = mailed_on)),
    CONSTRAINT process_status_mailed_on_check1 CHECK ((mailed_on ~~ '____-__-__'::text)),
    CONSTRAINT process_status_not_served_reason_check CHECK ((not_served_reason = ANY (ARRAY['BadAddress'::text, 'UnableToLocate'::text, 'Evading'::text, 'Deceased'::text, 'Incarcerated'::text, 'TimeExpired'::text, 'Cancelled'::text]))),
    CONSTRAINT process_status_proof_filed_on_check CHECK ((proof_filed_on = proof_filed_on)),
    CONSTRAINT process_status_proof_filed_on_check1 CHECK ((proof_filed_on ~~ '____-__-__'::text)),
    CONSTRAINT process_status_proof_signed_on_check CHECK ((proof_signed_on = proof_signed_on)),
    CONSTRAINT process_status_proof_signed_on_check1 CHECK ((proof_signed_on ~~ '____-__-__'::text)),
    CONSTRAINT process_status_serve_result_check CHECK ((serve_result = ANY (ARRAY['Personal'::text, 'Substituted'::text, 'Posted'::text, 'Mailed'::text, 'Entity'::text, 'NotServed'::text]))),
    CONSTRAINT process_status_served_at_ms_check CHECK (((served_at_ms = served_at_ms) AND ((served_at_ms >= 0) AND (served_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT process_status_served_on_name_check CHECK ((served_on_name = served_on_name)),
    CONSTRAINT process_status_served_on_relationship_check CHECK ((served_on_relationship = served_on_relationship)),
    CONSTRAINT process_status_service_method_check CHECK ((service_method = service_method)),
    CONSTRAINT process_status_status_check CHECK ((status = ANY (ARRAY['New'::text, 'Assigned'::text, 'Attempted'::text, 'OnHold'::text, 'SkipTrace'::text, 'Served'::text, 'NonService'::text, 'Cancelled'::text]))),
    CONSTRAINT process_status_work_order_check CHECK ((work_order = work_order))
);
CREATE TABLE refused_address (
    address_digest text NOT NULL,
    refused_at_ms bigint NOT NULL
);
CREATE TABLE replaced_notice (
    webhook text NOT NULL,
    state text NOT NULL,
    number bigint NOT NULL,
    count bigint NOT NULL,
    failure_class text,
    failure_cause text,
    http_status bigint,
    CONSTRAINT replaced_notice_state_check CHECK ((state = ANY (ARRAY['Failing'::text, 'Lost'::text, 'Works'::text])))
);
CREATE TABLE resend (
    id text NOT NULL,
    webhook text NOT NULL,
    webhook_name text NOT NULL,
    from_ms bigint,
    to_ms bigint,
    per_second bigint NOT NULL,
    count bigint NOT NULL,
    requested_by text NOT NULL,
    created_at_ms bigint NOT NULL,
    stopped_by text,
    stopped_at_ms bigint,
    taken_back bigint DEFAULT 0 NOT NULL
);
CREATE TABLE shown_secret (
    digest text NOT NULL,
    shown_at_ms bigint NOT NULL
);
CREATE TABLE subscription (
    id text NOT NULL,
    user_kind text NOT NULL,
    user_code text NOT NULL,
    email text,
    webhook text,
    on_failing boolean NOT NULL,
    on_lost boolean NOT NULL,
    on_works boolean NOT NULL,
    confirmed_at_ms bigint,
    sent_number bigint NOT NULL,
    due_at_ms bigint NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    created_at_ms bigint NOT NULL,
    failing_after bigint,
    lost_after bigint,
    works_after bigint,
    CONSTRAINT subscription_user_kind_check CHECK ((user_kind = ANY (ARRAY['contact'::text, 'employee'::text])))
);
CREATE TABLE test_event (
    id text NOT NULL,
    webhook text NOT NULL
);
CREATE TABLE unfolded (
    of_table text NOT NULL,
    after_id text NOT NULL
);
CREATE TABLE web_order (
    id text NOT NULL,
    order_type text NOT NULL,
    customer_code text NOT NULL,
    status text NOT NULL,
    finalized boolean,
    body text NOT NULL,
    case_number text,
    caption text,
    client_matter_number text,
    search_text text NOT NULL,
    version bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    exported_at_ms bigint,
    external_reference text
);
CREATE TABLE webhook_notice (
    webhook text NOT NULL,
    state text NOT NULL,
    number bigint NOT NULL,
    failing_at_ms bigint,
    lost_at_ms bigint,
    works_at_ms bigint,
    lost_until_ms bigint,
    count bigint NOT NULL,
    failure_class text,
    failure_cause text,
    http_status bigint,
    missing_since_ms bigint,
    CONSTRAINT webhook_notice_state_check CHECK ((state = ANY (ARRAY['Failing'::text, 'Lost'::text, 'Works'::text])))
);
CREATE TABLE work_order (
    number text NOT NULL,
    work_order_type text NOT NULL,
    web_order_id text,
    "position" bigint DEFAULT 0 NOT NULL,
    customer_code text NOT NULL,
    servee text,
    servee_key text,
    case_number text,
    caption text,
    status text DEFAULT 'Open'::text NOT NULL,
    last_line_item bigint DEFAULT 0 NOT NULL,
    created_at_ms bigint NOT NULL,
    servee_address text,
    CONSTRAINT work_order_caption_check CHECK ((caption = caption)),
    CONSTRAINT work_order_case_number_check CHECK ((case_number = case_number)),
    CONSTRAINT work_order_created_at_ms_check CHECK (((created_at_ms = created_at_ms) AND ((created_at_ms >= 0) AND (created_at_ms <= '253402300799999'::bigint)))),
    CONSTRAINT work_order_customer_code_check CHECK ((customer_code = customer_code)),
    CONSTRAINT work_order_last_line_item_check CHECK (((last_line_item = last_line_item) AND ((last_line_item >= 0) AND (last_line_item <= 999999999)))),
    CONSTRAINT work_order_number_check CHECK ((number = number)),
    CONSTRAINT work_order_number_check1 CHECK ((((length(number) >= 1) AND (length(number) <= 32)) AND (number !~~ '%-%'::text) AND (number !~~ '%:%'::text))),
    CONSTRAINT work_order_position_check CHECK ((("position" = "position") AND (("position" >= 0) AND ("position" <= 999999999)))),
    CONSTRAINT work_order_servee_check CHECK ((servee = servee)),
    CONSTRAINT work_order_servee_key_check CHECK ((servee_key = servee_key)),
    CONSTRAINT work_order_status_check CHECK ((status = ANY (ARRAY['Open'::text, 'InProgress'::text, 'OnHold'::text, 'Completed'::text, 'Cancelled'::text, 'Billed'::text]))),
    CONSTRAINT work_order_web_order_id_check CHECK ((web_order_id = web_order_id)),
    CONSTRAINT work_order_work_order_type_check CHECK ((work_order_type = ANY (ARRAY['Court'::text, 'Process'::text, 'Delivery'::text, 'Investigation'::text, 'PhotoCopy'::text])))
);
INSERT INTO counter VALUES ('web_order', 0);
INSERT INTO counter VALUES ('contact', 1000);
INSERT INTO counter VALUES ('employee', 100);
INSERT INTO counter VALUES ('Court', 1000000);
INSERT INTO counter VALUES ('Process', 1000000);
INSERT INTO counter VALUES ('Delivery', 1000000);
INSERT INTO counter VALUES ('Investigation', 1000000);
INSERT INTO counter VALUES ('PhotoCopy', 1000000);
INSERT INTO counter VALUES ('notice', 0);
INSERT INTO milestone VALUES (100, 'Order received', false, true);
INSERT INTO milestone VALUES (110, 'Order reviewed', false, true);
INSERT INTO milestone VALUES (120, 'Subpoena prepared', false, true);
INSERT INTO milestone VALUES (130, 'Notice to consumer served', false, true);
INSERT INTO milestone VALUES (140, 'Objection period running', false, true);
INSERT INTO milestone VALUES (150, 'Objection or motion to quash (hold)', false, true);
INSERT INTO milestone VALUES (200, 'Request sent to custodian', false, true);
INSERT INTO milestone VALUES (210, 'Custodian served', false, true);
INSERT INTO milestone VALUES (220, 'Custodian follow-up', false, true);
INSERT INTO milestone VALUES (230, 'Custodian fee requested', false, true);
INSERT INTO milestone VALUES (240, 'Custodian fee paid', false, true);
INSERT INTO milestone VALUES (250, 'Wrong or closed facility', false, true);
INSERT INTO milestone VALUES (300, 'Appointment set', false, true);
INSERT INTO milestone VALUES (310, 'Records ready', false, true);
INSERT INTO milestone VALUES (320, 'Records copied or received', false, true);
INSERT INTO milestone VALUES (330, 'Partial records received', false, true);
INSERT INTO milestone VALUES (340, 'Records incomplete, second request', false, true);
INSERT INTO milestone VALUES (400, 'Quality control', false, true);
INSERT INTO milestone VALUES (410, 'Delivered', false, true);
INSERT INTO milestone VALUES (420, 'Invoiced', false, true);
INSERT INTO milestone VALUES (900, 'Closed', true, true);
INSERT INTO milestone VALUES (910, 'Certificate of no records', true, true);
INSERT INTO milestone VALUES (920, 'Cancelled', true, true);
INSERT INTO milestone VALUES (930, 'Quashed', true, true);
INSERT INTO unfolded VALUES ('web_order', '');
INSERT INTO unfolded VALUES ('work_order', '');
ALTER TABLE ONLY api_key_use
    ADD CONSTRAINT api_key_use_pkey PRIMARY KEY (fingerprint);
ALTER TABLE ONLY attempt_history
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (delivery_id, attempt_no);
ALTER TABLE ONLY audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (at_ms, id);
ALTER TABLE ONLY contact
    ADD CONSTRAINT contact_email_key_key UNIQUE (email_key);
ALTER TABLE ONLY contact
    ADD CONSTRAINT contact_pkey PRIMARY KEY (code);
ALTER TABLE ONLY counter
    ADD CONSTRAINT counter_pkey PRIMARY KEY (name);
ALTER TABLE ONLY court_invoice
    ADD CONSTRAINT court_invoice_pkey PRIMARY KEY (invoice_number);
ALTER TABLE ONLY customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (code);
ALTER TABLE delivery_history
    ADD CONSTRAINT delivery_history_webhook_gone CHECK (((failure_class <> 'WebhookGone'::text) OR (webhook_missing_since_ms IS NOT NULL) OR (webhook !~~ '%/%/%'::text))) NOT VALID;
ALTER TABLE ONLY delivery_invoice
    ADD CONSTRAINT delivery_invoice_pkey PRIMARY KEY (invoice_number);
ALTER TABLE ONLY delivery_history
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY delivery_queue
    ADD CONSTRAINT delivery_queue_pkey PRIMARY KEY (id);
ALTER TABLE ONLY delivery_history
    ADD CONSTRAINT delivery_webhook_idempotency_key_key UNIQUE (webhook, idempotency_key);
ALTER TABLE ONLY employee
    ADD CONSTRAINT employee_pkey PRIMARY KEY (code);
ALTER TABLE ONLY employee
    ADD CONSTRAINT employee_user_key_key UNIQUE (user_key);
ALTER TABLE ONLY ended_session
    ADD CONSTRAINT ended_session_pkey PRIMARY KEY (session_digest);
ALTER TABLE ONLY event
    ADD CONSTRAINT event_pkey PRIMARY KEY (id);
ALTER TABLE ONLY facility
    ADD CONSTRAINT facility_pkey PRIMARY KEY (work_order, facility_line_item);
ALTER TABLE ONLY hand_off
    ADD CONSTRAINT hand_off_pkey PRIMARY KEY (batch, webhook);
ALTER TABLE ONLY idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (caller, key);
ALTER TABLE ONLY investigation_invoice
    ADD CONSTRAINT investigation_invoice_pkey PRIMARY KEY (invoice_number);
ALTER TABLE ONLY mail_link
    ADD CONSTRAINT mail_link_pkey PRIMARY KEY (token_digest);
ALTER TABLE ONLY milestone
    ADD CONSTRAINT milestone_pkey PRIMARY KEY (code);
ALTER TABLE ONLY missing_webhook
    ADD CONSTRAINT missing_webhook_pkey PRIMARY KEY (webhook);
ALTER TABLE ONLY note
    ADD CONSTRAINT note_pkey PRIMARY KEY (work_order, line_item);
ALTER TABLE ONLY photo_copy_invoice
    ADD CONSTRAINT photo_copy_invoice_pkey PRIMARY KEY (invoice_number);
ALTER TABLE ONLY process_attempt
    ADD CONSTRAINT process_attempt_pkey PRIMARY KEY (work_order, sequence);
ALTER TABLE ONLY process_status
    ADD CONSTRAINT process_status_pkey PRIMARY KEY (work_order);
ALTER TABLE ONLY refused_address
    ADD CONSTRAINT refused_address_pkey PRIMARY KEY (address_digest);
ALTER TABLE ONLY replaced_notice
    ADD CONSTRAINT replaced_notice_pkey PRIMARY KEY (webhook, state);
ALTER TABLE ONLY resend
    ADD CONSTRAINT resend_pkey PRIMARY KEY (id);
ALTER TABLE ONLY shown_secret
    ADD CONSTRAINT shown_secret_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY subscription
    ADD CONSTRAINT subscription_pkey PRIMARY KEY (id);
ALTER TABLE ONLY test_event
    ADD CONSTRAINT test_event_pkey PRIMARY KEY (id);
ALTER TABLE ONLY unfolded
    ADD CONSTRAINT unfolded_pkey PRIMARY KEY (of_table);
ALTER TABLE ONLY web_order
    ADD CONSTRAINT web_order_pkey PRIMARY KEY (id);
ALTER TABLE ONLY webhook_notice
    ADD CONSTRAINT webhook_notice_pkey PRIMARY KEY (webhook);
ALTER TABLE ONLY work_order
    ADD CONSTRAINT work_order_pkey1 PRIMARY KEY (number);
ALTER TABLE ONLY work_order
    ADD CONSTRAINT work_order_web_order_id_position_key1 UNIQUE (web_order_id, "position");
CREATE INDEX audit_by_actor ON audit USING btree (actor, at_ms) WHERE (actor IS NOT NULL);
CREATE INDEX audit_by_event ON audit USING btree (event, at_ms);
CREATE INDEX audit_by_subject ON audit USING btree (subject, at_ms) WHERE (subject IS NOT NULL);
CREATE INDEX audit_of_removal ON audit USING btree (at_ms) WHERE (event = 'WebhookRemoved'::text);
CREATE INDEX court_invoice_by_time ON court_invoice USING btree (created_at_ms, invoice_number);
CREATE INDEX court_invoice_by_work_order ON court_invoice USING btree (work_order);
CREATE INDEX court_invoice_new ON court_invoice USING btree (invoice_number) WHERE (detected_at_ms IS NULL);
CREATE INDEX delivery_by_end ON delivery_history USING btree (webhook, status, finished_at_ms) WHERE (finished_at_ms IS NOT NULL);
CREATE INDEX delivery_by_event ON delivery_history USING btree (event_id);
CREATE INDEX delivery_by_failure ON delivery_history USING btree (failure_class) WHERE (failure_class IS NOT NULL);
CREATE INDEX delivery_by_http_status ON delivery_history USING btree (http_status) WHERE (http_status <> 200);
CREATE INDEX delivery_by_resend ON delivery_history USING btree (resend_id, status) WHERE (resend_id IS NOT NULL);
CREATE INDEX delivery_by_time ON delivery_history USING btree (created_at_ms, id);
CREATE INDEX delivery_dead ON delivery_history USING btree (webhook, created_at_ms) WHERE (status = 'DeadLetter'::text);
CREATE INDEX delivery_finished ON delivery_history USING btree (finished_at_ms) WHERE (finished_at_ms IS NOT NULL);
CREATE INDEX delivery_invoice_by_time ON delivery_invoice USING btree (created_at_ms, invoice_number);
CREATE INDEX delivery_invoice_by_work_order ON delivery_invoice USING btree (work_order);
CREATE INDEX delivery_invoice_new ON delivery_invoice USING btree (invoice_number) WHERE (detected_at_ms IS NULL);
CREATE INDEX delivery_of_resend ON delivery_history USING btree (created_at_ms, id) WHERE (resend_of IS NOT NULL);
CREATE INDEX delivery_open ON delivery_history USING btree (webhook, finished_at_ms) WHERE ((status = 'DeadLetter'::text) AND (resent IS NULL) AND (set_aside_at_ms IS NULL));
CREATE INDEX delivery_queue_by_event ON delivery_queue USING btree (event_id);
CREATE INDEX delivery_queue_by_resend ON delivery_queue USING btree (resend_id) WHERE (resend_id IS NOT NULL);
CREATE UNIQUE INDEX delivery_queue_key ON delivery_queue USING btree (webhook, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX delivery_resent ON delivery_history USING btree (webhook, created_at_ms) WHERE ((status = 'DeadLetter'::text) AND (resent IS NOT NULL));
CREATE INDEX delivery_set_aside ON delivery_history USING btree (webhook, created_at_ms) WHERE ((status = 'DeadLetter'::text) AND (set_aside_at_ms IS NOT NULL));
CREATE INDEX ended_session_by_time ON ended_session USING btree (until_ms);
CREATE INDEX event_by_code ON event USING btree (code);
CREATE INDEX event_by_invoice ON event USING btree (invoice_number) WHERE (invoice_number IS NOT NULL);
CREATE INDEX event_by_web_order ON event USING btree (web_order_id) WHERE (web_order_id IS NOT NULL);
CREATE INDEX event_by_work_order ON event USING btree (work_order) WHERE (work_order IS NOT NULL);
CREATE INDEX idempotency_by_time ON idempotency USING btree (created_at_ms);
CREATE INDEX investigation_invoice_by_time ON investigation_invoice USING btree (created_at_ms, invoice_number);
CREATE INDEX investigation_invoice_by_work_order ON investigation_invoice USING btree (work_order);
CREATE INDEX investigation_invoice_new ON investigation_invoice USING btree (invoice_number) WHERE (detected_at_ms IS NULL);
CREATE INDEX mail_link_by_time ON mail_link USING btree (sent_at_ms);
CREATE INDEX note_by_time ON note USING btree (created_at_ms, work_order, line_item);
CREATE INDEX photo_copy_invoice_by_time ON photo_copy_invoice USING btree (created_at_ms, invoice_number);
CREATE INDEX photo_copy_invoice_by_work_order ON photo_copy_invoice USING btree (work_order);
CREATE INDEX photo_copy_invoice_new ON photo_copy_invoice USING btree (invoice_number) WHERE (detected_at_ms IS NULL);
CREATE INDEX test_event_by_webhook ON test_event USING btree (webhook);
CREATE INDEX web_order_by_customer ON web_order USING btree (customer_code, created_at_ms, id);
CREATE INDEX web_order_by_reference ON web_order USING btree (external_reference) WHERE (external_reference IS NOT NULL);
CREATE INDEX web_order_by_status ON web_order USING btree (status, order_type, customer_code);
CREATE INDEX web_order_by_time ON web_order USING btree (created_at_ms, id);
CREATE INDEX work_order_by_case ON work_order USING btree (case_number) WHERE (case_number IS NOT NULL);
CREATE INDEX work_order_by_customer ON work_order USING btree (customer_code, work_order_type, created_at_ms, number);
CREATE INDEX work_order_by_time ON work_order USING btree (work_order_type, created_at_ms, number);
ALTER TABLE ONLY contact
    ADD CONSTRAINT contact_customer_code_fkey FOREIGN KEY (customer_code) REFERENCES customer(code);
ALTER TABLE ONLY court_invoice
    ADD CONSTRAINT court_invoice_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY delivery_invoice
    ADD CONSTRAINT delivery_invoice_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY delivery_queue
    ADD CONSTRAINT delivery_queue_event_id_fkey FOREIGN KEY (event_id) REFERENCES event(id);
ALTER TABLE ONLY facility
    ADD CONSTRAINT facility_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY investigation_invoice
    ADD CONSTRAINT investigation_invoice_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY note
    ADD CONSTRAINT note_milestone_code_fkey FOREIGN KEY (milestone_code) REFERENCES milestone(code);
ALTER TABLE ONLY note
    ADD CONSTRAINT note_work_order_facility_line_item_fkey FOREIGN KEY (work_order, facility_line_item) REFERENCES facility(work_order, facility_line_item);
ALTER TABLE ONLY note
    ADD CONSTRAINT note_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY photo_copy_invoice
    ADD CONSTRAINT photo_copy_invoice_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY process_attempt
    ADD CONSTRAINT process_attempt_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY process_status
    ADD CONSTRAINT process_status_work_order_fkey FOREIGN KEY (work_order) REFERENCES work_order(number);
ALTER TABLE ONLY replaced_notice
    ADD CONSTRAINT replaced_notice_webhook_fkey FOREIGN KEY (webhook) REFERENCES webhook_notice(webhook) ON DELETE CASCADE;
ALTER TABLE ONLY test_event
    ADD CONSTRAINT test_event_id_fkey FOREIGN KEY (id) REFERENCES event(id) ON DELETE CASCADE;
ALTER TABLE ONLY web_order
    ADD CONSTRAINT web_order_customer_code_fkey FOREIGN KEY (customer_code) REFERENCES customer(code);
ALTER TABLE ONLY work_order
    ADD CONSTRAINT work_order_customer_code_fkey FOREIGN KEY (customer_code) REFERENCES customer(code);
ALTER TABLE ONLY work_order
    ADD CONSTRAINT work_order_web_order_id_fkey1 FOREIGN KEY (web_order_id) REFERENCES web_order(id);
