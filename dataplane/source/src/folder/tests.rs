use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use docket_crds::ApiKeyDigest;
use docket_program::clock::ManualClock;

use super::*;
use crate::declaration::DeclaredTenant;

const KEY: &str = "00112233445566778899aabbccddeeff";

/// A new folder with a data folder beside it; both are removed when it is dropped.
struct Case {
    root: PathBuf,
    folder: Folder,
    clock: ManualClock,
}

/// The grace of removed webhooks.
const GRACE: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Case {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("docket-folder-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(root.join("config")).unwrap();
        let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
        let folder = Self::folder(&root, &clock);
        Self { root, folder, clock }
    }

    /// The folder as a process that delivers reads it.
    fn folder(root: &Path, clock: &ManualClock) -> Folder {
        let folder = Folder::new(root.join("config"), root.join("data"));
        folder.with_webhook_grace(GRACE).with_clock(Clock::Manual(clock.clone()))
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let case = Self::new();
        for (name, text) in files {
            case.write(name, text);
        }
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join("config").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn keys(&self, code: &str) -> PathBuf {
        self.root.join("data/tenants").join(code).join("keys.json")
    }

    fn load(&mut self) -> Declaration {
        self.folder.load(&mut random()).unwrap()
    }

    /// The texts of the problems, without the path of the temporary folder.
    fn texts(&self, loaded: &Declaration) -> Vec<String> {
        let root = format!("{}/", self.root.display());
        loaded.problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
    }

    /// Simulates a restart: another process reads the same folders.
    fn restart(&mut self) {
        self.folder = Self::folder(&self.root, &self.clock);
    }

    /// Whether the folder sees a change after the files have stayed the same for one call.
    fn changed(&mut self) -> bool {
        let _first_sight = self.folder.changed();
        self.folder.changed()
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A source of bytes that never repeats a value.
fn random() -> impl FnMut(&mut [u8]) {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    |bytes: &mut [u8]| {
        for chunk in bytes.chunks_mut(4) {
            let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B1).to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

fn tenant(name: &str, spec: &str) -> String {
    let code = name.to_uppercase();
    format!(
        "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\n\
         spec: {{clientCode: {code}, database: {{managed: {{name: {name}}}}}, {spec}}}\n---\n"
    )
}

fn webhook(name: &str, tenant: &str, spec: &str) -> String {
    format!(
        "apiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {{name: {name}}}\n\
         spec: {{tenantRef: {{name: {tenant}}}, customerCode: C-1, events: [order.created], {spec}}}\n---\n"
    )
}

const URL: &str = "targetURL: 'https://hooks.example/'";
const BAD_URL: &str = "targetURL: 'http://hooks.example/'";

fn secret(name: &str, fields: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n{fields}\n---\n")
}

#[track_caller]
fn of<'a>(loaded: &'a Declaration, name: &str) -> &'a DeclaredTenant {
    loaded.tenants.iter().find(|tenant| tenant.runtime.config.name == name).expect(name)
}

fn names(loaded: &Declaration) -> Vec<&str> {
    loaded.tenants.iter().map(|tenant| tenant.runtime.config.name.as_str()).collect()
}

fn webhooks(tenant: &DeclaredTenant) -> Vec<&str> {
    tenant.runtime.config.webhooks.iter().map(|webhook| webhook.name.as_str()).collect()
}

/// Loads one file, and expects exactly these problems.
#[track_caller]
fn refused(text: &str, expected: &[&str]) -> (Case, Declaration) {
    let mut case = Case::with(&[("a.yaml", text)]);
    let loaded = case.load();
    assert_eq!(case.texts(&loaded), expected);
    (case, loaded)
}

#[test]
fn shipped_examples_load_without_problems() {
    let case = Case::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut folder = Folder::new(examples, case.root.join("data"));
    let loaded = folder.load(&mut random()).unwrap();
    assert_eq!(loaded.problems, []);
    assert!(!loaded.incomplete);
    assert_eq!(names(&loaded), ["acme", "globex"]);
    assert_eq!(webhooks(of(&loaded, "acme")), ["acme-orders", "acme-invoices"]);
    assert_eq!(webhooks(of(&loaded, "globex")), ["globex-orders"]);
    for tenant in &loaded.tenants {
        assert_eq!(tenant.runtime.held_webhooks, BTreeSet::new());
        assert_eq!(tenant.api_keys.len(), 1);
        assert!(tenant.runtime.config.webhooks.iter().all(|webhook| webhook.secret.is_some()));
        assert_eq!(ApiKeyDigest::of(&tenant.api_keys[0].1), Ok(tenant.runtime.config.api_keys[0].digest));
    }
}

#[test]
fn load_without_writing_stores_no_keys() {
    let case = Case::with(&[("a.yaml", &tenant("acme", "apiKeys: [{name: primary, generate: {}}]"))]);
    let mut folder = Folder::new(case.root.join("config"), case.root.join("data")).without_writing();
    assert_eq!(names(&folder.load(&mut random()).unwrap()), ["acme"]);
    assert!(!case.root.join("data").exists());
}

#[test]
fn broken_rule_names_file_document_object_and_field() {
    let text = tenant("acme", "") + &webhook("w", "acme", BAD_URL);
    let message = "config/a.yaml, document 2 (Webhook default/w): spec.targetURL: targetURL must be an absolute \
                   https:// URL";
    let (_case, loaded) = refused(&text, &[message]);
    assert_eq!(of(&loaded, "acme").runtime.held_webhooks, ["file:default/w".to_owned()].into());
    let said = "spec.targetURL: targetURL must be an absolute https:// URL".to_owned();
    let faults = [("file:default/w".to_owned(), vec![said])];
    assert_eq!(of(&loaded, "acme").runtime.faults, faults.into(), "the portal shows it");
    let problem = &loaded.problems[0];
    assert_eq!(problem.document, Some(2));
    assert_eq!(problem.object.as_deref(), Some("Webhook default/w"));
    assert_eq!(problem.field.as_deref(), Some("spec.targetURL"));
}

#[test]
fn broken_tenant_does_not_affect_the_others() {
    let text = tenant("acme", "suspend: 1") + &webhook("w", "acme", URL) + &tenant("globex", "");
    let message =
        "config/a.yaml, document 1 (Tenant default/acme): spec.suspend: must be true or false, not a number";
    let (_case, loaded) = refused(&text, &[message]);
    assert_eq!(names(&loaded), ["globex"]);
}

#[test]
fn document_without_kind_or_name_is_reported() {
    let text = "kind: Tenant\nmetadata: {}\n---\nspec: {}\n---\n{apiVersion: docket.dev/v1alpha1, kind: Webhok}\n---\n\
                {apiVersion: apps/v1, kind: Deployment}\n---\n{kind: Secret, metadata: {name: s, namespace: 1}}\n";
    let kinds = "Tenant, Webhook, Secret, ConfigMap";
    let (_case, loaded) = refused(
        text,
        &[
            "config/a.yaml, document 1: metadata.name: is required, and must be a string",
            &format!("config/a.yaml, document 2: kind: is required; one of: {kinds}"),
            &format!("config/a.yaml, document 3: kind: \"Webhok\" is not read here; one of: {kinds}"),
            &format!("config/a.yaml, document 4: kind: \"Deployment\" is not read here; one of: {kinds}"),
            "config/a.yaml, document 5: metadata.namespace: must be a string; put it in quotes",
        ],
    );
    assert!(loaded.incomplete, "any of them could be a webhook that was there before");
    for foreign in ["{apiVersion: apps/v1, kind: Deployment}", "{apiVersion: v1, kind: Namespace}"] {
        let loaded = Case::with(&[("a.yaml", foreign)]).load();
        assert_eq!((loaded.problems.len(), loaded.incomplete), (1, false), "{foreign} could not");
    }
}

#[test]
fn syntax_error_names_line_and_column() {
    let text = tenant("acme", "") + "a:\n  b: hunter2\n c: 1\n";
    let message = "config/a.yaml, document 2: while parsing a block mapping, did not find expected key at line 8, \
                   column 2";
    let (_case, loaded) = refused(&text, &[message]);
    assert_eq!(names(&loaded), Vec::<&str>::new(), "not even the document before it");
    assert!(loaded.incomplete);
}

#[test]
fn unreadable_file_is_reported() {
    let mut case = Case::with(&[("b.yaml", &tenant("acme", ""))]);
    symlink("nowhere", case.path("a.yaml")).unwrap();
    fs::write(case.path("c.yaml"), [0xff]).unwrap();
    case.write("d.yml", &"#".repeat((8 << 20) + 1));
    fs::create_dir(case.path("e.yaml")).unwrap();
    for ignored in [".b.yaml", "b.yaml~", "b.json", "README.md"] {
        case.write(ignored, "nonsense: [");
    }
    let loaded = case.load();
    assert_eq!(
        case.texts(&loaded),
        [
            "config/a.yaml: cannot be read: No such file or directory (os error 2)",
            "config/c.yaml: must be text in UTF-8",
            "config/d.yml: must have at most 8 MiB; split it into several files",
        ]
    );
    assert!(loaded.incomplete);
    assert_eq!(names(&loaded), ["acme"]);
}

#[test]
fn missing_folder_is_an_error_and_reported_once() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    case.load();
    fs::rename(case.root.join("config"), case.root.join("away")).unwrap();
    assert!(case.changed());
    let error = case.folder.load(&mut random()).unwrap_err();
    let expected = format!("the configuration folder {}/config cannot be read", case.root.display());
    assert_eq!(error.to_string(), expected);
    assert!(!case.changed());
    fs::rename(case.root.join("away"), case.root.join("config")).unwrap();
    case.write("a.yaml", "a: [");
    assert!(case.changed());
    assert_eq!(names(&case.load()), ["acme"], "what was good is still known");
}

#[test]
fn first_of_two_documents_of_an_object_wins() {
    let mut case = Case::with(&[
        ("b.yaml", &tenant("acme", "displayName: second")),
        ("a.yaml", &(tenant("globex", "") + &tenant("acme", "displayName: first"))),
    ]);
    let loaded = case.load();
    assert_eq!(
        case.texts(&loaded),
        [
            "config/b.yaml, document 1 (Tenant default/acme): is declared already in config/a.yaml, document 2; remove one \
          of the two"
        ]
    );
    assert_eq!(of(&loaded, "acme").runtime.config.display_name.as_deref(), Some("first"));
}

#[test]
fn second_tenant_of_a_client_code_or_subdomain_is_refused() {
    let text = tenant("acme", "subdomains: [x]")
        + &tenant("globex", "subdomains: [z, x]")
        + &tenant("other", "").replace("OTHER", "acme");
    let used = "is already used by Tenant default/acme; choose another";
    let (_case, loaded) = refused(
        &text,
        &[
            &format!(
                "config/a.yaml, document 2 (Tenant default/globex): spec.subdomains[1]: subdomain \"x\" {used}"
            ),
            &format!(
                "config/a.yaml, document 3 (Tenant default/other): spec.clientCode: clientCode \"acme\" {used}"
            ),
        ],
    );
    assert_eq!(names(&loaded), ["acme"]);
}

#[test]
fn tenant_keeps_its_subdomain_from_an_earlier_one_until_removed() {
    let mut case = Case::with(&[
        ("a.yaml", &tenant("acme", "subdomains: [a]")),
        ("b.yaml", &tenant("globex", "subdomains: [b, c]")),
    ]);
    case.load();
    case.write("a.yaml", &tenant("acme", "subdomains: [a, b], displayName: new"));
    let loaded = case.load();
    let message = "config/a.yaml, document 1 (Tenant default/acme): spec.subdomains[1]: subdomain \"b\" is already used \
                   by Tenant default/globex; choose another";
    assert_eq!(case.texts(&loaded), [message]);
    assert_eq!(of(&loaded, "acme").runtime.config.subdomains, ["a"]);
    assert_eq!(of(&loaded, "globex").runtime.config.subdomains, ["b", "c"]);

    case.write("b.yaml", "a: [");
    assert_eq!(
        of(&case.load(), "acme").runtime.config.subdomains,
        ["a"],
        "an unreadable file keeps its subdomains as well"
    );

    case.write("b.yaml", &tenant("globex", "subdomains: [c, a]"));
    let loaded = case.load();
    assert_eq!(of(&loaded, "acme").runtime.config.subdomains, ["a", "b"]);
    assert_eq!(of(&loaded, "globex").runtime.config.subdomains, ["c"]);
    assert_eq!(loaded.problems.len(), 1);
}

#[test]
fn webhook_of_an_undeclared_tenant_is_reported() {
    let own = "config/a.yaml, document 1 (Webhook default/w): spec.tenantRef: there is no Tenant \"acme\" in \
               namespace \"default\"";
    refused(&webhook("w", "acme", URL), &[own]);
}

#[test]
fn missing_value_is_reported_with_what_to_add() {
    let reference = |spec: &str| webhook("w", "acme", &format!("{URL}, {spec}"));
    let at = "config/a.yaml, document 2 (Webhook default/w): spec";
    let secret_s = secret("s", "stringData: {other: hunter2}");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: z}\n";
    for (spec, more, expected) in [
        (
            "secretRef: {name: s}",
            "",
            ".secretRef: there is no Secret \"s\" in namespace \"default\"; add a document of kind Secret with this name",
        ),
        (
            "secretRef: {name: s}",
            secret_s.as_str(),
            ".secretRef: Secret default/s has no key \"secret\"; add it under stringData",
        ),
        (
            "caBundleRef: {kind: ConfigMap, name: c}",
            "",
            ".caBundleRef: there is no ConfigMap \"c\" in namespace \"default\"; add a document of kind ConfigMap with \
             this name",
        ),
        (
            "caBundleRef: {kind: ConfigMap, name: c}",
            map,
            ".caBundleRef: ConfigMap default/c has no key \"ca.crt\"; add it under data",
        ),
        (
            "caBundleRef: {kind: ConfigMap, name: c, key: x}",
            map,
            ".caBundleRef: key \"x\" of ConfigMap default/c: must contain at least one certificate in PEM form (-----BEGIN \
             CERTIFICATE-----)",
        ),
    ] {
        refused(&(tenant("acme", "") + &reference(spec) + more), &[&format!("{at}{expected}")]);
    }
}

#[test]
fn missing_api_key_degrades_the_tenant() {
    let keys = "apiKeys: [{name: own, secretKeyRef: {name: s, key: k}}, {name: made, generate: {}}, \
                {name: old, generate: {}, version: v1}, {name: idle, generate: {}, active: false}]";
    let message = "config/a.yaml, document 1 (Tenant default/acme): spec.apiKeys[0].secretKeyRef: there is no Secret \
                   \"s\" in namespace \"default\"; add a document of kind Secret with this name";
    let (mut case, loaded) = refused(&tenant("acme", keys), &[message]);
    let printed: Vec<_> = of(&loaded, "acme").api_keys.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(printed, ["made"], "only keys that work are printed");
    case.write("b.yaml", &secret("s", &format!("stringData: {{k: '{KEY}'}}")));
    let loaded = case.load();
    assert_eq!(loaded.problems, []);
    assert_eq!(of(&loaded, "acme").runtime.config.api_keys[0].digest, ApiKeyDigest::of(KEY).unwrap());
    assert_eq!(of(&loaded, "acme").api_keys.len(), 1, "a key from a Secret is not printed");
}

#[test]
fn secret_is_read_as_in_a_cluster() {
    let text = tenant("acme", "")
        + &webhook("plain", "acme", &format!("{URL}, secretRef: {{name: s, key: p}}"))
        + &webhook("encoded", "acme", &format!("{URL}, secretRef: {{name: s, key: e}}"))
        + &webhook("both", "acme", &format!("{URL}, secretRef: {{name: s, key: b}}"))
        + &secret(
            "s",
            "type: Opaque\ndata: {e: \"aHVu\\ndGVyMg==\", b: b2xk}\nstringData: {p: plain, b: new}",
        );
    let (_case, loaded) = refused(&text, &[]);
    let found = of(&loaded, "acme").runtime.config.webhooks.iter();
    let found: Vec<_> = found.map(|webhook| webhook.secret.as_ref().unwrap().expose()).collect();
    assert_eq!(found, [&b"plain"[..], b"hunter2", b"new"]);
}

#[test]
fn broken_secret_and_config_map_are_reported() {
    let at = "config/a.yaml, document 1 (Secret default/s):";
    for (fields, expected) in [
        ("data: {k: hunter2}", "data.k: must be base64; plain text goes under stringData"),
        ("stringData: {k: 12345}", "stringData.k: must be a string; put it in quotes"),
        ("stringData: hunter2", "stringData: must be an object of keys and strings"),
        (
            "stringdata: {k: hunter2}",
            "stringdata: unknown field; one of: apiVersion, kind, metadata, type, immutable, stringData, data",
        ),
    ] {
        refused(&secret("s", fields), &[&format!("{at} {expected}")]);
    }
    let text = "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: c}\nbinaryData: {k: '?'}\n";
    let at = "config/a.yaml, document 1 (ConfigMap default/c):";
    let wrong = "must be base64; plain text goes under data";
    refused(text, &[&format!("{at} apiVersion: must be v1"), &format!("{at} binaryData.k: {wrong}")]);
}

#[test]
fn broken_edit_keeps_the_last_good_webhook() {
    let good = tenant("acme", "") + &webhook("w", "acme", URL);
    let mut case = Case::with(&[("a.yaml", &good)]);
    case.load();
    for broken in [
        tenant("acme", "") + &webhook("w", "acme", BAD_URL),
        tenant("acme", "") + &webhook("w", "acme", "targetURL: [1]"),
        tenant("acme", "") + &webhook("w", "acme", URL).replace("C-1", "C-2"),
        tenant("acme", "") + &webhook("w", "acme", &format!("{URL}, secretRef: {{name: s}}")),
        tenant("acme", "") + &webhook("w", "acme", URL).replace("kind: Webhook", "kind: Webhok"),
        tenant("acme", "") + &webhook("w", "acme", URL).replace("metadata:", "meta:"),
        tenant("acme", "suspend: 1") + &webhook("w", "acme", URL),
        tenant("acme", "").replace("ACME", "OTHER") + &webhook("w", "acme", URL),
        good.clone() + "a: [",
        good.clone() + "\ta\n\t:",
    ] {
        case.write("a.yaml", &broken);
        let loaded = case.load();
        assert_eq!(loaded.problems.len(), 1, "{broken}: {:?}", case.texts(&loaded));
        let acme = of(&loaded, "acme");
        assert_eq!(webhooks(acme), ["w"], "{broken}");
        assert_eq!(acme.runtime.config.webhooks[0].customer_code.as_str(), "C-1");
        assert_eq!(acme.runtime.config.webhooks[0].target_url.as_str(), "https://hooks.example/");
        assert_eq!(acme.runtime.config.client_code.as_str(), "ACME");
        assert_eq!(acme.runtime.held_webhooks, BTreeSet::new());
        assert!(!loaded.incomplete);
        case.write("a.yaml", &good);
        assert_eq!(case.load().problems, []);
    }
}

#[test]
fn change_of_an_immutable_field_is_reported_as_by_the_crd() {
    let mut case = Case::with(&[("a.yaml", &(tenant("acme", "") + &webhook("w", "acme", URL)))]);
    case.load();
    let changed =
        tenant("acme", "").replace("ACME", "OTHER") + &webhook("w", "acme", URL).replace("C-1", "C-2");
    case.write("a.yaml", &changed);
    let loaded = case.load();
    assert_eq!(
        case.texts(&loaded),
        [
            "config/a.yaml, document 1 (Tenant default/acme): spec.clientCode: clientCode is immutable",
            "config/a.yaml, document 2 (Webhook default/w): spec.customerCode: customerCode is immutable; create a new \
             Webhook",
        ]
    );
}

#[test]
fn broken_document_still_switches_off() {
    let keys = |first: &str| format!("apiKeys: [{first}, {{name: b, generate: {{}}}}], subdomains: [x, z]");
    let text = |spec: &str, url: &str, more: &str| {
        tenant("acme", spec) + &webhook("w", "acme", &format!("{url}{more}"))
    };
    let mut case = Case::with(&[("a.yaml", &text(&keys("{name: a, generate: {}}"), URL, ""))]);
    assert_eq!(case.load().problems, []);
    let broken =
        format!("{}, displayName: '{}'", keys("{name: a, generate: {}, active: false}"), "x".repeat(129));
    let broken = broken.replace("[x, z]", "[z]") + ", suspend: true";
    case.write("a.yaml", &text(&broken, BAD_URL, ", active: false"));
    let loaded = case.load();
    assert_eq!(loaded.problems.len(), 2);
    let config = &of(&loaded, "acme").runtime.config;
    assert!(config.suspended && !config.webhooks[0].active);
    assert_eq!(config.subdomains, ["z"]);
    assert_eq!(config.api_keys.iter().map(|key| key.active).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn secret_keeps_values_that_became_unreadable() {
    let rest = tenant("acme", "") + &webhook("w", "acme", &format!("{URL}, secretRef: {{name: s}}"));
    let mut case = Case::with(&[("a.yaml", &rest), ("s.yaml", &secret("s", "data: {secret: b25l}"))]);
    assert_eq!(case.load().problems, []);
    for broken in [secret("s", "data: {secret: b25}"), "a: [".to_owned()] {
        case.write("s.yaml", &broken);
        // After an edit of the webhook itself, it still has its secret.
        case.write("a.yaml", &rest.replace("order.created", "order.updated"));
        let loaded = case.load();
        assert_eq!(loaded.problems.len(), 1, "{:?}", case.texts(&loaded));
        assert_eq!(of(&loaded, "acme").runtime.config.webhooks[0].secret.as_ref().unwrap().expose(), b"one");
    }
    case.write("s.yaml", &secret("s", "data: {secret: dHdv}"));
    assert_eq!(of(&case.load(), "acme").runtime.config.webhooks[0].secret.as_ref().unwrap().expose(), b"two");
}

#[test]
fn removed_documents_end_their_objects() {
    let all = [tenant("acme", ""), webhook("v", "acme", URL), webhook("w", "acme", URL)];
    let mut case = Case::with(&[("a.yaml", &all.concat()), ("b.yaml", &tenant("globex", ""))]);
    case.load();
    case.write("a.yaml", &all[..2].concat());
    let loaded = case.load();
    assert_eq!(webhooks(of(&loaded, "acme")), ["v"]);
    assert_eq!(of(&loaded, "acme").runtime.held_webhooks, BTreeSet::new());
    fs::remove_file(case.path("a.yaml")).unwrap();
    let loaded = case.load();
    assert_eq!((names(&loaded), loaded.problems.len(), loaded.incomplete), (vec!["globex"], 0, false));
    case.write("a.yaml", &(tenant("acme", "suspend: 1") + &webhook("w", "acme", BAD_URL)));
    assert_eq!(names(&case.load()), ["globex"], "nothing is known of it any more");
}

#[test]
fn object_moves_to_another_file_while_its_old_file_is_broken() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    case.load();
    case.write("a.yaml", "a: [");
    case.write("b.yaml", &tenant("acme", "displayName: moved"));
    let loaded = case.load();
    assert_eq!(of(&loaded, "acme").runtime.config.display_name.as_deref(), Some("moved"));
}

#[test]
fn webhook_that_was_never_good_is_held_when_its_file_breaks() {
    let text = tenant("acme", "") + &tenant("globex", "");
    let mut case = Case::with(&[("a.yaml", &text), ("w.yaml", &webhook("w", "acme", BAD_URL))]);
    let held = BTreeSet::from(["file:default/w".to_owned()]);
    assert_eq!(of(&case.load(), "acme").runtime.held_webhooks, held);
    case.write("w.yaml", "a: [");
    let loaded = case.load();
    assert_eq!(of(&loaded, "acme").runtime.held_webhooks, held);
    assert!(!loaded.incomplete, "what the file declares is known from before");
    case.restart();
    assert!(case.load().incomplete);
    case.write("w.yaml", &webhook("w", "acme", &format!("{URL}, secretRef: {{name: s}}")));
    let loaded = case.load();
    assert_eq!((&of(&loaded, "acme").runtime.held_webhooks, loaded.incomplete), (&held, false));
    assert_eq!(of(&loaded, "globex").runtime.held_webhooks, BTreeSet::new(), "it is known whose it is");
}

#[test]
fn generated_keys_survive_a_restart() {
    let spec = |generation: u32| {
        format!(
            "apiKeys: [{{name: a, generate: {{}}}}, {{name: b, generate: {{rotationGeneration: {generation}}}}}]"
        )
    };
    let mut case = Case::with(&[("a.yaml", &tenant("acme", &spec(1)))]);
    let first = case.load();
    let first = of(&first, "acme");
    assert_eq!(first.runtime.config.uid.len(), 36);
    assert_eq!(first.api_keys[0].1.len(), 64);
    let written = fs::read(case.keys("ACME")).unwrap();
    case.restart();
    let again = case.load();
    let again = of(&again, "acme");
    assert_eq!((&again.runtime.config, &again.api_keys), (&first.runtime.config, &first.api_keys));
    assert_eq!(fs::read(case.keys("ACME")).unwrap(), written, "and nothing is written");

    case.write("a.yaml", &tenant("acme", &spec(2)));
    let rotated = case.load();
    let rotated = of(&rotated, "acme");
    assert_eq!(rotated.api_keys[0], first.api_keys[0]);
    assert_ne!(rotated.api_keys[1], first.api_keys[1]);
    assert_eq!(rotated.runtime.config.tokens, first.runtime.config.tokens);
    case.write("a.yaml", &tenant("acme", &spec(1)));
    assert_eq!(
        of(&case.load(), "acme").api_keys,
        rotated.api_keys,
        "lowering the number brings nothing back"
    );
}

fn generating(name: &str, more: &str) -> String {
    webhook(name, "acme", &format!("{URL}, generateSecret: {{{more}}}"))
}

#[track_caller]
fn signing_secret(loaded: &Declaration) -> Vec<u8> {
    let webhooks = &of(loaded, "acme").runtime.config.webhooks;
    webhooks[0].secret.as_ref().unwrap().expose().to_vec()
}

#[test]
fn generated_signing_secret_survives_a_restart() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    assert!(first.len() == 64 && first.iter().all(u8::is_ascii_hexdigit));
    assert_eq!(fs::metadata(case.keys("ACME")).unwrap().permissions().mode() & 0o777, 0o600);
    case.restart();
    assert_eq!(signing_secret(&case.load()), first);

    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    let rotated = signing_secret(&case.load());
    assert_ne!(rotated, first);
    case.write("w.yaml", &generating("w", ""));
    assert_eq!(signing_secret(&case.load()), rotated, "lowering the number brings nothing back");
}

#[track_caller]
fn signing_secrets(loaded: &Declaration) -> Vec<Vec<u8>> {
    let webhooks = &of(loaded, "acme").runtime.config.webhooks;
    webhooks[0].secrets().into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn secret_of_another_customers_webhook_signs_for_no_one() {
    let next = generating("w", "next: true");
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &next)]);
    let first = signing_secrets(&case.load());
    // A process that runs refuses the change; the next one does not know of it.
    case.restart();
    case.write("w.yaml", &next.replace("C-1", "C-2"));
    let others = signing_secrets(&case.load());
    assert!(others.len() == 2 && others.iter().all(|secret| !first.contains(secret)));
    case.restart();
    case.write("w.yaml", &next);
    assert_eq!(
        signing_secrets(&case.load()),
        first,
        "the first customer's deliveries wait, and sign as before"
    );
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &next.replace("C-1", "C-2"));
    assert_eq!(signing_secrets(&case.load()), others);
}

