//! The addresses at which clouds give out the credentials of a machine or pod. Each name is the one in the cloud's
//! own documents.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::embedded;

/// The addresses of all metadata services. The chart's network policies exclude the same addresses.
pub const METADATA_SERVICES: [IpNet; 18] = [
    // Amazon EC2, Azure, Google, Oracle, OpenStack, Akamai, DigitalOcean, Exoscale, Hetzner, Huawei, IBM, OVH, UpCloud, Vultr …
    v4(169, 254, 169, 254),
    v4(169, 254, 169, 252), // Google: GKE's metadata server, in "Workload Identity Federation for GKE"
    v4(169, 254, 170, 2),   // Amazon ECS: "Task IAM role"
    v4(169, 254, 170, 23),  // Amazon EKS: "Set up the EKS Pod Identity Agent"
    v4(169, 254, 42, 42),   // Scaleway: "Instance metadata"
    v4(169, 254, 0, 23),    // Tencent: metadata.tencentyun.com
    v4(100, 100, 100, 200), // Alibaba: "Instance metadata"
    v4(100, 96, 0, 96),     // Volcengine and BytePlus: "Instance metadata"
    v4(100, 80, 80, 80),    // UCloud: UHost's metadata
    v4(168, 63, 129, 16),   // Azure: "What is IP address 168.63.129.16?"
    v4(192, 0, 0, 192),     // Oracle Cloud Infrastructure Classic: "Retrieving instance metadata"
    // Amazon: ::254 for EC2, ::23 for EKS, and other services for its own machines
    v6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32),
    v6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128), // Google: "About VM metadata"
    v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128), // OpenStack: Neutron's metadata service; Akamai
    v6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128), // Oracle: "Getting instance metadata"
    v6(Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1), 128), // Akamai: "Metadata service API"
    v6(Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200), 128), // Alibaba: "Instance metadata"
    v6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128),     // Scaleway: "Instance metadata"
];

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), 32))
}

const fn v6(address: Ipv6Addr, prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(address, prefix))
}

/// Whether `address`, or an IPv4 address inside it, is a metadata service of a cloud.
pub fn is_metadata_service(address: IpAddr) -> bool {
    let is_listed = |address: IpAddr| METADATA_SERVICES.iter().any(|network| network.contains(&address));
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut inside = embedded::nat64(address).into_iter().chain(embedded::tunnelled(address));
            is_listed(address.into()) || inside.any(|inside| is_listed(inside.into()))
        }
        address => is_listed(address),
    }
}

/// Whether `network` has only addresses of metadata services.
pub fn is_of_metadata_services(network: IpNet) -> bool {
    let is_one = network.prefix_len() == network.max_prefix_len();
    METADATA_SERVICES.iter().any(|service| service.contains(&network))
        || is_one && is_metadata_service(network.addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_known_in_every_form() {
        for address in [
            "169.254.169.254",
            "169.254.169.252",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.42.42",
            "169.254.0.23",
            "100.100.100.200",
            "100.96.0.96",
            "100.80.80.80",
            "168.63.129.16",
            "192.0.0.192",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:0:a9:fea9:fe00:0",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "2002:a9fe:a9fe::1",
            "2002:6464:64c8:1::",
            "2001:0:a9fe:a9fe::1",
            "2001:0:808:808::5601:5601",
            "2001:4860::5efe:169.254.169.254",
            "fe80::200:5efe:168.63.129.16",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:ec2::253",
            "fd00:ec2:ffff::1",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
            "fd00:c1::a9fe:a9fe",
            "fd00:a9fe:a9fe::1",
            "fd00:100::100:200",
            "fd00:42::42",
        ] {
            assert!(is_metadata_service(address.parse().expect(address)), "{address}");
        }
        for address in [
            "169.254.169.253",
            "100.64.0.1",
            "10.0.0.1",
            "64:ff9b::808:808",
            "fd00:ec3::254",
            "fe80::a9fe:a9fe:a9fe",
            "fd00:c1::a9fe:a9ff",
            "::1",
        ] {
            assert!(!is_metadata_service(address.parse().expect(address)), "{address}");
        }
    }

    #[test]
    fn network_that_has_other_addresses_too_is_not_of_metadata_services() {
        for network in [
            "169.254.169.254/32",
            "fd00:ec2::/32",
            "fd00:ec2::/64",
            "fd00:c1::a9fe:a9fe/128",
            "2002:a9fe:a9fe::/128",
        ] {
            assert!(is_of_metadata_services(network.parse().expect(network)), "{network}");
        }
        for network in ["169.254.169.254/31", "169.254.0.0/16", "fd00::/8", "::/0", "10.0.0.1/32"] {
            assert!(!is_of_metadata_services(network.parse().expect(network)), "{network}");
        }
    }
}
