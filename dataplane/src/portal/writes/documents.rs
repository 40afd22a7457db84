//! The folder of the portal in `docket dev`, beside the given documents: a file for each webhook.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use docket_crds::SecretBytes;
use docket_source::{PORTAL_FOLDER, webhook_document};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Declared, DeclaredBy, GivenSecret, NotWritten, StoredWebhook};

/// JSON has no such line.
const BETWEEN: &str = "---\n";
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
    pub(super) fn find(&self, namespace: &str, name: &str) -> io::Result<DeclaredBy> {
        let own = self.read(namespace, name)?;
        if let Some(text) = &own {
            let declared = declared_in(text, namespace, name).filter(|declared| text_of(declared) == *text);
            if let Some(declared) = declared {
                let stored = StoredWebhook { declared, version: version(text), object: None };
                return Ok(DeclaredBy::Portal(Box::new(stored)));
            }
        }
        let (path, object) = webhook_document(self.config_dir(), namespace, name).unzip();
        let of_folder = |path: PathBuf| path.strip_prefix(self.config_dir()).map(Path::to_owned).ok();
        let place = match path.and_then(of_folder) {
            Some(path) => format!("the file {} of the configuration folder", path.display()),
            None => "a file of the configuration folder".to_owned(),
        };
        let by_hand = if own.is_some() { ", which was changed by hand" } else { "" };
        Ok(DeclaredBy::Other { place: place + by_hand, object })
    }

    fn config_dir(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
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

    /// Checks that the file is in the expected version. A file has no conditional write, so this reads it again under the lock.
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

    /// Names of objects have no slashes; a name that is not served is checked before.
    fn path(&self, namespace: &str, name: &str) -> PathBuf {
        self.folder.join(format!("{namespace}.{name}.yaml"))
    }
}

/// JSON, which is YAML, below the portal's line: the Webhook, and the Secret that was given.
fn text_of(webhook: &Declared) -> String {
    let mut text = format!("{FIRST_LINE}{:#}\n", webhook.object());
    if let (Some(GivenSecret { current, next }), Some(reference)) = (&webhook.given, &webhook.spec.secret_ref)
    {
        let value = |secret: &SecretBytes| String::from_utf8_lossy(secret.expose()).into_owned();
        let mut values = json!({"secret": value(current)});
        if let Some(next) = next {
            values["next"] = value(next).into();
        }
        let metadata = json!({"name": reference.name, "namespace": webhook.namespace});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values});
        text += &format!("{BETWEEN}{secret:#}\n");
    }
    text
}

fn declared_in(text: &str, namespace: &str, name: &str) -> Option<Declared> {
    let text = text.strip_prefix(FIRST_LINE)?;
    let (webhook, secret) = match text.split_once(BETWEEN) {
        Some((webhook, secret)) => (webhook, Some(serde_json::from_str::<Value>(secret).ok()?)),
        None => (text, None),
    };
    let webhook: Value = serde_json::from_str(webhook).ok()?;
    let given = secret.map(|secret| {
        let value =
            |key: &str| Some(SecretBytes::from(secret["stringData"][key].as_str()?.as_bytes().to_vec()));
        Some(GivenSecret { current: value("secret")?, next: value("next") })
    });
    match given {
        None => Declared::of_spec(namespace, name, &webhook["spec"], None),
        Some(given) => Declared::of_spec(namespace, name, &webhook["spec"], Some(given?)),
    }
}

fn version(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..16])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
        Declared::of_spec("default", "orders-1", &spec, None).expect("the portal's")
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
    fn given_secret_is_kept_in_the_file() {
        let mut given = declared();
        given.give("a secret of my own\n---\n".to_owned());
        assert_eq!(
            given.spec.secret_ref.as_ref().map(|reference| &*reference.name),
            Some("orders-1-signing")
        );
        let read = |webhook: &Declared| declared_in(&text_of(webhook), "default", "orders-1");
        assert_eq!(read(&given).as_ref(), Some(&given));
        let next = SecretBytes::from(b"another".to_vec());
        given.make_next(next.clone());
        assert!(given.has_next() && read(&given).as_ref() == Some(&given));
        given.promote_next();
        assert!(!given.has_next());
        assert_eq!(read(&given).and_then(|read| read.given).map(|given| given.current), Some(next));
    }

    #[test]
    fn what_the_portal_does_not_declare_is_not_its_own() {
        let good = declared().object()["spec"].clone();
        assert!(Declared::of_spec("a", "b", &good, None).is_some());
        for (field, value) in [
            ("secretRef", json!({"name": "s"})),
            ("caBundleRef", json!({"kind": "Secret", "name": "s"})),
            ("tenantRef", json!({"name": "acme", "namespace": "other"})),
            ("generateSecret", Value::Null),
        ] {
            let mut spec = good.clone();
            spec[field] = value;
            assert_eq!(Declared::of_spec("a", "b", &spec, None), None, "{field}");
        }
    }

    #[test]
    fn file_is_changed_only_by_who_has_its_version_and_read_only_by_its_owner() {
        let folder = std::env::temp_dir().join(format!("docket-portal-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let documents = Documents::beside(&folder);
        let found = || match documents.find("default", "orders-1").expect("readable") {
            DeclaredBy::Portal(stored) => {
                let StoredWebhook { declared, version, .. } = *stored;
                Some((declared, version))
            }
            DeclaredBy::Other { .. } => None,
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
        next.make_next(Vec::new().into());
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
