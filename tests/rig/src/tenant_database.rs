//! A tenant's database for one test, on SQLite or PostgreSQL, and functions that add rows to it.
//!
//! A case is a function that takes a [`TenantDatabase`]. [`on_both_databases!`](crate::on_both_databases) makes two
//! tests of a case, one for each kind of database. Times are numbers that the cases choose.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use docket_crds::EventCode;
use docket_domain::delivery::{DeliveryId, Next, Outcome, Status};
use docket_domain::event::EventId;
use docket_domain::invoice::InvoiceFamily;
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_store::events::About;
use docket_store::sql::Param;
use docket_store::{Database, StoreError, Transaction, contacts, deliveries as rows, events as event_rows};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::scratch::Folder;
use crate::{pgbouncer, postgres};

/// An arbitrary time, in milliseconds since 1970.
pub const T0: i64 = 1_800_000_000_000;
/// The code of the customer that each new database has.
pub const CUSTOMER: &str = "SMITH";
/// The key of the webhook that deliveries are for, unless a case says otherwise.
pub const WEBHOOK: &str = "smith/orders/SMITH";

/// Makes two tests of each case: one on a SQLite file, and one on a real PostgreSQL.
#[macro_export]
macro_rules! on_both_databases {
    ($($case:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::tenant_database::TenantDatabase::sqlite().await).await;
            })*
        }
        mod on_postgresql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::tenant_database::TenantDatabase::postgres().await).await;
            })*
        }
    };
}

/// The table of invoice headers for each family of invoices.
pub const INVOICE_TABLES: [(InvoiceFamily, &str); 4] = [
    (InvoiceFamily::Court, "court_invoice"),
    (InvoiceFamily::Delivery, "delivery_invoice"),
    (InvoiceFamily::Investigation, "investigation_invoice"),
    (InvoiceFamily::PhotoCopy, "photo_copy_invoice"),
];

/// A database for one test, with the schema and one customer.
pub struct TenantDatabase {
    /// The database, opened with up to eight connections.
    pub database: Database,
    /// Where the database is.
    pub place: Place,
}

/// Where a database is.
pub enum Place {
    /// A SQLite file in this folder.
    File(Folder),
    /// A PostgreSQL database at this URL.
    Url(String),
}

impl TenantDatabase {
    /// Creates a database in a SQLite file.
    pub async fn sqlite() -> Self {
        Self::at(Place::File(Folder::new("store"))).await
    }

    /// Creates a database on the PostgreSQL of this test process.
    pub async fn postgres() -> Self {
        Self::at(Place::Url(postgres::database().await)).await
    }

    /// Opens the database at `place`, migrates it and adds the customer.
    pub async fn at(place: Place) -> Self {
        let rig = Self { database: place.open(8), place };
        rig.database.migrate(&Clock::System).await.expect("an empty database takes the schema");
        rig.write(async |t| contacts::insert_customer(t, CUSTOMER, "Smith & Partners", T0).await).await;
        rig
    }

    /// Opens the same database once more, as another process would, or this process after a restart.
    pub fn opened_again(&self) -> Database {
        self.place.open(8)
    }

    /// Opens the same database with up to `connections` connections; SQLite has no such limit.
    pub fn opened_with(&self, connections: usize) -> Database {
        self.place.open(connections)
    }

    /// Runs `work` in one transaction and commits it; panics on an error.
    pub async fn write<T>(&self, work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>) -> T {
        self.try_write(work).await.expect("the write is accepted")
    }

