//! The receiver of a webhook's deliveries: an absolute HTTPS URL that is valid once it is parsed.
//!
//! Whether Docket may connect to the host's address is checked when it connects, not here.

use std::str::FromStr;
use std::{fmt, hash};

use serde::{Deserialize, Serialize};
use url::{Host, ParseError, Url};

use crate::rules::{Check, Rule};

/// An absolute `https://` URL of at most 2,048 characters, without credentials or fragment.
///
/// It prints and serializes as it was written; requests use the parsed form.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TargetUrl {
    // Kept because percent-encoding can make the parsed form longer than the limit, and it would not read back.
    text: String,
    url: Url,
}

/// Why a text is not a target URL, as the CRD's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidTargetUrl(&'static str);

const NOT_ABSOLUTE_HTTPS: &str = "targetURL must be an absolute https:// URL";
const MAX_CHARS: usize = 2048;
const HTTPS_PORT: u16 = 443;

const CHECKS: &[Check<str>] = &[
    Check {
        holds: is_absolute_https,
        // Match the whole text: the API server can't bound the length of a part of the URL and refuses the rule as too
        // expensive.
        cel: "isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != '' \
              && !self.matches('^[^:/?#]*://([.]*(:[0-9]*)?([/?#]|$)|[^/?#]*[<>])')",
        message: NOT_ABSOLUTE_HTTPS,
    },
    Check {
        holds: |text| !authority(text).is_some_and(|authority| authority.contains('@')),
        cel: r"!self.matches('^[^/?#]*://[^/?#\\\\]*@')",
        message: "targetURL must not carry credentials; use secretRef to sign deliveries",
    },
    Check {
        holds: |text| !text.contains('#'),
        cel: "!self.contains('#')",
        message: "targetURL must not carry a fragment",
    },
    Check {
        // The parser would silently drop or rewrite these characters.
        holds: |text| !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\'),
        cel: r"!self.matches('[\\p{Cc}\\p{Z}\\\\]')",
        message: "targetURL must not contain spaces, control characters or backslashes; percent-encode them",
    },
    Check {
        holds: |text| {
            !matches!(Url::parse(text).map(|url| url.port()), Ok(Some(0)) | Err(ParseError::InvalidPort))
        },
        cel: "!self.matches('^[^:/?#]*://[^/?#]*:[0-9]+([/?#]|$)') \
              || self.matches('^[^:/?#]*://[^/?#]*:0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}\
              |655[0-2][0-9]|6553[0-5])([/?#]|$)')",
        message: "targetURL must have a port from 1 to 65535, or none for 443",
    },
    Check {
        // Parsers disagree about an incomplete percent-encoding, and the receiver's parser may disagree too.
        holds: |text| {
            text.split('%')
                .skip(1)
                .all(|rest| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2)
        },
        cel: "!self.matches('%([^0-9A-Fa-f]|[0-9A-Fa-f]([^0-9A-Fa-f]|$)|$)')",
        message: "targetURL must have two hexadecimal digits after each %; write % itself as %25",
    },
    // The checks from here on refuse names that no certificate can have, so that TLS would fail. The rules in CEL see
    // the host as it is written.
    Check {
        holds: |text| labels_of_host(text).iter().all(|label| !label.is_empty()),
        cel: "!self.matches('^[^:/?#]*://([.]|[^/?#:[]*[.][.])')",
        message: "targetURL must have a host with no dot at its start and no two dots in a row",
    },
    Check {
        holds: |text| {
            let labels = labels_of_host(text);
            labels.iter().all(|label| label.len() <= 63) && labels.join(".").len() <= 253
        },
        cel: "!self.matches('^[^:/?#]*://(([^/?#:[]*[.])?[0-9A-Za-z_-]{64}|[0-9A-Za-z._-]{253,}[0-9A-Za-z_-])')",
        message: "targetURL must have a host of at most 253 characters, at most 63 between dots",
    },
    Check {
        holds: |text| {
            labels_of_host(text).iter().all(|label| !label.starts_with('-') && !label.ends_with('-'))
        },
        cel: "!self.matches('^[^:/?#]*://(([^/?#:[]*[.])?-|[^/?#:[]*-([.:/?#]|$))')",
        message: "targetURL must have a host whose parts neither begin nor end with a hyphen",
    },
    Check {
        holds: |text| labels_of_host(text).iter().all(|label| label.bytes().all(is_of_a_name)),
        cel: r#"!self.matches('^[^:/?#]*://[^/?#:[]*[!$&\'()*+,;=~"`{}]')"#,
        message: "targetURL must have a host of letters, digits, hyphens and underscores between dots",
    },
];
/// The number of checks at the end of [`CHECKS`] that an earlier version did not have. A stored URL may break them.
const NEWER_CHECKS: usize = 4;

