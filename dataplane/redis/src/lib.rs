//! The connection to Redis for all of Docket (standalone, Sentinel or Cluster, by one URL) and the names of its keys.
//!
//! [`files`] and [`url`] read the arguments, [`connect`] keeps the connection, [`check`] checks the server before
//! work begins, [`follow`] changes to another server or other credentials, [`keys`] names every key, [`script`] runs
//! one transition. docket-schedule and docket-board say what the keys are for.
//!
//! ```
//! use docket_redis::{Error, Keys, RedisConnection, RedisUrl};
//!
//! /// One command, to a server that is suitable.
//! async fn ping(connection: &RedisConnection) -> Result<String, Error> {
//!     connection.check().await?;
//!     connection.query(&docket_redis::cmd("PING")).await
//! }
//!
//! let target = RedisUrl::parse("redis+sentinel://:secret@s-0,s-1,s-2/mymaster").expect("a URL");
//! assert!(!format!("{target:?}").contains("secret"));
//! // Connects when it is first used.
//! let connection = RedisConnection::new(target, None).expect("no certificates to read");
//! # let _ = ping(&connection);
//! let keys = Keys::new(Some("blue")).expect("a release");
//! assert_eq!(keys.to_string(), "{docket:blue}:*");
//! ```

pub mod check;
pub mod connect;
mod error;
pub mod files;
pub mod follow;
pub mod keys;
pub mod script;
pub mod url;

pub use connect::RedisConnection;
pub use error::Error;
pub use files::RedisFiles;
pub use keys::Keys;
pub use redis::{FromRedisValue, RedisWrite, ToRedisArgs, cmd};
pub use url::RedisUrl;
