//! The tenant's database, which is the source of truth: orders, the back office, events, deliveries, attempts, people.
//!
//! Each noun has a file with its statements, which are written once for both databases. [`sqlite`] and [`postgres`]
//! only open connections, run statements and close connections. Every write happens in a [`Transaction`]. A
//! transaction that is dropped before its end closes its connection, so that no request inherits a half-done
//! transaction from a cancelled one.
//!
//! ```
//! use docket_program::clock::Clock;
//! use docket_store::sqlite::Sqlite;
//! use docket_store::{Database, StoreError, contacts};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), StoreError> {
//! let file = std::env::temp_dir().join(format!("docket-{}.db", std::process::id()));
//! let database = Database::Sqlite(Sqlite::new(file.clone()));
//! database.migrate(&Clock::System).await?;
//!
//! let mut transaction = database.begin(&Clock::System).await?;
//! let now_ms = transaction.now_ms();
//! contacts::insert_customer(&mut transaction, "SMITH", "Smith & Partners", now_ms).await?;
//! transaction.commit().await?;
//!
//! let mut reader = database.reader().await?;
//! assert!(contacts::customer_exists(&mut reader, "SMITH").await?);
//! # drop((reader, database));
//! # let _ = std::fs::remove_file(file);
//! # Ok(())
//! # }
//! ```

pub mod audit;
mod connection;
pub mod contacts;
mod counter;
mod database;
pub mod dead_letters;
pub mod deliveries;
pub mod employees;
pub mod ended_sessions;
mod error;
pub mod events;
pub mod health;
pub mod idempotency;
mod indexes;
pub mod invoices;
pub mod key_uses;
mod marks;
mod migrate;
pub mod notes;
pub mod notices;
pub mod orders;
pub mod people;
pub mod postgres;
pub mod processes;
pub mod recent;
pub mod resends;
pub mod retention;
pub mod samples;
pub mod saves;
pub mod shown_secrets;
pub mod sql;
pub mod sqlite;
mod state;
pub mod stores;
pub mod subscriptions;
pub mod unfolded;
pub mod walk;
pub mod work_orders;

pub use connection::{Connection, Transaction};
pub use counter::next_number;
pub use database::{Database, Writer};
pub use error::{AtConnectionLimit, StoreError};
pub use state::DatabaseState;
