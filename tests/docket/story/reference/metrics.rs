//! The metrics of a program, from what it exposes before anything has happened.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Labels whose values the platform chooses. The page shows only their names.
const OPEN: [(&str, &str); 13] = [
    ("docket_http_requests_total", "route"),
    ("docket_http_requests_total", "code"),
    ("docket_http_request_seconds", "route"),
    ("docket_store_up", "server"),
    ("docket_server_connections_used_ratio", "server"),
    ("docket_build_info", "version"),
    ("docket_tenant_condition", "namespace"),
    ("docket_tenant_condition", "name"),
    ("docket_tenant_condition", "type"),
    ("docket_tenant_condition", "status"),
    ("docket_tenant_condition", "reason"),
    ("docket_managed_not_ready", "reason"),
    ("docket_operator_store_up", "server"),
];

/// A section for each metric.
pub(super) fn sections(exposed: &str) -> String {
    let mut page = String::new();
    let lines: Vec<&str> = exposed.lines().collect();
    for help in lines.iter().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, about) = help.split_once(' ').expect("a name and a text");
        let kind = lines
            .iter()
            .find_map(|line| line.strip_prefix("# TYPE ")?.strip_prefix(name)?.strip_prefix(' '))
            .expect("each metric has a type");
        // A counter's series is named with `_total`.
        let series = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        write!(page, "\n### {series}\n\n{about}\n\nA {kind}{}.\n", labels(&lines, &series))
            .expect("a String takes all");
    }
    page
}

/// The labels of a metric with their values, where there are few.
fn labels(lines: &[&str], series: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut values: BTreeSet<(&str, &str)> = BTreeSet::new();
    for line in lines {
        let rest = [series, &format!("{series}_bucket")]
            .into_iter()
            .find_map(|name| line.strip_prefix(name)?.strip_prefix('{'));
        let Some((labels, _)) = rest.and_then(|rest| rest.split_once('}')) else { continue };
        for (name, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
            if name == "le" {
                continue;
            }
            if !names.contains(&name) {
                names.push(name);
            }
            values.insert((name, value.trim_matches('"')));
        }
    }
    let shown = names.iter().map(|name| {
        let values: Vec<String> =
            values.iter().filter(|(of, _)| of == name).map(|(_, value)| format!("`{value}`")).collect();
        if OPEN.contains(&(series, name)) {
            format!("`{name}`")
        } else {
            format!("`{name}` ({})", values.join(", "))
        }
    });
    match shown.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [one] => format!(" with the label {one}"),
        several => format!(" with the labels {}", several.join("; ")),
    }
}
