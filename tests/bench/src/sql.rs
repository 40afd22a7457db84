//! The SQL statements about tables of a tenant's database. A change of the tables changes only this file.

use std::time::Duration;

use tokio_postgres::Client as Sql;

use crate::order;
use crate::stage::Stage;

/// The number of finished deliveries that one statement adds.
const BATCH: i64 = 50_000;

/// The query of the bare handler: the order with the id `$1`, as `GET /Orders/Get` reads it.
pub(crate) const READ_ORDER: &str = "SELECT id, order_type, customer_code, status, finalized, body, case_number, caption, client_matter_number, \
     search_text, version, created_at_ms, updated_at_ms, exported_at_ms FROM web_order WHERE id = $1";

/// The number of orders of the first tenant.
pub(crate) async fn orders(stage: &Stage) -> i64 {
    number(stage, "SELECT count(*) FROM web_order").await
}

/// The number of deliveries of the first tenant that have an attempt under way.
pub(crate) async fn in_flight(stage: &Stage) -> i64 {
    let statement =
        "SELECT count(*) FROM delivery WHERE lease_token IS NOT NULL AND status IN ('Pending', 'Failed')";
    number(stage, statement).await
}

async fn number(stage: &Stage, statement: &str) -> i64 {
    stage.sql(0).await.query_one(statement, &[]).await.expect("the tables are as they were").get(0)
}

/// The bytes of the tables, and of their indexes, that keep messages after their deliveries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) tables: f64,
    pub(crate) indexes: f64,
}

/// The sizes of the first tenant's tables of orders, events, finished deliveries and their attempts.
pub(crate) async fn sizes(stage: &Stage) -> Sizes {
    let statement = "SELECT sum(pg_table_size(oid))::double precision, sum(pg_indexes_size(oid))::double precision \
                     FROM pg_class WHERE relname IN ('web_order', 'event', 'delivery_history', 'attempt_history')";
    let row = stage.sql(0).await.query_one(statement, &[]).await.expect("the tables are as they were");
    Sizes { tables: row.get(0), indexes: row.get(1) }
}

/// Gives the first tenant a history of `count` orders with one finished delivery each. They were created at equal
/// distances between `oldest` and `newest` ago. Every thousandth delivery is a dead letter. The history copies the
/// webhook of a delivery, which must exist; of several webhooks, it is the first one's.
pub(crate) async fn add_history(stage: &Stage, count: i64, oldest: Duration, newest: Duration) {
    let sql = stage.sql(0).await;
    let row = sql.query_one("SELECT webhook, webhook_name FROM delivery ORDER BY webhook LIMIT 1", &[]).await;
    let (webhook, name): (String, String) = row.map(|row| (row.get(0), row.get(1))).expect("a delivery");
    stage.relax().await;
    // The inserted rows fit together, so foreign keys need no check.
    run(&sql, "SET session_replication_role = replica").await;
    run(&sql, &times(count, oldest, newest)).await;
    for first in (1..=count).step_by(BATCH as usize) {
        let last = count.min(first + BATCH - 1);
        run(&sql, &history(first, last, &webhook, &name)).await;
    }
    run(&sql, "VACUUM ANALYZE").await;
    stage.harden().await;
}

