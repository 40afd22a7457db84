//! The addresses of samples. Pages name the sample tenant of `docket dev`; a reader of an installation sees its address.

use std::net::{IpAddr, Ipv6Addr};

/// What encloses a step that only readers of the sample need.
pub(crate) const STEP: (&str, &str) = ("<!--sample-->", "<!--/sample-->");
/// The addresses of the sample.
const SAMPLES: [&str; 2] = ["http://acme.localhost:8080", "http://127.0.0.1:8080"];
/// The longest name of a host.
const LONGEST_HOST: usize = 253;

/// The address of an installation, as `https://acme.api.example.com`. It has only characters that need no escape in HTML or
/// in a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteAddress(String);

impl SiteAddress {
    /// The address at which a reader reads the pages. `None` on the reader's own machine, where the samples are right, and for
    /// a host that is neither a name nor an address.
    pub fn new(is_https: bool, host: &str, port: Option<u16>) -> Option<Self> {
        let ipv6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
        let is_host = match ipv6 {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => is_name && !host.is_empty() && host.len() <= LONGEST_HOST,
        };
        let is_loopback = ipv6.unwrap_or(host).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !is_host || is_loopback || host == "localhost" || host.ends_with(".localhost") {
            return None;
        }
        let scheme = if is_https { "https" } else { "http" };
        Some(Self(match port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }))
    }
}

/// The page for readers of this installation; `None` if it is the same for all.
pub(crate) fn page_at(page: &str, SiteAddress(address): &SiteAddress) -> Option<String> {
    let mut parts = page.split(STEP.0);
    let mut changed = parts.next()?.to_owned();
    let mut is_first = true;
    for part in parts {
        let (_, after) = part.split_once(STEP.1)?;
        if std::mem::take(&mut is_first) {
            changed += &note(address);
        }
        changed += after;
    }
    if is_first {
        return None;
    }
    for sample in SAMPLES {
        changed = changed.replace(sample, address);
    }
    Some(changed)
}

/// What replaces the steps of the sample.
fn note(address: &str) -> String {
    format!(
        "<li>The commands of this page call <code>{address}</code>, where you read it. They name users and records of \
         Docket's sample data: put in your own user, password and records. If this host is not your tenant's, also send the \
         API key of your tenant in the header <code>X-Api-Key</code>.</li>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_the_scheme_host_and_port_of_the_reader() {
        for (is_https, host, port, expected) in [
            (true, "acme.api.example.com", None, "https://acme.api.example.com"),
            (false, "docket-api.docket", Some(8080), "http://docket-api.docket:8080"),
            (true, "[2001:db8::1]", None, "https://[2001:db8::1]"),
            (false, "192.0.2.1", Some(81), "http://192.0.2.1:81"),
        ] {
            assert_eq!(SiteAddress::new(is_https, host, port), Some(SiteAddress(expected.into())), "{host}");
        }
    }

    #[test]
    fn samples_are_right_on_the_reader_s_machine_and_other_hosts_are_refused() {
        for host in [
            "localhost",
            "acme.localhost",
            "127.0.0.1",
            "[::1]",
            "",
            "a'b.example",
            "a$(b).example",
            "a_b",
            "[x]",
            "\u{e4}.example",
            "a<b",
        ] {
            assert_eq!(SiteAddress::new(true, host, None), None, "{host}");
        }
        assert_eq!(SiteAddress::new(true, &"a".repeat(254), None), None);
    }

    #[test]
    fn page_of_the_sample_names_the_installation_and_leaves_its_steps_out() {
        let address = SiteAddress::new(true, "acme.api.example.com", None).expect("an address");
        let page = "<ul><!--sample--><li>Run it.</li><!--/sample--><li>Other</li></ul><pre>curl http://acme.localhost:8080/Orders/Get \
                    http://127.0.0.1:8080/a http://acme.localhost:9443/</pre><!--sample--><li>Again</li><!--/sample-->";
        let changed = page_at(page, &address).expect("it differs");
        assert!(
            !changed.contains("Run it") && !changed.contains("Again") && changed.contains("<li>Other"),
            "{changed}"
        );
        assert!(
            changed.contains("curl https://acme.api.example.com/Orders/Get https://acme.api.example.com/a http://acme.localhost:9443/"),
            "{changed}"
        );
        assert_eq!(changed.matches("<li>The commands").count(), 1, "{changed}");
        assert_eq!(
            page_at("<p>http://acme.localhost:8080</p>", &address),
            None,
            "a page about the sample itself"
        );
    }
}
