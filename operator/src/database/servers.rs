//! The servers for managed databases, by `--database-server`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use docket_crds::DatabaseUrl;
use docket_crds::database_secret::{self, Beside};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::time::Instant;

use super::error::DatabaseError;
use super::pool::{AdminPool, Pooler};

const FLAG: &str = "--database-server";

/// The servers, by name.
#[derive(Debug, Default)]
pub struct Servers {
    servers: Vec<Server>,
    /// Woken when a server is back that was away.
    back: Notify,
}

/// A `--database-server` that can't be used. The message names the flag and the file, but never a file's content.
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
    place: AdminPlace,
    /// The pool for the last usable content.
    admin: Mutex<AdminPool>,
    watcher: Mutex<KnownWatcher>,
    /// Whether it did not respond to its administrator in the last pass over one of its Tenants.
    is_away: AtomicBool,
}

/// Where the administrator's login is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AdminPlace {
    /// A file with a URL, or a folder with a file for each key of a Secret.
    path: PathBuf,
    /// The settings that the flag has beside the folder.
    beside: Beside,
    pooler: Option<Pooler>,
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
        f.debug_struct("Server").field("name", &self.name).field("place", &self.place).finish_non_exhaustive()
    }
}

impl Servers {
    /// Reads flags of the form `<name>=<file with an admin URL>[;pooler=<host>:<port>]`, or with a folder of a Secret's
    /// keys instead of the file; and the files. Blocks while it reads.
    pub fn read(flags: &[String]) -> Result<Self, InvalidServer> {
        let mut servers: Vec<Server> = Vec::new();
        for flag in flags {
            let (name, place) =
                parse(flag).map_err(|problem| InvalidServer { flag: String::new(), problem })?;
            let invalid = |problem: String| InvalidServer { flag: format!(" {flag}"), problem };
            if servers.iter().any(|server| server.name == name) {
                return Err(invalid(format!("another server has the name {name:?}")));
            }
            let admin = place.read().and_then(|url| place.pool(url)).map_err(invalid)?;
            let (admin, watcher, is_away) = (Mutex::new(admin), Mutex::default(), AtomicBool::new(false));
            servers.push(Server { name, place, admin, watcher, is_away });
        }
        Ok(Self { servers, back: Notify::new() })
    }

    /// The names of the servers, in the order of the flags.
    pub fn names(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.name.clone()).collect()
    }

    /// A digest of the URL of the server that a Tenant uses, and of its pooler. It changes with them and reveals no part
    /// of them.
    pub async fn mark(&self, wanted: Option<&str>) -> Option<String> {
        let server = self.choose(wanted).ok()?;
        let admin = server.admin().await.ok()?;
        let url = admin.url().expose();
        let digest = match admin.pooler() {
            None => Sha256::digest(url),
            Some(Pooler { host, port }) => Sha256::digest(format!("{url}|{host}:{port}")),
        };
        Some(hex::encode(&digest[..16]))
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

    /// The pool for the current content of the file or folder, or for the last usable content if the current one is not
    /// usable.
    pub(super) async fn admin(&self) -> Result<AdminPool, DatabaseError> {
        let place = self.place.clone();
        let url = tokio::task::spawn_blocking(move || place.read()).await;
        let url = url.unwrap_or_else(|_| Err("reading it was interrupted".to_owned()));
        let mut admin = self.admin.lock().await;
        let renewed = match url {
            Ok(url) if url == *admin.url() => return Ok(admin.clone()),
            other => other.and_then(|url| self.place.pool(url)),
        };
        match renewed {
            Ok(renewed) => *admin = renewed,
            Err(problem) => {
                let place = self.place.path.display();
                tracing::warn!(
                    server = self.name,
                    "{FLAG} {}={place}: {problem}; using the last good URL",
                    self.name
                );
            }
        }
        Ok(admin.clone())
    }
}

impl AdminPlace {
    /// Reads the URL. Errors: what is wrong, without the content.
    fn read(&self) -> Result<DatabaseUrl, String> {
        if self.path.is_dir() {
            let value = |key: &'static str| std::fs::read(self.path.join(key)).ok();
            return database_secret::url(&value, &self.beside)
                .map_err(|error| format!("the Secret with the keys in this folder: {error}"));
        }
        if self.beside != Beside::default() {
            return Err(
                "host, port, dbname, sslmode and sslrootcert need a folder with the keys of a Secret, \
                        which does not exist; the URL in a file contains them"
                    .to_owned(),
            );
        }
        let content = std::fs::read_to_string(&self.path).map(SecretString::from);
        let content = content.map_err(|error| format!("read the file: {error}"))?;
        match text(&content) {
            "" => Err("the file is empty; it must contain the URL of a PostgreSQL admin".to_owned()),
            text => DatabaseUrl::parse(text).map_err(|error| format!("the file's content {error}")),
        }
    }

