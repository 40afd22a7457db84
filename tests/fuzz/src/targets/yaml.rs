//! Files of tenants: YAML, its documents, and what they compile to, beside a file that is good.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use docket_crds::{ApiKeyDigest, Runtime};
use docket_source::{Declaration, Folder};

const KEPT: &str = "
apiVersion: docket.dev/v1alpha1
kind: Tenant
metadata: {name: kept}
spec: {clientCode: KEPT, subdomains: [kept], apiKeys: [{name: a, secretKeyRef: {name: kept, key: api}}], database: {managed: {name: kept}}}
---
apiVersion: docket.dev/v1alpha1
kind: Webhook
metadata: {name: kept}
spec: {tenantRef: {name: kept}, customerCode: C-1, targetURL: 'https://kept.example/', secretRef: {name: kept}, events: [order.created]}
---
{apiVersion: v1, kind: Secret, metadata: {name: kept}, stringData: {secret: 0kept-secret-0123456789, api: 00112233445566778899aabbccddeeff}}
";

/// A folder with the good file, for this process.
pub(crate) static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("docket-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("a.yaml"), KEPT).expect("a file");
    folder
});

pub(crate) fn run(input: &[u8]) {
    fs::write(FOLDER.join("b.yaml"), input).expect("a file");
    let mut folder = Folder::new(FOLDER.clone(), FOLDER.join("absent")).without_writing();
    let mut next = 0u8;
    let declaration = folder.load(&mut |bytes| {
        bytes.iter_mut().for_each(|byte| {
            next = next.wrapping_add(1);
            *byte = next;
        });
    });
    let declaration = declaration.expect("the folder is readable");
    check_kept(&declaration);
    check_rules(&declaration);
    let printed = format!("{declaration:?}");
    assert!(!printed.contains("0kept-secret"), "{printed}");
}

/// No other file takes anything from a tenant of an earlier one.
fn check_kept(declaration: &Declaration) {
    let kept = declaration.tenant("KEPT").expect("a tenant that is declared first is served");
    let config = &kept.runtime.config;
    assert_eq!((config.name.as_str(), &config.subdomains), ("kept", &vec!["kept".to_owned()]));
    assert!(config.api_keys.iter().any(|key| key.active && key.name == "a"));
    let webhook = config.webhooks.iter().find(|webhook| webhook.name == "kept").expect("its webhook");
    assert_eq!(webhook.secret.as_ref().map(|secret| secret.expose()), Some(&b"0kept-secret-0123456789"[..]));
}

/// What is compiled can be served: nothing is there twice, and a process reads what another one wrote.
fn check_rules(declaration: &Declaration) {
    let (mut codes, mut subdomains) = (BTreeSet::new(), BTreeSet::new());
    for tenant in &declaration.tenants {
        let config = &tenant.runtime.config;
        assert!(codes.insert(config.client_code.as_str().to_ascii_lowercase()), "{:?}", config.client_code);
        for subdomain in &config.subdomains {
            assert!(subdomains.insert(subdomain.to_ascii_lowercase()), "{subdomain}");
        }
        let keys: BTreeSet<&[u8; 32]> =
            config.api_keys.iter().map(|key| ApiKeyDigest::as_bytes(&key.digest)).collect();
        assert_eq!(keys.len(), config.api_keys.len());
        let uids: BTreeSet<&str> = config.webhooks.iter().map(|webhook| webhook.uid.as_str()).collect();
        assert_eq!(uids.len(), config.webhooks.len());
        for webhook in &config.webhooks {
            assert_eq!(webhook.target_url.url().scheme(), "https");
            assert!(!webhook.events.is_empty());
        }
        let written = serde_json::to_vec(&*tenant.runtime).expect("it is written");
        let read: Runtime = serde_json::from_slice(&written).expect("what is written can be read");
        assert_eq!(read, *tenant.runtime);
    }
}