#[test]
fn next_signing_secret_takes_the_place_of_the_current_one() {
    let secrets = signing_secrets;
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = secrets(&case.load());
    assert_eq!(first.len(), 1);
    case.write("w.yaml", &generating("w", "next: true"));
    let both = secrets(&case.load());
    assert!(both.len() == 2 && both[0] == first[0] && both[1] != first[0]);
    case.restart();
    assert_eq!(secrets(&case.load()), both);
    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    assert_eq!(secrets(&case.load()), both[1..]);

    case.write("w.yaml", &generating("w", "rotationGeneration: 1, next: true"));
    assert_eq!(secrets(&case.load()).len(), 2);
    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    assert_eq!(secrets(&case.load()), both[1..], "the next one is dropped");
}

#[test]
fn generated_signing_secret_stays_after_a_mistake() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    let broken = [webhook("w", "acme", &format!("{BAD_URL}, generateSecret: {{}}")), "kind: [".to_owned()];
    for broken in broken {
        case.restart();
        case.write("w.yaml", &broken);
        case.load();
        assert!(!stored(&case).contains("unusedSecrets"), "after {broken}");
        case.write("w.yaml", &generating("w", ""));
        assert_eq!(signing_secret(&case.load()), first, "after {broken}");
    }
}

fn stored(case: &Case) -> String {
    fs::read_to_string(case.keys("ACME")).unwrap()
}

