//! Parsers of single values. An error says what is accepted.

use std::time::Duration;

use docket_crds::{EventCode, InvalidTargetUrl, TargetUrl, UnknownWord, is_object_name};
use docket_orders::text::{is_blank, is_email};
use docket_program::arguments;
use docket_program::embedded::NAT64_LENGTHS;
use docket_program::metadata_service::is_of_metadata_services;
use ipnet::{IpNet, Ipv6Net};
use url::{Host, Url};

use crate::notices::SUBDOMAIN;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A duration of at most a day and more than zero: `500ms`, `30s`, `5m`, `1h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err("must be more than 0".into()),
        duration => Ok(duration),
    }
}

/// A duration of at most a day.
pub(super) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let duration = arguments::duration(text).filter(|duration| *duration <= DAY && !text.ends_with('d'));
    duration
        .ok_or_else(|| "must be a number and a unit, such as 500ms, 30s, 5m or 1h, and at most 24h".into())
}

/// A duration from one second to ten years, which may be written in days: `30d`.
pub(super) fn retention(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=3650 * DAY;
    let duration = arguments::duration(text).filter(|duration| bounds.contains(duration));
    duration.ok_or_else(|| "must be a number and a unit, such as 30d, 12h or 5m, from 1s to 3650d".into())
}

/// Like [`retention`], or 0 for no limit.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { retention(text).map_err(|error| format!("{error}, or 0")) }
}

/// A size of memory, at least 64 MiB: `256Mi`, `1Gi`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("", 0)];
    let read =
        |(unit, shift): (&str, u32)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(1 << shift);
    let bytes = units.into_iter().find_map(read).filter(|bytes| *bytes >= 64 << 20);
    bytes.ok_or_else(|| {
        "must be a number of bytes with or without Ki, Mi or Gi, such as 256Mi, and at least 64Mi".into()
    })
}

/// The user name of a ServiceAccount, which is written as its namespace and name: `docket/docket-portal`.
pub(super) fn account(text: &str) -> Result<String, String> {
    let names = text.split_once('/').filter(|(namespace, name)| {
        is_object_name(namespace) && !namespace.contains('.') && is_object_name(name)
    });
    let account = names.map(|(namespace, name)| format!("system:serviceaccount:{namespace}:{name}"));
    account.ok_or_else(|| {
        "must be the namespace and the name of a ServiceAccount, such as docket/docket-portal".into()
    })
}

pub(super) fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "http" && url.has_host());
    url.ok_or_else(|| "must be an http:// URL, such as http://127.0.0.1:9090/readyz".into())
}

/// Where `docket trigger` sends a sample.
#[derive(Debug, Clone)]
pub enum ReceiverUrl {
    /// An HTTPS URL, by the rules for a Webhook's target.
    Https(TargetUrl),
    /// An HTTP URL of this machine, without TLS.
    Loopback(Url),
}

/// The URL of a receiver. Its messages name flags, and no fields of a Webhook.
pub(super) fn receiver_url(text: &str) -> Result<ReceiverUrl, String> {
    if !text.starts_with("http://") {
        let own_words = |error: InvalidTargetUrl| {
            error.to_string().trim_start_matches("targetURL ").replace("secretRef", "--secret-file")
        };
        return text.parse().map(ReceiverUrl::Https).map_err(own_words);
    }
    let is_loopback = |url: &Url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let has_user = |url: &Url| !url.username().is_empty() || url.password().is_some();
    let url = Url::parse(text).ok().filter(|url| is_loopback(url) && !has_user(url));
    url.map(ReceiverUrl::Loopback).ok_or_else(|| {
        "must be an https:// URL; http:// is for localhost and loopback addresses, such as http://localhost:3000/hook".into()
    })
}

/// The URL of the portals of all tenants, with `{subdomain}` in its host.
pub(super) fn portal_url(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let is_one = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| host == "a" || host.starts_with("a."))
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
    };
    let url = Url::parse(&text.replace(SUBDOMAIN, "a")).ok().filter(is_one);
    match url.filter(|_| text.matches(SUBDOMAIN).count() == 1 && text.is_ascii()) {
        Some(_) => Ok(text.to_owned()),
        None => Err("must be a URL without a path whose host begins with {subdomain}, such as https://{subdomain}.docket.example.com".into()),
    }
}

/// Where `docket listen` passes deliveries on to.
pub(super) fn forward_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| "must be an http:// or https:// URL, such as http://localhost:3000/hook".into())
}

pub(super) fn network(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| "must be a network, such as 10.0.0.0/8, or 127.0.0.1/32 for one address".into())
}

/// A network of trusted proxies: no wider than the widest private ones, 10.0.0.0/8 and fc00::/7. Any client in it can say that it is
/// another.
pub(super) fn proxy_network(text: &str) -> Result<IpNet, String> {
    let least = |network: &IpNet| if network.addr().is_ipv4() { 8 } else { 7 };
    let read = network(text)?;
    // Each peer's address is written as IPv4 before it is compared.
    if matches!(read, IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some()) {
        return Err("must be written as an IPv4 network, such as 10.0.0.0/8".into());
    }
    Some(read).filter(|network| network.prefix_len() >= least(network)).ok_or_else(|| {
        "must be a network of proxies alone, such as 10.244.0.0/16, and of at least 8 bits, over IPv6 7: clients in it could give \
         themselves any address"
            .into()
    })
}

/// The prefix of a NAT64.
pub(super) fn nat64_prefix(text: &str) -> Result<Ipv6Net, String> {
    let prefix = text.parse().ok().filter(|prefix: &Ipv6Net| {
        NAT64_LENGTHS.contains(&prefix.prefix_len()) && prefix.addr() == prefix.network()
    });
    prefix.ok_or_else(|| {
        "must be an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits, such as 2001:db8:64::/96".into()
    })
}

/// A network with an address that deliveries may reach.
pub(super) fn egress_network(text: &str) -> Result<IpNet, String> {
    let network = network(text)?;
    if is_of_metadata_services(network) {
        return Err(
            "is a metadata service of a cloud, which hands out credentials; deliveries never reach it".into(),
        );
    }
    Ok(network)
}

pub(super) fn host_name(text: &str) -> Result<String, String> {
    let name = text.to_ascii_lowercase();
    if is_object_name(&name) && name.split('.').all(|label| label.len() <= 63) {
        Ok(name)
    } else {
        Err("must be a host name without scheme or port, such as api.example.com".into())
    }
}

fn bounded(text: &str, max: usize) -> Result<String, String> {
    let count = text.chars().count();
    let trimmed = text.trim() == text && !text.chars().all(is_blank);
    if (1..=max).contains(&count) && trimmed && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "must have 1 to {max} characters, not only invisible ones, no control characters, and no blanks at its ends"
        ))
    }
}

/// A name without spaces, since it is written into a list.
pub(super) fn word(text: &str) -> Result<String, String> {
    match bounded(text, 253)? {
        word if word.contains(char::is_whitespace) => Err("must have no spaces".into()),
        word => Ok(word),
    }
}

pub(super) fn code(text: &str) -> Result<String, String> {
    bounded(text, 64)
}

pub(super) fn name(text: &str) -> Result<String, String> {
    bounded(text, 200)
}

pub(super) fn user_name(text: &str) -> Result<String, String> {
    bounded(text, 320)
}

/// The e-mail address of a contact that exists, which may be older than the rules for new ones.
pub(super) fn email(text: &str) -> Result<String, String> {
    bounded(text, 320)
}

pub(super) fn new_email(text: &str) -> Result<String, String> {
    let text = email(text)?;
    match is_email(&text) {
        true => Ok(text),
        false => Err("must be an e-mail address, such as ada@quillfeather.example".into()),
    }
}

pub(super) fn event_code(text: &str) -> Result<EventCode, String> {
    let unknown =
        |UnknownWord(codes): UnknownWord| format!("unknown event {text:?}; one of: {}", codes.join(", "));
    text.parse().map_err(unknown)
}

/// A line of a request's head; its name in lower case.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let line =
        text.split_once(':').filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace));
    line.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .ok_or_else(|| "must be a name, a colon and a value, such as 'webhook-id: evt_…'".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_needs_a_unit_and_is_at_most_a_day() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "30", "s", "-1s", "0s", "1d", "25h", "99999999999999999999s", "1.5s", "30 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration_or_zero("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn bytes_are_of_kubernetes_binary_units() {
        assert_eq!(bytes("256Mi"), Ok(256 << 20));
        assert_eq!(bytes("1Gi"), Ok(1 << 30));
        assert_eq!(bytes("268435456"), Ok(256 << 20));
        for wrong in
            ["", "Mi", "-1Mi", "1.5Gi", "256M", "256 Mi", "63Mi", "99999999999999999999", "99999999999Gi"]
        {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn network_of_proxies_does_not_hold_every_client() {
        for network in ["10.0.0.0/8", "10.244.0.0/16", "192.0.2.1/32", "fc00::/7", "2001:db8::/32"] {
            assert!(proxy_network(network).is_ok(), "{network}");
        }
        for wrong in ["0.0.0.0/0", "128.0.0.0/1", "8.0.0.0/7", "::/0", "2000::/3", "fc00::/6", "10.0.0.1", ""]
        {
            assert!(proxy_network(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn egress_network_is_no_metadata_service() {
        for network in ["169.254.0.0/16", "127.0.0.1/32", "0.0.0.0/0", "fd00::/8"] {
            assert!(egress_network(network).is_ok(), "{network}");
        }
        for wrong in [
            "169.254.169.254/32",
            "fd00:ec2::254/128",
            "fd00:ec2::/48",
            "fd00:c1::a9fe:a9fe/128",
            "10.0.0.1",
            "",
        ] {
            assert!(egress_network(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_event_is_refused_with_the_catalog() {
        let message = event_code("order.create").expect_err("no code");
        assert!(
            message.starts_with("unknown event \"order.create\"; one of: order.created, order.updated, ")
        );
    }

    #[test]
    fn receiver_url_without_tls_is_of_this_machine() {
        for url in ["http://localhost:3000/hook", "http://127.0.0.1/", "http://[::1]:80/?a=b"] {
            assert!(matches!(receiver_url(url), Ok(ReceiverUrl::Loopback(_))), "{url}");
        }
        assert!(matches!(receiver_url("https://r.example/"), Ok(ReceiverUrl::Https(_))));
        for wrong in ["http://r.example/", "http://10.0.0.1/", "http://u:p@localhost/", "http://a.localhost/"]
        {
            assert!(
                receiver_url(wrong).is_err_and(|text| text.starts_with("must be an https:// URL")),
                "{wrong}"
            );
        }
        for wrong in ["https://u:p@r.example/", "localhost:3000", ""] {
            let error = receiver_url(wrong).expect_err("refused");
            assert!(error.starts_with("must ") && !error.contains("secretRef"), "{error}");
        }
    }

    #[test]
    fn forward_url_is_of_http() {
        for url in ["http://localhost:3000/hook?a=b", "https://receiver.example"] {
            assert!(forward_url(url).is_ok(), "{url}");
        }
        for wrong in ["", "localhost:3000", "ftp://localhost/", "http://"] {
            assert!(forward_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn portal_url_has_a_place_for_the_subdomain_and_no_path() {
        for url in ["https://{subdomain}.docket.example.com", "http://{subdomain}.localhost:8080"] {
            assert_eq!(portal_url(url).as_deref(), Ok(url));
            assert_eq!(portal_url(&format!("{url}/")).as_deref(), Ok(url));
        }
        for wrong in [
            "",
            "https://docket.example.com",
            "https://docket.example.com/{subdomain}",
            "https://{subdomain}.docket.example.com/portal",
            "https://{subdomain}.{subdomain}.example",
            "ftp://{subdomain}.example",
            "https://x{subdomain}.example",
            "https://{subdomain}.example?a",
        ] {
            assert!(portal_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn header_is_a_name_a_colon_and_a_value() {
        let read = |text| header(text).expect("a header");
        assert_eq!(read("Webhook-Id: a: b "), ("webhook-id".to_owned(), "a: b".to_owned()));
        assert_eq!(read("x:"), ("x".to_owned(), String::new()));
        for wrong in ["", "x", ": x", "a b: c"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn new_email_has_one_at_sign_and_a_host_of_labels() {
        for address in ["ada@quillfeather.example", "josé@münchen.example"] {
            assert_eq!(new_email(address).as_deref(), Ok(address));
        }
        for wrong in
            ["two@@x.example", "a..b@x.example", "a@-x.example", "a@x", "@x.example", "a b@x.example", ""]
        {
            assert!(new_email(wrong).is_err(), "{wrong}");
        }
        assert!(email("two@@x.example").is_ok(), "a contact of before");
    }

    #[test]
    fn name_is_seen() {
        assert!(name("Ada Quillfeather").is_ok());
        for wrong in ["", " ", "\u{a0}", "\u{200b}", "\u{3164}\u{2060}", "Ada ", "A\tda"] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn retention_accepts_days_up_to_ten_years() {
        assert_eq!(retention("30d"), Ok(30 * DAY));
        assert_eq!(retention("1s"), Ok(Duration::from_secs(1)));
        for wrong in ["", "30", "d", "-1d", "0d", "999ms", "3651d", "99999999999999999999d", "1w"] {
            assert!(retention(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn age_is_a_retention_or_0() {
        assert_eq!(age("0"), Ok(Duration::ZERO));
        assert_eq!(age("30d"), Ok(30 * DAY));
        assert!(age("0d").is_err_and(|error| error.ends_with(", or 0")));
    }

    #[test]
    fn host_name_accepts_labels_and_nothing_else() {
        assert_eq!(host_name("API.Example.com"), Ok("api.example.com".into()));
        for wrong in ["", "http://a", "a:80", "a..b", "-a", "a_b", "a/b"] {
            assert!(host_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bounds_are_within_what_is_accepted() {
        assert_eq!(duration("24h"), Ok(DAY));
        assert!(duration("1ms").is_ok() && duration("86400001ms").is_err() && duration("1440m").is_ok());
        assert_eq!(retention("3650d"), Ok(3650 * DAY));
        assert!(retention("1000ms").is_ok() && age("3650d").is_ok() && age("3651d").is_err());
        assert_eq!((bytes("64Mi"), bytes("65536Ki")), (Ok(64 << 20), Ok(64 << 20)));
        assert!(bytes("67108863").is_err());
    }

    #[test]
    fn account_is_named_as_the_cluster_names_it() {
        assert_eq!(
            account("docket/docket-portal").as_deref(),
            Ok("system:serviceaccount:docket:docket-portal")
        );
        for wrong in ["", "docket", "/a", "docket/", "a/b/c", "a.b/c", "Docket/portal", "docket/portal:x"] {
            assert!(account(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn url_of_a_check_is_of_plain_http() {
        assert!(http_url("http://127.0.0.1:9090/readyz").is_ok());
        for wrong in ["https://127.0.0.1:9090/readyz", "127.0.0.1:9090", "http://", "ftp://a/"] {
            assert!(http_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prefix_of_nat64_has_one_of_its_lengths_and_nothing_behind_it() {
        for prefix in ["2001:db8::/32", "2001:db8:100::/40", "2001:db8:64::/48", "2001:db8:64::/96"] {
            assert!(nat64_prefix(prefix).is_ok(), "{prefix}");
        }
        for wrong in ["2001:db8:64::1/96", "2001:db8::/33", "2001:db8:64::/128", "10.0.0.0/32", "2001:db8::"]
        {
            assert!(nat64_prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn network_of_proxies_is_not_written_as_ipv6_for_ipv4() {
        assert!(proxy_network("::ffff:a00:0/104").is_err_and(|text| text.contains("IPv4 network")));
    }

    #[test]
    fn names_have_their_longest() {
        let text = |count: usize| "é".repeat(count);
        assert!(code(&text(64)).is_ok() && code(&text(65)).is_err());
        assert!(name(&text(200)).is_ok() && name(&text(201)).is_err());
        assert!(user_name(&text(320)).is_ok() && user_name(&text(321)).is_err());
        assert!(email(&text(320)).is_ok() && email(&text(321)).is_err());
        assert!(word(&text(253)).is_ok() && word(&text(254)).is_err());
        assert!(word("pod-0").is_ok() && word("pod 0").is_err() && word("pod\u{2003}0").is_err());
        let label = "a".repeat(63);
        assert!(host_name(&label).is_ok() && host_name(&format!("{label}a")).is_err());
        let longest = format!("{label}.{label}.{label}.{}", &label[..61]);
        assert!(host_name(&longest).is_ok() && host_name(&format!("{longest}a")).is_err(), "253 characters");
    }
}
