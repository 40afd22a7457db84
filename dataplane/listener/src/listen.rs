//! Opens sockets that listen. `[::]` serves clients of IPv6 and of IPv4, also where there is no IPv6.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// The most connections that wait to be accepted, unless `net.core.somaxconn` (4,096 by default) is lower. Linux drops further
/// connections, and their clients try again after a second. Tokio's default of 128 is too low while both cores are busy.
const BACKLOG: i32 = 1_024;

/// Listens on an address, with a socket that does not block. `[::]` is every address of this machine, of IPv6 and of IPv4.
///
/// # Errors
///
/// The address is in use, not allowed, or not of this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    open(address).or_else(|error| match without_ipv6(address, error.kind()) {
        Some(address) => open(address).map_err(|_| error),
        None => Err(error),
    })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // The socket takes IPv4 too, even if net.ipv6.bindv6only says otherwise.
        socket.set_only_v6(false)?;
    }
    // With this option, a new process may listen on the address of a process that has just ended.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The address to use instead of `[::]` if the system has no IPv6, after this error. `None`: the error has another cause.
fn without_ipv6(address: SocketAddr, error: ErrorKind) -> Option<SocketAddr> {
    let is_ours = matches!(error, ErrorKind::AddrInUse | ErrorKind::PermissionDenied);
    (address.ip() == Ipv6Addr::UNSPECIFIED && !is_ours)
        .then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn every_address_is_of_ipv4_too() {
        let listener = listen(address("[::]:0")).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    }

    #[test]
    fn only_every_address_is_replaced_where_there_is_no_ipv6() {
        // EAFNOSUPPORT, as with the kernel's `ipv6.disable=1`, and EADDRNOTAVAIL.
        for code in [97, 99] {
            let error = io::Error::from_raw_os_error(code).kind();
            assert_eq!(without_ipv6(address("[::]:9090"), error), Some(address("0.0.0.0:9090")), "{code}");
            assert_eq!(without_ipv6(address("[::1]:9090"), error), None);
            assert_eq!(without_ipv6(address("192.0.2.1:9090"), error), None);
        }
        assert_eq!(without_ipv6(address("[::]:9090"), ErrorKind::AddrInUse), None);
        assert_eq!(without_ipv6(address("[::]:80"), ErrorKind::PermissionDenied), None);
    }

    #[test]
    fn address_in_use_is_an_error() {
        let first = listen(address("127.0.0.1:0")).expect("a free port");
        let taken = first.local_addr().expect("it is bound");
        assert_eq!(listen(taken).expect_err("it is in use").kind(), ErrorKind::AddrInUse);
    }
}
