//! What stays served after a mistake, and what ends.

use super::*;

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
fn key_that_is_removed_from_a_broken_document_ends_at_once() {
    let keys = |names: &[&str]| {
        let key = |name: &&str| format!("{{name: {name}, generate: {{}}}}");
        format!("apiKeys: [{}]", names.iter().map(key).collect::<Vec<_>>().join(", "))
    };
    let mut case = Case::with(&[("a.yaml", &tenant("acme", &keys(&["a", "b"])))]);
    let before = of(&case.load(), "acme").runtime.config.api_keys[1].digest;
    let broken = format!("{}, displayName: '{}'", keys(&["b"]), "x".repeat(129));
    case.write("a.yaml", &tenant("acme", &broken));
    let loaded = case.load();
    assert_eq!(loaded.problems.len(), 1, "{:?}", case.texts(&loaded));
    let left = &of(&loaded, "acme").runtime.config.api_keys;
    assert_eq!(left.iter().map(|key| (key.name.as_str(), key.digest)).collect::<Vec<_>>(), [("b", before)]);
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
