//! A Tenant with everything that belongs to it, as it is seen from outside.

use std::sync::LazyLock;

use docket_crds::ApiKeyDigest;
use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, database_name, decode};
use regex::Regex;
use serde_json::{Value, json};

/// The objects of all Tenants of a release, in its namespace of tenants and in its own.
pub(super) struct Objects {
    tenants: String,
    declared: Vec<Value>,
    runtimes: Vec<Value>,
}

/// The objects of a Tenant.
#[derive(Debug)]
pub(super) struct Seen {
    name: String,
    /// `Null`: it does not exist.
    pub(super) tenant: Value,
    /// The Webhooks that name it.
    pub(super) webhooks: Vec<Value>,
    /// The Secrets in its namespace: generated ones, and what Webhooks refer to.
    secrets: Vec<Value>,
    /// The content of its runtime Secret; `Null`: there is none.
    pub(super) runtime: Value,
}

impl Objects {
    /// Reads the objects.
    pub(super) fn of(release: &Release) -> Self {
        Self {
            tenants: release.tenants.clone(),
            declared: list(&release.tenants, "tenants.docket.dev,webhooks.docket.dev,secrets"),
            runtimes: list(&release.namespace, "secrets"),
        }
    }

    /// The objects of one Tenant.
    pub(super) fn about(&self, name: &str) -> Seen {
        let of_kind = |kind: &str| -> Vec<Value> {
            self.declared.iter().filter(|object| object["kind"] == kind).cloned().collect()
        };
        let tenant = of_kind("Tenant").into_iter().find(|tenant| tenant["metadata"]["name"] == name);
        let webhooks: Vec<Value> = of_kind("Webhook")
            .into_iter()
            .filter(|webhook| webhook["spec"]["tenantRef"]["name"] == name)
            .collect();
        let mark = format!("{}/{name}", self.tenants);
        let is_marked = |secret: &Value| secret["metadata"]["annotations"]["docket.dev/tenant"] == mark;
        let is_named = |secret: &Value| {
            webhooks.iter().any(|webhook| webhook["spec"]["secretRef"]["name"] == secret["metadata"]["name"])
        };
        let runtime = self.runtimes.iter().find(|secret| is_marked(secret)).map(|secret| {
            let json = decode(secret["data"]["runtime.json"].as_str().expect("a configuration"));
            serde_json::from_slice(&json).expect("the operator writes JSON")
        });
        Seen {
            name: name.to_owned(),
            tenant: tenant.unwrap_or_default(),
            secrets: of_kind("Secret").into_iter().filter(|one| is_marked(one) || is_named(one)).collect(),
            webhooks,
            runtime: runtime.unwrap_or_default(),
        }
    }
}

impl Seen {
    /// Reads the objects.
    pub(super) fn of(release: &Release, name: &str) -> Self {
        Objects::of(release).about(name)
    }

    /// Whether neither it nor what the data plane had of it is there. Kubernetes deletes its other Secrets.
    pub(super) fn is_removed(&self) -> bool {
        self.tenant.is_null() && self.runtime.is_null()
    }

    fn secret(&self, name: &str) -> &Value {
        let found = self.secrets.iter().find(|secret| secret["metadata"]["name"] == name);
        found.unwrap_or(&Value::Null)
    }

    fn value(&self, secret: &str, key: &str) -> Option<String> {
        let value = decode(self.secret(secret)["data"][key].as_str()?);
        Some(String::from_utf8(value).expect("it is text"))
    }

    /// Whether what is declared is served and reported, and nothing else is there.
    pub(super) fn is_settled(&self) -> bool {
        match &self.tenant {
            Value::Null => self.runtime.is_null() && self.secrets.is_empty(),
            _ => self.is_handed_over() && self.webhooks.iter().all(|webhook| self.has(webhook)),
        }
    }

