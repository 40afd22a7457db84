//! Connects to Redis as the arguments say, and checks its settings.

use std::time::Duration;

use anyhow::{Context, Result};
use docket_redis::{Error, Keys, RedisConnection};
use tokio_util::sync::CancellationToken;

use crate::args::RedisArguments;

/// The pause between two checks of an unavailable Redis at start.
const RETRY: Duration = Duration::from_millis(500);
/// The pause between two checks of the settings of Redis after the start.
const CHECK: Duration = Duration::from_secs(60);
/// At the start, one of this many failed checks is logged.
const LOGGED: u32 = 20;

/// Returns the connection, which opens at its first use, and the names of the keys.
///
/// # Errors
///
/// A file can't be read, or has no valid content. The message names the flag and never the URL.
pub fn connect(arguments: &RedisArguments) -> Result<(RedisConnection, Keys)> {
    let file = arguments.redis_url_file.as_deref().context(
        "--redis-url-file is missing: name a file with the URL of Redis, such as redis://:password@redis:6379/0",
    )?;
    docket_redis::files::connection(
        file,
        arguments.redis_ca_file.as_deref(),
        arguments.redis_release.as_deref(),
    )
}

/// Checks Redis every minute until shutdown: someone may change a setting, and a new primary may have others. Logs a failed
/// check; the process continues.
pub async fn watch(connection: RedisConnection, shutdown: CancellationToken) {
    let mut is_logged = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(CHECK) => {}
            () = shutdown.cancelled() => return,
        }
        match connection.check().await {
            Err(error @ Error::Unfit(_)) if !is_logged => {
                tracing::error!(error = %error, "--redis-url-file: Redis no longer meets the requirements");
                is_logged = true;
            }
            Ok(_) => is_logged = false,
            Err(_) => {}
        }
    }
}

/// Waits until Redis is available, and checks that it meets the requirements.
///
/// # Errors
///
/// Redis does not meet the requirements: its version, a setting, or the password.
pub async fn check(connection: &RedisConnection) -> Result<()> {
    for attempt in 0u32.. {
        match connection.check().await {
            Ok(checked) => {
                for warning in &checked.warnings {
                    tracing::warn!("{warning}");
                }
                return Ok(());
            }
            Err(error @ Error::Unfit(_)) => return Err(error).context("--redis-url-file"),
            Err(error) if attempt % LOGGED == 0 => {
                tracing::warn!(error = %error, "Redis is not available; retrying");
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
    Ok(())
}
