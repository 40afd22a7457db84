//! The requests that the API server has logged.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

/// Logs the metadata of each write, and of each read by a service account, when it is finished.
pub(super) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
  "rules": [
    {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
    {"level": "Metadata", "verbs": ["get", "list", "watch"], "userGroups": ["system:serviceaccounts"]}
  ]
}"#;

const READS: [&str; 3] = ["get", "list", "watch"];

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
    lines(log, mark).iter().filter_map(|line| write(line)).collect()
}

/// The number of reads by a user. Reads of Leases do not count, as renewals do not.
pub(super) fn reads(log: &Path, mark: u64, user: &str) -> usize {
    lines(log, mark).iter().filter(|line| is_read_by(line, user)).count()
}

fn lines(log: &Path, mark: u64) -> Vec<String> {
    let mut text = String::new();
    let mut file = std::fs::File::open(log).expect("the API server has made its audit log");
    file.seek(SeekFrom::Start(mark)).expect("it is a file");
    file.read_to_string(&mut text).expect("it is text");
    // A line without its end is still being written.
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
}

fn event(line: &str) -> Value {
    serde_json::from_str(line).expect("each line is an event")
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_read_by(line: &str, user: &str) -> bool {
    let event = event(line);
    READS.contains(&text(&event, "/verb"))
        && text(&event, "/user/username") == user
        && text(&event, "/objectRef/resource") != "leases"
}

fn write(line: &str) -> Option<Write> {
    let event = event(line);
    let text = |pointer: &str| text(&event, pointer).to_owned();
    if READS.contains(&&*text("/verb")) || text("/requestURI").contains("dryRun=") {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(verb: &str, user: &str, resource: &str, uri: &str) -> String {
        serde_json::json!({
            "verb": verb, "user": {"username": user}, "objectRef": {"resource": resource}, "requestURI": uri,
        })
        .to_string()
    }

    #[test]
    fn reads_and_dry_runs_are_no_writes() {
        assert!(write(&line("patch", "operator", "tenants", "/t")).is_some());
        assert!(write(&line("patch", "operator", "tenants", "/t?dryRun=All")).is_none());
        assert!(write(&line("get", "operator", "tenants", "/t")).is_none());
    }

    #[test]
    fn reads_count_for_their_user_without_leases() {
        assert!(is_read_by(&line("watch", "operator", "tenants", "/t"), "operator"));
        for other in [
            line("watch", "other", "tenants", "/t"),
            line("get", "operator", "leases", "/l"),
            line("patch", "operator", "tenants", "/t"),
        ] {
            assert!(!is_read_by(&other, "operator"), "{other}");
        }
    }
}
