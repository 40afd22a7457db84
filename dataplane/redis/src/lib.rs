//! The connection to Redis for all of Docket (standalone, Sentinel or Cluster, by one URL) and the names of its keys.
//!
//! [`files`] and [`url`] read the arguments, [`connect`] keeps the connection, [`check`] checks the server before work
//! begins, [`keys`] names every key, [`script`] runs one transition. What the keys are for is in docket-schedule and
//! docket-board.
//!
//! ```
//! use docket_redis::{Connection, Error, Keys, Target};
//!
//! /// One command, to a server that is suitable.
//! async fn ping(connection: &Connection) -> Result<String, Error> {
//!     connection.check().await?;
//!     connection.query(&docket_redis::cmd("PING")).await
//! }
//!
//! let target = Target::parse("redis+sentinel://:secret@s-0,s-1,s-2/mymaster").expect("a URL");
//! assert!(!format!("{target:?}").contains("secret"));
//! // Connects when it is first used.
//! let connection = Connection::new(target, None).expect("no certificates to read");
//! # let _ = ping(&connection);
//! let keys = Keys::new(Some("blue")).expect("a release");
//! assert_eq!(keys.to_string(), "{docket:blue}:*");
//! ```

pub mod check;
pub mod connect;
pub mod files;
pub mod keys;
pub mod script;
pub mod url;

pub use connect::Connection;
pub use keys::Keys;
pub use redis::{FromRedisValue, cmd};
pub use url::Target;

/// Redis is unavailable, refused a command, or is not suitable. The text names servers and settings, never a password.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No usable server responded in time. Calls work again once one does.
    #[error("Redis is not available: {0}")]
    Away(String),
    /// It responded with an error.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// It is not suitable for Docket. An operator has to change a setting.
    #[error("Redis can't be used: {0}")]
    Unfit(String),
}
