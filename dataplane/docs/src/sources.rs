//! The sources of the site, and their addresses on it.

use crate::releases::{self, CHANGELOG};

/// The summary, which defines the order of the pages.
pub(crate) const SUMMARY: &str = include_str!("../../../docs/SUMMARY.md");
/// The styles, at `docs.css`.
pub(crate) const STYLES: &str =
    concat!(include_str!("../../portal/src/palette.css"), include_str!("docs.css"));

/// The script, at `docs.js`.
pub(crate) const SCRIPT: &str = include_str!("docs.js");

/// Lists files of the repository, each with its text or its bytes.
macro_rules! embedded {
    ($include:ident: $($path:literal),* $(,)?) => {
        &[$(($path, $include!(concat!("../../../", $path)))),*]
    };
}

/// The pages.
pub(crate) const PAGES: &[(&str, &str)] = embedded!(include_str:
    "docs/README.md",
    "docs/administrator/find-delivery.md",
    "docs/administrator/nothing-arrived.md",
    "docs/administrator/people.md",
    "docs/administrator/repair-receiver.md",
    "docs/administrator/replace-secret.md",
    "docs/administrator/set-up-webhook.md",
    "docs/api/clients.md",
    "docs/api/errors.md",
    "docs/api/invoices.md",
    "docs/api/legacy-host.md",
    "docs/api/notes.md",
    "docs/api/orders.md",
    "docs/api/process-status.md",
    "docs/api/retry-safely.md",
    "docs/api/sign-in.md",
    "docs/back-office/invoices.md",
    "docs/back-office/notes.md",
    "docs/back-office/service.md",
    "docs/back-office/work-orders.md",
    "docs/concepts/declarations.md",
    "docs/concepts/deliveries.md",
    "docs/concepts/security.md",
    "docs/concepts/stores.md",
    "docs/concepts/tenants.md",
    "docs/contact/manage-webhooks.md",
    "docs/contact/missing-event.md",
    "docs/contact/replace-secret.md",
    "docs/kubernetes/after-a-leak.md",
    "docs/kubernetes/backup.md",
    "docs/kubernetes/cloudnative-pg.md",
    "docs/kubernetes/external-database.md",
    "docs/kubernetes/external-secrets.md",
    "docs/kubernetes/gitops.md",
    "docs/kubernetes/image.md",
    "docs/kubernetes/install.md",
    "docs/kubernetes/mail.md",
    "docs/kubernetes/monitor.md",
    "docs/kubernetes/move.md",
    "docs/kubernetes/namespaces.md",
    "docs/kubernetes/network.md",
    "docs/kubernetes/portal.md",
    "docs/kubernetes/production.md",
    "docs/kubernetes/rbac.md",
    "docs/kubernetes/recovery.md",
    "docs/kubernetes/redis.md",
    "docs/kubernetes/restore.md",
    "docs/kubernetes/rotate-api-key.md",
    "docs/kubernetes/rotate-database-password.md",
    "docs/kubernetes/rotate-signing-secret.md",
    "docs/kubernetes/rotate-store-urls.md",
    "docs/kubernetes/scale.md",
    "docs/kubernetes/several-servers.md",
    "docs/kubernetes/suspend.md",
    "docs/kubernetes/tenant.md",
    "docs/kubernetes/uninstall.md",
    "docs/kubernetes/upgrade.md",
    "docs/kubernetes/webhook.md",
    "docs/project/decisions.md",
    "docs/project/personal-data.md",
    "docs/project/releases.md",
    "docs/project/threat-model.md",
    "docs/project/verify.md",
    "docs/reference/audit.md",
    "docs/reference/conditions.md",
    "docs/reference/docket-operator.md",
    "docs/reference/docket.md",
    "docs/reference/events.md",
    "docs/reference/failure-classes.md",
    "docs/reference/http-api.md",
    "docs/reference/json.md",
    "docs/reference/kubectl-docket.md",
    "docs/reference/kubernetes-events.md",
    "docs/reference/labels.md",
    "docs/reference/limits.md",
    "docs/reference/metrics.md",
    "docs/reference/problems.md",
    "docs/reference/rbac.md",
    "docs/reference/tables.md",
    "docs/reference/tenant.md",
    "docs/reference/webhook.md",
    "docs/run/dev.md",
    "docs/run/people.md",
    "docs/run/serve.md",
    "docs/start/embedded.md",
    "docs/start/kubernetes.md",
    "docs/start/receiver.md",
    "docs/troubleshoot/alerts.md",
    "docs/troubleshoot/index.md",
    "docs/webhooks/duplicates.md",
    "docs/webhooks/frameworks.md",
    "docs/webhooks/notifications.md",
    "docs/webhooks/portal.md",
    "docs/webhooks/resend.md",
    "docs/webhooks/test-locally.md",
    "docs/webhooks/verify.md",
    "docs/webhooks/why-failed.md",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "charts/docket/README.md",
    "image/README.md",
    "tests/bench/README.md",
);

