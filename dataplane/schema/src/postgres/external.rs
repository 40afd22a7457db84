//! Limits for an external database, whose URL a tenant's owner writes. Docket connects from inside the platform's
//! network, and can read the platform's files. So the platform decides where such a URL may lead and which file it
//! may name. Pure, except for reading the file.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use docket_program::metadata_service::is_metadata_service;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The folder in which a pod has the certificates of `privateCA.configMap`.
pub const CA_FOLDER: &str = "/etc/docket/ca";
/// The largest file of certificates, in bytes. A file of all public authorities has a quarter of this.
pub const LARGEST_CA_FILE: u64 = 1 << 20;
/// The parameters that an external database's URL may have.
pub const PARAMETERS: [&str; 9] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "pooler",
    "channel_binding",
    "target_session_attrs",
    "application_name",
    "connect_timeout",
];

/// Addresses of the link, and addresses that belong to no single machine. Loopback is not among them, because it is
/// harmless: in a pod only Docket listens there, and elsewhere it is the platform's own machine.
const SPECIAL_V4: [Ipv4Net; 5] = [
    v4(0, 0, 0, 0, 8),      // Linux connects 0.0.0.0 to itself
    v4(169, 254, 0, 0, 16), // link-local
    v4(192, 0, 0, 0, 24),   // protocol assignments
    v4(224, 0, 0, 0, 4),    // multicast
    v4(240, 0, 0, 0, 4),    // reserved; broadcast
];

/// The ranges of IPv6 with addresses of machines: global unicast, unique-local and loopback. Link-local, multicast
/// and the forms that contain an IPv4 address are not among them.
const MACHINES_V6: [Ipv6Net; 3] = [v6(0x2000, 0, 0, 3), v6(0xfc00, 0, 0, 7), v6(0, 0, 1, 128)];

/// The special ranges inside [`MACHINES_V6`].
const SPECIAL_V6: [Ipv6Net; 2] = [
    v6(0x2001, 0, 0, 23), // protocol assignments: Teredo has an IPv4 address inside
    v6(0x2002, 0, 0, 16), // 6to4: an IPv4 address inside
];

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, last: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, last), prefix)
}

/// Where external databases may be, and where their URLs may name files of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalDatabases {
    allow: Vec<AllowedDatabase>,
    ca_folder: Option<PathBuf>,
}

/// A host or a network where external databases may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedDatabase {
    /// Any host with an address in this network.
    Network(IpNet),
    /// The host of this name.
    Host(String),
    /// Any host whose name ends in this text, which begins with a dot.
    Below(String),
}

impl FromStr for AllowedDatabase {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(network) = text.parse() {
            return Ok(Self::Network(network));
        }
        let (name, below) = text.strip_prefix('*').map_or((text, false), |rest| (rest, true));
        let labels = if below { name.strip_prefix('.') } else { Some(name) };
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let is_name = labels.is_some_and(|labels| labels.split('.').all(is_label) && labels.len() <= 253);
        match (is_name && text.parse::<IpAddr>().is_err(), below) {
            (true, true) => Ok(Self::Below(name.to_ascii_lowercase())),
            (true, false) => Ok(Self::Host(name.to_ascii_lowercase())),
            (false, _) => {
                Err("must be a host name such as db.example.com, a name with everything below it such as \
                               *.db.example.com, or a network such as 10.1.2.0/24, or 10.1.2.3/32 for one address")
            }
        }
    }
}

impl Default for ExternalDatabases {
    fn default() -> Self {
        Self::new(Vec::new(), Some(CA_FOLDER.into()))
    }
}

impl ExternalDatabases {
    /// `allow` says where external databases may be; empty: anywhere but at special addresses. `ca_folder` is the
    /// folder of the files that `sslrootcert` may name; `None`: it may name any file, because the platform writes the
    /// URLs.
    pub fn new(allow: Vec<AllowedDatabase>, ca_folder: Option<PathBuf>) -> Self {
        Self { allow, ca_folder }
    }

    /// Whether the platform writes the URLs, and not the owners of tenants. Then `sslrootcert` may name any file.
    pub fn are_of_the_platform(&self) -> bool {
        self.ca_folder.is_none()
    }

    /// Whether a connection to `address` of the URL's host may be opened. A special address must be in an allowed
    /// network; an allowed name is not enough, because the owner of the name chooses its addresses. A metadata
    /// service is never permitted.
    pub(super) fn permits(&self, host: &str, address: IpAddr) -> bool {
        let (host, address) = (host.trim_end_matches('.').to_ascii_lowercase(), address.to_canonical());
        let is_in_network = |allowed: &AllowedDatabase| matches!(allowed, AllowedDatabase::Network(network) if network.contains(&address));
        let is_named = |allowed: &AllowedDatabase| match allowed {
            AllowedDatabase::Network(_) => false,
            AllowedDatabase::Host(name) => *name == host,
            AllowedDatabase::Below(end) => host.ends_with(end),
        };
        !is_metadata_service(address)
            && (self.allow.iter().any(is_in_network)
                || !is_special(address) && (self.allow.is_empty() || self.allow.iter().any(is_named)))
    }

