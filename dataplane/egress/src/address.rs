//! The addresses that a delivery may reach. Pure: `connector` resolves names and connects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use docket_program::embedded;
use docket_program::metadata_service::is_metadata_service;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::resolve::{LOCALHOST, is_localhost};

/// IPv4 ranges that are not global unicast (IANA special-purpose registry), and one address that only seems to be.
const FORBIDDEN_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 0, 8),        // "this network"; Linux connects 0.0.0.0 to itself
    v4(10, 0, 0, 0, 8),       // private
    v4(100, 64, 0, 0, 10),    // carrier-grade NAT; Alibaba's metadata service (100.100.100.200)
    v4(127, 0, 0, 0, 8),      // loopback
    v4(168, 63, 129, 16, 32), // Azure's host agent: a public address that always reaches the host below the VM
    v4(169, 254, 0, 0, 16),   // link-local; metadata services
    v4(172, 16, 0, 0, 12),    // private
    v4(192, 0, 0, 0, 24),     // protocol assignments; Oracle's metadata service (192.0.0.192)
    v4(192, 0, 2, 0, 24),     // documentation
    v4(192, 88, 99, 0, 24),   // 6to4 relays
    v4(192, 168, 0, 0, 16),   // private
    v4(198, 18, 0, 0, 15),    // benchmarks
    v4(198, 51, 100, 0, 24),  // documentation
    v4(203, 0, 113, 0, 24),   // documentation
    v4(224, 0, 0, 0, 4),      // multicast
    v4(240, 0, 0, 0, 4),      // reserved; 255.255.255.255
];

/// The only part of IPv6 that IANA has allocated as global unicast. Requiring it refuses loopback, IPv4-mapped and
/// IPv4-compatible addresses, `100::/64`, `5f00::/16`, unique-local, link-local, site-local and multicast
/// addresses, and any range that is defined later.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);

/// IPv6 ranges inside [`GLOBAL_V6`] that are not global unicast.
const FORBIDDEN_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 23), // protocol assignments: Teredo (an IPv4 address inside), ORCHID, benchmarks
    v6(0x2001, 0x0db8, 32), // documentation
    v6(0x2002, 0, 16), // 6to4: an IPv4 address inside
    v6(0x3fff, 0, 20), // documentation
];

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix)
}

/// The addresses that deliveries may reach: global unicast without the platform's `deny`, and in addition the
/// platform's `allow`.
///
/// For an IPv6 address that NAT64 translates, the policy checks the IPv4 address inside it, because packets go there:
/// DNS64 makes such addresses for every receiver that has only IPv4. For an address of a tunnel (6to4, Teredo, ISATAP
/// …), it checks both the address itself and the IPv4 address inside it.
///
/// Ports are not restricted, except that 0 is refused: receivers listen on any port, and port 6379 of a public
/// address needs no more protection than 443. The check of addresses is what keeps a tenant out of the platform's own
/// network.
#[derive(Debug, Clone, Default)]
pub struct EgressPolicy {
    allow: Vec<IpNet>,
    allow_sockets: Vec<SocketAddr>,
    deny: Vec<IpNet>,
    nat64: Vec<Ipv6Net>,
}

impl EgressPolicy {
    /// `allow`: private ranges that the platform opens for its own receivers; metadata services in them stay closed.
    /// `allow_sockets`: single sockets, for the embedded mode's receiver on the loopback address. An IPv4-mapped
    /// address counts as the IPv4 address in it.
    pub fn new(allow: Vec<IpNet>, allow_sockets: Vec<SocketAddr>) -> Self {
        Self { allow, allow_sockets, deny: Vec::new(), nat64: Vec::new() }
    }

    /// `deny`: ranges that count as private although their addresses are global, such as ranges of the platform's own
    /// network. Addresses that are also in `allow` are permitted, like any private address in `allow`. The chart's
    /// network policy says the same.
    #[must_use]
    pub fn without(self, deny: Vec<IpNet>) -> Self {
        Self { deny, ..self }
    }

    /// `nat64`: the prefixes of the network's own NAT64. Each has one of the [`embedded::NAT64_LENGTHS`]. Prefixes
    /// that every network may use are known without this.
    #[must_use]
    pub fn with_nat64(self, nat64: Vec<Ipv6Net>) -> Self {
        Self { nat64, ..self }
    }

