//! Every rule of a Webhook.

use serde_json::{Value, json};

use super::{Accepted, Both, Each, Expectation, Kind, OnlyReader, read_webhook};

const MISSING: Expectation = Each("Required value", "is required");
const ABSOLUTE: Expectation = Both("targetURL must be an absolute https:// URL");
const NAME: Expectation =
    Both("must be lower-case letters, digits, \"-\" and \".\", beginning and ending with a letter or digit");
const KEY: Expectation = Both("must be letters, digits, \"-\", \"_\" and \".\"");
const CREDENTIALS: Expectation =
    Both("targetURL must not carry credentials; use secretRef to sign deliveries");
const PORT: Expectation = Both("targetURL must have a port from 1 to 65535, or none for 443");
const BLANK: Expectation =
    Both("targetURL must not contain spaces, control characters or backslashes; percent-encode them");
const PERCENT: Expectation =
    Both("targetURL must have two hexadecimal digits after each %; write % itself as %25");

const DOTS: Expectation =
    Both("targetURL must have a host with no dot at its start and no two dots in a row");
const LONG_HOST: Expectation =
    Both("targetURL must have a host of at most 253 characters, at most 63 between dots");
const HYPHEN: Expectation =
    Both("targetURL must have a host whose parts neither begin nor end with a hyphen");
const HOST: Expectation =
    Both("targetURL must have a host of letters, digits, hyphens and underscores between dots");

fn webhooks() -> Kind {
    let base = json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook", "metadata": {"name": "acme-orders"},
        "spec": {"tenantRef": {"name": "acme"}, "customerCode": "C-1001",
            "targetURL": "https://hooks.acme.example/orders", "events": ["order.created"]}
    });
    Kind::new("webhooks", base, read_webhook)
}

#[test]
fn target_urls() {
    let long = format!("https://h.example/{}", "ü".repeat(2048 - 18));
    let too_long = format!("{long}x");
    let [longest, too_long_host] = [123, 124].map(|count| format!("https://{}example./", "a.".repeat(count)));
    let other_dots = format!("https://{}。{}。{}。jp/", "あ".repeat(20), "い".repeat(20), "う".repeat(25));
    let [label, long_label] = [63, 64].map(|count| format!("https://h.{}:8443/", "a".repeat(count)));
    let cases = [
        ("https://h.example", Accepted),
        ("HTTPS://H.example:8443?x=1", Accepted),
        ("https://[2001:db8::1]:9443/", Accepted),
        ("https://192.0.2.1/a@b", Accepted),
        ("https://müller.example/ü", Accepted),
        ("https://h.example/a%20b?x=100%25", Accepted),
        ("https://h.example:/", Accepted),
        (&long, Accepted),
        (&too_long, Each("Too long", "0 to 2048 characters")),
        ("", ABSOLUTE),
        ("http://h.example/", ABSOLUTE),
        ("ftp://h.example/", ABSOLUTE),
        ("h.example/orders", ABSOLUTE),
        ("/orders", ABSOLUTE),
        ("https:h.example", ABSOLUTE),
        ("https:///h.example", ABSOLUTE),
        ("https://", ABSOLUTE),
        ("https://.", ABSOLUTE),
        ("https://:443/", ABSOLUTE),
        ("https://<h>/", ABSOLUTE),
        ("https://u:p@h.example/", CREDENTIALS),
        ("https://@h.example/", CREDENTIALS),
        ("HTTPS://u@h.example/", CREDENTIALS),
        ("https://h.example/#", Both("targetURL must not carry a fragment")),
        ("https://h.example#top", Both("targetURL must not carry a fragment")),
        ("https://h.example/a b", BLANK),
        ("https://h.example/\u{a0}", BLANK),
        ("https://h.example/\u{85}", BLANK),
        (" https://h.example/", BLANK),
        ("https://h.exa\nmple/", BLANK),
        ("https://h.example/\\", BLANK),
        ("https://h.example:0/", PORT),
        ("https://h.example:65535/", Accepted),
        ("https://h.example:65536/", PORT),
        ("https://h.example:99999999999999999999/", PORT),
        ("https://h.example/%", PERCENT),
        ("https://h.example/%zz", PERCENT),
        ("https://h.example/?x=100%", PERCENT),
        ("https://a_b.example./-a..b-?-..", Accepted),
        ("https://a..example/", DOTS),
        ("https://.a.example/", DOTS),
        ("https://a.example..:8443", DOTS),
        (&longest, Accepted),
        (&too_long_host, LONG_HOST),
        (&label, Accepted),
        (&long_label, LONG_HOST),
        ("https://-a.example/", HYPHEN),
        ("https://a.-b.example", HYPHEN),
        ("https://a-.example/", HYPHEN),
        ("https://a.example-?x", HYPHEN),
        ("https://a.example-:8443/", HYPHEN),
        // No Punycode either, which only the reader knows.
        (
            "https://xn--/",
            Each("neither begin nor end with a hyphen", "targetURL must be an absolute https:// URL"),
        ),
        ("https://*.a.example/", HOST),
        ("https://a,b.example:8443", HOST),
        ("https://$(HOST)/", HOST),
        ("https://it's.example/", HOST),
        (&other_dots, Accepted),
    ];
    let cases: Vec<_> = cases.map(|(url, expectation)| ("/spec/targetURL", json!(url), expectation)).into();
    webhooks().hold(&cases);
}