    fn is_handed_over(&self) -> bool {
        let (spec, status, config) = (&self.tenant["spec"], &self.tenant["status"], &self.runtime["config"]);
        let generation = &self.tenant["metadata"]["generation"];
        let wanted = |spec: &Value, field: &str| spec[field].as_i64().unwrap_or(0).to_string();
        let is_of = |secret: &str, rotation: String| {
            self.secret(secret)["metadata"]["annotations"]["docket.dev/rotation-generation"] == rotation
        };
        let mut keys = spec["apiKeys"].as_array().into_iter().flatten().enumerate();
        let have_keys = keys.all(|(at, key)| {
            let secret = format!("{}-apikey-{}", self.name, key["name"].as_str().expect("a name"));
            let digest = self.value(&secret, "api-key").and_then(|key| ApiKeyDigest::of(&key).ok());
            let digest = digest.map(|digest| serde_json::to_value(digest).expect("plain data"));
            is_of(&secret, wanted(&key["generate"], "rotationGeneration"))
                && digest.is_some_and(|digest| config["apiKeys"][at]["digest"] == digest)
        });
        let secret = format!("{}-database", self.name);
        let url = config["database"].as_str().unwrap_or_default();
        let password = self.value(&secret, "password").map(|password| format!(":{password}@"));
        let rotation = wanted(&spec["database"]["managed"], "passwordRotationGeneration");
        let has_password = is_of(&secret, rotation) && password.is_some_and(|part| url.contains(&part));
        let served = config["webhooks"].as_array().map_or(0, Vec::len);
        let reason = condition(status, "Ready");
        (&status["observedGeneration"], &self.runtime["generation"]) == (generation, generation)
            && (reason == "Ready" || reason == "Suspended")
            && have_keys
            && has_password
            && (served, &status["webhooks"]) == (self.webhooks.len(), &json!(self.webhooks.len()))
            && self.secrets.iter().all(|secret| self.is_marked_as_it_should(secret))
    }

    /// A signing secret has a mark if and only if no Webhook asks for it.
    fn is_marked_as_it_should(&self, secret: &Value) -> bool {
        let meta = &secret["metadata"];
        if meta["annotations"]["docket.dev/customer-code"].is_null() {
            return true;
        }
        let webhook = self.webhooks.iter().find(|webhook| meta["name"] == signing_secret(webhook));
        match webhook {
            None => meta["annotations"]["docket.dev/unused-since"].is_string(),
            Some(webhook) => {
                let mut owners = meta["ownerReferences"].as_array().into_iter().flatten();
                meta["annotations"]["docket.dev/unused-since"].is_null()
                    && owners.any(|owner| owner["uid"] == webhook["metadata"]["uid"])
            }
        }
    }

    fn has(&self, webhook: &Value) -> bool {
        let (meta, spec, status) = (&webhook["metadata"], &webhook["spec"], &webhook["status"]);
        let mut served = self.runtime["config"]["webhooks"].as_array().into_iter().flatten();
        let Some(served) = served.find(|served| served["uid"] == meta["uid"]) else { return false };
        let secret = match spec["secretRef"]["name"].as_str() {
            Some(name) => {
                let version = &self.secret(name)["metadata"]["resourceVersion"];
                self.value(name, "secret").filter(|_| status["secretVersion"] == *version)
            }
            None => self.value(&signing_secret(webhook), "secret"),
        };
        let hex = |text: String| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let reason = condition(status, "Ready");
        status["observedGeneration"] == meta["generation"]
            && (reason == "Ready" || reason == "TenantSuspended")
            && secret.is_some_and(|secret| served["secret"] == hex(secret))
    }

