//! The contract of the store, on SQLite and on PostgreSQL, which all of its tests share; and the detector over many stores.

mod detector;
mod store;
