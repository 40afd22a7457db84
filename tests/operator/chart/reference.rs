//! docs/reference/rbac.md is made from the chart.

use std::fmt::Write;

use serde_json::Value;

use super::helm::{Objects, render_with, repository, text, texts};

/// The accounts and people that a role is bound to.
fn bound_to(objects: &Objects, role: &Value) -> String {
    let bindings = objects.all("RoleBinding").into_iter().chain(objects.all("ClusterRoleBinding"));
    let of_role = bindings.filter(|binding| {
        binding["roleRef"]["kind"] == role["kind"] && binding["roleRef"]["name"] == role["metadata"]["name"]
    });
    let subjects = of_role.flat_map(|binding| binding["subjects"].as_array().expect("a list"));
    let mut names: Vec<String> = subjects.map(|subject| format!("`{}`", text(&subject["name"]))).collect();
    names.sort();
    names.dedup();
    let aggregated = role["metadata"]["labels"].as_object().into_iter().flatten();
    let aggregated: Vec<String> = aggregated
        .filter_map(|(label, _)| label.strip_prefix("rbac.authorization.k8s.io/aggregate-to-"))
        .map(|role| format!("`{role}`"))
        .collect();
    match (names.is_empty(), aggregated.is_empty()) {
        (false, _) if names.len() == 1 => format!("Bound to the service account {}.", names[0]),
        (false, _) => format!("Bound to the service accounts {}.", names.join(", ")),
        (true, false) => format!("Added to Kubernetes' own ClusterRole {}.", aggregated.join(", ")),
        (true, true) => "Bound to no one: bind it to whom you choose.".to_owned(),
    }
}

fn section(page: &mut String, objects: &Objects, role: &Value) {
    let namespace = role["metadata"]["namespace"].as_str();
    let place = namespace
        .map_or_else(|| "In the whole cluster.".to_owned(), |it| format!("In the namespace `{it}`."));
    let (kind, name) = (text(&role["kind"]), text(&role["metadata"]["name"]));
    write!(page, "\n### {kind} {name}\n\n{} {place}\n", bound_to(objects, role)).expect("a String takes all");
    *page += "\n| API group | Resources | Verbs |\n|---|---|---|\n";
    for rule in role["rules"].as_array().expect("a list") {
        let codes = |field: &str| -> String {
            let all = texts(&rule[field]);
            all.iter()
                .map(|one| if one.is_empty() { "core".to_owned() } else { format!("`{one}`") })
                .collect::<Vec<_>>()
                .join(", ")
        };
        let names = if rule.get("resourceNames").is_some() {
            format!(" named {}", codes("resourceNames"))
        } else {
            String::new()
        };
        writeln!(page, "| {} | {}{names} | {} |", codes("apiGroups"), codes("resources"), codes("verbs"))
            .expect("a String takes all");
    }
}

fn page() -> String {
    let mut page = "# Rights\n\n<!-- This page is generated: UPDATE_DOCS=1 cargo test -p docket-tests --test operator chart::reference -->\n\n\
        The chart installs these roles. The names are those of a release `docket` in the namespace `docket-system`, with the runtime\n\
        namespace `docket-runtime`. [Who may do what](../kubernetes/rbac.md) explains how to use the roles.\n\
        [kubectl docket](kubectl-docket.md#rights) lists the rights that each of its commands needs.\n".to_owned();
    let all = render_with(
        "platform: {enabled: true}\nportal: {enabled: true, declareWebhooks: true}\nrbac: {aggregateTenants: true}",
    );
    page += "\n## Without a list of namespaces\n\nThese are the roles with `platform.enabled`, `portal.declareWebhooks` and `rbac.aggregateTenants`, which are off by default.\n";
    for role in all.all("ClusterRole").into_iter().chain(all.all("Role")) {
        section(&mut page, &all, role);
    }
    let watched = render_with("watch: {namespaces: [tenants-a]}");
    page += "\n## With a list of namespaces\n\n`watch.namespaces: [tenants-a]` moves the operator's rights into a Role of each namespace. The other roles are the same as above.\n";
    let operators = watched.all("ClusterRole").into_iter().chain(watched.all("Role"));
    for role in operators.filter(|role| text(&role["metadata"]["name"]).ends_with("docket-operator")) {
        section(&mut page, &watched, role);
    }
    page
}

#[test]
fn the_page_of_rights_is_up_to_date() {
    let path = repository().join("docs/reference/rbac.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/reference/rbac.md is of another version; make it again with UPDATE_DOCS=1");
}