/// What is queued for it is sent when it is put back, to a receiver that has this secret.
#[test]
fn generated_signing_secret_is_kept_while_deliveries_may_wait_for_the_webhook() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", "next: true"))]);
    let first = signing_secrets(&case.load());
    assert_eq!(first.len(), 2);
    for back in ["put back", "put back after a restart", "signed again"] {
        let gone = if back == "signed again" { webhook("w", "acme", URL) } else { String::new() };
        case.write("w.yaml", &gone);
        case.load();
        case.clock.advance(GRACE + DAY - Duration::from_secs(1));
        if back.ends_with("restart") {
            case.restart();
        }
        let left = case.load();
        assert!(webhooks(of(&left, "acme")).is_empty() || back == "signed again");
        case.write("w.yaml", &generating("w", "next: true"));
        assert_eq!(signing_secrets(&case.load()), first, "{back}");
        assert!(!stored(&case).contains("unusedSecrets"), "{back}");
    }
    // Rotated meanwhile, as an edit would.
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    assert_eq!(signing_secrets(&case.load()), first[1..]);
}

/// From its own generation: the documents of Git don't know how often someone has rotated by hand.
#[test]
fn webhook_that_was_put_back_rotates_by_its_own_generation() {
    let rotated = generating("w", "rotationGeneration: 1");
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &rotated)]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &generating("w", "next: true"));
    let both = signing_secrets(&case.load());
    assert_eq!(both[0], first);
    case.write("w.yaml", &rotated);
    assert_eq!(signing_secrets(&case.load()), both[1..]);
}