    /// Like [`write`](Self::write), but returns the error.
    pub async fn try_write<T>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction = self.database.begin(&Clock::System).await?;
        let result = work(&mut transaction).await?;
        transaction.commit().await?;
        Ok(result)
    }

    /// Runs `calls`, which all begin to write before the first of them can continue: another transaction keeps them back. On
    /// PostgreSQL it locks `table` until `count` sessions wait. On SQLite it has the only turn to write until each call waits for
    /// that turn.
    pub async fn meeting<T>(&self, count: i64, table: &str, calls: impl Future<Output = T>) -> T {
        let Place::Url(url) = &self.place else {
            let mut calls = pin!(calls);
            let turn = self.database.begin(&Clock::System).await.expect("a turn");
            let is_waiting = poll_fn(|context| Poll::Ready(calls.as_mut().poll(context).is_pending())).await;
            assert!(is_waiting, "nothing waits for its turn");
            turn.rollback().await.expect("a rollback");
            return calls.await;
        };
        let (holder, watcher) = (postgres::client(url).await, postgres::client(url).await);
        let lock = format!("BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE");
        holder.batch_execute(&lock).await.expect("a free table");
        let release = async {
            postgres::lock_waits(&watcher, count).await;
            holder.batch_execute("ROLLBACK").await.expect("a rollback");
        };
        tokio::join!(calls, release).0
    }

    /// Returns when PostgreSQL reports that a transaction waits for another one's lock. On SQLite it returns without
    /// waiting: a file has one writer at a time, so the other transaction begins after this transaction.
    pub async fn another_waits(&self) {
        if let Place::Url(url) = &self.place {
            postgres::lock_waits(&postgres::client(url).await, 1).await;
        }
    }

    /// A connection that reads.
    pub async fn reader(&self) -> docket_store::Connection {
        self.database.reader().await.expect("a connection")
    }

    /// Runs statements that are separated by semicolons, each in a transaction of its own.
    pub async fn run(&self, sql: &str) {
        for statement in sql.split(';').filter(|statement| !statement.trim().is_empty()) {
            self.write(async |t| t.execute(statement, Vec::new()).await).await;
        }
    }

    /// Adds a work order of the customer, as the back office does.
    pub async fn add_work_order(&self, number: &str) {
        let sql = format!(
            "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) \
             VALUES ('{number}', 'PhotoCopy', 'SMITH', 0)"
        );
        self.run(&sql).await;
    }

    /// The number that `sql` selects, read by a connection of a newly opened database.
    pub async fn number(&self, sql: &str) -> i64 {
        let mut reader = self.opened_again().reader().await.expect("a connection");
        reader
            .query_opt(sql, Vec::new())
            .await
            .expect("a statement")
            .expect("a row")
            .get(0)
            .expect("a number")
    }

    /// Stores an event with an id of its own.
    pub async fn event(&self, subject: &str) -> EventId {
        let body = format!("{{\"subject\":\"{subject}\"}}").into_bytes();
        let events = self.number("SELECT count(*) FROM event").await;
        let id = event_id(u16::try_from(events).expect("few events"));
        let event = event_rows::Event {
            id: id.clone(),
            code: EventCode::OrderCreated,
            customer_code: CUSTOMER.into(),
            about: About::web_order(subject),
            body: body.into(),
        };
        self.write(async |t| event_rows::insert(t, &event, T0).await).await;
        id
    }

    /// Stores an event and deliveries of it with the ids 0, 1, …, which are due at `due_ms`.
    pub async fn queued(&self, count: u16, due_ms: i64) -> Vec<DeliveryId> {
        let event = self.event("web order").await;
        let ids: Vec<DeliveryId> = (0..count).map(delivery_id).collect();
        self.write(async |t| {
            for id in &ids {
                assert!(rows::insert(t, &new_delivery(*id, &event), due_ms).await?);
            }
            Ok(())
        })
        .await;
        ids
    }

    /// Stores an event and one delivery of it, which is due at [`T0`].
    pub async fn one_queued(&self) -> DeliveryId {
        self.queued(1, T0).await[0]
    }

    /// The delivery, as the store reads it.
    pub async fn delivery(&self, id: DeliveryId) -> rows::ListedDelivery {
        let mut reader = self.reader().await;
        rows::find(&mut reader, id).await.expect("a statement").expect("the delivery is there")
    }

    /// The attempts of the delivery.
    pub async fn attempts(&self, id: DeliveryId) -> Vec<rows::StoredAttempt> {
        let found = rows::find_with_attempts(&mut self.reader().await, id).await.expect("a statement");
        found.expect("the delivery is there").1
    }

    /// The process that leases the delivery (the `token` of [`begin`](Self::begin)), and when the lease expires, in
    /// milliseconds since 1970.
    pub async fn lease(&self, id: DeliveryId) -> (Option<String>, Option<i64>) {
        let sql = "SELECT lease_token, lease_until_ms FROM delivery WHERE id = $1";
        let mut reader = self.reader().await;
        let row = reader.query_opt(sql, vec![Param::from(id.to_string())]).await.expect("a statement");
        let row = row.expect("the delivery is there");
        let token: Option<String> = row.get(0).expect("a text");
        let process = |token: String| token.split_once('.').expect("a process and the rest").0.to_owned();
        (token.map(process), row.get(1).expect("a number"))
    }

    /// Everything that is stored of a delivery, as a text that a case can compare.
    pub async fn picture(&self, id: DeliveryId) -> String {
        let attempts: Vec<_> = self
            .attempts(id)
            .await
            .into_iter()
            .map(|attempt| {
                (attempt.number, attempt.started_at_ms, attempt.finished_at_ms, attempt.failure_class)
            })
            .collect();
        format!("{:?} {:?} {attempts:?}", self.delivery(id).await, self.lease(id).await)
    }

    /// Sets the status of a delivery without the other traces that an attempt leaves.
    pub async fn set_status(&self, id: DeliveryId, status: Status) {
        let which = format!("id = '{id}'");
        let unfinished =
            self.number(&format!("SELECT count(*) FROM delivery_queue WHERE {which}")).await == 1;
        let sql = match (unfinished, status.is_final()) {
            (true, true) => ended_sql(status, "NULL", &which),
            (false, false) => reopened_sql(status, &which),
            (true, false) => format!("UPDATE delivery_queue SET status = '{status}' WHERE {which}"),
            (false, true) => format!("UPDATE delivery_history SET status = '{status}' WHERE {which}"),
        };
        self.run(&sql).await;
        assert_eq!(self.delivery(id).await.status, status);
    }

    /// Begins attempts as two claims of the worker process `token` do, in one transaction: the first claim ends
    /// attempts whose lease has expired, and the second begins new ones.
    pub async fn begin(
        &self,
        ids: &[DeliveryId],
        token: &str,
        now_ms: i64,
        until_ms: i64,
    ) -> Vec<rows::Started> {
        let lease = lease(token, until_ms - now_ms);
        self.write(async |t| {
            rows::end_lost_attempts(t, ids, Duration::ZERO, at(now_ms)).await?;
            rows::begin_attempts(t, ids, &lease, now_ms).await
        })
        .await
    }

    /// Stores the end of an attempt that was [begun](Self::begin) with `token`. `false`: the lease was lost.
    pub async fn finish(
        &self,
        started: &rows::Started,
        token: &str,
        outcome: &Outcome,
        next: Next,
        now_ms: i64,
    ) -> bool {
        let end = end(started, token, outcome);
        self.write(async |t| rows::finish_attempt(t, &end, next, now_ms).await).await
    }
}

