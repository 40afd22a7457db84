//! Values of Secrets and ConfigMaps that the documents name.

use super::*;

const KEY: &str = "00112233445566778899aabbccddeeff";

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