    /// Whether a connection to `socket` may be opened.
    pub fn permits(&self, socket: SocketAddr) -> bool {
        let SocketAddr::V6(v6) = socket else { return self.permits_itself(socket) };
        let permits = |inside: &Ipv4Addr| self.permits_itself(SocketAddr::new((*inside).into(), v6.port()));
        let translated = self.translated(*v6.ip());
        if translated.is_empty() {
            let is_mapped = v6.ip().to_ipv4_mapped().is_some(); // `permits_itself` checks the IPv4 address itself
            let mut inside = embedded::tunnelled(*v6.ip()).into_iter();
            return self.permits_itself(socket) && (is_mapped || inside.all(|inside| permits(&inside)));
        }
        // No packet reaches 0.0.0.0/8. A prefix length that is not the network's own mostly gives an address in this range.
        let harmless = |inside: &Ipv4Addr| permits(inside) || inside.octets()[0] == 0;
        !within(&self.deny, socket.ip()) && translated.iter().any(permits) && translated.iter().all(harmless)
    }

    /// The IPv4 addresses to which NAT64 may translate `address`: one for each possible length of its prefix.
    fn translated(&self, address: Ipv6Addr) -> Vec<Ipv4Addr> {
        let own = self.nat64.iter().filter(|prefix| prefix.contains(&address));
        let own: Vec<_> = own.map(|prefix| embedded::translated(address, prefix.prefix_len())).collect();
        if own.is_empty() { embedded::nat64(address) } else { own }
    }

    fn permits_itself(&self, socket: SocketAddr) -> bool {
        let canonical = SocketAddr::new(socket.ip().to_canonical(), socket.port());
        socket.port() != 0
            && !is_metadata_service(socket.ip())
            && ((is_global_unicast(socket.ip()) && !within(&self.deny, canonical.ip()))
                || self.allow_sockets.contains(&canonical)
                || within(&self.allow, canonical.ip()))
    }
}

fn within(ranges: &[IpNet], ip: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(&ip))
}

fn is_global_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !FORBIDDEN_V4.iter().any(|range| range.contains(&ip)),
        IpAddr::V6(ip) => GLOBAL_V6.contains(&ip) && !FORBIDDEN_V6.iter().any(|range| range.contains(&ip)),
    }
}

/// Returns the addresses of a URL's host that needs no lookup: an address literal, or `localhost`. Empty for other hosts.
pub fn literal_addresses(host: &str) -> Vec<IpAddr> {
    match host.trim_matches(['[', ']']) {
        host if is_localhost(host) => LOCALHOST.to_vec(),
        host => host.parse().into_iter().collect(),
    }
}

/// Addresses from the test suites of similar tools, used here as literals and in `connector` as DNS answers.
#[cfg(test)]
pub(crate) mod vectors {
    use std::net::IpAddr;

    const FORBIDDEN: &str = "
        127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.0 10.0.0.1 10.255.255.255 172.16.0.0 172.16.0.1
        172.31.255.255 192.168.0.0 192.168.0.1 192.168.255.255 169.254.169.254 169.254.170.2 100.64.0.1
        100.127.255.254 100.100.100.200 168.63.129.16 192.0.0.1 192.0.0.192 192.0.2.1 198.18.0.1 198.19.255.255
        198.51.100.1 203.0.113.6 192.88.99.3 224.1.2.3 239.255.255.255 240.0.0.1 255.255.255.254 255.255.255.255
        :: ::1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:a9fe:a9fe 0:0:0:0:0:ffff:10.0.0.2 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
        ::7f00:1 ::127.0.0.1 ::8.8.8.8 64:ff9b::a9fe:a9fe 64:ff9b::a00:1 64:ff9b::c0a8:101 64:ff9b::7f00:1
        64:ff9b::6464:64c8 64:ff9b:1::1 64:ff9b:1::a00:1 64:ff9b:1:a00:0:100:: 64:ff9b:1:a00:0:100:808:808 64:ff9b:2::808:808
        ::ffff:0:8.8.8.8 2a00:1450::5efe:10.0.0.1 2a00:1450::200:5efe:192.168.1.1 2002:a9fe:a9fe::1
        2002:c0a8:1::1 2002:808:808::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1
        2001:1ff:ffff::1 fd00:ec2::254 fd20:ce::254 fc00::1 fe80::1 febf:ffff::1 fec0::1 feef::1 ff02::1 100::1
        2001:db8::1 3fff::1 3fff:fff::1 5f00::1 4000::1 1fff::1 8000::1";