/// Where the two part, and why: hosts that are none to us (WHATWG), and are a host to the API server (RFC 3986). The
/// operator reports such a Webhook as `InvalidSpec`, and nothing is sent.
#[test]
fn exceptions() {
    let absolute = OnlyReader("targetURL must be an absolute https:// URL");
    let cases = [
        ("https://192.0.2.256/", absolute), // no IPv4 address, and no name either
        ("https://[fe80::1%25eth0]/", absolute), // a zone means something on one machine only
        ("https://a.。b/", OnlyReader("no two dots in a row")), // a dot of another script
    ];
    let cases: Vec<_> = cases.map(|(url, expectation)| ("/spec/targetURL", json!(url), expectation)).into();
    webhooks().hold(&cases);
}

#[test]
fn tenants_customers_and_events() {
    let customer = Both("customerCode must not begin or end with a blank");
    let events = |events: &[&str]| json!(events);
    webhooks().hold(&[
        ("/spec/tenantRef", Value::Null, MISSING),
        ("/spec/tenantRef", json!({}), MISSING),
        ("/spec/tenantRef", json!({"name": ""}), Each("at least 1 chars long", "1 to 50 characters")),
        ("/spec/tenantRef", json!({"name": "a".repeat(51)}), Each("Too long", "1 to 50 characters")),
        ("/spec/tenantRef", json!({"name": "a".repeat(50), "namespace": "n".repeat(63)}), Accepted),
        ("/spec/tenantRef", json!({"name": "a", "namespace": ""}), Accepted),
        (
            "/spec/tenantRef",
            json!({"name": "a", "namespace": "n".repeat(64)}),
            Each("Too long", "0 to 63 characters"),
        ),
        ("/spec/tenantRef", json!({"name": "a", "kind": "Tenant"}), Each("unknown field", "unknown field")),
        ("/spec/customerCode", Value::Null, MISSING),
        ("/spec/customerCode", json!("Müller & Söhne"), Accepted),
        ("/spec/customerCode", json!("ü".repeat(64)), Accepted),
        ("/spec/customerCode", json!("ü".repeat(65)), Each("Too long", "1 to 64 characters")),
        ("/spec/customerCode", json!(""), Each("at least 1 chars long", "1 to 64 characters")),
        ("/spec/customerCode", json!("a\tb"), Both("customerCode must not contain control characters")),
        ("/spec/customerCode", json!("a\u{7f}b"), Both("customerCode must not contain control characters")),
        ("/spec/customerCode", json!(" a"), customer),
        ("/spec/customerCode", json!("a\u{a0}"), customer),
        ("/spec/customerCode", json!("a\u{3000}"), customer),
        ("/spec/targetURL", Value::Null, MISSING),
        ("/spec/targetUrl", json!("https://h/"), Each("unknown field \"spec.targetUrl\"", "unknown field")),
        ("/spec/displayName", json!("x".repeat(128)), Accepted),
        ("/spec/displayName", json!("x".repeat(129)), Each("Too long", "0 to 128 characters")),
        ("/spec/events", Value::Null, MISSING),
        ("/spec/events", events(&[]), Each("at least 1 items", "1 to 16 entries")),
        (
            "/spec/events",
            events(&["order.created", "order.create"]),
            Each("supported values", "unknown event"),
        ),
        ("/spec/events", events(&["note.created", "note.created"]), Each("Duplicate value", "listed twice")),
        ("/spec/events", events(&["note.created"; 17]), Each("Too many", "1 to 16 entries")),
        (
            "/spec/events",
            events(&[
                "order.created",
                "order.updated",
                "order.exported",
                "order.status_changed",
                "note.created",
                "invoice.created",
            ]),
            Accepted,
        ),
        ("/spec/events", json!("order.created"), Each("must be of type array", "must be a list")),
        ("/spec/active", json!(false), Accepted),
        ("/spec/active", json!(1), Each("must be of type boolean", "must be true or false")),
    ]);
}