    /// The whole state as text, with the database and its role, and without what differs between two Tenants that are treated
    /// alike.
    pub(super) async fn state(&self, admin: &str) -> String {
        let shown = |object: &Value| {
            let mut status = object["status"].clone();
            if let Some(status) = status.as_object_mut()
                && status.remove("secretVersion").is_some()
            {
                let secret = self.secret(object["spec"]["secretRef"]["name"].as_str().unwrap_or_default());
                let is_current = secret["metadata"]["resourceVersion"] == object["status"]["secretVersion"];
                status.insert("secretIsCurrent".into(), is_current.into());
            }
            let finalizers = &object["metadata"]["finalizers"];
            json!({"spec": object["spec"], "status": status, "finalizers": finalizers})
        };
        let secret = |secret: &Value| {
            let keys: Vec<_> =
                secret["data"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
            let meta = &secret["metadata"];
            let mut owners = meta["ownerReferences"].as_array().into_iter().flatten();
            json!({
                "name": meta["name"], "labels": meta["labels"], "keys": keys, "type": secret["type"],
                "annotations": meta["annotations"], "isOwned": owners.any(|owner| owner["kind"] == "Tenant"),
            })
        };
        let mut runtime = self.runtime.clone();
        if let Some(runtime) = runtime.as_object_mut() {
            runtime.remove("revision");
            let keys = runtime["config"]["tokens"]["signingKeys"].as_array().map_or(0, Vec::len);
            runtime["config"]["tokens"]["signingKeys"] = keys.into();
        }
        let state = json!({
            "tenant": shown(&self.tenant), "webhooks": self.webhooks.iter().map(shown).collect::<Vec<_>>(),
            "secrets": self.secrets.iter().map(secret).collect::<Vec<_>>(), "runtime": runtime,
            "database": on_server(admin, &self.name).await,
        });
        let state = serde_json::to_string_pretty(&state).expect("plain data");
        normalised(&state, &self.name)
    }

    /// Fails if a value that was there `before` was generated a second time.
    pub(super) fn keeps_values_of(&self, before: &Self, what: &str) {
        let rotation = |secret: &Value| {
            secret["metadata"]["annotations"]["docket.dev/rotation-generation"].as_str().map(str::to_owned)
        };
        for secret in &before.secrets {
            let name = secret["metadata"]["name"].as_str().expect("a name");
            let now = self.secret(name);
            if rotation(secret).is_some() && rotation(secret) == rotation(now) {
                assert_eq!(secret["data"], now["data"], "{what}: a second value in {name}");
            }
        }
        let tokens = |seen: &Self| seen.runtime["config"]["tokens"].clone();
        assert!(
            before.runtime.is_null() || self.runtime.is_null() || tokens(before) == tokens(self),
            "{what}: other signing keys"
        );
    }

    /// Fails if the password that is handed over does not work.
    pub(super) async fn can_log_in(&self) {
        if let Some(url) = self.runtime["config"]["database"].as_str() {
            docket_rig::postgres::client(url).await.batch_execute("SELECT 1").await.expect("it works");
        }
    }
}

fn signing_secret(webhook: &Value) -> String {
    format!("{}.signing-secret", webhook["metadata"]["name"].as_str().expect("a name"))
}

/// The reason of a condition; empty where there is none.
fn condition(status: &Value, kind: &str) -> String {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    let found = all.find(|condition| condition["type"] == kind);
    found.and_then(|found| found["reason"].as_str()).unwrap_or_default().to_owned()
}

fn list(namespace: &str, kinds: &str) -> Vec<Value> {
    let get = ["--namespace", namespace, "get", kinds, "--output=json"];
    let list = cluster().kubectl(&get, "").expect("the administrator reads everything");
    let mut list: Value = serde_json::from_str(&list).expect("it is JSON");
    let mut items = match list["items"].take() {
        Value::Array(items) => items,
        other => panic!("no list: {other}"),
    };
    items.sort_by_key(|item| item["metadata"]["name"].to_string());
    items
}

/// The databases and roles whose names begin like a tenant's database and role.
pub(super) async fn on_server(admin: &str, tenant: &str) -> Vec<String> {
    let sql = "SELECT 'database ' || concat_ws('|', datname, pg_get_userbyid(datdba), datallowconn, \
                   shobj_description(oid, 'pg_database')) \
               FROM pg_database WHERE starts_with(datname, $1) \
               UNION ALL SELECT 'role ' || concat_ws('|', rolname, rolcanlogin, rolconnlimit, \
                   shobj_description(oid, 'pg_authid')) \
               FROM pg_roles WHERE starts_with(rolname, $1) ORDER BY 1";
    let client = docket_rig::postgres::client(admin).await;
    let rows = client.query(sql, &[&database_name(tenant)]).await.expect("a statement");
    rows.iter().map(|row| row.get(0)).collect()
}

/// A text about a Tenant without its name, and without times, uids and random values.
pub(super) fn normalised(text: &str, tenant: &str) -> String {
    static RANDOM: LazyLock<[(Regex, &str); 3]> = LazyLock::new(|| {
        [
            ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
            ("[0-9a-f]{12,}", "HEX"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-9.]+Z", "TIME"),
        ]
        .map(|(pattern, name)| (Regex::new(pattern).expect("a pattern"), name))
    });
    let text = text.replace(&tenant.to_uppercase(), "CODE").replace(tenant, "NAME");
    RANDOM.iter().fold(text, |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned())
}
