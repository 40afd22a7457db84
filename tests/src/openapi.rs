//! The OpenAPI documents of a running program, and what is in them.

use serde_json::{Map, Value};

use crate::server::Server;

/// The OpenAPI document of what clients call.
pub const API: &str = "/openapi.json";
/// The OpenAPI document of the events that receivers get.
pub const EVENTS: &str = "/openapi/events.json";

/// An OpenAPI document that a running program serves.
pub async fn document(server: &Server, path: &str) -> Value {
    let reply = server.send("GET", path, &[], "").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.headers["content-type"], "application/json");
    reply.json()
}

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Each operation with its method in capitals and its path; of an event, its code.
pub fn operations(document: &Value) -> Vec<(String, String, &Map<String, Value>)> {
    let sections = ["paths", "webhooks"].into_iter().filter_map(|section| document[section].as_object());
    let of_path =
        |(path, item): (&String, &'static str), operation| (item.to_uppercase(), path.clone(), operation);
    sections
        .flatten()
        .flat_map(|(path, item)| {
            METHODS.iter().filter_map(move |method| Some((path, *method, item.get(*method)?)))
        })
        .map(|(path, method, operation)| of_path((path, method), operation.as_object().expect("an object")))
        .collect()
}

/// The texts of a list; empty if the value is no list.
pub fn words(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