#[test]
fn references() {
    let limits = Each("at least 1 chars long", "1 to 253 characters");
    let long = "x".repeat(254);
    webhooks().hold(&[
        ("/spec/secretRef", json!({"name": "s"}), Accepted),
        ("/spec/secretRef", json!({"name": "s", "key": "k"}), Accepted),
        ("/spec/secretRef", json!({"name": "a.b-c.1", "key": "A_b.c-1"}), Accepted),
        ("/spec/secretRef", json!({"name": "my secret"}), NAME),
        ("/spec/secretRef", json!({"name": "?limit=1"}), NAME),
        ("/spec/secretRef", json!({"name": "../../docket/secrets/redis"}), NAME),
        ("/spec/secretRef", json!({"name": "a..b"}), NAME),
        ("/spec/secretRef", json!({"name": "s", "key": "a b"}), KEY),
        ("/spec/generateSecret", json!({}), Accepted),
        ("/spec/generateSecret", json!({"rotationGeneration": 3, "next": true}), Accepted),
        (
            "/spec/generateSecret",
            json!({"rotationGeneration": -1}),
            Each("greater than or equal to 0", "at least 0"),
        ),
        ("/spec/caBundleRef", json!({"kind": "ConfigMap", "name": "my ca"}), NAME),
        ("/spec/caBundleRef", json!({"kind": "ConfigMap", "name": "c", "key": "a/b"}), KEY),
        ("/spec/secretRef", json!({}), MISSING),
        ("/spec/secretRef", json!({"name": ""}), limits),
        ("/spec/secretRef", json!({"name": "s", "key": ""}), limits),
        ("/spec/secretRef", json!({"name": long}), Each("Too long", "1 to 253 characters")),
        ("/spec/caBundleRef", json!({"kind": "ConfigMap", "name": "c"}), Accepted),
        ("/spec/caBundleRef", json!({"kind": "Secret", "name": "c", "key": "k"}), Accepted),
        ("/spec/caBundleRef", json!({"name": "c"}), MISSING),
        ("/spec/caBundleRef", json!({"kind": "Secret"}), MISSING),
        ("/spec/caBundleRef", json!({"kind": "File", "name": "c"}), Each("supported values", "unknown kind")),
        ("/spec/caBundleRef", json!({"kind": "Secret", "name": "c", "key": ""}), limits),
        (
            "/spec/caBundleRef",
            json!({"kind": "Secret", "name": long}),
            Each("Too long", "1 to 253 characters"),
        ),
    ]);
}

#[test]
fn a_secret_is_named_or_generated() {
    let mut kind = webhooks();
    kind.base["spec"]["secretRef"] = json!({"name": "s"});
    let both = Both("set at most one of secretRef or generateSecret");
    kind.hold(&[("/spec/generateSecret", json!({}), both)]);
    let mut kind = webhooks();
    kind.base["spec"]["generateSecret"] = json!({});
    kind.hold(&[
        ("/metadata/name", json!("a".repeat(238)), Accepted),
        ("/metadata/name", json!("a".repeat(239)), Both("metadata.name must be at most 238 characters")),
    ]);
}

#[test]
fn immutable_fields_are_refused() {
    let tenant = Both("tenantRef is immutable; create a new Webhook");
    webhooks().hold_changes(&[
        ("/spec/tenantRef", json!({"name": "a"}), json!({"name": "b"}), tenant),
        ("/spec/tenantRef", json!({"name": "a"}), json!({"name": "a", "namespace": "n"}), tenant),
        ("/spec/tenantRef", json!({"name": "a", "namespace": "n"}), json!({"name": "a"}), tenant),
        (
            "/spec/customerCode",
            json!("C-1"),
            json!("C-2"),
            Both("customerCode is immutable; create a new Webhook"),
        ),
        ("/spec/targetURL", json!("https://a/"), json!("https://b/"), Accepted),
    ]);
}

#[test]
fn left_out_fields_get_the_defaults_of_our_reader() {
    let kind = webhooks();
    let mut full = kind.with("/spec/secretRef", &json!({"name": "s"}));
    full["spec"]["caBundleRef"] = json!({"kind": "Secret", "name": "c"});
    for document in [kind.base.clone(), full] {
        let answer: Value =
            serde_json::from_str(&kind.create(&document).expect("it is valid")).expect("JSON");
        let webhook = docket_crds::Webhook::from_json(document).expect("it is valid");
        assert_eq!(answer["spec"], serde_json::to_value(webhook.spec).expect("plain data"));
    }
}
