//! The folder of the portal in `docket dev`, beside the given documents: a file for each webhook.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use docket_source::PORTAL_FOLDER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Declared, Found, NotWritten};

const FIRST_LINE: &str = "# Written by the portal of docket dev, which also changes and removes it.\n";

/// The folder.
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

    /// Finds what declares a webhook.
    pub(super) fn find(&self, namespace: &str, name: &str) -> io::Result<Found> {
        let Some(text) = self.read(namespace, name)? else {
            return Ok(Found::Other { place: "a file of the configuration folder".to_owned(), object: None });
        };
        // Only the portal's own: JSON, which is YAML, below its line.
        let object = text.strip_prefix(FIRST_LINE).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let declared = object.as_ref().and_then(|object| Declared::of_spec(namespace, name, &object["spec"]));
        Ok(match declared.filter(|declared| text_of(declared) == text) {
            Some(declared) => Found::Portal(Box::new(declared), version(&text)),
            None => {
                let place =
                    format!("the file {PORTAL_FOLDER}/{namespace}.{name}.yaml, which was changed by hand");
                Found::Other { place, object: None }
            }
        })
    }

    /// Writes a webhook's file whole: a new one, or in place of the one of this version.
    pub(super) fn write(&self, webhook: &Declared, version: Option<&str>) -> Result<(), NotWritten> {
        let _turn = self.turn.lock();
        self.has(webhook, version)?;
        let Declared { namespace, name, .. } = webhook;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // Hidden, so that the folder is never read with half a file.
        let unfinished = self.folder.join(format!(".{namespace}.{name}.new"));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(text_of(webhook).as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path(namespace, name))?;
        Ok(())
    }

    /// Removes the file of this version.
    pub(super) fn remove(&self, webhook: &Declared, version: &str) -> Result<(), NotWritten> {
        let _turn = self.turn.lock();
        self.has(webhook, Some(version))?;
        Ok(fs::remove_file(self.path(&webhook.namespace, &webhook.name))?)
    }

    fn has(&self, webhook: &Declared, expected: Option<&str>) -> Result<(), NotWritten> {
        let text = self.read(&webhook.namespace, &webhook.name)?;
        let is_so = text.map(|text| version(&text)).as_deref() == expected;
        if is_so { Ok(()) } else { Err(NotWritten::Changed) }
    }

    fn read(&self, namespace: &str, name: &str) -> io::Result<Option<String>> {
        match fs::read(self.path(namespace, name)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Names of objects have no slashes, and names of a tenant's own webhooks come from its configuration.
    fn path(&self, namespace: &str, name: &str) -> PathBuf {
        self.folder.join(format!("{namespace}.{name}.yaml"))
    }
}

fn text_of(webhook: &Declared) -> String {
    format!("{FIRST_LINE}{:#}\n", webhook.object())
}

fn version(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..16])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn declared() -> Declared {
        let spec = json!({
            "tenantRef": {"name": "acme"},
            "displayName": "Orders: \"quoted\"\n---\nkind: Tenant",
            "customerCode": "C-1",
            "targetURL": "https://h.example/",
            "events": ["order.created"],
            "generateSecret": {}
        });
        Declared::of_spec("default", "orders-1", &spec).expect("the portal's")
    }

    #[test]
    fn rules_of_the_kind_hold() {
        let mut good = declared();
        good.spec.display_name = None;
        assert_eq!(good.violations(), []);
        let mut plain = declared();
        plain.spec.target_url = "http://h.example/".to_owned();
        plain.spec.events.clear();
        let fields: Vec<String> = plain.violations().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["spec.targetURL", "spec.events"]);
    }

    #[test]
    fn text_of_a_form_stays_text() {
        let text = text_of(&declared());
        let webhook: Value =
            serde_json::from_str(text.strip_prefix(FIRST_LINE).expect("its line")).expect("JSON");
        assert_eq!(webhook["kind"], "Webhook");
        assert_eq!(webhook["spec"]["displayName"], "Orders: \"quoted\"\n---\nkind: Tenant");
    }

    #[test]
    fn what_the_portal_does_not_declare_is_not_its_own() {
        let good = declared().object()["spec"].clone();
        assert!(Declared::of_spec("a", "b", &good).is_some());
        for (field, value) in [
            ("secretRef", json!({"name": "s"})),
            ("caBundleRef", json!({"kind": "Secret", "name": "s"})),
            ("tenantRef", json!({"name": "acme", "namespace": "other"})),
            ("generateSecret", Value::Null),
        ] {
            let mut spec = good.clone();
            spec[field] = value;
            assert_eq!(Declared::of_spec("a", "b", &spec), None, "{field}");
        }
    }

    #[test]
    fn file_is_changed_only_by_who_has_its_version_and_read_only_by_its_owner() {
        let folder = std::env::temp_dir().join(format!("docket-portal-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let documents = Documents::beside(&folder);
        let found = || match documents.find("default", "orders-1").expect("readable") {
            Found::Portal(webhook, version) => Some((*webhook, version)),
            Found::Other { .. } => None,
        };
        assert_eq!(found(), None);
        documents.write(&declared(), None).expect("written");
        let (read, first) = found().expect("it is there");
        assert_eq!(read, declared());
        let mode = |path: PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let file = documents.path("default", "orders-1");
        assert_eq!(mode(file.clone()), 0o600);
        assert_eq!(mode(documents.folder.clone()), 0o700);
        assert!(matches!(documents.write(&declared(), None), Err(NotWritten::Changed)));
        let mut next = declared();
        next.secret().next = true;
        documents.write(&next, Some(&first)).expect("written");
        assert!(matches!(documents.write(&declared(), Some(&first)), Err(NotWritten::Changed)));
        assert!(matches!(documents.remove(&next, &first), Err(NotWritten::Changed)));
        let text = fs::read_to_string(&file).expect("it is there");
        fs::write(&file, format!("{text}# by hand\n")).expect("writable");
        assert_eq!(found(), None, "whose comment would be lost");
        fs::write(&file, text).expect("writable");
        documents.remove(&next, &found().expect("it is there").1).expect("removed");
        assert_eq!(found(), None);
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