/// Users of the portal can add and remove webhooks all day.
#[test]
fn of_too_many_kept_signing_secrets_the_oldest_end() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    for number in 0..=docket_crds::kept::MOST {
        case.clock.advance(Duration::from_secs(1));
        case.write("w.yaml", &generating(&format!("w{number}"), ""));
        case.load();
    }
    let kept = stored(&case).matches("\"since\"").count();
    assert_eq!(kept, docket_crds::kept::MOST);
    case.write("w.yaml", &generating("w", ""));
    assert_ne!(signing_secret(&case.load()), first);
}

#[test]
fn kept_signing_secret_ends_by_itself_and_costs_no_write_before() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    let kept = stored(&case);
    assert!(kept.contains("unusedSecrets") && !kept.contains("webhookSecrets"), "{kept}");
    case.clock.advance(GRACE + DAY - Duration::from_secs(1));
    assert!(!case.changed());
    case.load();
    assert_eq!(stored(&case), kept);
    // A command reads the folder and does not know the grace.
    case.clock.advance(Duration::from_secs(1));
    Folder::new(case.root.join("config"), case.root.join("data")).load(&mut random()).unwrap();
    assert_eq!(stored(&case), kept);
    assert!(case.changed(), "it ends although no file changes");
    case.load();
    assert!(!stored(&case).contains("unusedSecrets"));
    assert!(!case.changed());
    case.write("w.yaml", &generating("w", ""));
    assert_ne!(signing_secret(&case.load()), first);
}

