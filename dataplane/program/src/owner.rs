//! Which process has something that expires with it.

use crate::random;

/// A process, and which of its lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Names the process in hexadecimal digits; the same after a restart, another one for each process that runs at the same time.
    pub process: String,
    /// Random hexadecimal digits: others after a restart.
    pub incarnation: String,
}

impl Owner {
    /// A process that starts now.
    pub fn new(process: impl AsRef<[u8]>) -> Self {
        Self { process: hex::encode(process), incarnation: hex::encode(random::bytes::<8>()) }
    }
}
