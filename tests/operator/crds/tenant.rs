//! Every rule of a Tenant.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Accepted, Both, Each, Expectation, Kind, OnlyReader, OnlyServer, read_tenant};

const LABEL: Expectation =
    Both("must be lower-case letters, digits and \"-\", beginning and ending with a letter or digit");
const MISSING: Expectation = Each("Required value", "is required");

fn tenants() -> Kind {
    let base = json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"},
        "spec": {"clientCode": "ACME", "database": {"managed": {"name": "tenant_acme"}}}
    });
    Kind::new("tenants", base, read_tenant)
}

fn list(entries: usize, entry: impl Fn(usize) -> Value) -> Value {
    (0..entries).map(entry).collect()
}

#[test]
fn names_codes_and_subdomains() {
    let unknown = "unknown field \"spec.clientcode\"";
    tenants().hold(&[
        ("/metadata/name", json!("a".repeat(50)), Accepted),
        ("/metadata/name", json!("a".repeat(51)), Both("metadata.name must be at most 50 characters")),
        ("/metadata/name", json!("Acme"), Each("RFC 1123", "must be lower-case")),
        ("/spec/clientcode", json!("ACME"), Each(unknown, "spec.clientcode: unknown field")),
        ("/spec/displayName", json!("ü".repeat(128)), Accepted),
        ("/spec/displayName", json!("ü".repeat(129)), Each("Too long", "must have 0 to 128 characters")),
        ("/spec/clientCode", Value::Null, MISSING),
        ("/spec/clientCode", json!(12), Each("must be of type string", "put it in quotes")),
        ("/spec/clientCode", json!(""), Each("at least 1 chars long", "must have 1 to 63 characters")),
        ("/spec/clientCode", json!("a".repeat(63) + "x"), Each("Too long", "must have 1 to 63 characters")),
        ("/spec/clientCode", json!("z".repeat(63)), Accepted),
        ("/spec/clientCode", json!("_x"), Both("must be letters, digits, \"-\" and \"_\"")),
        ("/spec/clientCode", json!("aBc_-9"), Accepted),
        ("/spec/clientCode", json!("0aF".repeat(11)), Both("must not look like a hexadecimal API key")),
        ("/spec/clientCode", json!("a".repeat(31)), Accepted),
        ("/spec/suspend", json!(true), Accepted),
        ("/spec/suspend", json!("yes"), Each("must be of type boolean", "must be true or false")),
        ("/spec/subdomains", list(8, |n| json!(format!("acme-{n}"))), Accepted),
        ("/spec/subdomains", list(9, |n| json!(format!("acme-{n}"))), Each("Too many", "0 to 8 entries")),
        ("/spec/subdomains", json!(["a", "a"]), Each("Duplicate value", "listed twice")),
        ("/spec/subdomains", json!([""]), Each("at least 1 chars long", "1 to 63 characters")),
        ("/spec/subdomains", json!(["a".repeat(64)]), Each("Too long", "1 to 63 characters")),
        ("/spec/subdomains", json!(["-a"]), LABEL),
        ("/spec/subdomains", json!(["a.b"]), LABEL),
        ("/spec/subdomains", json!("a"), Each("must be of type array", "must be a list")),
    ]);
}