/// The CRD's rule for `spec.targetURL`. The checks in code are a little stricter than CEL can be.
pub(crate) const RULE: Rule = Rule::Text { length: 0..=MAX_CHARS, checks: CHECKS };

/// The text between `scheme://` and the path, query or fragment, for any scheme; `None` without `://`.
fn authority(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    rest.split(['/', '?', '#', '\\']).next()
}

/// Whether the URL is absolute and has a host. It checks the text too, because the parser is as lenient as a browser:
/// it reads `https:host` and `https:///host` as `https://host`.
fn is_absolute_https(text: &str) -> bool {
    let written = authority(text).is_some_and(|authority| !authority.is_empty());
    let parsed = match Url::parse(text) {
        Ok(url) => {
            url.scheme() == "https" && url.host_str().is_some_and(|host| !host.trim_matches('.').is_empty())
        }
        // Another rule checks the port.
        Err(error) => error == ParseError::InvalidPort,
    };
    written && parsed
}

/// The parts of a host name between its dots, without the dot at its end. Empty if the host is an address, or if
/// there is no host.
fn labels_of_host(text: &str) -> Vec<String> {
    let url = Url::parse(text).ok();
    let Some(Host::Domain(name)) = url.as_ref().and_then(Url::host) else {
        return Vec::new();
    };
    name.strip_suffix('.').unwrap_or(name).split('.').map(str::to_owned).collect()
}

const fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

impl TargetUrl {
    fn checked(text: String, checks: &[Check<str>]) -> Result<Self, InvalidTargetUrl> {
        if text.chars().count() > MAX_CHARS {
            return Err(InvalidTargetUrl("targetURL must have at most 2048 characters"));
        }
        if let Some(broken) = checks.iter().find(|check| !(check.holds)(&text)) {
            return Err(InvalidTargetUrl(broken.message));
        }
        let url = Url::parse(&text).map_err(|_| InvalidTargetUrl(NOT_ABSOLUTE_HTTPS))?;
        Ok(Self { text, url })
    }

    /// The messages of all rules but the limit of the length, for programs that say them in other words.
    pub fn messages() -> impl Iterator<Item = &'static str> {
        CHECKS.iter().map(|check| check.message)
    }

    /// The parsed form, for making requests.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host in lower case: a name, an IPv4 address, or an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.url.host_str().expect("a TargetUrl has a host")
    }

    /// The port, 443 unless the URL names another.
    pub fn port(&self) -> u16 {
        self.url.port().unwrap_or(HTTPS_PORT)
    }

    /// Whether the host is a loopback, private, link-local or unspecified address. False for a name, which may still
    /// resolve to one.
    pub fn is_private_address(&self) -> bool {
        match self.url.host() {
            Some(Host::Ipv4(address)) => {
                address.is_loopback()
                    || address.is_private()
                    || address.is_link_local()
                    || address.is_unspecified()
            }
            Some(Host::Ipv6(address)) => {
                let local = address.is_unique_local() || address.is_unicast_link_local();
                address.is_loopback() || address.is_unspecified() || local
            }
            Some(Host::Domain(_)) | None => false,
        }
    }

    /// The URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Reads a URL that is already stored, perhaps by an earlier version. It skips the newer checks: one such URL must
/// not make the whole tenant unreadable.
impl TryFrom<String> for TargetUrl {
    type Error = InvalidTargetUrl;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::checked(text, &CHECKS[..CHECKS.len() - NEWER_CHECKS])
    }
}

/// Reads a URL that a user declares now.
impl FromStr for TargetUrl {
    type Err = InvalidTargetUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::checked(text.to_owned(), CHECKS)
    }
}

