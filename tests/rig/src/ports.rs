//! Free ports for the servers of tests.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port of the loopback interface that is free now, from 10,000 to 29,999. The system assigns higher ports by itself,
/// so it does not assign this port to another program before the caller uses it.
pub fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Processes that run at the same time begin at different ports.
    let place = std::process::id().wrapping_mul(251);
    for _ in 0..10_000 {
        let number = place.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + (number % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between 10,000 and 30,000");
}
