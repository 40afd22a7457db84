//! The writes that the API server has logged.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

/// Logs the metadata of each write, when it is finished.
pub(super) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
  "rules": [{"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]}]
}"#;

/// A request that wants to change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The user that wrote: `system:serviceaccount:<namespace>:<name>` for a service account.
    pub user: String,
    /// What the client calls itself.
    pub agent: String,
    /// `tenants`, `tenants/status`.
    pub resource: String,
    /// Empty where there is none.
    pub namespace: String,
    /// Empty where the server makes the name, or refused before it read it.
    pub name: String,
    /// The status code of the response.
    pub code: u64,
}

pub(super) fn mark(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |file| file.len())
}

pub(super) fn writes(log: &Path, mark: u64) -> Vec<Write> {
    let mut text = String::new();
    let mut file = std::fs::File::open(log).expect("the API server has made its audit log");
    file.seek(SeekFrom::Start(mark)).expect("it is a file");
    file.read_to_string(&mut text).expect("it is text");
    // A line without its end is still being written.
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).filter_map(write).collect()
}

fn write(line: &str) -> Option<Write> {
    let event: Value = serde_json::from_str(line).expect("each line is an event");
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("/requestURI").contains("dryRun=") {
        return None;
    }
    let (mut resource, part) = (text("/objectRef/resource"), text("/objectRef/subresource"));
    if !part.is_empty() {
        resource = format!("{resource}/{part}");
    }
    Some(Write {
        verb: text("/verb"),
        user: text("/user/username"),
        agent: text("/userAgent"),
        resource,
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
    })
}
