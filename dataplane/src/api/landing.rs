//! GET / in a browser: where the portal, the documentation and the API are. Clients of the API get a problem document, as for every
//! path without a route.

use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::http::host::{HostKind, Hosts, host};

/// Styles of this host, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What a host serves beside the API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Landing {
    /// The API.
    pub(crate) api: bool,
    /// Its documentation.
    pub(crate) docs: bool,
    /// The portal.
    pub(crate) portal: bool,
}

impl Landing {
    /// The page, if a browser asks for it.
    pub(crate) fn page(self, parts: &Parts, hosts: &Hosts) -> Option<Response> {
        let is_asked = matches!(parts.method, Method::GET | Method::HEAD) && parts.uri.path() == "/";
        let host = host(parts).ok()?.filter(|_| is_asked && takes_pages(&parts.headers))?;
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (VARY, "Accept"),
        ];
        Some((headers, self.html(&hosts.kind(&host), &hosts.base_domain)).into_response())
    }

    /// The text. It has nothing that a client sends.
    fn html(self, kind: &HostKind, base_domain: &str) -> String {
        let mut items = Vec::new();
        match (self.portal, kind) {
            (true, HostKind::Subdomain(_)) => {
                items.push("<a href=\"/portal\">Portal</a>: the webhooks of this tenant, and their deliveries".to_owned());
            }
            (true, HostKind::Base) => items.push(format!(
                "Portal: at <code>/portal</code> of your tenant's own address, such as <code>tenant.{base_domain}</code>"
            )),
            (true, HostKind::Legacy) | (false, _) => {}
        }
        if self.docs && *kind != HostKind::Legacy {
            items.push("<a href=\"/docs/\">Documentation</a>: tasks, concepts and reference".to_owned());
            items.push("<a href=\"/swagger/\">Try the API</a>: each request, in the browser".to_owned());
            items.push("<a href=\"/openapi.json\">OpenAPI document</a>: the API for programs".to_owned());
        }
        if self.api {
            items.push(
                "The API: send requests with <code>X-Api-Key</code>; this page is for browsers only"
                    .to_owned(),
            );
        }
        let styles = if self.docs { "<link rel=\"stylesheet\" href=\"/docs/docs.css\">" } else { "" };
        let items: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>Docket</title>{styles}</head>\n<body>\n<main>\n<h1>Docket</h1>\n\
             <p>Orders for legal support, and signed webhooks.</p>\n<ul>\n{items}</ul>\n</main>\n</body>\n</html>\n"
        )
    }
}

/// Whether the client names HTML, as browsers do. `*/*` alone is of programs.
fn takes_pages(headers: &HeaderMap) -> bool {
    let named = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = named.flat_map(|value| value.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, accept: &str, host: &str) -> bool {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("host", host).header("accept", accept).body(()).expect("a request");
        let hosts = Hosts { base_domain: "api.example".into(), legacy: None };
        let landing = Landing { api: true, docs: true, portal: true };
        landing.page(&request.into_parts().0, &hosts).is_some()
    }

    #[test]
    fn only_a_browser_gets_the_page_and_only_at_the_root() {
        let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
        assert!(asked("GET", "/", browser, "api.example"));
        for (method, path, accept) in [
            ("GET", "/", "*/*"),
            ("GET", "/", "application/json"),
            ("POST", "/", browser),
            ("GET", "/x", browser),
        ] {
            assert!(!asked(method, path, accept, "api.example"), "{method} {path} {accept}");
        }
    }

    #[test]
    fn links_lead_to_what_the_host_serves() {
        let all = Landing { api: true, docs: true, portal: true };
        let of_tenant = all.html(&HostKind::Subdomain("acme".into()), "api.example");
        assert!(
            of_tenant.contains("href=\"/portal\"") && of_tenant.contains("href=\"/docs/\""),
            "{of_tenant}"
        );
        let base = all.html(&HostKind::Base, "api.example");
        assert!(!base.contains("href=\"/portal\"") && base.contains("tenant.api.example"), "{base}");
        let api = Landing { api: true, docs: false, portal: false }.html(&HostKind::Base, "api.example");
        assert!(!api.contains("href=") && api.contains("X-Api-Key"), "{api}");
    }
}
