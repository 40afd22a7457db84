//! A folder of YAML files: what it declares, and what it reports of the documents. Each file of the folder `tests` has a subject of its own.

mod changes;
mod last_good;
mod signing_secrets;
mod stored_keys;
mod values;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use docket_crds::{ApiKeyDigest, TenantLimits};
use docket_program::clock::ManualClock;

use super::*;
use crate::declaration::DeclaredTenant;

/// A new folder with a data folder beside it; both are removed when it is dropped.
struct Case {
    root: PathBuf,
    folder: Folder,
    clock: ManualClock,
}

/// The grace of removed webhooks.
const GRACE: Duration = Duration::from_secs(3600);

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
fn file_may_have_eight_mebibytes() {
    let case = Case::with(&[("a.yaml", &"#".repeat(8_388_608))]);
    assert_eq!(files::read(&case.path("a.yaml")).map(|text| text.len()), Ok(8_388_608));
}

#[test]
fn webhooks_of_other_namespaces_count_if_their_tenant_allows_the_namespace() {
    let allowed = "webhooks: {allowedNamespaces: {from: Selector, selector: \
                   {matchLabels: {kubernetes.io/metadata.name: team-a}}}}";
    let other = |name: &str, namespace: &str| {
        let metadata = format!("metadata: {{name: {name}, namespace: {namespace}}}");
        let text = webhook(name, "acme", URL).replace(&format!("metadata: {{name: {name}}}"), &metadata);
        text.replace("tenantRef: {name: acme}", "tenantRef: {name: acme, namespace: default}")
    };
    let text = tenant("acme", allowed) + &other("a", "team-a") + &other("b", "team-b");
    let mut case = Case::with(&[("a.yaml", &text)]);
    let loaded = case.load();
    assert_eq!(webhooks(of(&loaded, "acme")), ["a"]);
    let texts = case.texts(&loaded);
    assert!(texts.len() == 1 && texts[0].contains("(Webhook team-b/b)"), "{texts:?}");
}

#[test]
fn limits_of_the_platform_count() {
    let case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    let defaults = TenantLimits { requests_per_second: Some(7), ..TenantLimits::default() };
    let limits = PlatformLimits { defaults, ..PlatformLimits::default() };
    let mut folder = Folder::new(case.root.join("config"), case.root.join("data")).with_limits(limits);
    let loaded = folder.load(&mut random()).unwrap();
    assert_eq!(of(&loaded, "acme").runtime.config.limits.requests_per_second, 7);
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