/// Files that pages show or link to, beside pages.
pub(crate) const FILES: &[(&str, &[u8])] = embedded!(include_bytes:
    "docs/images/a-dead-letter.webp",
    "docs/images/docket-dev.svg",
    "docs/images/logs-filtered.webp",
    "docs/images/overview.webp",
    "docs/images/webhooks.webp",
    "docs/vectors.json",
    "examples/acme.yaml",
    "examples/globex.yaml",
);

/// Whether the site shows this file as a page.
pub(crate) fn is_page(path: &str) -> bool {
    PAGES.iter().any(|(page, _)| *page == path)
        || PAGES.iter().any(|(page, text)| *page == CHANGELOG && releases::has(text, path))
}

/// The name of a page of the site: `docs/api/orders.md` is `api/orders.html`, and the first page `index.html`.
pub(crate) fn name(path: &str) -> String {
    if path == "docs/README.md" {
        return "index.html".to_owned();
    }
    let path = path.strip_prefix("docs/").unwrap_or(path);
    path.strip_suffix(".md").unwrap_or(path).to_lowercase() + ".html"
}

/// The relative path from a page to the root of the site: `../` for each folder in its name.
pub(crate) fn to_root(path: &str) -> String {
    "../".repeat(name(path).matches('/').count())
}

/// The path of a file on the site.
pub(crate) fn place(file: &str) -> &str {
    file.strip_prefix("docs/").unwrap_or(file)
}

/// The file of the repository that the link `link` in the file `from` leads to.
pub(crate) fn resolved(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Pages that belong together in the navigation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chapter {
    /// Empty: of the first page, which stands alone.
    pub(crate) title: String,
    /// The pages: title in the navigation, and file.
    pub(crate) pages: Vec<(String, String)>,
}

/// The parts of a summary: a heading each, and links.
pub(crate) fn parts(summary: &str) -> Vec<Chapter> {
    let mut parts = vec![Chapter { title: String::new(), pages: Vec::new() }];
    for line in summary.lines().skip(1) {
        if let Some(title) = line.strip_prefix("# ") {
            parts.push(Chapter { title: title.to_owned(), pages: Vec::new() });
        }
        let link = line.trim_start_matches("- ").strip_prefix('[').and_then(|link| link.strip_suffix(')'));
        if let (Some((title, path)), Some(part)) =
            (link.and_then(|link| link.split_once("](")), parts.last_mut())
        {
            part.pages.push((title.to_owned(), resolved("docs/SUMMARY.md", path)));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_and_pages_named() {
        for (from, link, expected) in [
            ("docs/api/orders.md", "notes.md", "docs/api/notes.md"),
            ("docs/README.md", "../README.md", "README.md"),
            ("charts/docket/README.md", "../../docs/kubernetes/install.md", "docs/kubernetes/install.md"),
            ("README.md", "dataplane/board/", "dataplane/board"),
        ] {
            assert_eq!(resolved(from, link), expected);
        }
        assert_eq!(name("docs/README.md"), "index.html");
        assert_eq!(name("README.md"), "readme.html");
        assert_eq!(name("charts/docket/README.md"), "charts/docket/readme.html");
        assert_eq!((to_root("docs/api/orders.md"), to_root("README.md")), ("../".to_owned(), String::new()));
    }

    #[test]
    fn a_summary_has_parts_of_pages() {
        let found =
            parts("# Summary\n\n[First](README.md)\n\n# Part\n\n- [One](one.md)\n- [Two](../two.md)\n");
        let part = |title: &str, pages: &[(&str, &str)]| Chapter {
            title: title.into(),
            pages: pages.iter().map(|(title, path)| ((*title).into(), (*path).into())).collect(),
        };
        let expected = [
            part("", &[("First", "docs/README.md")]),
            part("Part", &[("One", "docs/one.md"), ("Two", "two.md")]),
        ];
        assert_eq!(found, expected);
    }
}
