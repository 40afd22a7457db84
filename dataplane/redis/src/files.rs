//! Reads the connection to Redis from files, because every user of the machine can read a process's arguments.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::connect::RedisConnection;
use crate::url::RedisUrl;

/// The files of `--redis-url-file` and `--redis-ca-file`.
#[derive(Debug, Clone)]
pub struct RedisFiles {
    url: PathBuf,
    ca: Option<PathBuf>,
}

impl RedisFiles {
    /// The files at these paths. `ca`: the file with the authorities that may have signed the servers' certificates.
    pub fn new(url: &Path, ca: Option<&Path>) -> Self {
        Self { url: url.to_owned(), ca: ca.map(Path::to_owned) }
    }

    /// A connection by what the files contain now, which connects at its first use. Blocks while it reads.
    ///
    /// Errors: a file can't be read or its content is not valid. The message names the flag and never the URL.
    pub fn connection(&self) -> Result<RedisConnection> {
        let target = RedisUrl::parse(&String::from_utf8_lossy(&read(&self.url, "--redis-url-file")?))
            .with_context(|| format!("--redis-url-file {}", self.url.display()))?;
        let ca = self.ca.as_deref().map(|file| read(file, "--redis-ca-file")).transpose()?;
        ensure!(
            ca.is_none() || target.tls,
            "--redis-ca-file is for a rediss:// URL, which --redis-url-file does not hold"
        );
        RedisConnection::new(target, ca).context("--redis-ca-file")
    }
}

fn read(file: &Path, flag: &str) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("{flag}: {} can't be read", file.display()))
}
