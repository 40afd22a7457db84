//! The types of problems, each with the body of a response.

use std::fmt::Write;

use docket::http::problem_examples::example;
use docket::http::problem_type::{ProblemType, TypeDescription};
use serde_json::Value;

/// The members of a problem, in the order in which Docket sends them.
const MEMBERS: [&str; 7] = ["type", "title", "status", "detail", "errors", "limit", "requestId"];

/// A section for each type.
pub(super) fn sections() -> String {
    let mut page = String::new();
    for kind in ProblemType::ALL {
        let TypeDescription { status, cause, remedy } = kind.description();
        write!(
            page,
            "\n## {kind}\n\n**{status}.** {cause}\n\n**What to do:** {remedy}\n\n```json\n{}\n```\n",
            body(&example(kind))
        )
        .expect("a String takes all");
    }
    page
}

/// The body with one member in each line.
fn body(example: &Value) -> String {
    let members = example.as_object().expect("an object");
    assert!(members.keys().all(|name| MEMBERS.contains(&name.as_str())), "{example}");
    let lines = MEMBERS.iter().filter_map(|name| Some(format!("  \"{name}\": {}", members.get(*name)?)));
    format!("{{\n{}\n}}", lines.collect::<Vec<_>>().join(",\n"))
}