impl From<TargetUrl> for String {
    fn from(target: TargetUrl) -> Self {
        target.text
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq for TargetUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for TargetUrl {}

impl hash::Hash for TargetUrl {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<TargetUrl>().expect_err(text).to_string()
    }

    #[test]
    fn accepts_absolute_https_urls() {
        for (text, host, port) in [
            ("https://hooks.acme.example/orders", "hooks.acme.example", 443),
            ("https://Hooks.example:8443?x=1", "hooks.example", 8443),
            ("HTTPS://hooks.example", "hooks.example", 443),
            ("https://[2001:db8::1]:9443/", "[2001:db8::1]", 9443),
            ("https://192.0.2.1/a@b", "192.0.2.1", 443),
            ("https://hooks.example/a%20b?x=100%25", "hooks.example", 443),
        ] {
            let target: TargetUrl = text.parse().expect(text);
            assert_eq!((target.host(), target.port()), (host, port));
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_not_absolute_https() {
        for text in [
            "",
            "http://hooks.example/",
            "ftp://hooks.example/",
            "hooks.example/orders",
            "/orders",
            "https:hooks.example",
            "https:///hooks.example",
            "https://",
            "https://.",
            "https://:443/",
            "https://ho st/",
        ] {
            assert_eq!(refusal(text), NOT_ABSOLUTE_HTTPS, "{text}");
        }
    }

    #[test]
    fn refuses_credentials_in_any_form() {
        for text in ["https://u:p@h.example/", "https://u@h.example/", "https://@h.example/", "HTTPS://u@h/"]
        {
            assert_eq!(
                refusal(text),
                "targetURL must not carry credentials; use secretRef to sign deliveries",
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_fragments_odd_characters_and_port_0() {
        assert_eq!(refusal("https://h.example/#"), "targetURL must not carry a fragment");
        for text in ["https://h.example/a b", " https://h.example/", "https://h.exa\nmple/", "https://h\\a"] {
            assert!(refusal(text).contains("must not contain spaces"), "{text:?}");
        }
        for text in ["https://h.example:0/", "https://h.example:65536/"] {
            assert!(refusal(text).contains("port from 1 to 65535"), "{text}");
        }
        for text in ["https://h.example/%", "https://h.example/%4", "https://h.example/?x=100%25%zz"] {
            assert!(refusal(text).contains("%25"), "{text}");
        }
    }

    #[test]
    fn refuses_names_that_no_certificate_can_be_for() {
        for host in ["a..b", ".a.example", "a.example..", "..", "a.%2Eb"] {
            let refusal = refusal(&format!("https://{host}/"));
            assert!(refusal.contains("no two dots in a row") || host == "..", "{host}: {refusal}");
        }
        let (label, name) = ("a".repeat(64), format!("{}example", "a.".repeat(124)));
        for host in [label.clone(), format!("h.{label}.example"), name.clone(), "ü".repeat(63)] {
            assert!(refusal(&format!("https://{host}:8443/")).contains("at most 63 between dots"), "{host}");
        }
        for host in ["-a.example", "a-.example", "a.-b.example", "a.example-", "a.example-."] {
            assert!(
                refusal(&format!("https://{host}?x")).contains("neither begin nor end with a hyphen"),
                "{host}"
            );
        }
        for host in
            ["*.acme.example", "a,b.example", "$(HOST)", "${HOST}", "{tenant}.acme.example", "it's.example"]
        {
            let refusal = refusal(&format!("https://{host}/"));
            assert!(refusal.contains("letters, digits, hyphens and underscores"), "{host}: {refusal}");
        }
        for host in [
            "a_b.example",
            &format!("{}。{}.jp", "あ".repeat(20), "い".repeat(20)),
            "_dmarc.example",
            "a.example.",
            "a--b.example",
            "xn--mller-kva.example",
            &label[1..],
            &name[2..],
            &format!("{}.", &name[2..]),
            "[2001:db8::1]",
            "192.0.2.1",
        ] {
            let text = format!("https://{host}/-a..b/-?-=..");
            assert!(text.parse::<TargetUrl>().is_ok(), "{text}");
        }
    }

    #[test]
    fn host_that_an_earlier_version_took_reads_back() {
        for text in ["https://a..b/", "https://-a.example/"] {
            assert!(text.parse::<TargetUrl>().is_err(), "{text}");
            assert!(TargetUrl::try_from(text.to_owned()).is_ok(), "{text}");
        }
        assert!(TargetUrl::try_from("http://h.example/".to_owned()).is_err());
    }

    #[test]
    fn length_limit_is_2048_characters_as_written() {
        let text = format!("https://h.example/{}", "ü".repeat(2048 - 18));
        let target: TargetUrl = text.parse().unwrap();
        let json = serde_json::to_string(&target).unwrap();
        assert_eq!(serde_json::from_str::<TargetUrl>(&json).unwrap(), target);
        assert!(refusal(&format!("{text}x")).contains("at most 2048"));
    }

    #[test]
    fn literal_private_address_is_recognized() {
        let is_private =
            |host: &str| format!("https://{host}:8443/").parse::<TargetUrl>().unwrap().is_private_address();
        for host in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "[fd00::1]", "[fe80::1]"] {
            assert!(is_private(host), "{host}");
        }
        for host in ["localhost", "h.example", "93.184.215.14", "[2606:2800:21f::1]"] {
            assert!(!is_private(host), "{host}");
        }
    }
}
