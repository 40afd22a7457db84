//! The contract of the store, on SQLite and on PostgreSQL, which all of its tests share.

mod store;