#[test]
fn keys_and_tokens() {
    let kind = tenants();
    let key = |member: &str, value: Value| {
        let mut key = json!({"name": "a", "generate": {}});
        key[member] = value;
        json!([key])
    };
    let reference = |reference: Value| json!([{"name": "a", "secretKeyRef": reference}]);
    let one_of = Both("set exactly one of secretKeyRef or generate");
    let both = json!([{"name": "a", "generate": {}, "secretKeyRef": {"name": "s", "key": "k"}}]);
    kind.hold(&[
        ("/spec/apiKeys", list(8, |n| json!({"name": format!("k{n}"), "generate": {}})), Accepted),
        (
            "/spec/apiKeys",
            list(9, |n| json!({"name": format!("k{n}"), "generate": {}})),
            Each("Too many", "0 to 8 entries"),
        ),
        ("/spec/apiKeys", json!([{"name": "a"}]), one_of),
        ("/spec/apiKeys", both, one_of),
        ("/spec/apiKeys", key("secretKeyRef", Value::Null), Accepted),
        ("/spec/apiKeys", reference(json!({"name": "a.b-1", "key": "A_b.c-1"})), Accepted),
        (
            "/spec/apiKeys",
            reference(json!({"name": "?limit=1", "key": "k"})),
            Both("digits, \"-\" and \".\", beginning"),
        ),
        (
            "/spec/apiKeys",
            reference(json!({"name": "s", "key": "a/b"})),
            Both("must be letters, digits, \"-\", \"_\""),
        ),
        (
            "/spec/apiKeys",
            json!([{"name": "a", "generate": {}}, {"name": "a", "generate": {}}]),
            Each("Duplicate value", "listed twice"),
        ),
        ("/spec/apiKeys", json!([{"generate": {}}]), MISSING),
        ("/spec/apiKeys", key("name", json!("A")), LABEL),
        ("/spec/apiKeys", key("name", json!("")), Each("at least 1 chars long", "1 to 63 characters")),
        ("/spec/apiKeys", key("name", json!("a".repeat(64))), Each("Too long", "1 to 63 characters")),
        ("/spec/apiKeys", key("active", json!(false)), Accepted),
        ("/spec/apiKeys", key("version", json!("v1")), Accepted),
        (
            "/spec/apiKeys",
            key("version", json!("v3")),
            Each("supported values: \"v1\", \"v2\"", "one of: v1, v2"),
        ),
        ("/spec/apiKeys", key("generate", json!({"rotationGeneration": 7})), Accepted),
        (
            "/spec/apiKeys",
            key("generate", json!({"rotationGeneration": -1})),
            Each("greater than or equal to 0", "at least 0"),
        ),
        ("/spec/apiKeys", key("generate", json!({"rotation": 1})), Each("unknown field", "unknown field")),
        ("/spec/apiKeys", reference(json!({"name": "s", "key": "k"})), Accepted),
        ("/spec/apiKeys", reference(json!({"name": "s"})), MISSING),
        ("/spec/apiKeys", reference(json!({"key": "k"})), MISSING),
        (
            "/spec/apiKeys",
            reference(json!({"name": "", "key": "k"})),
            Each("at least 1 chars", "1 to 253 characters"),
        ),
        (
            "/spec/apiKeys",
            reference(json!({"name": "s", "key": "k".repeat(254)})),
            Each("Too long", "1 to 253 characters"),
        ),
        ("/spec/tokens", json!({"lifetimeMinutes": 1, "signingKeyRotationDays": 365}), Accepted),
        ("/spec/tokens", json!({"lifetimeMinutes": 1440, "signingKeyRotationDays": 1}), Accepted),
        ("/spec/tokens", json!({"lifetimeMinutes": 0}), Each("greater than or equal to 1", "from 1 to 1440")),
        (
            "/spec/tokens",
            json!({"lifetimeMinutes": 1441}),
            Each("less than or equal to 1440", "from 1 to 1440"),
        ),
        (
            "/spec/tokens",
            json!({"signingKeyRotationDays": 0}),
            Each("greater than or equal to 1", "from 1 to 365"),
        ),
        (
            "/spec/tokens",
            json!({"signingKeyRotationDays": 366}),
            Each("less than or equal to 365", "from 1 to 365"),
        ),
        ("/spec/tokens", json!({"lifetimeMinutes": 1.5}), Each("must be of type integer", "from 1 to 1440")),
    ]);
}

#[test]
fn external_databases() {
    let one_of = Both("set exactly one of secretKeyRef or secretRef");
    let beside = Both("only secretRef may have other settings beside it");
    let url = json!({"name": "s", "key": "url"});
    let with = |more: Value| {
        let mut external = json!({"secretRef": {"name": "s"}});
        let more = more.as_object().expect("an object").clone();
        external.as_object_mut().expect("an object").extend(more);
        json!({"external": external})
    };
    let at = "/spec/database";
    tenants().hold(&[
        (at, with(json!({})), Accepted),
        (at, with(json!({"secretKeyRef": url})), one_of),
        (at, json!({"external": {"host": "db"}}), one_of),
        (at, json!({"external": {"secretKeyRef": url, "host": "db"}}), beside),
        (at, json!({"external": {"secretKeyRef": url, "pooler": true}}), beside),
        (
            at,
            with(
                json!({"host": "db.example.com", "port": 5433, "dbname": "contoso", "sslMode": "verify-full",
                "pooler": true, "certificateSecretRef": {"name": "c"}}),
            ),
            Accepted,
        ),
        (at, with(json!({"host": "2a00::1"})), Accepted),
        (at, with(json!({"host": "db/x"})), Both("must be a host name or an address")),
        (at, with(json!({"host": "db:5432"})), Both("must be a host name or an address")),
        (at, with(json!({"port": 65536})), Each("less than or equal to 65535", "from 1 to 65535")),
        (
            at,
            with(json!({"sslMode": "on"})),
            Each("supported values: \"disable\", \"prefer\"", "one of: disable, prefer, require"),
        ),
        (at, with(json!({"certificateSecretRef": {}})), MISSING),
    ]);
}

