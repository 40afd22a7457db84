//! Connects to Redis as the arguments say, and checks its settings.

use std::time::Duration;

use anyhow::{Context, Result};
use docket_redis::follow::follow;
use docket_redis::{Error, Keys, RedisConnection, RedisFiles};
use tokio_util::sync::CancellationToken;

use crate::args::RedisArguments;

/// The pause between two checks of an unavailable Redis at start.
const RETRY: Duration = Duration::from_millis(500);
/// The pause between two checks of the settings of Redis after the start.
const CHECK: Duration = Duration::from_secs(60);
/// At the start, one of this many failed checks is logged.
const LOGGED: u32 = 20;

/// Returns the connection, which opens at its first use, the names of the keys, and the files that name Redis.
///
/// # Errors
///
/// A file can't be read, or has no valid content. The message names the flag and never the URL.
pub fn connect(arguments: &RedisArguments) -> Result<(RedisConnection, Keys, RedisFiles)> {
    let file = arguments.redis_url_file.as_deref().context(
        "--redis-url-file is missing: name a file with the URL of Redis, such as redis://:password@redis:6379/0",
    )?;
    let files = RedisFiles::new(file, arguments.redis_ca_file.as_deref());
    let connection = files.connection()?;
    let keys = Keys::new(arguments.redis_release.as_deref()).context("--redis-release")?;
    Ok((connection, keys, files))
}

/// Changes to another Redis or other credentials when the files name them, until shutdown.
pub async fn renew(connection: RedisConnection, files: RedisFiles, shutdown: CancellationToken) {
    tokio::select! {
        () = follow(connection, files) => {}
        () = shutdown.cancelled() => {}
    }
}

/// Checks Redis every minute until shutdown: someone may change a setting, and a new primary may have others. While Redis does
/// not respond, checks it twice a second. Logs a failed check; the process continues.
pub async fn watch(connection: RedisConnection, shutdown: CancellationToken) {
    let mut is_logged = false;
    loop {
        let pause = if connection.is_up().unwrap_or_default() { CHECK } else { RETRY };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
        match connection.check().await {
            Err(error @ Error::Unfit(_)) if !is_logged => {
                tracing::error!(error = %error, "--redis-url-file: Redis does not meet the requirements");
                is_logged = true;
            }
            Ok(_) => is_logged = false,
            Err(_) => {}
        }
    }
}

/// Waits until Redis is available, and checks that it meets the requirements. `most`: how long to wait; `None`: without
/// end. After this time, the process starts without Redis, and [`watch`] checks Redis when it is available.
///
/// # Errors
///
/// Redis does not meet the requirements: its version, a setting, or the password.
pub async fn check(connection: &RedisConnection, most: Option<Duration>) -> Result<()> {
    let Some(most) = most else { return checked(connection).await };
    tokio::time::timeout(most, checked(connection)).await.unwrap_or_else(|_| {
        tracing::warn!(
            "Redis is not available; starting without it: orders are saved, and workers send their deliveries once Redis is back"
        );
        Ok(())
    })
}

async fn checked(connection: &RedisConnection) -> Result<()> {
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
