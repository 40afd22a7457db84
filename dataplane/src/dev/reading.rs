//! The folder, read again after each edit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use docket_folder::{Folder, Loaded};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::banner;
use crate::args::DevArguments;
use crate::serving::{Declared, Serving};
use docket_program::random;
use docket_store::stores::Stores;

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(400);
/// Databases that nobody uses are closed after this.
const CLOSE_IDLE: Duration = Duration::from_secs(30);

/// The folder and what is served of it.
pub(super) struct Reading {
    pub(super) folder: Folder,
    pub(super) serving: Serving,
    pub(super) stores: Arc<Stores>,
    /// The generated keys of each tenant, by client code.
    pub(super) keys: BTreeMap<String, Vec<(String, String)>>,
}

impl Reading {
    /// Serves it. Answers the client codes of the tenants that are new or have other keys than before.
    pub(super) fn replace(&mut self, loaded: &Loaded) -> Vec<String> {
        self.serving.replace(Declared::from(loaded));
        let keys: BTreeMap<String, Vec<(String, String)>> = loaded
            .tenants
            .iter()
            .map(|served| (served.config.client_code.to_string(), served.api_keys.clone()))
            .collect();
        let before = std::mem::replace(&mut self.keys, keys);
        let changed = self.keys.iter().filter(|(code, keys)| before.get(*code) != Some(keys));
        changed.map(|(code, _)| code.clone()).collect()
    }
}

/// Follows edits of the folder, closes databases that nobody uses, and wakes the sweep when another program asks.
pub(super) async fn follow(
    mut reading: Reading,
    wake: Arc<Notify>,
    arguments: DevArguments,
    shutdown: CancellationToken,
) {
    let data_dir = &arguments.source.data_dir;
    let mut last_wake = wake_time(data_dir);
    let mut closed = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = shutdown.cancelled() => return,
        }
        if reading.folder.changed() {
            match reading.folder.load(&mut random::fill) {
                Ok(loaded) => {
                    let changed = reading.replace(&loaded);
                    println!("{}", banner::reloaded(&arguments, &loaded, &changed));
                    wake.notify_one();
                }
                Err(error) => tracing::warn!("{error:#}; what was served before goes on"),
            }
        }
        let now = wake_time(data_dir);
        if now != last_wake {
            last_wake = now;
            wake.notify_one();
        }
        if closed.elapsed() > CLOSE_IDLE {
            closed = Instant::now();
            reading.stores.close_idle(CLOSE_IDLE).await;
        }
    }
}

/// The file that other commands touch to have their rows looked at.
const WAKE_FILE: &str = "wake";

fn wake_time(data_dir: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(data_dir.join(WAKE_FILE)).and_then(|metadata| metadata.modified()).ok()
}

/// Tells a `dev` that runs on this data folder, if there is one, that something was queued.
pub fn wake(data_dir: &Path) -> Result<()> {
    let path = data_dir.join(WAKE_FILE);
    std::fs::write(&path, random::bytes::<8>())
        .with_context(|| format!("{} can't be written", path.display()))
}
