//! One way to Redis for all of Docket: standalone, Sentinel or Cluster, by one URL.
//!
//! [`files`] and [`url`] read what the arguments say, [`connect`] keeps the connection, [`check`] looks at the server before work begins, [`keys`]
//! names everything that is kept, [`script`] runs one transition, [`board`] is what the data plane's processes tell the
//! operator. The schedule itself is in the data plane.

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

/// Redis could not be asked, or refused. The text names servers and settings, never a password.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Nothing usable answered in time. Calls work again once it does.
    #[error("Redis is not available: {0}")]
    Away(String),
    /// It answered, with an error.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// It is not as Docket needs it. An operator has to change a setting.
    #[error("Redis can't be used: {0}")]
    Unfit(String),
}