#[test]
fn databases() {
    let one_of = Both("set exactly one of managed or external");
    let external = json!({"secretKeyRef": {"name": "s", "key": "url"}});
    let name = Both("must be lower-case letters, digits and \"_\", beginning with a letter or \"_\"");
    let reserved = Both("the database name is reserved by PostgreSQL");
    tenants().hold(&[
        ("/spec/database", Value::Null, MISSING),
        ("/spec/database", json!({}), one_of),
        ("/spec/database/external", external.clone(), one_of),
        ("/spec/database", json!({"managed": null, "external": external}), Accepted),
        ("/spec/database", json!({"external": {}}), Both("set exactly one of secretKeyRef or secretRef")),
        ("/spec/database/managed/name", Value::Null, MISSING),
        ("/spec/database/managed/name", json!("_x9".to_owned() + &"y".repeat(60)), Accepted),
        ("/spec/database/managed/name", json!("y".repeat(64)), Each("Too long", "1 to 63 characters")),
        ("/spec/database/managed/name", json!(""), Each("at least 1 chars long", "1 to 63 characters")),
        ("/spec/database/managed/name", json!("1x"), name),
        ("/spec/database/managed/name", json!("a-b"), name),
        ("/spec/database/managed/name", json!("postgres"), reserved),
        ("/spec/database/managed/name", json!("template0"), reserved),
        ("/spec/database/managed/name", json!("template1"), reserved),
        ("/spec/database/managed/name", json!("pg_x"), Both("names starting with pg_ are reserved")),
        ("/spec/database/managed/name", json!("pgx"), Accepted),
        ("/spec/database/managed/server", json!("eu-1"), Accepted),
        ("/spec/database/managed/server", json!("EU"), LABEL),
        ("/spec/database/managed/server", json!(""), Each("at least 1 chars long", "1 to 63 characters")),
        ("/spec/database/managed/server", json!("a".repeat(64)), Each("Too long", "1 to 63 characters")),
        ("/spec/database/managed/deletionPolicy", json!("Delete"), Accepted),
        (
            "/spec/database/managed/deletionPolicy",
            json!("Keep"),
            Each("supported values: \"Retain\", \"Delete\"", "one of: Retain, Delete"),
        ),
        ("/spec/database/managed/connectionLimit", json!(1), Accepted),
        ("/spec/database/managed/connectionLimit", json!(1000), Accepted),
        (
            "/spec/database/managed/connectionLimit",
            json!(0),
            Each("greater than or equal to 1", "from 1 to 1000"),
        ),
        (
            "/spec/database/managed/connectionLimit",
            json!(1001),
            Each("less than or equal to 1000", "from 1 to 1000"),
        ),
        ("/spec/database/managed/passwordRotationGeneration", json!(i64::MAX), Accepted),
        (
            "/spec/database/managed/passwordRotationGeneration",
            json!(-1),
            Each("greater than or equal to 0", "at least 0"),
        ),
    ]);
}

#[test]
fn limits() {
    let whole = |least: u32, most: u32| {
        let text = format!("from {least} to {most}");
        (
            Each("should be greater than or equal to", text.clone().leak()),
            Each("should be less than or equal to", text.leak()),
        )
    };
    for (limit, least, most) in [
        ("requestsPerSecond", 1, 100_000),
        ("databaseConnections", 1, 1_000),
        ("bodyBytes", 65_536, 1_048_576),
    ] {
        let path = format!("/spec/limits/{limit}");
        let (low, high) = whole(least, most);
        tenants().hold(&[
            (&path, json!(least), Accepted),
            (&path, json!(most), Accepted),
            (&path, json!(least - 1), low),
            (&path, json!(most + 1), high),
        ]);
    }
    tenants().hold(&[
        ("/spec/limits", json!({}), Accepted),
        ("/spec/limits", json!({"webhooks": 0, "foreignWebhooks": 10_000}), Accepted),
        ("/spec/limits", json!({"webhook": 1}), Each("unknown field", "unknown field")),
    ]);
}

