//! The YAML that the page of a webhook shows: pasted back as it is, it changes nothing.

use docket_crds::WebhookConfig;
use docket_source::Folder;
use docket_tests::people::{ALEX, add_people};
use docket_tests::receiver::ca_yaml;
use docket_tests::server::{Home, Options, SECRET, Server, tenant_yaml};

use super::rig::Browser;

/// A Webhook with these lines of its spec.
fn webhook(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {{name: {name}{metadata}}}\nspec:\n  \
         tenantRef: {{name: acme}}\n  customerCode: C-1\n  targetURL: https://h.example/{name}\n  \
         events: [order.created, note.created]\n{spec}"
    )
}

const NEXT: &str = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: two}\nstringData: {now: the-first-of-two, then: the-second-of-two}\n";

/// The webhooks of the tenant as they are compiled from the folder.
fn compiled(home: &Home) -> Vec<WebhookConfig> {
    let mut folder = Folder::new(home.config(), home.data()).without_writing();
    let declaration = folder.load(&mut docket_program::random::fill).expect("a folder");
    assert!(declaration.problems.is_empty(), "{:?}", declaration.problems);
    declaration.tenant("acme").expect("the tenant").runtime.config.webhooks.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yaml_of_a_page_changes_nothing_when_it_is_pasted_back() {
    let webhooks = [
        ("unsigned", "", ""),
        ("given", "", "  secretRef: {name: acme-signing}\n"),
        ("rotating", "", "  secretRef: {name: two, key: now, nextKey: then}\n"),
        ("generated", "", "  generateSecret: {}\n"),
        ("generated-next", "", "  generateSecret: {rotationGeneration: 2, next: true}\n"),
        ("trusting", "", "  generateSecret: {}\n  caBundleRef: {kind: ConfigMap, name: receiver-ca}\n"),
        (
            "inactive",
            ", labels: {}, annotations: {\"on\": \"a: b # c\"}",
            "  active: false\n  displayName: \"'Orders': \\\"new\\\" # 1\"\n",
        ),
    ];
    let others = [tenant_yaml("acme", 'a'), NEXT.to_owned(), ca_yaml()].concat();
    let declared: String =
        webhooks.iter().map(|(name, metadata, spec)| webhook(name, metadata, spec)).collect();
    let home = Home::with(&format!("{others}{declared}"));
    add_people(&home, "ACME");
    let server = Server::start(&home, Options::default()).await;
    let before = compiled(&home);
    assert_eq!(before.len(), webhooks.len());
    assert_eq!(before.iter().filter(|webhook| webhook.secret.is_some()).count(), 5);

    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let files: Vec<_> = std::fs::read_dir(home.config()).expect("a folder").flatten().collect();
    let file = files
        .iter()
        .map(std::fs::DirEntry::path)
        .find(|path| path.extension().is_some_and(|is| is == "yaml"));
    let file = file.expect("a file");
    let mut pasted = others;
    for (name, ..) in webhooks {
        let page = browser.get(&format!("/portal/webhooks/default/{name}")).await;
        let text = page.text();
        let named =
            format!("the file {} of the configuration folder", file.file_name().expect("a name").display());
        assert!(text.contains(&named), "{text}");
        for secret in [SECRET, "the-first-of-two", "the-second-of-two", "kind: &quot;Secret"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let (_, yaml) = text.split_once("<pre><code>").expect("the document");
        let (yaml, _) = yaml.split_once("</code>").expect("its end");
        let plain = [("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
        let yaml = plain.iter().fold(yaml.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain));
        pasted.push_str(&format!("---\n{yaml}"));
    }
    std::fs::write(&file, pasted).expect("writable");
    assert_eq!(compiled(&home), before);
}