/// While a tenant is suspended, its deliveries wait without a limit.
#[test]
fn kept_signing_secret_does_not_end_while_its_tenant_is_suspended() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    case.write("a.yaml", &tenant("acme", "suspend: true"));
    case.load();
    case.clock.advance(DAY * 100);
    assert!(!case.changed());
    case.load();
    case.write("a.yaml", &tenant("acme", ""));
    case.load();
    case.clock.advance(GRACE);
    case.write("w.yaml", &generating("w", ""));
    assert_eq!(signing_secret(&case.load()), first);
}

#[test]
fn signing_secret_is_never_given_to_another_tenant() {
    let both = tenant("acme", "") + &tenant("globex", "");
    let mut case = Case::with(&[("a.yaml", &both), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &generating("w", "").replace("name: acme}", "name: globex}"));
    let loaded = case.load();
    let theirs = &of(&loaded, "globex").runtime.config.webhooks[0];
    assert_ne!(theirs.secret.as_ref().unwrap().expose(), first);
    case.restart();
    case.write("w.yaml", &generating("w", ""));
    assert_eq!(signing_secret(&case.load()), first);
}

#[test]
fn removed_key_is_not_restored() {
    let spec = "apiKeys: [{name: a, generate: {}}]";
    let mut case = Case::with(&[("a.yaml", &tenant("acme", spec))]);
    let first = of(&case.load(), "acme").api_keys.clone();
    case.write("a.yaml", &tenant("acme", ""));
    assert_eq!(of(&case.load(), "acme").runtime.config.api_keys, []);
    case.write("a.yaml", &tenant("acme", spec));
    assert_ne!(of(&case.load(), "acme").api_keys, first);
}

#[test]
fn key_file_is_readable_by_its_owner_only() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    case.load();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = case.keys("ACME");
    assert_eq!(mode(&file), 0o600);
    for dir in file.ancestors().skip(1).take(3) {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[test]
fn damaged_keys_are_reported_and_never_overwritten() {
    let mut case = Case::with(&[("a.yaml", &(tenant("acme", "") + &tenant("globex", "")))]);
    let uid = of(&case.load(), "acme").runtime.config.uid.clone();
    let good = fs::read_to_string(case.keys("ACME")).unwrap();
    let message = "config/a.yaml, document 1 (Tenant default/acme): data/tenants/ACME/keys.json is damaged; restore it, \
                   or remove it to generate new keys (the old ones and all sessions end)";
    for damaged in [
        "",
        "{}",
        "{\"hunter2\": 1}",
        &good[..good.len() / 2],
        &good.replace("\"kid\": \"", "\"kid\": 1, \"x\": \""),
    ] {
        fs::write(case.keys("ACME"), damaged).unwrap();
        let loaded = case.load();
        assert_eq!(case.texts(&loaded), [message]);
        assert_eq!(of(&loaded, "acme").runtime.config.uid, uid, "the tenant is still served");
        assert_eq!(fs::read_to_string(case.keys("ACME")).unwrap(), damaged);
    }
    case.restart();
    let loaded = case.load();
    assert_eq!((case.texts(&loaded), names(&loaded)), (vec![message.to_owned()], vec!["globex"]));
    fs::write(case.keys("ACME"), good).unwrap();
    assert_eq!(of(&case.load(), "acme").runtime.config.uid, uid);
}

#[test]
fn keys_of_a_tenant_are_never_given_to_another() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    case.load();
    case.restart();
    case.write("a.yaml", &tenant("acme", "").replace("name: acme}\n", "name: thief}\n"));
    let loaded = case.load();
    let message = "config/a.yaml, document 1 (Tenant default/thief): data/tenants/ACME/keys.json belongs to Tenant \
                   default/acme; choose another clientCode, or move its folder away";
    assert_eq!((case.texts(&loaded), names(&loaded)), (vec![message.to_owned()], vec![]));
}

#[test]
fn unusable_data_folder_is_reported() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    fs::create_dir_all(case.root.join("data")).unwrap();
    symlink("nowhere/at/all", case.root.join("data/tenants")).unwrap();
    let loaded = case.load();
    let message = "config/a.yaml, document 1 (Tenant default/acme): data/tenants/ACME/keys.json cannot be written: File \
                   exists (os error 17)";
    assert_eq!(case.texts(&loaded), [message]);
}