    const ALLOWED: &str = "
        8.8.8.8 1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.254 100.128.0.1 126.255.255.255 128.0.0.1 169.253.255.255
        169.255.0.0 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
        168.63.129.15 2001:4860:4860::8888 2606:4700:4700::1111 2001:200::1 2a00:1450:4001::1 2a00:1450::5efe:8.8.8.8
        64:ff9b::808:808 64:ff9b::5db8:d822 64:ff9b:1::808:808 64:ff9b:1:808:8:800:: 3ffe:ffff::1 3fff:1000::1";

    fn parse(list: &'static str) -> Vec<IpAddr> {
        list.split_whitespace().map(|text| text.parse().expect(text)).collect()
    }

    pub(crate) fn forbidden() -> Vec<IpAddr> {
        parse(FORBIDDEN)
    }

    pub(crate) fn allowed() -> Vec<IpAddr> {
        parse(ALLOWED)
    }
}

#[cfg(test)]
mod tests {
    use docket_program::metadata_service::METADATA_SERVICES;

    use super::*;

    fn permits(policy: &EgressPolicy, socket: &str) -> bool {
        policy.permits(socket.parse().expect("a socket"))
    }

    #[test]
    fn only_global_unicast_addresses_are_permitted() {
        let policy = EgressPolicy::default();
        for ip in vectors::forbidden() {
            assert!(!policy.permits(SocketAddr::new(ip, 443)), "{ip}");
        }
        for ip in vectors::allowed() {
            assert!(policy.permits(SocketAddr::new(ip, 443)), "{ip}");
        }
    }

    #[test]
    fn allowed_range_is_permitted() {
        let policy = EgressPolicy::new(vec!["10.2.0.0/16".parse().expect("a range")], vec![]);
        assert!(permits(&policy, "10.2.3.4:443"));
        assert!(permits(&policy, "[::ffff:10.2.3.4]:443"), "the same address, mapped");
        assert!(!permits(&policy, "10.3.0.1:443"));
        assert!(!permits(&policy, "[::10.2.3.4]:443"), "IPv4-compatible is another address");
    }

    #[test]
    fn denied_range_is_permitted_only_where_it_is_allowed() {
        let range = |text: &str| text.parse().expect(text);
        let policy = EgressPolicy::new(vec![range("8.8.8.8/32")], vec![])
            .without(vec![range("8.8.0.0/16"), range("2606:4700::/32")]);
        assert!(!permits(&policy, "8.8.4.4:443"));
        assert!(!permits(&policy, "[2606:4700:4700::1111]:443"));
        assert!(permits(&policy, "8.8.8.8:443") && permits(&policy, "8.9.0.1:443"));
        assert!(permits(&policy, "[2001:4860:4860::8888]:443"));
    }

    #[test]
    fn translated_address_is_judged_by_the_ipv4_address_inside() {
        let range = |text: &str| text.parse().expect(text);
        let policy = EgressPolicy::new(vec![range("10.2.0.0/16"), range("64:ff9b::/96")], vec![])
            .without(vec![range("8.8.4.0/24")]);
        assert!(permits(&policy, "[64:ff9b::10.2.3.4]:443") && permits(&policy, "[64:ff9b::8.8.8.8]:443"));
        assert!(!permits(&policy, "[64:ff9b::10.3.0.1]:443"), "not opened by the range of IPv6");
        assert!(!permits(&policy, "[64:ff9b::8.8.4.4]:443"), "denied");
        assert!(!permits(&policy, "[64:ff9b::8.8.8.8]:0"));
        let closed = EgressPolicy::default().without(vec![range("64:ff9b::/96")]);
        assert!(!permits(&closed, "[64:ff9b::8.8.8.8]:443"));
    }

