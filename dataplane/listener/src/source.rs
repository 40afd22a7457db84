//! Where a request came from.

use std::net::{IpAddr, Ipv6Addr};

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The address of a client.
    Client(IpAddr),
    /// A trusted proxy that did not say for whom. Since it may be anyone, guesses are counted by user only.
    Proxy,
}

impl Source {
    /// Where a subscriber's requests come from: of IPv6, all of its network.
    pub fn subscriber(self) -> Self {
        match self {
            Self::Client(address) => Self::Client(network(address)),
            Self::Proxy => Self::Proxy,
        }
    }
}

/// The addresses of one subscriber: at least a /64 in IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0 << 64).into(),
        v4 => v4,
    }
}
