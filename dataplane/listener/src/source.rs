//! The source of a request.

use std::net::{IpAddr, Ipv6Addr};

/// The source of a request, behind proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestSource {
    /// The address of a client.
    Client(IpAddr),
    /// A trusted proxy that did not name its client. The client may be anyone, so guesses are counted by user only.
    Proxy,
}

impl RequestSource {
    /// Where a subscriber's requests come from: of IPv6, all of its network.
    pub fn subscriber(self) -> Self {
        match self {
            Self::Client(address) => Self::Client(network(address)),
            Self::Proxy => Self::Proxy,
        }
    }
}

/// The network of one subscriber: the address itself in IPv4, a /64 in IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0 << 64).into(),
        v4 => v4,
    }
}
