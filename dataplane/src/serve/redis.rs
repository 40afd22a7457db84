//! The way to Redis, as the arguments describe it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use docket_redis::{Connection, Error, Keys, Target};

use crate::args::RedisArguments;

/// How often a Redis that is away is asked again at start.
const AGAIN: Duration = Duration::from_millis(500);
/// How often that is told.
const TOLD: u32 = 20;

/// The connection, which is made when it is first used, and the names of the keys.
///
/// Errors: a file can't be read, or what it holds is not right; the message names the flag and never the URL.
pub fn connect(arguments: &RedisArguments) -> Result<(Connection, Keys)> {
    let file = arguments.redis_url_file.as_deref().context(
        "--redis-url-file is missing: the name of a file with the URL of Redis, such as redis://:password@redis:6379/0",
    )?;
    let target = Target::parse(&String::from_utf8_lossy(&read(file, "--redis-url-file")?))
        .with_context(|| format!("--redis-url-file {}", file.display()))?;
    let ca = arguments.redis_ca_file.as_deref().map(|file| read(file, "--redis-ca-file")).transpose()?;
    ensure!(
        ca.is_none() || target.tls,
        "--redis-ca-file is for a rediss:// URL, which --redis-url-file does not hold"
    );
    let connection = Connection::new(target, ca).context("--redis-ca-file")?;
    let keys = Keys::new(arguments.redis_release.as_deref()).context("--redis-release")?;
    Ok((connection, keys))
}

fn read(file: &Path, flag: &str) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("{flag}: {} can't be read", file.display()))
}

/// Returns once Redis has answered and is as it must be.
///
/// Errors: it never will be, before somebody changes a setting of it.
pub async fn check(connection: &Connection) -> Result<()> {
    for attempt in 0u32.. {
        match connection.check().await {
            Ok(checked) => {
                for warning in &checked.warnings {
                    tracing::warn!("{warning}");
                }
                return Ok(());
            }
            Err(error @ Error::Unfit(_)) => return Err(error).context("--redis-url-file"),
            Err(error) if attempt % TOLD == 0 => {
                tracing::warn!(error = %error, "Redis can't be used yet; this is tried again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
    Ok(())
}
