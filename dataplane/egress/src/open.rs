//! Opens one TCP connection to one of several checked addresses.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use docket_domain::delivery::FailureClass;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// The largest number of addresses of one DNS answer that an attempt tries. With more addresses, a later attempt
/// begins with another address.
pub const MAX_TRIED: usize = 32;
/// The largest number of addresses that are tried at the same time. Beyond it, the address that has been silent for
/// longest is given up for the next one.
const MAX_AT_ONCE: usize = 8;
/// How long an address may be silent before the next address is tried in parallel (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Opens a connection to the address that responds first. An address that fails immediately costs no time. A silent
/// address delays the next one by [`STAGGER`]; by less if there are many, so that all are tried before `until`.
///
/// `late`: addresses that are still being looked up. `turn`: with which address of each family to begin.
pub(crate) async fn open(
    sockets: Vec<SocketAddr>,
    late: impl Future<Output = Vec<SocketAddr>>,
    turn: usize,
    until: Instant,
) -> Result<(TcpStream, SocketAddr), FailureClass> {
    let mut late = std::pin::pin!(late);
    let mut late_is_pending = true;
    let mut untried = VecDeque::from(in_turn(sockets, turn));
    let mut tried = JoinSet::new();
    let mut silent: VecDeque<AbortHandle> = VecDeque::new();
    let mut next_at = Instant::now();
    let mut failure = None;
    loop {
        if untried.is_empty() && tried.is_empty() && !late_is_pending {
            return Err(failure.unwrap_or(FailureClass::Connect));
        }
        let class = tokio::select! {
            biased;
            Some(ended) = tried.join_next() => match ended {
                Ok((socket, Ok(tcp))) => {
                    let tcp: TcpStream = tcp;
                    let _ = tcp.set_nodelay(true); // a failure costs only speed
                    return Ok((tcp, socket));
                }
                Ok((_, Err(error))) => {
                    next_at = Instant::now();
                    class_of_connect(&error)
                }
                Err(_gave_way) => FailureClass::TimeoutConnect,
            },
            more = &mut late, if late_is_pending => {
                late_is_pending = false;
                untried.extend(in_turn(more, turn));
                continue;
            }
            () = sleep_until(until) => {
                let refused = failure == Some(FailureClass::Refused);
                return Err(match failure {
                    Some(class) if refused || tried.is_empty() => class,
                    _ => FailureClass::TimeoutConnect,
                });
            }
            () = sleep_until(next_at), if !untried.is_empty() => {
                let Some(socket) = untried.pop_front() else { continue };
                silent.retain(|handle| !handle.is_finished());
                if silent.len() >= MAX_AT_ONCE
                    && let Some(longest) = silent.pop_front()
                {
                    longest.abort();
                }
                silent.push_back(tried.spawn(async move { (socket, connect(socket).await) }));
                let now = Instant::now();
                let share = until.saturating_duration_since(now) / u32::try_from(untried.len() + 1).unwrap_or(u32::MAX);
                next_at = now + STAGGER.min(share);
                continue;
            }
        };
        // `Refused` says most, because the host exists. Otherwise the last failure is reported: the first error is
        // often "no route".
        if failure != Some(FailureClass::Refused) {
            failure = Some(class);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that connects to receivers; the address has been checked"
)]
async fn connect(socket: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect(socket).await
}

/// Alternates IPv4 and IPv6 addresses, and rotates each family by `turn`. IPv4 comes first: many clusters have no
/// IPv6 and drop its packets silently, while nearly every receiver has IPv4.
fn in_turn(sockets: Vec<SocketAddr>, turn: usize) -> Vec<SocketAddr> {
    let (mut v4, mut v6): (Vec<_>, Vec<_>) = sockets.into_iter().partition(SocketAddr::is_ipv4);
    for family in [&mut v4, &mut v6] {
        let begin = turn.checked_rem(family.len()).unwrap_or(0);
        family.rotate_left(begin);
    }
    let (mut v4, mut v6) = (v4.into_iter(), v6.into_iter());
    let mut sockets = Vec::new();
    loop {
        let (a, b) = (v4.next(), v6.next());
        if (a.is_none() && b.is_none()) || sockets.len() >= MAX_TRIED {
            sockets.truncate(MAX_TRIED);
            return sockets;
        }
        sockets.extend(a.into_iter().chain(b));
    }
}

fn class_of_connect(error: &io::Error) -> FailureClass {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => FailureClass::Refused,
        io::ErrorKind::TimedOut => FailureClass::TimeoutConnect,
        _ => FailureClass::Connect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|socket| socket.parse().expect("a socket")).collect()
    }

    #[test]
    fn both_address_families_are_tried_in_turn() {
        let answer =
            sockets(&["[2001:200::1]:1", "[2001:200::2]:1", "8.8.8.1:1", "[2001:200::3]:1", "8.8.8.2:1"]);
        assert_eq!(
            in_turn(answer, 0),
            sockets(&["8.8.8.1:1", "[2001:200::1]:1", "8.8.8.2:1", "[2001:200::2]:1", "[2001:200::3]:1"])
        );
    }

    #[test]
    fn each_attempt_begins_with_another_address() {
        let answer = sockets(&["8.8.8.1:1", "8.8.8.2:1", "8.8.8.3:1"]);
        let first = |turn| in_turn(answer.clone(), turn)[0];
        assert_eq!(
            [first(0), first(1), first(2), first(3)].to_vec(),
            [answer.clone(), vec![answer[0]]].concat()
        );
        assert!(in_turn(Vec::new(), 7).is_empty());
    }

    #[test]
    fn attempt_tries_32_addresses_at_most() {
        let v4 = (0..100_u8).map(|last| SocketAddr::from(([8, 8, 8, last], 1)));
        let v6 = (0..100_u16).map(|last| SocketAddr::from(([0x2001, 0x200, 0, 0, 0, 0, 0, last], 1)));
        assert_eq!(in_turn(v4.clone().collect(), 0).len(), 32);
        assert_eq!(in_turn(v4.chain(v6.take(9)).collect(), 3).len(), 32);
    }

    #[test]
    fn error_of_connecting_has_its_class() {
        for (kind, class) in [
            (io::ErrorKind::ConnectionRefused, FailureClass::Refused),
            (io::ErrorKind::TimedOut, FailureClass::TimeoutConnect),
            (io::ErrorKind::HostUnreachable, FailureClass::Connect),
        ] {
            assert_eq!(class_of_connect(&kind.into()), class, "{kind}");
        }
    }
}
