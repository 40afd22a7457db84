//! Free ports for the servers of tests.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port of the loopback interface that is free right now. Not one that the system hands out by itself, which it
/// might do again before this one is used.
pub fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side begin at different places.
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
