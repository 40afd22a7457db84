//! Lua scripts: each is one atomic transition.

use redis::{FromRedisValue, ToRedisArgs};

use crate::connect::RedisConnection;
use crate::error::Error;

/// A Lua script. A server may not know it (after a restart, SCRIPT FLUSH or a failover). Then the call sends the text.
#[derive(Debug)]
pub struct Script {
    text: String,
    sha1: String,
}

impl Script {
    /// Creates a script by joining these parts in order.
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
