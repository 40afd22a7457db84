//! The owner of something that ends with a process, such as a lease.

use crate::random;

/// A process, and its incarnation: each start is a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The id of the process, in hexadecimal digits. It stays the same after a restart, and differs between processes
    /// that run at the same time.
    pub process: String,
    /// Random hexadecimal digits, which differ after each start.
    pub incarnation: String,
}

impl Owner {
    /// The owner for a process that starts now.
    pub fn new(process: impl AsRef<[u8]>) -> Self {
        Self { process: hex::encode(process), incarnation: hex::encode(random::bytes::<8>()) }
    }
}
