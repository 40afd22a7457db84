//! The integration tests, as one program: it is linked once, and its tests share one PostgreSQL.

mod store;
