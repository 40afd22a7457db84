//! The IPv4 addresses inside IPv6 addresses: a packet to such an IPv6 address may arrive at the IPv4 address.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The lengths that a prefix of NAT64 can have (RFC 6052, section 2.2).
pub const NAT64_LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// Returns the IPv4 address to which NAT64 translates `address` with a prefix of this length, one of [`NAT64_LENGTHS`].
pub fn translated(address: Ipv6Addr, prefix_length: u8) -> Ipv4Addr {
    let octets = address.octets();
    // Bits 64 to 71 are not used, so that the interface identifier stays valid.
    let mut inside = (usize::from(prefix_length / 8)..16).filter(|at| *at != 8).map(|at| octets[at]);
    Ipv4Addr::from([(); 4].map(|()| inside.next().unwrap_or_default()))
}

/// Returns the IPv4 addresses to which NAT64 may translate `address` with a prefix that every network may use:
/// `64:ff9b::/96`, or a prefix inside `64:ff9b:1::/48`. There a network chooses its own prefix, of a length that only
/// the network knows. Empty for other addresses.
pub fn nat64(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let lengths: &[u8] = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => &[96],
        [0x64, 0xff9b, 1, ..] => &[48, 56, 64, 96],
        _ => &[],
    };
    lengths.iter().map(|length| translated(address, *length)).collect()
}

/// Returns the IPv4 addresses inside an address of another form: IPv4-mapped, IPv4-compatible, IPv4-translated
/// (SIIT), 6to4, Teredo (server and client) and ISATAP.
pub fn tunnelled(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(), // unspecified, loopback
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => vec![v4(high, low)],
        [0x2002, high, low, ..] => vec![v4(high, low)],
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            vec![v4(server_high, server_low), v4(!high, !low)]
        }
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => vec![v4(high, low)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().expect(text)
    }

    /// Uses the examples of RFC 6052, section 2.4: 192.0.2.33 with a prefix of each length.
    #[test]
    fn address_is_found_behind_prefix_of_each_length() {
        for (address, length) in [
            ("2001:db8:c000:221::", 32),
            ("2001:db8:1c0:2:21::", 40),
            ("2001:db8:122:c000:2:2100::", 48),
            ("2001:db8:122:3c0:0:221::", 56),
            ("2001:db8:122:344:c0:2:2100::", 64),
            ("2001:db8:122:344::192.0.2.33", 96),
        ] {
            assert_eq!(translated(v6(address), length), Ipv4Addr::new(192, 0, 2, 33), "{address}");
        }
    }

    #[test]
    fn address_is_found_in_every_form() {
        let inside = Ipv4Addr::new(10, 1, 2, 3);
        for address in [
            "::ffff:10.1.2.3",
            "::10.1.2.3",
            "::ffff:0:10.1.2.3",
            "2002:a01:203::1",
            "2001:0:a01:203:0:0:f7f7:f7f7",
            "2001:0:808:808:8000:63bf:f5fe:fdfc",
            "2001:db8::5efe:10.1.2.3",
            "fe80::200:5efe:10.1.2.3",
        ] {
            assert!(tunnelled(v6(address)).contains(&inside), "{address}");
            assert!(nat64(v6(address)).is_empty(), "{address}");
        }
        for address in ["64:ff9b::10.1.2.3", "64:ff9b:1::10.1.2.3", "64:ff9b:1:a01:2:300::"] {
            assert!(nat64(v6(address)).contains(&inside), "{address}");
            assert!(tunnelled(v6(address)).is_empty(), "{address}");
        }
        for address in ["::", "::1", "2001:4860:4860::8888", "fd00:ec2::254", "64:ff9b:2::1"] {
            assert!(tunnelled(v6(address)).is_empty() && nat64(v6(address)).is_empty(), "{address}");
        }
    }
}