/// Lets the first contact of the first tenant manage webhooks, and adds 1,000 customers with ten contacts each and 250,000 audit entries.
/// Of the entries, 40,000 are sign-ins, ten of them by the first contact, 20,000 are refused sign-ins, and in some 39,800 the administrator
/// read a payload. 200 are about removed webhooks, and ten about the first webhook. The other 150,000 are older. Of no event there are
/// more than retention keeps.
pub(crate) async fn add_people(stage: &Stage) {
    let people = "BEGIN; UPDATE contact SET manages_webhooks = TRUE; \
         INSERT INTO customer (code, name, created_at_ms) \
         SELECT 'B-' || n, 'Firm ' || n, 0 FROM generate_series(0, 999) n; \
         INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms) \
         SELECT 'B' || n, 'B-' || (n % 1000), 'b' || n || '@firm.example', 'b' || n || '@firm.example', 'Contact ' || n, TRUE, 0 \
         FROM generate_series(0, 9999) n; \
         INSERT INTO audit (at_ms, id, event, actor, subject, address, count, detail) \
         SELECT (extract(epoch FROM now()) * 1000)::bigint - n * 20000, md5('a' || n), event, \
         CASE WHEN n % 10000 = 2 THEN 'contact ' || (SELECT code FROM contact WHERE manages_webhooks) \
         WHEN event = 'SignedIn' THEN 'contact B' || (n % 10000) \
         WHEN event <> 'SignInRefused' THEN 'employee ' || (SELECT code FROM employee) END, \
         CASE event WHEN 'WebhookChanged' THEN 'webhook default/t0-w0' WHEN 'WebhookRemoved' THEN 'webhook default/portal-' || n \
         WHEN 'PayloadRead' THEN 'delivery ' || n END, '127.0.0.1', 1, \
         CASE event WHEN 'WebhookChanged' THEN 'displayName' WHEN 'WebhookRemoved' THEN 'Removed ' || n END \
         FROM (SELECT n, CASE WHEN n % 10000 = 1 THEN 'WebhookChanged' WHEN n % 500 = 3 THEN 'WebhookRemoved' \
         WHEN n % 5 = 4 THEN 'SignInRefused' WHEN n % 2 = 0 THEN 'SignedIn' ELSE 'PayloadRead' END AS event \
         FROM generate_series(1::bigint, 100000) n) AS entry; \
         INSERT INTO audit (at_ms, id, event, actor, subject, address, count) \
         SELECT (extract(epoch FROM now()) * 1000)::bigint - 2000000000 - n * 20000, md5('b' || n), \
         CASE WHEN n <= 50000 THEN 'PeopleRead' ELSE (ARRAY['SignedOut', 'PasswordChanged', 'DeliveryResent', 'TestSent', \
         'ResendStarted', 'ResendStopped', 'DeadLettersSetAside', 'SetAsideUndone', 'WebhookActivated', 'WebhookDeactivated', \
         'NextSecretMade', 'NextSecretPromoted', 'NextSecretDropped', 'CustomerAdded', 'ContactAdded', 'EmployeeAdded', \
         'RightGranted', 'RightRevoked', 'UserDeactivated', 'UserActivated'])[1 + n % 20] END, \
         'employee ' || (SELECT code FROM employee), 'contact B' || (n % 10000), '127.0.0.1', 1 \
         FROM generate_series(1::bigint, 150000) n; \
         COMMIT";
    run(&stage.sql(0).await, people).await;
}

/// Makes some 5,000 deliveries of the history the deliveries of one bulk resend; returns its id.
pub(crate) async fn add_resend(stage: &Stage) -> String {
    let id = "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a";
    let resend = format!(
        "BEGIN; UPDATE delivery_history SET resend_id = '{id}', resend_of = id \
         WHERE status = 'Succeeded' AND created_at_ms / 7 % 200 = 1; \
         INSERT INTO resend (id, webhook, webhook_name, per_second, count, requested_by, created_at_ms) \
         SELECT '{id}', webhook, webhook_name, 10, count(*), 'employee ' || (SELECT code FROM employee), min(created_at_ms) \
         FROM delivery_history WHERE resend_id = '{id}' GROUP BY webhook, webhook_name; \
         COMMIT"
    );
    run(&stage.sql(0).await, &resend).await;
    id.to_owned()
}

/// The ids of the last delivery of the history in this status, and of its event.
pub(crate) async fn last_delivery(stage: &Stage, status: &str) -> [String; 2] {
    let statement =
        "SELECT id, event_id FROM delivery_history WHERE status = $1 ORDER BY created_at_ms DESC LIMIT 1";
    let row = stage.sql(0).await.query_one(statement, &[&status]).await.expect("a delivery in this status");
    [row.get(0), row.get(1)]
}

/// The date of seven days ago.
pub(crate) async fn a_week_ago(stage: &Stage) -> String {
    let statement = "SELECT to_char(now() - interval '7 days', 'YYYY-MM-DD')";
    stage.sql(0).await.query_one(statement, &[]).await.expect("a row").get(0)
}

/// Turns one in `share` deliveries of the history into a dead letter. Nearly all have the HTTP status 500, one in a hundred 504, and few 503.
pub(crate) async fn give_up(stage: &Stage, share: i64) {
    let sql = stage.sql(0).await;
    let dead = format!(
        "UPDATE delivery_history SET status = 'DeadLetter', failure_class = 'ServerError', attempt_count = 5, \
         http_status = CASE WHEN created_at_ms % 20011 = 0 THEN 503 WHEN created_at_ms % 101 = 0 THEN 504 ELSE 500 END \
         WHERE status = 'Succeeded' AND created_at_ms / 7 % {share} = 0"
    );
    run(&sql, &dead).await;
    run(&sql, "VACUUM ANALYZE").await;
}

