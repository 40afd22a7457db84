//! Chooses the proxy to the API server as kubectl does: `proxy-url` of the kubeconfig, else HTTPS_PROXY unless
//! NO_PROXY names the API server. kube itself compares NO_PROXY with the proxy's address, so this choice replaces
//! kube's.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::Kubeconfig;

/// The environment variables about proxies.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// The value of `HTTPS_PROXY`.
    https: String,
    /// The value of `NO_PROXY`.
    none: String,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "kubectl has no flag for it either")]
    pub(crate) fn read() -> Self {
        let first = |names: [&str; 2]| {
            let mut values = names.into_iter().filter_map(|name| std::env::var(name).ok());
            values.find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self { https: first(["HTTPS_PROXY", "https_proxy"]), none: first(["NO_PROXY", "no_proxy"]) }
    }
}

/// The `proxy-url` of a context's cluster. Without a name, the current context counts.
pub(crate) fn declared(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The proxy to `server`; `None`: there is none. Errors do not quote the URL, which may contain a password.
pub(crate) fn chosen(
    declared: Option<&str>,
    server: &Uri,
    environment: &Environment,
) -> Result<Option<Uri>, &'static str> {
    let url = match declared {
        Some(url) => url,
        None if environment.https.is_empty() || !is_by_proxy(server, &environment.none) => return Ok(None),
        None => &environment.https,
    };
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    // https is not accepted, because kube would check the proxy's certificate against the cluster's CA.
    let is_known = |url: &Uri| matches!(url.scheme_str(), Some("http" | "socks5"));
    let url = url.parse().ok().filter(is_known);
    url.map(Some).ok_or("proxy-url, or HTTPS_PROXY, must be a URL that begins with http:// or socks5://")
}

/// Whether HTTPS_PROXY applies to this server. As in kubectl, it does not apply to the user's own machine.
fn is_by_proxy(server: &Uri, none: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_own = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    !is_own && Matcher::builder().https("http://proxy").no(none).build().intercept(server).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_chosen_as_kubectl_does() {
        let choose = |declared: Option<&str>, server: &'static str, none: &str| {
            let environment = Environment { https: "proxy.example:3128".to_owned(), none: none.to_owned() };
            let chosen = chosen(declared, &Uri::from_static(server), &environment);
            chosen.map(|url| url.map(|url| url.to_string()))
        };
        let by_proxy = Ok(Some("http://proxy.example:3128/".to_owned()));
        for (server, none) in [
            ("https://10.0.0.1:6443", ""),
            ("https://api.example", "other.example,proxy.example"),
            ("https://notexample", "example"),
        ] {
            assert_eq!(choose(None, server, none), by_proxy, "{server} {none}");
        }
        for (server, none) in [
            ("https://10.0.0.1:6443", "10.0.0.0/8"),
            ("https://api.example", " .example, 10.0.0.1"),
            ("https://api.example", "*"),
            ("https://127.0.0.1:6443", ""),
            ("https://[::1]:6443", ""),
            ("https://localhost", ""),
            ("http://10.0.0.1", ""),
        ] {
            assert_eq!(choose(None, server, none), Ok(None), "{server} {none}");
        }
        let declared = choose(Some("socks5://127.0.0.1:1080"), "https://127.0.0.1", "*");
        assert_eq!(declared, Ok(Some("socks5://127.0.0.1:1080/".to_owned())), "NO_PROXY is not for it");
        for wrong in ["ftp://user:hunter2@proxy", "https://user:hunter2@proxy", "http://user:hunter2@a b"] {
            assert!(choose(Some(wrong), "https://a", "").is_err_and(|text| !text.contains("hunter2")));
        }
        assert_eq!(chosen(None, &Uri::from_static("https://a"), &Environment::default()), Ok(None));
    }

    #[test]
    fn declared_proxy_is_that_of_the_context() {
        let text = "current-context: a\ncontexts: [{name: a, context: {cluster: x}}, {name: b, context: {cluster: y}}]\n\
                    clusters: [{name: x, cluster: {server: s, proxy-url: 'http://p'}}, {name: y, cluster: {server: s}}]\n";
        let kubeconfig = Kubeconfig::from_yaml(text).expect("a kubeconfig");
        assert_eq!(declared(&kubeconfig, None).as_deref(), Some("http://p"));
        assert_eq!(declared(&kubeconfig, Some("b")), None);
    }
}
