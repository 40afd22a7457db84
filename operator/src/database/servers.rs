//! The servers that managed databases are made on, as `--database-server` names them.

use std::path::{Path, PathBuf};

use docket_crds::DatabaseUrl;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::DatabaseError;
use super::admin::Admin;

const FLAG: &str = "--database-server";
/// The servers, by name.
#[derive(Debug, Default)]
pub struct Servers {
    servers: Vec<Server>,
}

/// A `--database-server` that can't be used. The message names the flag and the file, never what is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{FLAG}{flag}: {problem}")]
pub struct InvalidServer {
    /// ` <name>=<file>`; empty where it is neither, and may be a URL with a password.
    flag: String,
    problem: String,
}

/// One server. The file is read again for each use, so that a new admin password is taken up.
pub(super) struct Server {
    name: String,
    file: PathBuf,
    /// Of the file's last good content.
    admin: Mutex<Admin>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.name).field("file", &self.file).finish_non_exhaustive()
    }
}

impl Servers {
    /// Reads flags of the form `<name>=<file with an admin URL>`, and the files. Blocks for the files.
    pub fn read(flags: &[String]) -> Result<Self, InvalidServer> {
        let mut servers: Vec<Server> = Vec::new();
        for flag in flags {
            let (name, file) =
                parse(flag).map_err(|problem| InvalidServer { flag: String::new(), problem })?;
            let invalid = |problem: String| InvalidServer { flag: format!(" {flag}"), problem };
            if servers.iter().any(|server| server.name == name) {
                return Err(invalid(format!("there is another server named {name:?}")));
            }
            let content = std::fs::read_to_string(&file).map(SecretString::from);
            let content = content.map_err(|error| invalid(format!("the file can't be read: {error}")))?;
            let admin = read(&content).map_err(invalid)?;
            servers.push(Server { name, file, admin: Mutex::new(admin) });
        }
        Ok(Self { servers })
    }

    /// Their names, in the order of the flags.
    pub fn names(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.name.clone()).collect()
    }

    /// Changes with the server that a Tenant means, also when another one has its name. It tells nothing of the URL.
    pub async fn mark(&self, wanted: Option<&str>) -> Option<String> {
        let server = self.choose(wanted).ok()?;
        let admin = server.admin().await.ok()?;
        Some(hex::encode(&Sha256::digest(admin.url().expose())[..16]))
    }

    /// The server that a Tenant means; the first one if it names none.
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

    /// The admin by what the file says now; by what it said last when it can't be read.
    pub(super) async fn admin(&self) -> Result<Admin, DatabaseError> {
        let content = tokio::fs::read_to_string(&self.file).await.map(SecretString::from);
        let mut admin = self.admin.lock().await;
        let renewed = match content {
            Ok(content) if text(&content) == admin.url().expose() => return Ok(admin.clone()),
            Ok(content) => read(&content),
            Err(error) => Err(format!("the file can't be read: {error}")),
        };
        match renewed {
            Ok(renewed) => *admin = renewed,
            Err(problem) => {
                let file = self.file.display();
                tracing::warn!(
                    server = self.name,
                    "{FLAG} {}={file}: {problem}; the URL before is in use",
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
        return Err(format!("{form}, not the URL itself: everybody on the machine can read arguments"));
    }
    Ok((name.to_owned(), Path::new(file).to_owned()))
}

/// Files end with a line break, as editors leave it.
fn text(content: &SecretString) -> &str {
    content.expose_secret().trim()
}

fn read(content: &SecretString) -> Result<Admin, String> {
    let text = text(content);
    if text.is_empty() {
        return Err("the file is empty; it must have the URL of a PostgreSQL admin".to_owned());
    }
    let url = DatabaseUrl::parse(text).map_err(|error| format!("the file's content {error}"))?;
    Admin::new(url).map_err(|problem| format!("the file's content: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_a_name_and_a_file() {
        assert_eq!(parse("main=/etc/a=b"), Ok(("main".to_owned(), PathBuf::from("/etc/a=b"))));
        for bad in ["", "main", "main=", "=/x", "Main=/x", "-a=/x", "a-=/x", "a_b=/x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_in_the_flag_is_not_repeated() {
        for flag in
            ["postgres://u:hunter2@h/x", "main=postgres://u:hunter2@h/x", "postgres://u:hunter2@h/x?a=b"]
        {
            let error = Servers::read(&[flag.to_owned()]).unwrap_err().to_string();
            assert!(error.starts_with("--database-server: must be <name>=<file"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