/// Gives the deliveries of the history to another customer, which has a webhook of the same name. The first customer keeps what it saved
/// before.
pub(crate) async fn give_away(stage: &Stage) {
    let sql = stage.sql(0).await;
    stage.relax().await;
    let own = "SELECT id FROM event WHERE customer_code = 'C-1' AND web_order_id LIKE 'H________'";
    for statement in [
        format!(
            "UPDATE delivery_history SET webhook = replace(webhook, '/C-1', '/B-0') WHERE event_id IN ({own})"
        ),
        format!("UPDATE event SET customer_code = 'B-0' WHERE id IN ({own})"),
        "VACUUM ANALYZE".to_owned(),
    ] {
        run(&sql, &statement).await;
    }
    stage.harden().await;
}

/// The SQL function `pg_temp.at`, which returns the creation time of the n-th delivery, in milliseconds since 1970.
fn times(count: i64, oldest: Duration, newest: Duration) -> String {
    let step = (oldest - newest).as_millis() as f64 / count as f64;
    format!(
        "CREATE FUNCTION pg_temp.at(n bigint) RETURNS bigint LANGUAGE sql AS $$ SELECT \
         (extract(epoch FROM date_trunc('minute', now())) * 1000)::bigint - {} + (n * {step})::bigint $$",
        oldest.as_millis()
    )
}

fn history(first: i64, last: i64, webhook: &str, name: &str) -> String {
    let from = format!("FROM generate_series({first}::bigint, {last}) n");
    let order = "'H' || lpad(n::text, 8, '0')";
    // Ids begin with a time, as Docket's ids do.
    let event = "'evt_' || lpad(to_hex(pg_temp.at(n)), 12, '0') || substr(md5('e' || n), 1, 20)";
    let delivery = "regexp_replace(lpad(to_hex(pg_temp.at(n)), 12, '0') || '7' || substr(md5('d' || n), 1, 3) || '8' \
                    || substr(md5('d' || n), 4, 15), '(.{8})(.{4})(.{4})(.{4})(.{12})', '\\1-\\2-\\3-\\4-\\5')";
    let body = order::BODY;
    let envelope = format!(
        "convert_to('{{\"id\":\"' || {event} || '\",\"event\":\"order.created\",\"occurredAt\":\"2026-11-21T05:06:07.123Z\",\
         \"customerCode\":\"C-1\",\"data\":{{\"orderType\":\"Court\",\"webOrderId\":\"' || {order} || '\"}}}}', 'UTF8')"
    );
    let dead = |yes: &str, no: &str| format!("CASE WHEN n % 1000 = 0 THEN {yes} ELSE {no} END");
    let (status, attempts) = (dead("'DeadLetter'", "'Succeeded'"), dead("5", "1"));
    let (class, http) = (dead("'ServerError'", "NULL"), dead("500", "200"));
    // The attempt that succeeded has columns here; failed attempts have rows of their own.
    let (started, address) = (dead("NULL", "pg_temp.at(n)"), dead("NULL", "'127.0.0.1:443'"));
    format!(
        "BEGIN; \
         INSERT INTO web_order (id, order_type, customer_code, status, body, case_number, caption, client_matter_number, \
         search_text, version, created_at_ms, updated_at_ms) SELECT {order}, 'Court', 'C-1', 'Draft', '{body}', \
         '26STCV99901', 'Larkspur Tile Co. v. Brindle', '4410-0012', \
         '26stcv99901 larkspur tile co. v. brindle 4410-0012 ' || n, 1, pg_temp.at(n), pg_temp.at(n) {from}; \
         INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms) SELECT {event}, \
         'order.created', 'C-1', {order}, {envelope}, pg_temp.at(n) {from}; \
         INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, \
         failure_class, http_status, created_at_ms, finished_at_ms, started_at_ms, remote_address, total_us) \
         SELECT {delivery}, {event}, '{webhook}', '{name}', {status}, {attempts}, pg_temp.at(n), {class}, {http}, \
         pg_temp.at(n), pg_temp.at(n) + 5, {started}, {address}, {total} {from}; \
         INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, http_status, \
         remote_address, total_us) SELECT {delivery}, attempt_no, pg_temp.at(n), pg_temp.at(n) + 5, 'ServerError', 500, \
         '127.0.0.1:443', 900 {from}, generate_series(1, 5) attempt_no WHERE n % 1000 = 0; \
         COMMIT",
        total = dead("NULL", "900")
    )
}

/// The number of deliveries of the first tenant that ended longer ago than `ago`.
pub(crate) async fn ended_before(stage: &Stage, ago: Duration) -> i64 {
    let statement = format!(
        "SELECT count(*) FROM delivery WHERE finished_at_ms < extract(epoch FROM now()) * 1000 - {}",
        ago.as_millis()
    );
    number(stage, &statement).await
}

async fn run(sql: &Sql, statements: &str) {
    sql.batch_execute(statements).await.expect("the tables are as they were");
}
