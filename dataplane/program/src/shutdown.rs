//! Shutting down: one signal that everybody listens to, and a drain that has a bound.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The right to ask everybody to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Tells when to stop.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// A stopper and what listens to it.
pub fn channel() -> (Stopper, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Shutdown(receiver))
}

impl Stopper {
    /// Asks everybody to stop; once is enough.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Returns when it is time to stop, also when the stopper is gone.
    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        let _ = receiver.wait_for(|stop| *stop).await;
    }

    /// Whether it is time to stop.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}

/// SIGTERM and Ctrl-C: each of them is heard, also one that came while nobody waited.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on neither of them ends the process by itself.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