    #[test]
    fn own_prefix_of_nat64_is_judged_by_its_length() {
        let prefixes = ["2a00:1098:64::/96", "fd64::/48", "64:ff9b:1:fffe::/96"];
        let policy =
            EgressPolicy::default().with_nat64(prefixes.map(|text| text.parse().expect(text)).to_vec());
        for (inside, expected) in [("8.8.8.8", true), ("10.0.0.1", false), ("169.254.169.254", false)] {
            assert_eq!(permits(&policy, &format!("[2a00:1098:64::{inside}]:443")), expected, "{inside}");
            assert_eq!(permits(&policy, &format!("[64:ff9b:1:fffe::{inside}]:443")), expected, "{inside}");
        }
        assert!(
            permits(&policy, "[fd64:0:0:808:8:800::]:443") && !permits(&policy, "[fd64:0:0:a00:0:100::]:443")
        );
        assert!(permits(&EgressPolicy::default(), "[2a00:1098:64::10.0.0.1]:443"), "not known as such");
        assert!(
            !permits(&EgressPolicy::default(), "[64:ff9b:1:fffe::8.8.8.8]:443"),
            "255.254.0.0 with 48 bits"
        );
    }

    #[test]
    fn opened_tunnel_does_not_open_the_private_address_inside() {
        let range = |text: &str| text.parse().expect(text);
        let policy =
            EgressPolicy::new(vec![range("2002::/16"), range("10.2.0.0/16"), range("::1/128")], vec![]);
        assert!(permits(&policy, "[2002:808:808::1]:443") && permits(&policy, "[2002:a02:304::1]:443"));
        assert!(!permits(&policy, "[2002:a03:304::1]:443"));
        assert!(permits(&policy, "[::1]:443") && permits(&policy, "[::ffff:10.2.3.4]:443"));
    }

    #[test]
    fn metadata_services_are_never_permitted() {
        let everything = ["0.0.0.0/0", "::/0"].map(|range| range.parse().expect(range)).to_vec();
        let policy = EgressPolicy::new(everything, vec![]);
        assert!(permits(&policy, "169.254.169.253:80") && permits(&policy, "[fe80::a9fe:a9fe:a9fe]:80"));
        for service in METADATA_SERVICES {
            for address in [service.network(), service.broadcast()] {
                assert!(!policy.permits(SocketAddr::new(address, 443)), "{address}");
            }
            let IpAddr::V4(v4) = service.addr() else { continue };
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for form in [
                format!("::ffff:{v4}"),
                format!("::{v4}"),
                format!("::ffff:0:{v4}"),
                format!("64:ff9b::{v4}"),
                format!("64:ff9b:1:{high:x}:{c:x}:{d:x}00::"),
                format!("64:ff9b:1:{a:x}:{b:x}:{low:x}::"),
                format!("64:ff9b:1::{a:x}:{b:x}{c:02x}:{d:x}00:0"),
                format!("64:ff9b:1::{v4}"),
                format!("2002:{high:x}:{low:x}::"),
                format!("2001:0:{high:x}:{low:x}::1"),
                format!("2001::{:x}:{:x}", !high, !low),
                format!("2a00:1450::5efe:{v4}"),
                format!("fe80::200:5efe:{v4}"),
            ] {
                assert!(!permits(&policy, &format!("[{form}]:443")), "{form}");
            }
        }
    }

    #[test]
    fn allowed_socket_is_permitted_and_no_other() {
        let policy = EgressPolicy::new(vec![], vec!["127.0.0.1:8443".parse().expect("a socket")]);
        assert!(permits(&policy, "127.0.0.1:8443"));
        assert!(permits(&policy, "[::ffff:127.0.0.1]:8443"));
        assert!(!permits(&policy, "127.0.0.1:8444"));
        assert!(!permits(&policy, "127.0.0.2:8443"));
        assert!(!permits(&policy, "[::1]:8443"));
    }

    #[test]
    fn port_0_is_never_permitted() {
        let everything = vec!["0.0.0.0/0".parse().expect("a range")];
        assert!(!permits(&EgressPolicy::new(everything, vec![]), "8.8.8.8:0"));
    }
}
