//! The addresses at which clouds hand out the credentials of a machine or pod.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::embedded;

/// Those with an IPv4 address. The chart's NetworkPolicy excepts the same.
pub const V4: [Ipv4Addr; 8] = [
    Ipv4Addr::new(169, 254, 169, 254), // Amazon, Google, Azure, DigitalOcean, OpenStack and others
    Ipv4Addr::new(169, 254, 170, 2),   // Amazon's containers
    Ipv4Addr::new(169, 254, 170, 23),  // Amazon's pods
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's host agent
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
];

const V6: [Ipv6Addr; 5] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // Amazon
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),  // Amazon's pods
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),   // Scaleway
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xa9fe, 0xa9fe, 0xa9fe), // OpenStack
];

/// Whether `address` is a metadata service of a cloud: as it stands, or as the IPv4 address inside it.
pub fn is_metadata_service(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => V4.contains(&address),
        IpAddr::V6(address) => {
            let mut inside = embedded::nat64(address).into_iter().chain(embedded::tunnelled(address));
            V6.contains(&address) || inside.any(|inside| V4.contains(&inside))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_known_in_every_form() {
        for address in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.42.42",
            "169.254.0.23",
            "fd00:42::42",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "2002:a9fe:a9fe::1",
            "2001:0:808:808::5601:5601",
            "2001:4860::5efe:169.254.169.254",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fe80::a9fe:a9fe:a9fe",
        ] {
            assert!(is_metadata_service(address.parse().expect(address)), "{address}");
        }
        for address in ["169.254.169.253", "100.64.0.1", "10.0.0.1", "64:ff9b::808:808", "fd00:ec2::1", "::1"]
        {
            assert!(!is_metadata_service(address.parse().expect(address)), "{address}");
        }
    }
}
