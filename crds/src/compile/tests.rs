use serde_json::{Value, json};

use super::*;
use crate::{ApiKeyDigest, SecretBytes};

const KEY: &str = "00112233445566778899aabbccddeeff";
const OTHER_KEY: &str = "ffeeddccbbaa99887766554433221100";
const PEM: &str = include_str!("authority/prime256v1.pem");

/// Values by `namespace/name/key`. The names of values in ConfigMaps begin with `cm:`.
#[derive(Default)]
struct Folder(BTreeMap<String, Vec<u8>>);

impl Values for Folder {
    fn get(&self, kind: ValueKind, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Missing> {
        let prefix = if kind == ValueKind::ConfigMap { "cm:" } else { "" };
        let object = format!("{prefix}{namespace}/{name}/");
        match self.0.get(&format!("{object}{key}")) {
            Some(value) => Ok(value.clone()),
            None if self.0.keys().any(|path| path.starts_with(&object)) => Err(Missing::KeyNotFound),
            None => Err(Missing::NotFound),
        }
    }
}

/// The inputs of one compilation, which a test can vary.
struct Case {
    tenant: Tenant,
    webhooks: Vec<(String, Webhook)>,
    unreadable: Vec<WebhookConfig>,
    values: Folder,
    generated: Generated,
    platform_disabled: BTreeSet<EventCode>,
    labels: BTreeMap<String, String>,
    platform_limits: PlatformLimits,
}

impl Case {
    fn compile(&self) -> Compilation {
        self.with_inputs(compile)
    }

    fn compile_after(&self, previous: &TenantConfig) -> Compilation {
        self.with_inputs(|inputs| compile(inputs).or_last_good(inputs, previous))
    }