#[test]
fn change_is_seen_once_it_has_settled() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    assert!(case.folder.changed(), "nothing is loaded yet");
    case.load();
    assert!(!case.folder.changed());
    case.write("a.yaml", "");
    assert!(!case.folder.changed(), "a file is being written");
    case.write("a.yaml", &tenant("acme", "suspend: true"));
    assert!(!case.folder.changed(), "it differs from what was seen before");
    assert!(case.folder.changed());
    assert!(case.folder.changed(), "until it is loaded");
    case.load();
    assert!(!case.changed());
}

#[test]
fn every_kind_of_change_is_seen() {
    type Change = fn(&Case);
    let changes: [(&str, Change); 6] = [
        ("rename over", |case| {
            let modified = fs::metadata(case.path("a.yaml")).unwrap().modified().unwrap();
            case.write("new", "a: 2\n");
            fs::File::options().write(true).open(case.path("new")).unwrap().set_modified(modified).unwrap();
            fs::rename(case.path("new"), case.path("a.yaml")).unwrap();
        }),
        ("new file", |case| case.write("b.yml", "")),
        ("same size", |case| {
            let modified = fs::metadata(case.path("a.yaml")).unwrap().modified().unwrap();
            case.write("a.yaml", "a: 2\n");
            // The kernel's clock for files has ticks of some milliseconds, so two writes of a test may have the same time.
            let later = modified + Duration::from_nanos(1);
            fs::File::options().write(true).open(case.path("a.yaml")).unwrap().set_modified(later).unwrap();
        }),
        ("rename", |case| fs::rename(case.path("a.yaml"), case.path("c.yaml")).unwrap()),
        ("delete", |case| fs::remove_file(case.path("a.yaml")).unwrap()),
        ("dangling link", |case| symlink("nowhere", case.path("d.yaml")).unwrap()),
    ];
    for (name, change) in changes {
        let mut case = Case::with(&[("a.yaml", "a: 1\n")]);
        case.load();
        change(&case);
        assert!(case.changed(), "{name}");
        case.load();
        assert!(!case.changed(), "{name}");
    }
}

