//! The objects of a kind, as a watch reports them: when each was first Ready, and which generation is handled and served.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;

use super::Client;

/// The status of an object, as far as a test waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// When the object's condition Ready was first seen True; `None`: not yet.
    pub ready: Option<Instant>,
    /// `status.observedGeneration`.
    pub observed: i64,
    /// The newest generation for which the condition Programmed was seen True.
    pub programmed: i64,
}

/// The objects that a watch has reported. Objects that were deleted stay.
#[derive(Debug, Default)]
pub struct Objects {
    by_name: HashMap<String, Object>,
    ready: usize,
}

impl Objects {
    /// Watches a path, such as `/apis/docket.dev/v1alpha1/namespaces/a/tenants`, in the background.
    pub fn watch(client: &Client, path: &str) -> watch::Receiver<Self> {
        let (objects, receiver) = watch::channel(Self::default());
        tokio::spawn(follow(client.clone(), path.to_owned(), objects));
        receiver
    }

    /// The number of objects that have been Ready.
    pub fn ready(&self) -> usize {
        self.ready
    }

    /// An object; `None`: the watch has not reported it.
    pub fn object(&self, name: &str) -> Option<&Object> {
        self.by_name.get(name)
    }

    /// Notes the state of an object that was seen at `at`.
    fn note(&mut self, object: &Value, at: Instant) {
        let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str) else { return };
        let noted = self.by_name.entry(name.to_owned()).or_default();
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        for condition in conditions.into_iter().flatten().filter(|condition| condition["status"] == "True") {
            match condition["type"].as_str() {
                Some("Ready") if noted.ready.is_none() => {
                    noted.ready = Some(at);
                    self.ready += 1;
                }
                Some("Programmed") => {
                    let generation = condition["observedGeneration"].as_i64().unwrap_or_default();
                    noted.programmed = noted.programmed.max(generation);
                }
                _ => {}
            }
        }
        let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
        noted.observed = noted.observed.max(observed.unwrap_or_default());
    }
}

/// Watches until the last receiver is dropped. The API server ends a watch after half an hour or more, and the next
/// watch begins where it ended.
async fn follow(client: Client, path: String, objects: watch::Sender<Objects>) {
    let mut version = String::new();
    while !objects.is_closed() {
        // Without a version, the API server first reports the objects that exist.
        let query = format!("?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let mut response = client.watch(&(path.clone() + &query)).await;
        let mut rest = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            rest.extend_from_slice(&chunk);
            let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let at = Instant::now();
            let lines: Vec<u8> = rest.drain(..=end).collect();
            let events = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let events: Vec<Value> =
                events.map(|line| serde_json::from_slice(line).expect("each line is an event")).collect();
            if let Some(last) = events.last() {
                // An error, such as a version that is too old, has none: then the watch begins again with all objects.
                let last = last.pointer("/object/metadata/resourceVersion").and_then(Value::as_str);
                version = last.unwrap_or_default().to_owned();
            }
            let is_state = |event: &Value| matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED"));
            objects.send_modify(|objects| {
                for event in events.iter().filter(|event| is_state(event)) {
                    objects.note(&event["object"], at);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: i64, ready: &str, programmed: &str) -> Value {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "observedGeneration": generation});
        json!({
            "metadata": {"name": "a"},
            "status": {
                "observedGeneration": generation,
                "conditions": [condition("Ready", ready), condition("Programmed", programmed)],
            },
        })
    }

    #[test]
    fn first_ready_and_newest_programmed_generation_are_kept() {
        let (mut objects, first) = (Objects::default(), Instant::now());
        objects.note(&json!({"metadata": {"name": "a"}}), first);
        assert_eq!((objects.ready(), objects.object("a")), (0, Some(&Object::default())));
        objects.note(&object(1, "True", "True"), first);
        let later = first + std::time::Duration::from_secs(1);
        objects.note(&object(2, "False", "False"), later);
        let kept = Object { ready: Some(first), observed: 2, programmed: 1 };
        assert_eq!((objects.ready(), objects.object("a")), (1, Some(&kept)));
        objects.note(&object(2, "True", "True"), later);
        let kept = Object { programmed: 2, ..kept };
        assert_eq!((objects.ready(), objects.object("a")), (1, Some(&kept)));
    }
}
