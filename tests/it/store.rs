//! The contract of the store: the same cases on a SQLite file and on a real PostgreSQL.
//!
//! Each case is a function that takes a [`Rig`]; `on_both_databases!` makes two tests of it. Times are numbers that
//! the cases choose; nothing here waits for a clock but what is about waiting.

mod attempts;
mod back_office;
mod budget;
mod cancellation;
mod deliveries;
mod ended;
mod events;
mod health;
mod idempotency;
mod idle;
mod invoices;
mod invoices_plan;
mod invoices_search;
mod notes;
mod odd_rows;
mod orders;
mod people;
mod processes;
mod resends;
mod retention;
mod schema;
mod search;
mod statements;
mod transactions;
mod unavailable;
mod work_orders;

use docket_program::clock::Clock;
use std::path::PathBuf;

use docket_crds::EventCode;
use docket_domain::delivery::{DeliveryId, Status};
use docket_domain::event::EventId;
use docket_store::events::About;
use docket_store::sql::Param;
use docket_store::{Database, StoreError, Transaction, contacts, deliveries as rows, events as event_rows};
use docket_tests::{postgres, scratch};
use jiff::Timestamp;

/// Some day, in milliseconds since 1970.
const T0: i64 = 1_800_000_000_000;
/// The customer that a rig begins with.
const CUSTOMER: &str = "SMITH";
/// The webhook that deliveries are for, if nothing else is said.
const WEBHOOK: &str = "webhook-1";

macro_rules! on_both_databases {
    ($($case:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::store::Rig::sqlite().await).await;
            })*
        }
        mod on_postgresql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::store::Rig::postgres().await).await;
            })*
        }
    };
}
use on_both_databases;

/// A database of the test's own, with its schema and one customer.
struct Rig {
    database: Database,
    place: Place,
}

enum Place {
    File(scratch::Folder),
    Url(String),
}

impl Rig {
    async fn sqlite() -> Self {
        Self::at(Place::File(scratch::Folder::new("store"))).await
    }

    async fn postgres() -> Self {
        Self::at(Place::Url(postgres::database().await)).await
    }

    async fn at(place: Place) -> Self {
        let rig = Self { database: place.open(8), place };
        rig.database.migrate(&Clock::System).await.expect("an empty database takes the schema");
        rig.write(async |t| contacts::insert_customer(t, CUSTOMER, "Smith & Partners", T0).await).await;
        rig
    }

    /// The same database as another process, or this one after a restart, would open it.
    fn opened_again(&self) -> Database {
        self.place.open(8)
    }

    /// With room for this many connections where that can be chosen.
    fn opened_with(&self, connections: usize) -> Database {
        self.place.open(connections)
    }

    /// In one transaction, which is committed.
    async fn write<T>(&self, work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>) -> T {
        self.try_write(work).await.expect("the write is accepted")
    }

    async fn try_write<T>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction = self.database.begin(&Clock::System).await?;
        let result = work(&mut transaction).await?;
        transaction.commit().await?;
        Ok(result)
    }

    async fn reader(&self) -> docket_store::Connection {
        self.database.reader().await.expect("a connection")
    }

    /// The only number that `sql` answers, as a connection of a new process sees it.
    async fn number(&self, sql: &str) -> i64 {
        let mut reader = self.opened_again().reader().await.expect("a connection");
        reader
            .query_opt(sql, Vec::new())
            .await
            .expect("a statement")
            .expect("a row")
            .get(0)
            .expect("a number")
    }

    /// Stores an event; each has its own id.
    async fn event(&self, subject: &str) -> EventId {
        let body = format!("{{\"subject\":\"{subject}\"}}").into_bytes();
        let events = self.number("SELECT count(*) FROM event").await;
        let id = event_id(u16::try_from(events).expect("few events"));
        let event = event_rows::Event {
            id: id.clone(),
            code: EventCode::OrderCreated,
            customer_code: CUSTOMER.into(),
            about: About::web_order(subject),
            body,
        };
        self.write(async |t| event_rows::insert(t, &event, T0).await).await;
        id
    }

    /// Deliveries 0, 1, … of a new event, due at `due_ms`.
    async fn queued(&self, count: u16, due_ms: i64) -> Vec<DeliveryId> {
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

    async fn one_queued(&self) -> DeliveryId {
        self.queued(1, T0).await[0]
    }

    async fn delivery(&self, id: DeliveryId) -> rows::Listed {
        let mut reader = self.reader().await;
        rows::find(&mut reader, id).await.expect("a statement").expect("the delivery is there")
    }

    async fn attempts(&self, id: DeliveryId) -> Vec<rows::StoredAttempt> {
        rows::attempts(&mut self.reader().await, id).await.expect("a statement")
    }

    async fn lease(&self, id: DeliveryId) -> (Option<String>, Option<i64>) {
        let sql = "SELECT lease_token, lease_until_ms FROM delivery WHERE id = $1";
        let mut reader = self.reader().await;
        let row = reader.query_opt(sql, vec![Param::from(id.to_string())]).await.expect("a statement");
        let row = row.expect("the delivery is there");
        (row.get(0).expect("a text"), row.get(1).expect("a number"))
    }

    /// All that is stored of a delivery, to see that nothing changed.
    async fn picture(&self, id: DeliveryId) -> String {
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

    /// As if an attempt had ended so; what else an attempt leaves is not there.
    async fn set_status(&self, id: DeliveryId, status: Status) {
        let sql = "UPDATE delivery SET status = $1 WHERE id = $2";
        let params = vec![Param::from(status.as_str()), Param::from(id.to_string())];
        assert_eq!(self.write(async |t| t.execute(sql, params).await).await, 1);
    }

    /// Begins attempts in a transaction of their own.
    async fn begin(&self, ids: &[DeliveryId], token: &str, now_ms: i64, until_ms: i64) -> Vec<rows::Started> {
        self.write(async |t| rows::begin_attempts(t, ids, token, now_ms, until_ms).await).await.0
    }
}

impl Place {
    fn open(&self, connections: usize) -> Database {
        match self {
            Self::File(_) => Database::Sqlite(docket_store::sqlite::Sqlite::new(self.file())),
            Self::Url(url) => {
                Database::Postgres(docket_store::postgres::Postgres::new(url, connections).expect("a URL"))
            }
        }
    }

    fn file(&self) -> PathBuf {
        match self {
            Self::File(folder) => folder.path().join("tenant.db"),
            Self::Url(_) => panic!("PostgreSQL has no file of ours"),
        }
    }
}

/// Ids in the order of their numbers.
fn delivery_id(number: u16) -> DeliveryId {
    let [high, low] = number.to_be_bytes();
    DeliveryId::new(Timestamp::from_millisecond(T0).expect("in range"), [0, 0, 0, 0, 0, 0, 0, 0, high, low])
}

fn event_id(number: u16) -> EventId {
    let [high, low] = number.to_be_bytes();
    EventId::new([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low])
}

fn new_delivery(id: DeliveryId, event: &EventId) -> rows::NewDelivery {
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