#[test]
fn webhooks() {
    let selector = |selector: Value| json!({"from": "Selector", "selector": selector});
    let labels = |count: usize| -> Value {
        (0..count).map(|n| (format!("l{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
    };
    let expression = |operator: &str, values: Value| json!({"from": "Selector", "selector": {"matchExpressions": [{"key": "team", "operator": operator, "values": values}]}});
    let pair = Both("selector must be set only when from is Selector");
    let values = Both("values must be given for In and NotIn, and left out for Exists and DoesNotExist");
    let expressions = |count: usize| list(count, |_| json!({"key": "team", "operator": "Exists"}));
    tenants().hold(&[
        ("/spec/webhooks", json!({}), Accepted),
        ("/spec/webhooks", json!({"disabled": []}), Each("unknown field", "unknown field")),
        ("/spec/webhooks", json!({"disabledEvents": ["note.created"]}), Accepted),
        ("/spec/webhooks", json!({"disabledEvents": []}), Accepted),
        ("/spec/webhooks", json!({"disabledEvents": ["note.create"]}), Each("supported values", "unknown event")),
        (
            "/spec/webhooks",
            json!({"disabledEvents": ["note.created", "note.created"]}),
            Each("Duplicate value", "listed twice"),
        ),
        ("/spec/webhooks", json!({"disabledEvents": list(17, |_| json!("note.created"))}), Each("Too many", "0 to 16")),
        ("/spec/webhooks", json!({"allowedNamespaces": "All"}), Each("must be of type object", "must be an object")),
        ("/spec/webhooks", json!({"allowedNamespaces": {"from": "All"}}), Accepted),
        ("/spec/webhooks", json!({"allowedNamespaces": {"from": "Some"}}), Each("supported values", "unknown from")),
        ("/spec/webhooks", json!({"allowedNamespaces": {"from": "Selector"}}), pair),
        ("/spec/webhooks", json!({"allowedNamespaces": {"from": "All", "selector": {}}}), pair),
        ("/spec/webhooks", json!({"allowedNamespaces": {"selector": {}}}), pair),
        ("/spec/webhooks", json!({"allowedNamespaces": selector(json!({}))}), Accepted),
        ("/spec/webhooks", json!({"allowedNamespaces": selector(json!({"matchlabels": {}}))}), Each("unknown field", "unknown field")),
        ("/spec/webhooks", json!({"allowedNamespaces": selector(json!({"matchLabels": labels(64)}))}), Accepted),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchLabels": labels(65)}))}),
            Each("Too many", "0 to 64 entries"),
        ),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchLabels": {"a": "v".repeat(64)}}))}),
            Each("Too long", "0 to 63 characters"),
        ),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchLabels": {"a": 1}}))}),
            Each("must be of type string", "put it in quotes"),
        ),
        ("/spec/webhooks", json!({"allowedNamespaces": selector(json!({"matchExpressions": expressions(64)}))}), Accepted),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchExpressions": expressions(65)}))}),
            Each("Too many", "0 to 64 entries"),
        ),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("In", json!(["a"]))}), Accepted),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("NotIn", json!(["a", "a"]))}), Accepted),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("In", json!([]))}), values),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("NotIn", Value::Null)}), values),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("DoesNotExist", json!([]))}), Accepted),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("Exists", json!(["a"]))}), values),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("DoesNotExist", json!(["a"]))}), values),
        ("/spec/webhooks", json!({"allowedNamespaces": expression("Is", json!(["a"]))}), Each("supported values", "unknown operator")),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": expression("In", json!(["v".repeat(64)]))}),
            Each("Too long", "0 to 63 characters"),
        ),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": expression("In", list(65, |n| json!(n.to_string())))}),
            Each("Too many", "0 to 64 entries"),
        ),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchExpressions": [{"operator": "Exists"}]}))}),
            MISSING,
        ),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchExpressions": [{"key": "a"}]}))}),
            MISSING,
        ),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchExpressions": [{"key": "", "operator": "Exists"}]}))}),
            Each("at least 1 chars long", "1 to 317 characters"),
        ),
        (
            "/spec/webhooks",
            json!({"allowedNamespaces": selector(json!({"matchExpressions": [{"key": "k".repeat(318), "operator": "Exists"}]}))}),
            Each("Too long", "1 to 317 characters"),
        ),
    ]);
}

