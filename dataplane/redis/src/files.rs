//! Reads the connection to Redis from files, because every user of the machine can read a process's arguments.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::connect::RedisConnection;
use crate::keys::Keys;
use crate::url::RedisUrl;

/// The connection and the names of the keys, by `--redis-url-file`, `--redis-ca-file` and `--redis-release`. The
/// connection is made at its first use.
///
/// Errors: a file can't be read or its content is not valid. The message names the flag and never the URL.
pub fn connection(
    url_file: &Path,
    ca_file: Option<&Path>,
    release: Option<&str>,
) -> Result<(RedisConnection, Keys)> {
    let target = RedisUrl::parse(&String::from_utf8_lossy(&read(url_file, "--redis-url-file")?))
        .with_context(|| format!("--redis-url-file {}", url_file.display()))?;
    let ca = ca_file.map(|file| read(file, "--redis-ca-file")).transpose()?;
    ensure!(
        ca.is_none() || target.tls,
        "--redis-ca-file is for a rediss:// URL, which --redis-url-file does not hold"
    );
    let connection = RedisConnection::new(target, ca).context("--redis-ca-file")?;
    let keys = Keys::new(release).context("--redis-release")?;
    Ok((connection, keys))
}

fn read(file: &Path, flag: &str) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("{flag}: {} can't be read", file.display()))
}
