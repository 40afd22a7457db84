//! The YAML of pages about other operators: Docket's kinds are read, values are rendered, and objects of other operators have
//! fields that their definitions have.

use docket_crds::{Tenant, Webhook};
use serde_json::{Map, Value, json};

use super::helm::{MINIMAL, documents, render, repository, text};

const PAGES: [&str; 5] =
    ["cloudnative-pg.md", "external-secrets.md", "external-database.md", "several-servers.md", "install.md"];

/// The fields of other operators' objects that the pages may set, as their definitions of August 2026 have them:
/// CloudNativePG a95a534, External Secrets cc5bfbc.
const FOREIGN: &[(&str, &str, &[&str])] = &[
    (
        "postgresql.cnpg.io/v1",
        "Cluster",
        &[
            "spec.instances",
            "spec.storage.size",
            "spec.postgresql.parameters.max_connections",
            "spec.certificates.serverAltDNSNames",
            "spec.managed.roles.name",
            "spec.managed.roles.login",
            "spec.managed.roles.createdb",
            "spec.managed.roles.createrole",
            "spec.managed.roles.passwordSecret.name",
            "spec.inheritedMetadata.labels.docket.dev/watch",
            "spec.bootstrap.initdb.database",
            "spec.bootstrap.initdb.owner",
        ],
    ),
    ("postgresql.cnpg.io/v1", "Database", &["spec.name", "spec.owner", "spec.cluster.name"]),
    (
        "postgresql.cnpg.io/v1",
        "Pooler",
        &[
            "spec.cluster.name",
            "spec.instances",
            "spec.type",
            "spec.pgbouncer.poolMode",
            "spec.pgbouncer.parameters.max_client_conn",
            "spec.pgbouncer.parameters.default_pool_size",
            "spec.pgbouncer.parameters.server_idle_timeout",
        ],
    ),
    (
        "cert-manager.io/v1",
        "Issuer",
        &[
            "spec.acme.server",
            "spec.acme.email",
            "spec.acme.privateKeySecretRef.name",
            "spec.acme.solvers.selector.dnsZones",
            "spec.acme.solvers.dns01.cloudflare.apiTokenSecretRef.name",
            "spec.acme.solvers.dns01.cloudflare.apiTokenSecretRef.key",
        ],
    ),
    (
        "cert-manager.io/v1",
        "Certificate",
        &["spec.secretName", "spec.dnsNames", "spec.issuerRef.name", "spec.issuerRef.kind"],
    ),
    (
        "gateway.networking.k8s.io/v1",
        "Gateway",
        &[
            "spec.gatewayClassName",
            "spec.listeners.name",
            "spec.listeners.protocol",
            "spec.listeners.port",
            "spec.listeners.hostname",
            "spec.listeners.tls.certificateRefs.name",
            "spec.listeners.allowedRoutes.namespaces.from",
        ],
    ),
    (
        "external-secrets.io/v1",
        "ExternalSecret",
        &[
            "spec.refreshInterval",
            "spec.secretStoreRef.kind",
            "spec.secretStoreRef.name",
            "spec.target.name",
            "spec.target.template.mergePolicy",
            "spec.target.template.metadata.labels.docket.dev/watch",
            "spec.target.template.data.url",
            "spec.data.secretKey",
            "spec.data.remoteRef.key",
            "spec.data.remoteRef.property",
            "spec.dataFrom.extract.key",
        ],
    ),
];

fn page(name: &str) -> String {
    let path = repository().join("docs/kubernetes").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of all YAML blocks of a page.
fn blocks(page: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for block in page.split("\n```yaml\n").skip(1) {
        let (block, _) = block.split_once("\n```").expect("a block ends");
        found.extend(documents(block));
    }
    found
}

/// The paths of an object's values, without the places in lists.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                leaves(value, &format!("{path}.{name}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, path, found)),
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn each_object_and_value_of_the_pages_is_accepted() {
    let mut seen = 0;
    for name in PAGES {
        for document in blocks(&page(name)) {
            seen += 1;
            let (version, kind) = (document["apiVersion"].as_str(), document["kind"].as_str());
            match (version, kind) {
                (Some("docket.dev/v1alpha1"), Some("Tenant")) => {
                    Tenant::from_json(document).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
                }
                (Some("docket.dev/v1alpha1"), Some("Webhook")) => {
                    Webhook::from_json(document).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
                }
                (Some(version), Some(kind)) => {
                    let known = FOREIGN.iter().find(|known| (known.0, known.1) == (version, kind));
                    let (_, _, fields) = known.unwrap_or_else(|| panic!("{name}: {version} {kind}"));
                    let mut paths = Vec::new();
                    leaves(&document["spec"], "spec", &mut paths);
                    for path in paths {
                        assert!(fields.contains(&path.as_str()), "{name}: {kind} has no field {path}");
                    }
                }
                (None, None) => drop(render(&with_minimal(&document))),
                _ => {} // a part of a Tenant
            }
        }
    }
    assert!(seen > 15, "{seen}");
}

/// These values with what they leave out.
fn with_minimal(values: &Value) -> String {
    let mut all: Map<String, Value> = documents(MINIMAL).remove(0).as_object().expect("values").clone();
    // What a proxy in front of the pods needs is in the page's first values.
    all.insert("api".to_owned(), json!({"trustedProxies": ["10.244.0.0/16"]}));
    // A part of a Tenant's spec, which the page shows alone.
    let own = values.as_object().expect("an object").clone();
    all.extend(own.into_iter().filter(|(name, _)| name != "database"));
    Value::Object(all).to_string()
}

#[test]
fn names_of_the_pages_fit_each_other() {
    let blocks_of = |name: &str| blocks(&page(name));
    let one = |all: &[Value], kind: &str| {
        all.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}")).clone()
    };
    let all = blocks_of("cloudnative-pg.md");
    let server = all.iter().find_map(|values| values["databaseServers"].get(0)).expect("values");
    let (cluster, pooler) = (one(&all, "Cluster"), one(&all, "Pooler"));
    let role = &cluster["spec"]["managed"]["roles"][0];
    assert_eq!(server["secretRef"]["name"], role["passwordSecret"]["name"]);
    let at = |name: &Value, end: &str| format!("{}{end}.databases.svc", text(name));
    assert_eq!(server["host"], at(&cluster["metadata"]["name"], "-rw"));
    assert_eq!(server["pooler"]["host"], at(&pooler["metadata"]["name"], ""));
    assert_eq!(cluster["spec"]["certificates"]["serverAltDNSNames"][0], server["pooler"]["host"]);
    assert_eq!(pooler["spec"]["pgbouncer"]["poolMode"], "transaction");
    let (database, owner) = (one(&all, "Database"), &role["name"]);
    assert_eq!((&database["spec"]["name"], &database["spec"]["owner"]), (&server["dbname"], owner));

    let all = blocks_of("external-secrets.md");
    let made: Vec<&Value> = all.iter().map(|object| &object["spec"]["target"]["name"]).collect();
    let server = all.iter().find_map(|values| values["databaseServers"].get(0)).expect("values");
    let (tenant, webhook) = (one(&all, "Tenant"), one(&all, "Webhook"));
    for used in [
        &server["secretRef"]["name"],
        &webhook["spec"]["secretRef"]["name"],
        &tenant["spec"]["database"]["external"]["secretRef"]["name"],
    ] {
        assert!(made.contains(&used) && used.is_string(), "{used}");
    }
}