/// The columns that `delivery_queue` and `delivery_history` share, without the status.
const COLUMNS: &str = "id, event_id, webhook, webhook_name, attempt_count, due_at_ms, started_at_ms, failure_class, http_status, \
                       idempotency_key, resend_of, requested_by, resend_id, created_at_ms";

/// The statements that move unfinished deliveries to the history and set their status. `finished_at_ms` and the
/// condition `which` are SQL about `delivery_queue`.
pub fn ended_sql(status: Status, finished_at_ms: &str, which: &str) -> String {
    format!(
        "INSERT INTO delivery_history ({COLUMNS}, status, finished_at_ms) \
         SELECT {COLUMNS}, '{status}', {finished_at_ms} FROM delivery_queue WHERE {which}; \
         DELETE FROM delivery_queue WHERE {which};"
    )
}

/// The statements that move finished deliveries to the queue and set their status. The condition `which` is SQL about
/// `delivery_history`.
pub fn reopened_sql(status: Status, which: &str) -> String {
    format!(
        "INSERT INTO delivery_queue ({COLUMNS}, status) SELECT {COLUMNS}, '{status}' FROM delivery_history WHERE {which}; \
         DELETE FROM delivery_history WHERE {which};"
    )
}

/// The statements that move hand-offs to the queue unchanged.
pub const QUEUE_HAND_OFFS_SQL: &str = "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, \
     due_at_ms, lease_token, lease_until_ms, started_at_ms, created_at_ms) \
     SELECT id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token, lease_until_ms, \
     started_at_ms, created_at_ms FROM delivery_unfinished WHERE id NOT IN (SELECT id FROM delivery_queue); \
     DELETE FROM hand_off;";

