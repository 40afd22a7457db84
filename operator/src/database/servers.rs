//! The servers for managed databases, by `--database-server`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use docket_crds::DatabaseUrl;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::time::Instant;

use super::error::DatabaseError;
use super::pool::AdminPool;

const FLAG: &str = "--database-server";

/// The servers, by name.
#[derive(Debug, Default)]
pub struct Servers {
    servers: Vec<Server>,
    /// Woken when a server is back that was away.
    back: Notify,
}

/// A `--database-server` that can't be used. The message names the flag and the file, but never the file's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{FLAG}{flag}: {problem}")]
pub struct InvalidServer {
    /// ` <name>=<file>`; empty if the argument has another form, because it may be a URL with a password.
    flag: String,
    problem: String,
}

/// One server. Its file is read for each use, so that a new password of the administrator takes effect.
pub(super) struct Server {
    name: String,
    file: PathBuf,
    /// The pool for the file's last usable content.
    admin: Mutex<AdminPool>,
    watcher: Mutex<KnownWatcher>,
    /// Whether it did not respond to its administrator in the last pass over one of its Tenants.
    is_away: AtomicBool,
}

/// The state of a server's watcher.
#[derive(Default)]
pub(super) struct KnownWatcher {
    /// The watcher's URL, if the watcher could be created; and the administrator's URL with which this was tried.
    pub(super) url: Option<DatabaseUrl>,
    pub(super) admin: Option<DatabaseUrl>,
    /// Whether every role could connect to the administrator's database at the last check.
    pub(super) is_open: bool,
    /// When to check again.
    pub(super) until: Option<Instant>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.name).field("file", &self.file).finish_non_exhaustive()
    }
}

impl Servers {
    /// Reads flags of the form `<name>=<file with an admin URL>`, and the files. Blocks while it reads.
    pub fn read(flags: &[String]) -> Result<Self, InvalidServer> {
        let mut servers: Vec<Server> = Vec::new();
        for flag in flags {
            let (name, file) =
                parse(flag).map_err(|problem| InvalidServer { flag: String::new(), problem })?;
            let invalid = |problem: String| InvalidServer { flag: format!(" {flag}"), problem };
            if servers.iter().any(|server| server.name == name) {
                return Err(invalid(format!("another server has the name {name:?}")));
            }
            let content = std::fs::read_to_string(&file).map(SecretString::from);
            let content = content.map_err(|error| invalid(format!("read the file: {error}")))?;
            let admin = read(&content).map_err(invalid)?;
            let (admin, watcher, is_away) = (Mutex::new(admin), Mutex::default(), AtomicBool::new(false));
            servers.push(Server { name, file, admin, watcher, is_away });
        }
        Ok(Self { servers, back: Notify::new() })
    }

    /// The names of the servers, in the order of the flags.
    pub fn names(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.name.clone()).collect()
    }

    /// A digest of the URL of the server that a Tenant uses. It changes with the URL and reveals no part of the URL.
    pub async fn mark(&self, wanted: Option<&str>) -> Option<String> {
        let server = self.choose(wanted).ok()?;
        let admin = server.admin().await.ok()?;
        Some(hex::encode(&Sha256::digest(admin.url().expose())[..16]))
    }

    /// The name of the server that a Tenant uses.
    pub fn name_of(&self, wanted: Option<&str>) -> Result<&str, DatabaseError> {
        Ok(self.choose(wanted)?.name())
    }

    /// Records whether a server responded to its administrator.
    pub(super) fn responded(&self, server: &Server, has_responded: bool) {
        let was_away = server.is_away.swap(!has_responded, Ordering::Relaxed);
        if was_away && has_responded {
            self.back.notify_one();
        }
    }

    /// The servers that did not respond.
    pub(super) fn away(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| server.is_away.load(Ordering::Relaxed))
    }

    /// Returns once a server responded that did not respond before.
    pub(super) async fn is_back(&self) {
        self.back.notified().await;
    }

    /// The server that a Tenant names; the first server if it names none.
    pub(super) fn choose(&self, wanted: Option<&str>) -> Result<&Server, DatabaseError> {
        let by_name = |name: &str| self.servers.iter().find(|server| server.name == name);
        let found = match (wanted, &self.servers[..]) {
            (Some(name), _) => by_name(name),
            (None, servers) => servers.first(),
        };
        found.ok_or_else(|| DatabaseError::ServerUnknown {
            wanted: wanted.map(str::to_owned),
            known: self.names(),
        })
    }
}

impl Server {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The state of the server's watcher. Only one pass at a time can hold it.
    pub(super) async fn watcher(&self) -> MutexGuard<'_, KnownWatcher> {
        self.watcher.lock().await
    }

    /// The pool for the file's current content, or for its last usable content if the current one is not usable.
    pub(super) async fn admin(&self) -> Result<AdminPool, DatabaseError> {
        let content = tokio::fs::read_to_string(&self.file).await.map(SecretString::from);
        let mut admin = self.admin.lock().await;
        let renewed = match content {
            Ok(content) if text(&content) == admin.url().expose() => return Ok(admin.clone()),
            Ok(content) => read(&content),
            Err(error) => Err(format!("read the file: {error}")),
        };
        match renewed {
            Ok(renewed) => *admin = renewed,
            Err(problem) => {
                let file = self.file.display();
                tracing::warn!(
                    server = self.name,
                    "{FLAG} {}={file}: {problem}; using the last good URL",
                    self.name
                );
            }
        }
        Ok(admin.clone())
    }
}

fn parse(flag: &str) -> Result<(String, PathBuf), String> {
    let form = "must be <name>=<file with an admin URL>";
    let (name, file) = flag.split_once('=').filter(|(_, file)| !file.is_empty()).ok_or(form)?;
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_label = name.len() <= 63
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && edge(name.as_bytes().first())
        && edge(name.as_bytes().last());
    if !is_label {
        return Err(format!(
            "{form}; the name has up to 63 lower-case letters, digits and \"-\", and begins and ends with a letter or \
             digit"
        ));
    }
    if file.contains("://") {
        return Err(format!("{form}, not the URL itself: every user of the machine can read arguments"));
    }
    Ok((name.to_owned(), Path::new(file).to_owned()))
}

/// The content without the line break that editors put at the end.
fn text(content: &SecretString) -> &str {
    content.expose_secret().trim()
}

fn read(content: &SecretString) -> Result<AdminPool, String> {
    let text = text(content);
    if text.is_empty() {
        return Err("the file is empty; it must contain the URL of a PostgreSQL admin".to_owned());
    }
    let url = DatabaseUrl::parse(text).map_err(|error| format!("the file's content {error}"))?;
    AdminPool::new(url).map_err(|problem| format!("the file's content: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_is_a_name_and_a_file() {
        assert_eq!(parse("main=/etc/a=b"), Ok(("main".to_owned(), PathBuf::from("/etc/a=b"))));
        for bad in ["", "main", "main=", "=/x", "Main=/x", "-a=/x", "a-=/x", "a_b=/x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn error_about_a_url_in_the_flag_does_not_quote_it() {
        for flag in
            ["postgres://u:hunter2@h/x", "main=postgres://u:hunter2@h/x", "postgres://u:hunter2@h/x?a=b"]
        {
            let error = Servers::read(&[flag.to_owned()]).unwrap_err().to_string();
            assert!(error.starts_with("--database-server: must be <name>=<file"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
