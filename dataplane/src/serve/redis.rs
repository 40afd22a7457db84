//! The way to Redis, as the arguments describe it.

use std::time::Duration;

use anyhow::{Context, Result};
use docket_redis::{Connection, Error, Keys};
use tokio_util::sync::CancellationToken;

use crate::args::RedisArguments;

/// How often a Redis that is away is asked again at start.
const AGAIN: Duration = Duration::from_millis(500);
/// How often it is looked at later.
const LOOK: Duration = Duration::from_secs(60);
/// How often that is told.
const TOLD: u32 = 20;

/// The connection, which is made when it is first used, and the names of the keys.
///
/// Errors: a file can't be read, or what it holds is not right; the message names the flag and never the URL.
pub fn connect(arguments: &RedisArguments) -> Result<(Connection, Keys)> {
    let file = arguments.redis_url_file.as_deref().context(
        "--redis-url-file is missing: the name of a file with the URL of Redis, such as redis://:password@redis:6379/0",
    )?;
    docket_redis::files::connection(
        file,
        arguments.redis_ca_file.as_deref(),
        arguments.redis_release.as_deref(),
    )
}

/// Looks again now and then, until shutdown is requested: a setting may be changed, and a new primary may have another.
/// What is served goes on; whoever runs Redis has to know.
pub async fn watch(connection: Connection, shutdown: CancellationToken) {
    let mut is_told = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = shutdown.cancelled() => return,
        }
        match connection.check().await {
            Err(error @ Error::Unfit(_)) if !is_told => {
                tracing::error!(error = %error, "--redis-url-file: Redis is no longer as it must be");
                is_told = true;
            }
            Ok(_) => is_told = false,
            Err(_) => {}
        }
    }
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
                tracing::warn!(error = %error, "--redis-url-file: Redis can't be used yet; this is tried again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
    Ok(())
}
