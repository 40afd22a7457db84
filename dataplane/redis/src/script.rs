//! Lua scripts: each is one atomic transition.

use redis::{FromRedisValue, ToRedisArgs};

use crate::connect::RedisConnection;
use crate::error::Error;

/// A Lua script. A server may not have it (after a restart, SCRIPT FLUSH, a new primary); the call then sends the text.
#[derive(Debug)]
pub struct Script {
    text: String,
    sha1: String,
}

impl Script {
    /// Creates a script from these parts, in this order.
    pub fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha1 }
    }

    /// Runs the script. All keys must have the same hash tag.
    pub async fn run<T: FromRedisValue>(
        &self,
        connection: &RedisConnection,
        keys: &[String],
        arguments: &[impl ToRedisArgs],
    ) -> Result<T, Error> {
        let call = |how: &str, script: &str| {
            let mut command = redis::cmd(how);
            command.arg(script).arg(keys.len()).arg(keys);
            for argument in arguments {
                command.arg(argument);
            }
            command
        };
        match connection.try_query(&call("EVALSHA", &self.sha1)).await? {
            Ok(answer) => Ok(answer),
            Err(_no_script) => connection.query(&call("EVAL", &self.text)).await,
        }
    }
}
