//! The two definitions in a real kube-apiserver, compared with our own reader: a cluster accepts the YAML that
//! `docket dev` accepts, and the other way round.

mod chart;
mod shown;
mod tenant;
mod webhook;

use docket_crds::{Tenant, Violation, Webhook};
use docket_tests::apiserver::{Cluster, KubectlOutput, cluster};
use serde_json::{Value, json};

/// The verdict on a value that a test expects from the API server and from our reader.
#[derive(Clone, Copy)]
enum Expectation {
    /// The API server and our reader accept the value.
    Accepted,
    /// The API server and our reader refuse the value with the same text: a rule in CEL.
    Both(&'static str),
    /// The texts of the API server and of our reader: a rule of the schema's structure, which the API server words by itself.
    Each(&'static str, &'static str),
    /// Only the API server accepts the value; our reader refuses it with this text. The operator reports the object as
    /// `InvalidSpec`.
    OnlyReader(&'static str),
    /// Only our reader accepts the value; the API server refuses it with this text.
    OnlyServer(&'static str),
}
use Expectation::{Accepted, Both, Each, OnlyReader, OnlyServer};

impl Expectation {
    fn server(self) -> Option<&'static str> {
        match self {
            Accepted | OnlyReader(_) => None,
            Both(text) | Each(text, _) | OnlyServer(text) => Some(text),
        }
    }

    fn reader(self) -> Option<&'static str> {
        match self {
            Accepted | OnlyServer(_) => None,
            Both(text) | Each(_, text) | OnlyReader(text) => Some(text),
        }
    }
}

/// Returns what our reader refuses in a document, also as a change of another.
type Reader = fn(document: &Value, old: Option<&Value>) -> Vec<Violation>;

fn read_tenant(document: &Value, old: Option<&Value>) -> Vec<Violation> {
    let read = |document: &Value| Tenant::from_json(document.clone());
    match read(document) {
        Ok(tenant) => {
            old.map_or_else(Vec::new, |old| tenant.validate_change(&read(old).expect("it is stored")))
        }
        Err(violations) => violations,
    }
}

fn read_webhook(document: &Value, old: Option<&Value>) -> Vec<Violation> {
    let read = |document: &Value| Webhook::from_json(document.clone());
    match read(document) {
        Ok(webhook) => {
            old.map_or_else(Vec::new, |old| webhook.validate_change(&read(old).expect("it is stored")))
        }
        Err(violations) => violations,
    }
}

/// One kind, with an object of it that is stored, so that each case is a creation and a change.
struct Kind {
    cluster: &'static Cluster,
    path: String,
    /// The path of the kind in an empty namespace, so that each case can be created.
    empty: String,
    base: Value,
    stored: Value,
    reader: Reader,
}

impl Kind {
    fn new(plural: &str, base: Value, reader: Reader) -> Self {
        let cluster = cluster();
        cluster.install_crds();
        let path = || format!("/apis/docket.dev/v1alpha1/namespaces/{}/{plural}", cluster.namespace("crds"));
        let (path, empty) = (path(), path());
        let stored = cluster.post(&path, &base).expect("the example is valid");
        let stored = serde_json::from_str(&stored).expect("an answer is JSON");
        Self { cluster, path, empty, base, stored, reader }
    }

    /// The base with another value at `pointer`; `Value::Null` removes the member.
    fn with(&self, pointer: &str, value: &Value) -> Value {
        let mut document = self.base.clone();
        set(&mut document, pointer, value);
        document
    }

    fn create(&self, document: &Value) -> KubectlOutput {
        self.cluster.post(&format!("{}?dryRun=All&fieldValidation=Strict", self.empty), document)
    }

    fn change(&self, document: &Value) -> KubectlOutput {
        let mut document = document.clone();
        set(&mut document, "/metadata/resourceVersion", &self.stored["metadata"]["resourceVersion"]);
        let name = self.base["metadata"]["name"].as_str().expect("it has a name");
        self.cluster.put(&format!("{}/{name}?dryRun=All&fieldValidation=Strict", self.path), &document)
    }

    /// Checks each case of a rule as a creation and, where the name stays, as a change.
    fn hold(&self, cases: &[(&str, Value, Expectation)]) {
        let mut wrong = Vec::new();
        for (pointer, value, expectation) in cases {
            let document = self.with(pointer, value);
            let mut compare = |how: &str, server: Option<String>, reader: &[Violation]| {
                let reader = (!reader.is_empty())
                    .then(|| reader.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
                for (side, expected, message) in
                    [("server", expectation.server(), server), ("reader", expectation.reader(), reader)]
                {
                    let fits = match (expected, &message) {
                        (None, None) => true,
                        (Some(expected), Some(message)) => message.contains(expected),
                        _ => false,
                    };
                    if !fits {
                        wrong.push(format!(
                            "{how} {pointer} = {value}\n  message of the {side}: {message:?}\n  expected: {expected:?}"
                        ));
                    }
                }
            };
            compare("create", refusal(self.create(&document)), &(self.reader)(&document, None));
            let as_change = (self.reader)(&document, Some(&self.base));
            let same_name = document["metadata"]["name"] == self.base["metadata"]["name"];
            // What is valid but must not change is in the tables of changes.
            let immutable = expectation.reader().is_none() && !as_change.is_empty();
            if same_name && !immutable {
                compare("change", refusal(self.change(&document)), &as_change);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Holds each case as a change from the first value to the second.
    fn hold_changes(&self, cases: &[(&str, Value, Value, Expectation)]) {
        for (pointer, before, after, expectation) in cases {
            let mut before = self.with(pointer, before);
            before["metadata"]["name"] = json!("changing");
            let stored = self.cluster.post(&self.path, &before).expect("what is changed is valid");
            let mut after_document = before.clone();
            set(&mut after_document, pointer, after);
            let reader = (self.reader)(&after_document, Some(&before));
            let stored: Value = serde_json::from_str(&stored).expect("an answer is JSON");
            after_document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            let server = refusal(self.cluster.put(&format!("{}/changing", self.path), &after_document));
            let reader = (!reader.is_empty()).then(|| reader[0].to_string());
            for (side, expected, message) in
                [("server", expectation.server(), server), ("reader", expectation.reader(), reader)]
            {
                let fits = expected.is_none() == message.is_none()
                    && message.as_deref().unwrap_or_default().contains(expected.unwrap_or_default());
                assert!(
                    fits,
                    "{pointer} to {after}: message of the {side}: {message:?}, expected: {expected:?}"
                );
            }
            let plural = self.path.rsplit('/').next().expect("the path ends with the kind");
            let namespace = self.path.split('/').nth(5).expect("the path names the namespace");
            self.cluster
                .kubectl(&["--namespace", namespace, "delete", plural, "changing"], "")
                .expect("what was made can be deleted");
        }
    }
}

fn refusal(output: KubectlOutput) -> Option<String> {
    (!output.ok).then_some(output.err)
}

/// Sets or, with `Value::Null`, removes what is at `pointer`; members on the way are made.
fn set(document: &mut Value, pointer: &str, value: &Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let mut at = document;
    for step in parent.split('/').skip(1) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    match (value, name.parse::<usize>()) {
        (Value::Null, _) => drop(at.as_object_mut().expect("members are of objects").remove(name)),
        (_, Ok(index)) => at[index] = value.clone(),
        (_, Err(_)) => at[name] = value.clone(),
    }
}