    fn with_inputs<T>(&self, run: impl FnOnce(&Inputs<'_>) -> T) -> T {
        run(&Inputs {
            tenant: &self.tenant,
            uid: "uid-1",
            webhooks: &self.webhooks,
            unreadable: &self.unreadable.iter().collect::<Vec<_>>(),
            values: &self.values,
            generated: &self.generated,
            platform_disabled_events: &self.platform_disabled,
            platform_limits: &self.platform_limits,
            // The Webhook with the highest number in its uid is the oldest.
            created_at: &|uid| -uid[1..].parse::<i64>().unwrap_or(0),
            namespace_labels: &|_| self.labels.clone(),
        })
    }

    fn value(mut self, path: &str, bytes: &[u8]) -> Self {
        self.values.0.insert(path.into(), bytes.into());
        self
    }

    fn webhook(mut self, namespace: &str, spec: Value) -> Self {
        let index = self.webhooks.len();
        self.webhooks.push((format!("w{index}"), webhook(namespace, spec)));
        self
    }
}

fn tenant(spec: Value) -> Case {
    let mut all = json!({"clientCode": "ACME", "database": {"managed": {"name": "tenant_acme"}}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let tenant = json!({"metadata": {"name": "acme", "namespace": "tenants"}, "spec": all});
    Case {
        tenant: serde_json::from_value(tenant).unwrap(),
        webhooks: Vec::new(),
        unreadable: Vec::new(),
        values: Folder::default(),
        generated: Generated {
            signing_keys: vec![SigningKey { kid: "1".into(), secret: b"sign".to_vec().into() }],
            ..Generated::default()
        },
        platform_disabled: BTreeSet::new(),
        labels: BTreeMap::new(),
        platform_limits: "defaults: {foreignWebhooks: 2}".parse().unwrap(),
    }
}

fn webhook(namespace: &str, spec: Value) -> Webhook {
    let mut all = json!({
        "tenantRef": {"name": "acme", "namespace": "tenants"}, "customerCode": "C-1",
        "targetURL": "https://hooks.example/", "events": ["order.created"]
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "w", "namespace": namespace}, "spec": all})).unwrap()
}

#[track_caller]
fn config(compiled: &Compilation) -> &TenantConfig {
    compiled.config.as_ref().unwrap()
}

fn texts(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(ToString::to_string).collect()
}

/// The reasons of the only webhook, which must not be served.
#[track_caller]
fn left_out(case: &Case) -> Vec<String> {
    let compiled = case.compile();
    assert_eq!(config(&compiled).webhooks, [], "it is not served");
    assert_eq!(compiled.webhooks.len(), 1);
    texts(&compiled.webhooks[0].1)
}

#[test]
fn minimal_tenant_is_served_from_a_file() {
    let compiled = tenant(json!({})).compile();
    let config = config(&compiled);
    assert_eq!((&*config.uid, config.namespace.as_str(), config.name.as_str()), ("uid-1", "tenants", "acme"));
    assert_eq!(config.client_code.as_str(), "ACME");
    assert_eq!(config.database, None);
    assert_eq!(config.tokens.lifetime_minutes, 60);
    assert_eq!(config.active_events, EventCode::ALL.into());
    assert_eq!(compiled.degraded, []);
}

#[test]
fn disabled_events_of_tenant_and_platform_add_up() {
    let mut case = tenant(json!({"webhooks": {"disabledEvents": ["note.created"]}}));
    case.platform_disabled.insert(EventCode::InvoiceCreated);
    let events: Vec<_> = config(&case.compile()).active_events.iter().map(|code| code.as_str()).collect();
    assert_eq!(events, ["order.created", "order.updated", "order.exported", "order.status_changed"]);
}

#[test]
fn invalid_tenant_is_not_served() {
    let compiled = tenant(json!({"clientCode": KEY})).compile();
    assert_eq!(
        texts(&compiled.config.unwrap_err()),
        ["InvalidSpec: spec.clientCode: clientCode must not look like a hexadecimal API key"]
    );
}

#[test]
fn tenant_without_a_signing_key_is_pending() {
    let mut case = tenant(json!({}));
    case.generated.signing_keys.clear();
    assert_eq!(
        texts(&case.compile().config.unwrap_err()),
        ["Pending: spec.tokens: the key for session tokens is not generated yet"]
    );
}

fn keys() -> Value {
    json!({"apiKeys": [
        {"name": "own", "secretKeyRef": {"name": "s", "key": "k"}},
        {"name": "made", "generate": {}, "version": "v1"}
    ]})
}

#[test]
fn api_keys_come_from_secrets_and_from_the_operator() {
    let mut case = tenant(keys()).value("tenants/s/k", format!("{}\n", KEY.to_uppercase()).as_bytes());
    case.generated.api_keys.insert("made".into(), OTHER_KEY.into());
    let compiled = case.compile();
    assert_eq!(compiled.degraded, []);
    let digests: Vec<_> = config(&compiled).api_keys.iter().map(|key| key.digest).collect();
    assert_eq!(digests, [ApiKeyDigest::of(KEY).unwrap(), ApiKeyDigest::of(OTHER_KEY).unwrap()]);
    assert_eq!(config(&compiled).api_keys[1].version, crate::KeyVersion::V1);
}

#[test]
fn unresolved_key_is_reported_and_the_others_are_served() {
    let mut case = tenant(keys());
    case.generated.api_keys.insert("made".into(), OTHER_KEY.into());
    for (path, value, reason) in [
        (
            "-",
            "",
            "SecretNotFound: spec.apiKeys[0].secretKeyRef: there is no Secret \"s\" in namespace \"tenants\"",
        ),
        (
            "tenants/s/x",
            "",
            "SecretKeyMissing: spec.apiKeys[0].secretKeyRef: Secret tenants/s has no key \"k\"",
        ),
        (
            "tenants/s/k",
            "hunter2",
            "SecretInvalid: spec.apiKeys[0].secretKeyRef: key \"k\" of Secret tenants/s: an API key must be at \
             least 32 hexadecimal digits and nothing else",
        ),
    ] {
        case = case.value(path, value.as_bytes());
        let compiled = case.compile();
        assert_eq!(texts(&compiled.degraded), [reason]);
        assert_eq!(config(&compiled).api_keys.len(), 1);
    }
}

#[test]
fn missing_generated_key_is_pending_unless_inactive() {
    let compiled = tenant(json!({"apiKeys": [
        {"name": "made", "generate": {}},
        {"name": "old", "active": false, "secretKeyRef": {"name": "gone", "key": "k"}}
    ]}))
    .compile();
    assert_eq!(
        texts(&compiled.degraded),
        ["Pending: spec.apiKeys[0].generate: key \"made\" is not generated yet"]
    );
    assert_eq!(config(&compiled).api_keys, []);
}

#[test]
fn inactive_key_is_known_and_stays_inactive() {
    let key = json!({"name": "own", "active": false, "secretKeyRef": {"name": "s", "key": "k"}});
    let compiled =
        tenant(json!({"apiKeys": [key]})).value("tenants/s/k", format!("{KEY}\r\n").as_bytes()).compile();
    let found: Vec<_> =
        config(&compiled).api_keys.iter().map(|key| (key.name.as_str(), key.active, key.digest)).collect();
    assert_eq!(found, [("own", false, ApiKeyDigest::of(KEY).unwrap())]);
}

#[test]
fn same_key_in_two_entries_is_refused() {
    let mut case = tenant(keys()).value("tenants/s/k", KEY.as_bytes());
    case.generated.api_keys.insert("made".into(), KEY.into());
    assert_eq!(
        texts(&case.compile().degraded),
        ["SecretInvalid: spec.apiKeys[1]: this is the same key as \"own\"; give each entry its own"]
    );
}

#[test]
fn managed_database_is_provisioning_until_it_has_a_url() {
    let mut case = tenant(json!({}));
    case.generated.database = GeneratedDatabase::Ensured(None);
    assert_eq!(
        texts(&case.compile().config.unwrap_err()),
        ["Provisioning: spec.database.managed: the database is not created or migrated yet"]
    );
    let url = DatabaseUrl::parse("postgres://u:p@db/tenant_acme").unwrap();
    case.generated.database = GeneratedDatabase::Ensured(Some(url.clone()));
    assert_eq!(config(&case.compile()).database, Some(url));
    assert!(!config(&case.compile()).database_is_external);
}

#[test]
fn external_database_needs_a_url_in_its_secret() {
    let mut case = tenant(json!({"database": {"external": {"secretKeyRef": {"name": "db", "key": "url"}}}}));
    assert_eq!(config(&case.compile()).database, None, "the embedded mode does not look");
    case.generated.database = GeneratedDatabase::Declared;
    assert_eq!(case.compile().config.unwrap_err()[0].code, ReasonCode::SecretNotFound);
    case = case.value("tenants/db/url", b"hunter2");
    let reasons = case.compile().config.unwrap_err();
    assert_eq!(reasons[0].code, ReasonCode::SecretInvalid);
    assert!(!reasons[0].message.contains("hunter2"));
    case = case.value("tenants/db/url", b"postgresql://u:p@db/x\n");
    let made = config(&case.compile()).clone();
    assert_eq!(made.database.as_ref().unwrap().expose(), "postgresql://u:p@db/x");
    assert!(made.database_is_external);
}

#[test]
fn external_database_may_come_from_the_keys_of_a_secret() {
    let external =
        json!({"secretRef": {"name": "app"}, "certificateSecretRef": {"name": "ca"}, "host": "acme-rw.db"});
    let mut case = tenant(json!({"database": {"external": external}}));
    case.generated.database = GeneratedDatabase::Declared;
    case = case.value("tenants/app/username", b"acme").value("tenants/app/password", b"p@/\n");
    let missing = texts(&case.compile().config.unwrap_err());
    assert_eq!(
        missing,
        [
            "SecretNotFound: spec.database.external.certificateSecretRef: there is no Secret \"ca\" in namespace \"tenants\""
        ]
    );
    case = case.value("tenants/ca/ca.crt", PEM.as_bytes());
    let missing = texts(&case.compile().config.unwrap_err());
    assert_eq!(
        missing,
        [
            "SecretKeyMissing: spec.database.external.secretRef: Secret tenants/app: has no key \"dbname\"; add it, or \
          set dbname beside the Secret's name"
        ]
    );
    case = case.value("tenants/app/dbname", b"acme").value("tenants/app/host", b"acme-rw");
    let url = config(&case.compile()).database.clone().unwrap();
    let expected =
        "postgresql://acme:p%40%2F@acme-rw.db:5432/acme?sslmode=verify-full&sslrootcert=-----BEGIN%20";
    assert!(url.expose().starts_with(expected), "{}", url.expose());
    case = case.value("tenants/app/dbname", b"*");
    assert_eq!(case.compile().config.unwrap_err()[0].code, ReasonCode::SecretInvalid);
}

#[test]
fn external_url_is_used_once_it_is_prepared() {
    let mut case = tenant(json!({"database": {"external": {"secretKeyRef": {"name": "db", "key": "url"}}}}))
        .value("tenants/db/url", b"postgresql://u:p@typo/x");
    case.generated.database = GeneratedDatabase::Ensured(None);
    assert_eq!(case.compile().config.unwrap_err()[0].code, ReasonCode::Provisioning);
    let good = DatabaseUrl::parse("postgresql://u:p@db/x").unwrap();
    case.generated.database = GeneratedDatabase::Ensured(Some(good.clone()));
    assert_eq!(config(&case.compile()).database, Some(good));
}

#[test]
fn webhook_is_served_with_its_secret_and_certificates() {
    let compiled = tenant(json!({}))
        .value("tenants/s/secret", b" raw \n")
        .value("cm:tenants/ca/ca.crt", format!("# root\n{PEM}").as_bytes())
        .webhook(
            "tenants",
            json!({
                "secretRef": {"name": "s"}, "caBundleRef": {"kind": "ConfigMap", "name": "ca"},
                "displayName": "Orders", "active": false
            }),
        )
        .compile();
    assert_eq!(compiled.webhooks, [(0, vec![])]);
    let webhook = &config(&compiled).webhooks[0];
    assert_eq!((webhook.uid.as_str(), webhook.display_name.as_deref()), ("w0", Some("Orders")));
    assert_eq!(webhook.secret, Some(SecretBytes::from(b" raw \n".to_vec())), "byte for byte");
    assert_eq!(webhook.ca_bundle.as_deref(), Some(PEM));
    assert_eq!(webhook.events, [EventCode::OrderCreated].into());
    assert!(!webhook.active);
}

#[test]
fn webhook_without_a_secret_ref_is_unsigned() {
    let compiled = tenant(json!({})).webhook("tenants", json!({})).compile();
    assert_eq!(config(&compiled).webhooks[0].secret, None);
}

#[test]
fn webhook_with_a_generated_secret_is_never_served_unsigned() {
    let mut case = tenant(json!({})).webhook("tenants", json!({"generateSecret": {}}));
    assert_eq!(left_out(&case), ["Pending: spec.generateSecret: the secret is not generated yet"]);
    let reason = Reason::new(ReasonCode::SecretInvalid, "spec.generateSecret", "it is another's");
    case.generated.webhook_secrets.insert("w0".into(), Err(reason));
    assert_eq!(left_out(&case), ["SecretInvalid: spec.generateSecret: it is another's"]);
    let secrets = SigningSecrets { current: b"abc".to_vec().into(), next: Some(b"def".to_vec().into()) };
    case.generated.webhook_secrets.insert("w0".into(), Ok(secrets));
    assert_eq!(config(&case.compile()).webhooks[0].secrets(), [b"abc", b"def"]);
}

#[test]
fn secret_is_generated_only_beside_the_tenant() {
    let allowed = json!({"webhooks": {"allowedNamespaces": {"from": "All"}}});
    let mut case = tenant(allowed).webhook("team-a", json!({"generateSecret": {}}));
    let secrets = SigningSecrets { current: b"abc".to_vec().into(), next: None };
    case.generated.webhook_secrets.insert("w0".into(), Ok(secrets));
    assert_eq!(
        left_out(&case),
        [
            "SecretInvalid: spec.generateSecret: secrets are generated only in the Tenant's own namespace; name a Secret \
          with secretRef"
        ]
    );
}

#[test]
fn webhook_with_a_secret_ref_is_never_served_unsigned() {
    let mut case = tenant(json!({})).webhook("tenants", json!({"secretRef": {"name": "s", "key": "k"}}));
    assert_eq!(
        left_out(&case),
        ["SecretNotFound: spec.secretRef: there is no Secret \"s\" in namespace \"tenants\""]
    );
    case = case.value("tenants/s/other", b"x");
    assert_eq!(left_out(&case), ["SecretKeyMissing: spec.secretRef: Secret tenants/s has no key \"k\""]);
    case = case.value("tenants/s/k", b"");
    assert_eq!(
        left_out(&case),
        [
            "SecretInvalid: spec.secretRef: key \"k\" of Secret tenants/s: must not be empty; leave out secretRef for \
         unsigned deliveries"
        ]
    );
}

#[test]
fn next_secret_signs_too_while_the_secret_has_one() {
    let secret_ref = json!({"secretRef": {"name": "s", "nextKey": "next"}});
    let mut case = tenant(json!({})).webhook("tenants", secret_ref).value("tenants/s/secret", b"old");
    let next = |case: &Case| config(&case.compile()).webhooks[0].next_secret.clone();
    assert_eq!(next(&case), None);
    case = case.value("tenants/s/next", b"new");
    assert_eq!(next(&case), Some(b"new".to_vec().into()));
    case = case.value("tenants/s/next", b"old");
    assert_eq!(next(&case), None, "it has taken its place");
    case = case.value("tenants/s/next", b"");
    assert_eq!(
        left_out(&case),
        [
            "SecretInvalid: spec.secretRef.nextKey: key \"next\" of Secret tenants/s: must not be empty; remove the key \
             from the Secret while there is no next secret"
        ]
    );
}

#[test]
fn ca_bundle_without_a_certificate_is_refused() {
    let bundle = |kind: &str| json!({"caBundleRef": {"kind": kind, "name": "ca", "key": "c"}});
    let mut case = tenant(json!({})).webhook("tenants", bundle("ConfigMap"));
    assert!(
        left_out(&case)[0].starts_with("ConfigMapNotFound: spec.caBundleRef: there is no ConfigMap \"ca\"")
    );
    case = case.value("cm:tenants/ca/x", b"");
    assert!(left_out(&case)[0].starts_with("ConfigMapKeyMissing: "));
    case = case.value("cm:tenants/ca/c", b"hunter2");
    assert!(
        left_out(&case)[0]
            .starts_with("InvalidCaBundle: spec.caBundleRef: key \"c\" of ConfigMap tenants/ca: ")
    );
    let case = tenant(json!({})).webhook("tenants", bundle("Secret")).value("tenants/ca/c", PEM.as_bytes());
    assert_eq!(case.compile().webhooks, [(0, vec![])]);
}

#[test]
fn ca_bundle_that_can_vouch_for_no_receiver_is_refused_with_the_reason() {
    let case = |pem: &str| {
        let bundle = json!({"caBundleRef": {"kind": "Secret", "name": "ca", "key": "c"}});
        tenant(json!({})).webhook("tenants", bundle).value("tenants/ca/c", pem.as_bytes())
    };
    let unusable = include_str!("authority/secp521r1.pem");
    let refused = left_out(&case(unusable)).remove(0);
    let why = "InvalidCaBundle: spec.caBundleRef: key \"c\" of Secret tenants/ca: certificate 1 can't be used as an \
               authority: its key is P-521; use an authority with RSA";
    assert!(refused.starts_with(why), "{refused}");
    let both = case(&format!("{unusable}{PEM}")).compile();
    assert_eq!(both.webhooks, [(0, vec![])], "one of them can be used");
    assert!(ca_bundle_warning(config(&both).webhooks[0].ca_bundle.as_deref().unwrap().as_bytes()).is_some());
}

#[test]
fn ca_bundle_with_a_broken_certificate_is_refused_and_the_last_good_one_stays() {
    let case = |pem: &str| {
        let bundle = json!({"caBundleRef": {"kind": "Secret", "name": "ca", "key": "c"}});
        tenant(json!({})).webhook("tenants", bundle).value("tenants/ca/c", pem.as_bytes())
    };
    let before = case(PEM).compile();
    let no_certificate = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n";
    for (broken, why) in [
        (PEM.replace('M', "!"), "is not base64"),
        (PEM.replace("-----END", "----END"), "has no line -----END CERTIFICATE-----"),
        (no_certificate.to_owned(), "is not an X.509 certificate"),
    ] {
        let after = case(&format!("{PEM}{broken}{PEM}")).compile_after(config(&before));
        let why = format!(
            "InvalidCaBundle: spec.caBundleRef: key \"c\" of Secret tenants/ca: certificate 2 of 3 {why}"
        );
        let refused = texts(&after.webhooks[0].1);
        assert!(refused.len() == 1 && refused[0].starts_with(&why), "{refused:?}");
        assert_eq!(config(&after).webhooks, config(&before).webhooks, "{why}");
    }
}

#[test]
fn ca_bundle_is_bounded() {
    let case = |count: usize| {
        let bundle = json!({"caBundleRef": {"kind": "Secret", "name": "ca", "key": "c"}});
        tenant(json!({})).webhook("tenants", bundle).value("tenants/ca/c", PEM.repeat(count).as_bytes())
    };
    let most = MAX_CA_BUNDLE / PEM.len();
    assert_eq!(case(most).compile().webhooks, [(0, vec![])]);
    let too_large = (most + 1) * PEM.len();
    let why = format!(
        "InvalidCaBundle: spec.caBundleRef: key \"c\" of Secret tenants/ca: must have at most 65536 bytes of certificates, not \
         {too_large}"
    );
    assert_eq!(left_out(&case(most + 1)), [why]);
}

#[test]
fn value_that_is_too_large_is_not_used() {
    let case = |spec: Value, path: &str, bytes: usize| {
        let case = tenant(json!({})).webhook("tenants", spec).value("tenants/s/secret", b"current");
        case.value(path, &vec![b'x'; bytes])
    };
    let (secret, bundle) =
        (json!({"secretRef": {"name": "s"}}), json!({"caBundleRef": {"kind": "ConfigMap", "name": "ca"}}));
    let next = json!({"secretRef": {"name": "s", "nextKey": "next"}});
    assert_eq!(case(secret.clone(), "tenants/s/secret", MAX_VALUE).compile().webhooks, [(0, vec![])]);
    for (spec, path, expected) in [
        (secret, "tenants/s/secret", "SecretInvalid: spec.secretRef: key \"secret\" of Secret tenants/s"),
        (next, "tenants/s/next", "SecretInvalid: spec.secretRef.nextKey: key \"next\" of Secret tenants/s"),
        (
            bundle,
            "cm:tenants/ca/ca.crt",
            "InvalidCaBundle: spec.caBundleRef: key \"ca.crt\" of ConfigMap tenants/ca",
        ),
    ] {
        let expected = format!("{expected}: must have at most {MAX_VALUE} bytes");
        assert_eq!(left_out(&case(spec, path, MAX_VALUE + 1)), [expected]);
    }
}

#[test]
fn webhook_that_cannot_be_read_keeps_its_place_among_the_others() {
    let served = tenant(json!({})).webhook("tenants", json!({})).compile();
    let mut case = tenant(json!({"limits": {"webhooks": 2}}));
    case = case.webhook("tenants", json!({})).webhook("tenants", json!({}));
    case.unreadable = vec![WebhookConfig { uid: "w9".into(), ..config(&served).webhooks[0].clone() }];
    let compiled = case.compile();
    let uids: Vec<_> = config(&compiled).webhooks.iter().map(|webhook| webhook.uid.as_str()).collect();
    assert_eq!(uids, ["w1"], "the older of the two");
    assert_eq!(compiled.webhooks[0].1[0].code, ReasonCode::TooManyWebhooks);
}

#[test]
fn webhooks_of_other_namespaces_are_bounded_and_the_oldest_stay() {
    let named = || json!({"tenantRef": {"name": "acme", "namespace": "tenants"}});
    let mut case = tenant(json!({"webhooks": {"allowedNamespaces": {"from": "All"}}}));
    for namespace in ["other", "tenants", "third", "other", "tenants"] {
        case = case.webhook(namespace, named());
    }
    let compiled = case.compile();
    let uids: Vec<_> = config(&compiled).webhooks.iter().map(|webhook| webhook.uid.as_str()).collect();
    assert_eq!(uids, ["w1", "w2", "w3", "w4"], "its own are not counted");
    let (index, reasons) = &compiled.webhooks[0];
    assert_eq!((*index, reasons[0].code), (0, ReasonCode::TooManyWebhooks));
    assert!(reasons[0].message.contains("takes 2 Webhooks of other namespaces"), "{}", reasons[0]);
}

#[test]
fn broken_webhook_does_not_affect_the_others() {
    let compiled = tenant(json!({}))
        .webhook("tenants", json!({"targetURL": "http://hooks.example/", "secretRef": {"name": "s"}}))
        .webhook("tenants", json!({"tenantRef": {"name": "beta"}}))
        .webhook("tenants", json!({}))
        .compile();
    let uids: Vec<_> = config(&compiled).webhooks.iter().map(|webhook| webhook.uid.as_str()).collect();
    assert_eq!(uids, ["w2"]);
    let reasons: Vec<_> = compiled.webhooks.iter().map(|(index, reasons)| (*index, texts(reasons))).collect();
    assert_eq!(
        reasons,
        [
            (
                0,
                vec![
                    "InvalidSpec: spec.targetURL: targetURL must be an absolute https:// URL".to_owned(),
                    "SecretNotFound: spec.secretRef: there is no Secret \"s\" in namespace \"tenants\""
                        .to_owned(),
                ]
            ),
            (2, vec![]),
        ]
    );
}

#[test]
fn namespaces_are_allowed_by_same_all_or_selector() {
    let selector = json!({"from": "Selector", "selector": {"matchLabels": {"team": "acme"}}});
    for (allowed, labels, own, other) in [
        (json!({}), &[][..], true, false),
        (json!({"from": "All"}), &[], true, true),
        (selector.clone(), &[("team", "acme")], true, true),
        (selector, &[("team", "beta")], true, false),
    ] {
        let mut case = tenant(json!({"webhooks": {"allowedNamespaces": allowed}}));
        case.labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let compiled = case.webhook("tenants", json!({})).webhook("team-a", json!({})).compile();
        let served = |index: usize| compiled.webhooks[index].1.is_empty();
        assert_eq!((served(0), served(1)), (own, other), "{allowed}");
    }
}

#[test]
fn forbidden_namespace_gets_the_reason_of_a_missing_tenant() {
    let case = tenant(json!({})).webhook("team-a", json!({"secretRef": {"name": "gone"}}));
    let reasons = case.compile().webhooks[0].1.clone();
    assert_eq!(reasons, [unreachable_tenant(&case.webhooks[0].1)]);
    assert_eq!(
        reasons[0].to_string(),
        "RefNotPermitted: spec.tenantRef: there is no Tenant \"acme\" in namespace \"tenants\", or its \
         spec.webhooks.allowedNamespaces does not include \"team-a\""
    );
    let own = webhook("tenants", json!({}));
    assert_eq!(
        unreachable_tenant(&own).to_string(),
        "TenantNotFound: spec.tenantRef: there is no Tenant \"acme\" in namespace \"tenants\""
    );
}

#[test]
fn served_webhook_stays_when_its_secret_is_deleted() {
    let mut case = tenant(keys())
        .value("tenants/s/k", KEY.as_bytes())
        .value("tenants/hook/secret", b"hunter2")
        .webhook("tenants", json!({"secretRef": {"name": "hook"}}));
    let before = config(&case.compile()).clone();
    case.values.0.clear();
    let after = case.compile_after(&before);
    assert_eq!(config(&after), &before);
    assert_eq!(after.degraded.len(), 2, "the missing Secret and the key never made");
    assert_eq!(after.webhooks[0].1[0].code, ReasonCode::SecretNotFound, "the reason is still reported");

    case.tenant.spec.api_keys[0].active = false;
    case.webhooks[0].1.spec.active = false;
    let after = case.compile_after(&before);
    assert_eq!(config(&after).api_keys, [], "switched off at once");
    assert!(!config(&after).webhooks[0].active, "switched off at once");
}

#[test]
fn broken_tenant_stays_as_served_but_can_be_suspended() {
    let mut case = tenant(json!({}));
    let before = config(&case.compile()).clone();
    case.tenant.spec.client_code = String::new();
    case.tenant.spec.suspend = true;
    let suspended = TenantConfig { suspended: true, ..before.clone() };
    let after = case.compile_after(&before);
    assert_eq!(config(&after), &suspended);
    assert_eq!(after.degraded[0].field, "spec.clientCode", "the reason is still reported");
    let stranger = TenantConfig { uid: "uid-0".into(), ..before };
    assert!(case.compile_after(&stranger).config.is_err(), "another uid is another tenant");
}

#[test]
fn broken_tenant_stays_suspended_and_within_the_platforms_maxima() {
    let mut case = tenant(json!({"suspend": true, "limits": {"webhooks": 60}}));
    let before = config(&case.compile()).clone();
    assert_eq!((before.suspended, before.limits.webhooks), (true, 60));
    case.tenant.spec.client_code = String::new();
    case.tenant.spec.suspend = false;
    case.platform_limits = "maxima: {webhooks: 50}".parse().unwrap();
    let after = case.compile_after(&before);
    assert!(config(&after).suspended, "a spec that is broken ends no suspension");
    assert_eq!(config(&after).limits.webhooks, 50, "a maximum holds at once");
}

#[test]
fn key_and_webhook_can_be_ended_while_the_tenant_is_broken() {
    let mut case = tenant(json!({"apiKeys": [{"name": "a", "generate": {}}, {"name": "b", "generate": {}}]}))
        .webhook("tenants", json!({}))
        .webhook("tenants", json!({}));
    case.generated.api_keys = [("a", KEY), ("b", OTHER_KEY)].map(|(n, k)| (n.into(), k.into())).into();
    let before = config(&case.compile()).clone();
    case.generated.database = GeneratedDatabase::Ensured(None);
    assert_eq!(config(&case.compile_after(&before)), &before);

    case.tenant.spec.api_keys[0].active = false;
    case.webhooks.pop();
    let after = case.compile_after(&before);
    assert_eq!(config(&after).api_keys, before.api_keys[1..]);
    assert_eq!(config(&after).webhooks, before.webhooks[..1]);
}

#[test]
fn webhook_that_is_forbidden_or_deleted_is_not_restored() {
    let mut case = tenant(json!({"webhooks": {"allowedNamespaces": {"from": "All"}}}))
        .webhook("team-a", json!({}))
        .webhook("tenants", json!({}));
    let before = config(&case.compile()).clone();
    assert_eq!(before.webhooks.len(), 2);
    case.tenant.spec.webhooks.allowed_namespaces = Default::default();
    case.webhooks.pop();
    assert_eq!(config(&case.compile_after(&before)).webhooks, []);
}

#[test]
fn own_webhooks_come_before_foreign_ones_and_then_the_oldest() {
    let mut case =
        tenant(json!({"webhooks": {"allowedNamespaces": {"from": "All"}}, "limits": {"webhooks": 3}}))
            .webhook("tenants", json!({}))
            .webhook("team-a", json!({}))
            .webhook("tenants", json!({}))
            .webhook("team-a", json!({}))
            .webhook("team-b", json!({}));
    let served = |compiled: &Compilation| -> Vec<String> {
        config(compiled).webhooks.iter().map(|webhook| webhook.uid.clone()).collect()
    };
    let before = case.compile();
    assert_eq!(served(&before), ["w0", "w2", "w4"]);
    assert_eq!(
        texts(&before.webhooks[3].1),
        [
            "TooManyWebhooks: spec.tenantRef: the Tenant takes 3 Webhooks, and as many that come first name it; delete one \
          of them, or raise the Tenant's spec.limits.webhooks, as far as the platform allows"
        ]
    );
    case.tenant.spec.limits.webhooks = Some(10);
    let compiled = case.compile();
    assert_eq!(served(&compiled), ["w0", "w2", "w3", "w4"], "two foreign ones");
    assert!(texts(&compiled.webhooks[1].1)[0].contains("the Tenant takes 2 Webhooks of other namespaces"));
    case.tenant.spec.limits.webhooks = Some(1);
    assert_eq!(served(&case.compile_after(config(&before))), ["w2"], "a lower limit holds at once");
}

#[test]
fn limits_are_in_the_configuration_and_what_the_platform_does_not_give_is_reported() {
    let mut case = tenant(json!({"limits": {"requestsPerSecond": 500, "bodyBytes": 70_000}}));
    case.platform_limits = "maxima: {requestsPerSecond: 100}".parse().unwrap();
    let compiled = case.compile();
    let limits = config(&compiled).limits;
    assert_eq!((limits.requests_per_second, limits.body_bytes, limits.webhooks), (100, 70_000, 1000));
    let codes: Vec<_> = compiled.degraded.iter().map(|reason| (reason.code, reason.field.as_str())).collect();
    assert_eq!(codes, [(ReasonCode::AboveMaximum, "spec.limits.requestsPerSecond")]);
}

#[test]
fn lowered_maximum_holds_for_a_broken_tenant_too() {
    let mut case = tenant(json!({"limits": {"requestsPerSecond": 500}}));
    let before = config(&case.compile()).clone();
    case.generated.signing_keys.clear();
    case.platform_limits = "maxima: {requestsPerSecond: 100}".parse().unwrap();
    assert!(case.compile().config.is_err(), "no key signs tokens");
    assert_eq!(config(&case.compile_after(&before)).limits.requests_per_second, 100);
}

#[test]
fn debug_of_inputs_shows_no_secret() {
    let mut case = tenant(json!({})).webhook("tenants", json!({}));
    case.generated.api_keys.insert("made".into(), KEY.into());
    let shown = format!("{:?} {:?}", case.generated, case.with_inputs(|inputs| format!("{inputs:?}")));
    assert!(!shown.contains(KEY), "{shown}");
    assert!(shown.contains("\"made\""));
}

#[test]
fn look_of_the_portal_is_served_and_a_logo_that_is_too_large_is_named() {
    use base64::Engine;
    let logo = |side: u32| {
        let head = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";
        let png = [&head[..], &side.to_be_bytes(), &side.to_be_bytes()].concat();
        base64::engine::general_purpose::STANDARD.encode(png)
    };
    let look = PortalLook { color: Some("#2f5bd0".into()), logo: Some(logo(32)) };
    let before = tenant(json!({"portal": look})).compile();
    assert_eq!(config(&before).portal, look);
    assert_eq!(config(&tenant(json!({})).compile()).portal, PortalLook::default());
    let wrong = tenant(json!({"portal": {"logo": logo(1025)}}));
    let text = "InvalidSpec: spec.portal.logo: must be at most 1024 pixels wide and high";
    assert_eq!(texts(&wrong.compile().config.unwrap_err()), [text]);
    let kept = wrong.compile_after(config(&before));
    assert_eq!((&config(&kept).portal, texts(&kept.degraded)), (&look, vec![text.to_owned()]));
}
