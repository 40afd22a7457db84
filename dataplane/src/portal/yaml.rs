//! Objects as YAML that can be pasted: block style for objects, JSON for all else.

use serde_json::Value;

/// An object as YAML.
pub(super) fn of(object: &Value) -> String {
    lines(object, 0)
}

fn lines(value: &Value, depth: usize) -> String {
    // An object without fields is written as `{}`: `generateSecret:` alone would be null, and end the signature.
    let Some(object) = value.as_object().filter(|object| !object.is_empty()) else {
        return format!(" {value}\n");
    };
    let line = |(name, value): (&String, &Value)| {
        let line_end = if value.as_object().is_some_and(|object| !object.is_empty()) { "\n" } else { "" };
        format!("{:1$}{2}:{line_end}{3}", "", depth * 2, key(name), lines(value, depth + 1))
    };
    object.iter().map(line).collect()
}

/// A name that is plain in every YAML, or in quotes.
fn key(name: &str) -> String {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-'))
        && !WORDS.contains(&&*name.to_ascii_lowercase());
    if is_plain { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_read_as_the_same_object() {
        let folder = std::env::temp_dir().join(format!("docket-yaml-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let hard = json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
            "metadata": {"name": "orders", "annotations": {"yes": "no", "a: b": "# c\n---\n", "x/y": "", "1": "1"}, "labels": {}},
            "spec": {"generateSecret": {}, "events": ["order.created"], "deep": [{"a": {}}, null, 1.5], "active": false,
                "secretRef": {"name": "\"s\u{e9}\u{1f3db}\"", "nextKey": "next"}}
        });
        std::fs::write(folder.join("a.yaml"), of(&hard)).expect("writable");
        let read = docket_source::webhook_document(&folder, "default", "orders");
        std::fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(read.map(|(_, object)| object), Some(hard));
    }
}