    fn pool(&self, url: DatabaseUrl) -> Result<AdminPool, String> {
        AdminPool::new(url, self.pooler.clone()).map_err(|problem| format!("the file's content: {problem}"))
    }
}

const FORM: &str = "must be <name>=<file with an admin URL>, or <name>=<folder with the keys of a Secret>; after it \
                    settings may follow, each as ;<setting>=<value>";

fn parse(flag: &str) -> Result<(String, AdminPlace), String> {
    let (name, rest) = flag.split_once('=').ok_or(FORM)?;
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_label = name.len() <= 63
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && edge(name.as_bytes().first())
        && edge(name.as_bytes().last());
    if !is_label {
        return Err(format!(
            "{FORM}; the name has up to 63 lower-case letters, digits and \"-\", and begins and ends with a letter or \
             digit"
        ));
    }
    if rest.contains("://") {
        return Err(format!("{FORM}, not the URL itself: every user of the machine can read arguments"));
    }
    let mut parts = rest.split(';');
    let path = parts.next().filter(|path| !path.is_empty()).ok_or(FORM)?;
    let mut place = AdminPlace { path: path.into(), beside: Beside::default(), pooler: None };
    for setting in parts {
        let (key, value) = setting.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or(FORM)?;
        match key {
            "host" => place.beside.host = Some(value.to_owned()),
            "port" => place.beside.port = Some(port(value)?),
            "dbname" => place.beside.dbname = Some(value.to_owned()),
            "sslmode" if database_secret::SSL_MODES.contains(&value) => {
                place.beside.ssl_mode = Some(value.to_owned());
            }
            "sslmode" => {
                return Err(format!("sslmode must be one of {}", database_secret::SSL_MODES.join(", ")));
            }
            "sslrootcert" => place.beside.ssl_root_cert = Some(value.to_owned()),
            "pooler" => place.pooler = Some(pooler(value)?),
            _ => {
                return Err(format!(
                    "{FORM}; the settings are host, port, dbname, sslmode, sslrootcert and pooler"
                ));
            }
        }
    }
    Ok((name.to_owned(), place))
}

fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port: &u16| *port > 0);
    port.ok_or_else(|| "port must be a number from 1 to 65535".to_owned())
}

/// The address of a pooler, as `host` or `host:port`, with an IPv6 address in brackets.
fn pooler(text: &str) -> Result<Pooler, String> {
    let url = url::Url::parse(&format!("postgres://{text}")).ok();
    let is_plain = |url: &url::Url| {
        matches!(url.path(), "" | "/")
            && url.username().is_empty()
            && url.query().is_none()
            && url.fragment().is_none()
    };
    let host = url.as_ref().filter(|url| is_plain(url)).and_then(url::Url::host_str);
    let host = host.filter(|host| !host.is_empty());
    let host = host.ok_or("pooler must be the host and port of a pooler, such as pooler.example.com:6432")?;
    let port = url.as_ref().and_then(url::Url::port).unwrap_or(5432);
    Ok(Pooler { host: host.to_owned(), port })
}

/// The content without the line break that editors put at the end.
fn text(content: &SecretString) -> &str {
    content.expose_secret().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_is_a_name_and_a_file() {
        let place = AdminPlace { path: "/etc/a=b".into(), beside: Beside::default(), pooler: None };
        assert_eq!(parse("main=/etc/a=b"), Ok(("main".to_owned(), place)));
        for bad in ["", "main", "main=", "=/x", "Main=/x", "-a=/x", "a-=/x", "a_b=/x", "main=;host=db"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_follow_the_folder() {
        let flag = "main=/etc/x;host=db;port=5433;dbname=docket;sslmode=verify-full;sslrootcert=system;pooler=pool:6432";
        let (_, place) = parse(flag).unwrap();
        let beside = Beside {
            host: Some("db".to_owned()),
            port: Some(5433),
            dbname: Some("docket".to_owned()),
            ssl_mode: Some("verify-full".to_owned()),
            ssl_root_cert: Some("system".to_owned()),
            is_pooled: false,
        };
        let pooler = |host: &str, port| Some(Pooler { host: host.to_owned(), port });
        assert_eq!(place, AdminPlace { path: "/etc/x".into(), beside, pooler: pooler("pool", 6432) });
        assert_eq!(parse("main=/x;pooler=[2a00::1]").unwrap().1.pooler, pooler("[2a00::1]", 5432));
        for (setting, expected) in [
            ("port=0", "port must be a number"),
            ("sslmode=on", "sslmode must be one of disable, prefer"),
            ("pooler=a/b", "pooler must be the host"),
            ("pooler=u@a", "pooler must be the host"),
            ("pooler=a:b", "pooler must be the host"),
            ("host=", "must be <name>="),
            ("user=x", "the settings are host, port, dbname"),
        ] {
            let error = parse(&format!("main=/x;{setting}")).unwrap_err();
            assert!(error.contains(expected), "{setting}: {error}");
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