    /// The content of a file of certificates; `None`: it is outside of the folder, not a file, too large, or can't be read.
    pub(super) fn ca_file(&self, path: &str) -> Option<Vec<u8>> {
        // Links are resolved first: a folder that Kubernetes mounts contains many.
        let path = Path::new(path).canonicalize().ok()?;
        let is_below = |folder: &PathBuf| folder.canonicalize().is_ok_and(|folder| path.starts_with(folder));
        if self.ca_folder.as_ref().is_none_or(is_below) { read(&path) } else { None }
    }
}

/// The content of a regular file of at most [`LARGEST_CA_FILE`] bytes; `None` for any other.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    // Checked before the file is opened: opening a FIFO waits for its writer.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    File::open(path).ok()?.take(LARGEST_CA_FILE + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= LARGEST_CA_FILE).then_some(content)
}

fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => SPECIAL_V4.iter().any(|range| range.contains(&address)),
        IpAddr::V6(address) => {
            !MACHINES_V6.iter().any(|range| range.contains(&address))
                || SPECIAL_V6.iter().any(|range| range.contains(&address))
        }
    }
}

#[cfg(test)]
mod tests {
    use docket_program::metadata_service::METADATA_SERVICES;

    use super::*;

    fn permits(allow: &[&str], host: &str, address: &str) -> bool {
        let allow = allow.iter().map(|allowed| allowed.parse().expect(allowed)).collect();
        let databases = ExternalDatabases::new(allow, None);
        databases.permits(host, address.parse().expect(address))
    }

    #[test]
    fn special_addresses_need_a_network() {
        for special in [
            "0.0.0.0",
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:7f00:1::",
            // The ends of the ranges.
            "0.255.255.255",
            "169.254.0.0",
            "169.254.255.255",
            "192.0.0.0",
            "192.0.0.255",
            "239.255.255.255",
            "240.0.0.0",
            "2001:1ff::1",
            "2002:ffff::1",
            "fec0::1",
        ] {
            assert!(!permits(&[], "db.example.com", special), "{special}");
            assert!(!permits(&["db.example.com"], "db.example.com", special), "{special}");
        }
        assert!(permits(&["169.254.1.1/32"], "db", "169.254.1.1"));
        assert!(permits(&["169.254.1.1/32"], "db", "::ffff:169.254.1.1"));
        assert!(!permits(&["169.254.1.1/32"], "db", "169.254.1.2"));
        for service in METADATA_SERVICES.map(|service| service.addr().to_string()) {
            assert!(!permits(&[], "db.example.com", &service), "{service}");
            assert!(!permits(&["0.0.0.0/0", "::/0", "db"], "db", &service), "{service}: never");
        }
        assert!(!permits(&["127.0.0.1/32"], "localhost", "127.0.0.2"));
        for other in [
            "127.0.0.1",
            "::1",
            "10.1.2.3",
            "100.64.0.1",
            "172.16.0.1",
            "192.168.0.1",
            "8.8.8.8",
            "2a00::1",
            "fd12::1",
            // Next to the special ranges.
            "1.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "192.0.1.0",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2003::1",
            "3fff::1",
            "fc00::1",
        ] {
            assert!(permits(&[], "db.example.com", other), "{other}");
        }
    }

    #[test]
    fn file_of_certificates_may_have_one_mebibyte() {
        let file = std::env::temp_dir().join(format!("schema-largest-{}", std::process::id()));
        for (length, is_read) in [(1_048_576, true), (1_048_577, false)] {
            std::fs::write(&file, vec![b'#'; length]).unwrap();
            assert_eq!(read(&file).map(|content| content.len()), is_read.then_some(length));
        }
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn list_allows_names_and_networks_and_nothing_else() {
        let allow = ["db.example.com", "*.eu.example.com", "10.1.0.0/16"];
        for (host, address, expected) in [
            ("db.example.com", "8.8.8.8", true),
            ("DB.example.com.", "8.8.8.8", true),
            ("a.b.eu.example.com", "8.8.8.8", true),
            ("eu.example.com", "8.8.8.8", false),
            ("noteu.example.com", "8.8.8.8", false),
            ("db.example.com.evil", "8.8.8.8", false),
            ("x", "10.1.2.3", true),
            ("x", "10.2.2.3", false),
        ] {
            assert_eq!(permits(&allow, host, address), expected, "{host} {address}");
        }
    }

    #[test]
    fn entry_is_a_name_or_a_network() {
        for wrong in [
            "",
            "*",
            "*.",
            ".example.com",
            "a..b",
            "a b",
            "http://a",
            "a:5432",
            "10.1.2.3",
            "*x",
            "a*.b",
            "::1",
        ] {
            assert!(wrong.parse::<AllowedDatabase>().is_err(), "{wrong:?}");
        }
    }
}
