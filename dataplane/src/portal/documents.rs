//! Webhooks that the portal of `docket dev` declares: a file each, in a folder of its own beside the given documents.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use docket_crds::{API_VERSION, EventCode, Violation, Webhook};
use docket_source::PORTAL_FOLDER;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A webhook as the portal declares it.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The namespace of the webhook and of its tenant.
    pub namespace: String,
    /// The webhook's name.
    pub name: String,
    /// The tenant's name.
    pub tenant: String,
    /// A name for people.
    pub display_name: Option<String>,
    /// The customer whose events are sent.
    pub customer_code: String,
    /// The receiver.
    pub target_url: String,
    /// The events that it subscribes to.
    pub events: Vec<EventCode>,
    /// Whether new events are sent.
    pub active: bool,
    /// The secret that signs deliveries.
    pub secret: Option<SecretString>,
    /// The one that signs beside it.
    pub next_secret: Option<SecretString>,
}

impl Declared {
    /// The Webhook object.
    pub fn webhook(&self) -> Value {
        let mut spec = json!({
            "tenantRef": {"name": self.tenant},
            "customerCode": self.customer_code,
            "targetURL": self.target_url,
            "events": self.events,
            "active": self.active,
        });
        if let Some(name) = &self.display_name {
            spec["displayName"] = json!(name);
        }
        if self.secret.is_some() {
            spec["secretRef"] = json!({"name": self.secret_name(), "nextKey": "next"});
        }
        let metadata = json!({"name": self.name, "namespace": self.namespace});
        json!({"apiVersion": API_VERSION, "kind": "Webhook", "metadata": metadata, "spec": spec})
    }

    /// What is wrong with it, by the rules of the kind.
    pub fn violations(&self) -> Vec<Violation> {
        Webhook::from_json(self.webhook()).err().unwrap_or_default()
    }

    fn secret_name(&self) -> String {
        format!("{}-signing", self.name)
    }

    /// The text of its file. JSON is YAML.
    fn text(&self) -> String {
        let mut text =
            "# Written by the portal of docket dev, which also changes and removes it.\n".to_owned();
        text += &format!("{:#}\n", self.webhook());
        if let Some(secret) = &self.secret {
            let mut values = json!({"secret": secret.expose_secret()});
            if let Some(next) = &self.next_secret {
                values["next"] = json!(next.expose_secret());
            }
            let metadata = json!({"name": self.secret_name(), "namespace": self.namespace});
            let secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values});
            text += &format!("---\n{secret:#}\n");
        }
        text
    }
}

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// It is not what the form was made from.
    #[error("it was changed meanwhile")]
    Changed,
    /// The system's reason.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The folder of the portal.
#[derive(Debug)]
pub struct Documents {
    folder: PathBuf,
    /// One change at a time.
    turn: parking_lot::Mutex<()>,
}

impl Documents {
    /// Beside the documents of this folder.
    pub fn beside(config_dir: &Path) -> Self {
        Self { folder: config_dir.join(PORTAL_FOLDER), turn: parking_lot::Mutex::default() }
    }

    /// The version of a webhook's file; `None`: the portal has not declared it.
    pub fn version(&self, namespace: &str, name: &str) -> io::Result<Option<String>> {
        match fs::read(self.path(namespace, name)) {
            Ok(bytes) => Ok(Some(hex::encode(&Sha256::digest(bytes)[..16]))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a webhook's file whole: a new one, or in place of the one of this version.
    pub fn write(&self, webhook: &Declared, version: Option<&str>) -> Result<(), NotWritten> {
        let _turn = self.turn.lock();
        let Declared { namespace, name, .. } = webhook;
        if self.version(namespace, name)?.as_deref() != version {
            return Err(NotWritten::Changed);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // Hidden, so that the folder is never read with half a file.
        let unfinished = self.folder.join(format!(".{namespace}.{name}.new"));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(webhook.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path(namespace, name))?;
        Ok(())
    }

    /// Removes the file of this version.
    pub fn remove(&self, namespace: &str, name: &str, version: &str) -> Result<(), NotWritten> {
        let _turn = self.turn.lock();
        if self.version(namespace, name)?.as_deref() != Some(version) {
            return Err(NotWritten::Changed);
        }
        Ok(fs::remove_file(self.path(namespace, name))?)
    }

    /// Names of objects have no slashes, and names of a tenant's own webhooks come from its configuration.
    fn path(&self, namespace: &str, name: &str) -> PathBuf {
        self.folder.join(format!("{namespace}.{name}.yaml"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn declared() -> Declared {
        Declared {
            namespace: "default".into(),
            name: "orders-1".into(),
            tenant: "acme".into(),
            display_name: Some("Orders: \"quoted\"\n---\nkind: Tenant".into()),
            customer_code: "C-1".into(),
            target_url: "https://h.example/".into(),
            events: vec![EventCode::OrderCreated],
            active: true,
            secret: Some("s3cret".to_owned().into()),
            next_secret: None,
        }
    }

    #[test]
    fn rules_of_the_kind_hold() {
        assert_eq!(Declared { display_name: None, ..declared() }.violations(), []);
        let plain = Declared { target_url: "http://h.example/".into(), events: vec![], ..declared() };
        let fields: Vec<String> = plain.violations().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["spec.targetURL", "spec.events"]);
    }

    #[test]
    fn text_of_a_form_stays_text() {
        let documents: Vec<String> = declared().text().split("\n---\n").map(str::to_owned).collect();
        assert_eq!(documents.len(), 2);
        let webhook: Value =
            serde_json::from_str(documents[0].split_once('\n').expect("a comment").1).expect("JSON");
        assert_eq!(webhook["kind"], "Webhook");
        assert_eq!(webhook["spec"]["displayName"], "Orders: \"quoted\"\n---\nkind: Tenant");
    }

    #[test]
    fn file_is_changed_only_by_who_has_its_version_and_read_only_by_its_owner() {
        let folder = std::env::temp_dir().join(format!("docket-portal-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let documents = Documents::beside(&folder);
        let version = || documents.version("default", "orders-1").expect("readable");
        assert_eq!(version(), None);
        documents.write(&declared(), None).expect("written");
        let first = version().expect("it is there");
        let mode = |path: PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(documents.path("default", "orders-1")), 0o600);
        assert_eq!(mode(documents.folder.clone()), 0o700);
        assert!(matches!(documents.write(&declared(), None), Err(NotWritten::Changed)));
        let next = Declared { next_secret: Some("n3xt".to_owned().into()), ..declared() };
        documents.write(&next, Some(&first)).expect("written");
        assert!(matches!(documents.write(&declared(), Some(&first)), Err(NotWritten::Changed)));
        assert!(matches!(documents.remove("default", "orders-1", &first), Err(NotWritten::Changed)));
        documents.remove("default", "orders-1", &version().expect("it is there")).expect("removed");
        assert_eq!(version(), None);
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