#[test]
fn update_of_a_kubernetes_volume_is_seen() {
    let mut case = Case::new();
    let version = |case: &Case, number: u32, text: &str| {
        fs::create_dir(case.path(&format!("..{number}"))).unwrap();
        case.write(&format!("..{number}/a.yaml"), text);
        symlink(format!("..{number}"), case.path("..new")).unwrap();
        fs::rename(case.path("..new"), case.path("..data")).unwrap();
    };
    version(&case, 1, &tenant("acme", ""));
    symlink("..data/a.yaml", case.path("a.yaml")).unwrap();
    assert_eq!(names(&case.load()), ["acme"]);
    version(&case, 2, &tenant("acmf", ""));
    assert!(case.changed());
    assert_eq!(names(&case.load()), ["acmf"]);
}

#[test]
fn debug_prints_no_key() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "apiKeys: [{name: a, generate: {}}]"))]);
    let loaded = case.load();
    let shown = format!("{loaded:?} {:?}", case.folder);
    assert!(!shown.contains(&of(&loaded, "acme").api_keys[0].1), "{shown}");
}

#[test]
fn external_databases_come_from_secrets_and_managed_ones_are_refused() {
    let managed = tenant("managed", "");
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {url: \"postgres://u:p@db/x\"}\n";
    let external = tenant("external", "").replace(
        "database: {managed: {name: external}}",
        "database: {external: {secretKeyRef: {name: db, key: url}}}",
    );
    assert!(external.contains("secretKeyRef: {name: db"), "{external}");
    let mut case = Case::with(&[("all.yaml", &format!("{managed}{external}{secret}"))]);
    assert!(
        case.load().tenants.iter().all(|served| served.runtime.config.database.is_none()),
        "files all the same"
    );
    case.folder = Folder::new(case.root.join("config"), case.root.join("data")).with_external_databases();
    let loaded = case.load();
    let urls: Vec<_> = loaded.tenants.iter().map(|served| served.runtime.config.database.as_ref()).collect();
    assert_eq!(
        urls.iter().map(|url| url.expect("a URL").expose()).collect::<Vec<_>>(),
        ["postgres://u:p@db/x"]
    );
    let texts = case.texts(&loaded);
    assert!(
        texts[0].contains("spec.database.managed") && texts[0].contains("only the operator"),
        "{texts:?}"
    );
}

#[test]
fn processes_that_start_at_once_have_the_same_keys() {
    let case = Case::with(&[("a.yaml", &tenant("acme", "apiKeys: [{name: one, generate: {}}]"))]);
    let keys = std::thread::scope(|scope| {
        let load = || {
            let mut folder = Folder::new(case.root.join("config"), case.root.join("data"));
            folder.load(&mut random()).unwrap().tenants[0].api_keys.clone()
        };
        let begun: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
        begun.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(keys.iter().all(|other| *other == keys[0]));
}