/// A lease of `time_ms` milliseconds for the process `token`.
pub fn lease(token: &str, time_ms: i64) -> rows::Lease {
    let owner = Owner { process: token.into(), incarnation: "1".into() };
    rows::Lease::new(&owner, 0, Duration::from_millis(u64::try_from(time_ms).expect("a time")))
}

/// The attempts of the deliveries `ids` to [`WEBHOOK`] under this lease.
pub fn held<'a>(lease: &'a rows::Lease, ids: &[DeliveryId]) -> Vec<rows::Held<'a>> {
    ids.iter().map(|id| rows::Held { id: *id, webhook: WEBHOOK, lease }).collect()
}

/// The end of an attempt of the process `token`.
pub fn end(started: &rows::Started, token: &str, outcome: &Outcome) -> rows::End {
    lease(token, 0).end(started.clone(), outcome.clone())
}

/// The time `ms` milliseconds after the beginning of 1970.
pub fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("in range")
}

impl Place {
    /// Opens the database with up to `connections` connections; SQLite has no such limit.
    pub fn open(&self, connections: usize) -> Database {
        match self {
            Self::File(_) => Database::Sqlite(docket_store::sqlite::Sqlite::new(self.file())),
            Self::Url(url) => {
                let url = pgbouncer::through(url);
                Database::Postgres(docket_store::postgres::Postgres::new(&url, connections).expect("a URL"))
            }
        }
    }

    /// The SQLite file.
    pub fn file(&self) -> PathBuf {
        match self {
            Self::File(folder) => folder.path().join("tenant.db"),
            Self::Url(_) => panic!("PostgreSQL has no file of ours"),
        }
    }
}

/// The delivery id with this number. Ids sort like their numbers.
pub fn delivery_id(number: u16) -> DeliveryId {
    let [high, low] = number.to_be_bytes();
    DeliveryId::new(at(T0), [0, 0, 0, 0, 0, 0, 0, 0, high, low])
}

/// The event id with this number. Ids sort like their numbers.
pub fn event_id(number: u16) -> EventId {
    let [high, low] = number.to_be_bytes();
    EventId::new(at(T0), [0, 0, 0, 0, 0, 0, 0, 0, high, low])
}

/// A new delivery of `event` to [`WEBHOOK`].
pub fn new_delivery(id: DeliveryId, event: &EventId) -> rows::NewDelivery {
    rows::NewDelivery {
        id,
        event_id: event.as_str().into(),
        webhook: WEBHOOK.into(),
        webhook_name: "smith/orders".into(),
        idempotency_key: None,
        resend_of: None,
        requested_by: None,
        resend_id: None,
        due_at_ms: None,
    }
}

/// The statement that adds the header of an invoice for the work order `WO1`.
pub fn insert_invoice_sql(table: &str, number: &str, created_at_ms: i64) -> String {
    format!(
        "INSERT INTO {table} (invoice_number, work_order, created_at_ms) VALUES ('{number}', 'WO1', {created_at_ms})"
    )
}

/// The compiled configuration of a tenant, with `webhooks` webhooks of one customer for `invoice.created`. For tests
/// that call the library.
pub fn tenant_config(uid: &str, client_code: &str, customer: &str, webhooks: usize) -> Value {
    let webhook = |number: usize| {
        json!({"uid": format!("hook-{number}"), "namespace": "default", "name": format!("hook-{number}"), "displayName": null,
            "customerCode": customer, "targetUrl": "https://hooks.example/", "secret": null, "caBundle": null,
            "events": ["invoice.created"], "active": true})
    };
    json!({
        "uid": uid, "namespace": "default", "name": "tenant", "displayName": null, "clientCode": client_code,
        "subdomains": [], "suspended": false, "apiKeys": [], "tokens": {"lifetimeMinutes": 60, "signingKeys": []},
        "database": null, "activeEvents": ["invoice.created"],
        "webhooks": (0..webhooks).map(webhook).collect::<Vec<_>>(),
    })
}
