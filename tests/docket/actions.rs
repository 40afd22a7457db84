//! Actions of the service through the library, on SQLite and on PostgreSQL; and the detector over many databases.

mod detector;
mod invoices;
mod odd_rows;
mod resends;
mod retention;
mod test_events;