#[test]
fn immutable_fields_are_refused() {
    let managed = |server: Value| json!({"managed": {"name": "tenant_acme", "server": server}});
    let external = |name: &str| json!({"external": {"secretKeyRef": {"name": name, "key": "url"}}});
    let server = Both("database server is immutable");
    let switch = Both("a tenant cannot switch between managed and external databases");
    tenants().hold_changes(&[
        ("/spec/clientCode", json!("ACME"), json!("acme"), Both("clientCode is immutable")),
        ("/spec/displayName", json!("Acme"), json!("Acme Legal"), Accepted),
        ("/spec/database/managed/name", json!("one"), json!("two"), Both("database name is immutable")),
        ("/spec/database", managed(json!("a")), managed(json!("b")), server),
        ("/spec/database", managed(json!("a")), managed(Value::Null), server),
        ("/spec/database", managed(Value::Null), managed(json!("a")), server),
        ("/spec/database/managed/connectionLimit", json!(1), json!(2), Accepted),
        ("/spec/database", managed(Value::Null), external("s"), switch),
        ("/spec/database", external("s"), managed(Value::Null), switch),
        ("/spec/database", external("s"), external("t"), Accepted),
    ]);
}

#[test]
fn left_out_fields_get_the_defaults_of_our_reader() {
    let kind = tenants();
    let spec = json!({
        "clientCode": "X", "apiKeys": [{"name": "a", "generate": {}}], "tokens": {"lifetimeMinutes": 5},
        "database": {"managed": {"name": "x"}}, "webhooks": {"disabledEvents": []}
    });
    for document in [kind.base.clone(), kind.with("/spec", &spec)] {
        let answer: Value =
            serde_json::from_str(&kind.create(&document).expect("it is valid")).expect("JSON");
        let tenant = docket_crds::Tenant::from_json(document).expect("it is valid");
        let mut ours = serde_json::to_value(tenant.spec).expect("plain data");
        // An empty list and none are the same to us; the API server keeps what was written.
        if let Some(list) = answer["spec"]["webhooks"].get("disabledEvents") {
            ours["webhooks"]["disabledEvents"] = list.clone();
        }
        assert_eq!(answer["spec"], ours);
    }
}

/// Where the two part, and why.
#[test]
fn exceptions() {
    tenants().hold(&[
        // Our reader takes metadata as far as it means something to it.
        ("/metadata/labels", json!({"a": 1}), OnlyServer("cannot unmarshal number")),
    ]);
}

#[test]
fn look_of_the_portal() {
    let logo = |bytes: &[u8]| json!(STANDARD.encode(bytes));
    let png = |side: u32| {
        let head = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";
        logo(&[&head[..], &side.to_be_bytes(), &side.to_be_bytes(), &[0; 32_000]].concat())
    };
    let color = Both("must be \"#\" and six hexadecimal digits");
    let image = Both("must be a PNG, JPEG or WebP image");
    tenants().hold(&[
        ("/spec/portal", json!({}), Accepted),
        ("/spec/portal", json!({"colour": "#2f5bd0"}), Each("unknown field", "unknown field")),
        ("/spec/portal/color", json!("#2f5bd0"), Accepted),
        ("/spec/portal/color", json!("2f5bd0"), color),
        ("/spec/portal/color", json!("#2f5bd0\n"), Each("Too long", "1 to 7 characters")),
        ("/spec/portal/color", json!("#2f5bg0"), color),
        ("/spec/portal/logo", png(1024), Accepted),
        ("/spec/portal/logo", png(1025), OnlyReader("must be at most 1024 pixels wide and high")),
        ("/spec/portal/logo", logo(b"\xff\xd8\xff\xc0\0\x11\x08\0\x20\0\x20\x03"), Accepted),
        ("/spec/portal/logo", logo(b"<svg onload='alert(1)'/>"), image),
        ("/spec/portal/logo", logo(b"GIF89a"), image),
        ("/spec/portal/logo", json!("https://acme.example/logo.png"), Both("must be base64 in one line")),
        ("/spec/portal/logo", json!("A".repeat(43_693)), Each("Too long", "1 to 43692 characters")),
    ]);
}
