//! The target of a POST: its URL and the certificates that it trusts.

use std::net::IpAddr;

use docket_domain::delivery::FailureClass;
use rustls::pki_types::ServerName;
use url::{Host, Position, Url};

use crate::trust::Trust;

/// The URL of a POST and the certificates that it trusts. POSTs with equal targets share connections. Different
/// targets on the same host do not, so that an endpoint that hangs does not use up the connections of others.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) receiver: HostPort,
    path: String,
    trust: u64,
}

/// A host and port, which may serve several URLs with the same workers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct HostPort {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

impl Target {
    /// The target of a POST to `url`. The `url` crate has already turned `0177.1`, `2130706433`, `０x7f.1` and
    /// `127.0.0.1.` into the address that they mean, or refused them. So an IP literal can't pass here as a name.
    pub(crate) fn of(url: &Url, trust: &Trust) -> Result<Self, FailureClass> {
        if url.scheme() != "https" {
            return Err(FailureClass::TlsOther); // never without TLS, even if the configuration allows the URL
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(FailureClass::Dns);
        };
        let path = url[Position::BeforePath..Position::AfterQuery].to_owned();
        Ok(Self { receiver: HostPort { host: host.to_owned(), port }, path, trust: trust.id })
    }

    /// The name that the certificate must be for: the URL's host, not its resolved address.
    pub(crate) fn server_name(&self) -> Result<ServerName<'static>, FailureClass> {
        match &self.receiver.host {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name).to_owned();
                ServerName::try_from(name).map_err(|_| FailureClass::Dns)
            }
            Host::Ipv4(ip) => Ok(ServerName::from(IpAddr::from(*ip))),
            Host::Ipv6(ip) => Ok(ServerName::from(IpAddr::from(*ip))),
        }
    }
}
