//! What `docket dev` does beside the service: follows edits of the folder, and wakes the sweep.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docket_program::random;
use docket_program::screen::clean_lines;
use docket_source::{Declaration, Folder};
use tokio::sync::Notify;

use super::banner;
use crate::args::DevArguments;
use crate::tenancy::Activation;
use crate::wake::last_wake;

/// How often the wake file is checked.
const POLL: Duration = Duration::from_millis(400);

/// The generated keys of each tenant, by client code.
type GeneratedKeys = BTreeMap<String, Vec<(String, String)>>;

/// After each edit of the folder, serves its new content, prints that, and wakes the sweep.
pub(super) async fn edits(
    mut folder: Folder,
    mut activation: Activation,
    mut keys: GeneratedKeys,
    arguments: DevArguments,
    wake: Arc<Notify>,
) {
    let replace = |declaration: Declaration| {
        let before = std::mem::replace(&mut keys, keys_of(&declaration));
        let changed: Vec<&str> = keys
            .iter()
            .filter(|(code, keys)| before.get(*code) != Some(keys))
            .map(|(code, _)| code.as_str())
            .collect();
        let text = banner::reloaded(&arguments, &declaration, &changed);
        activation.replace(declaration);
        println!("{}", clean_lines(&text));
        wake.notify_one();
    };
    folder.follow(random::fill, replace, || {}).await;
}

/// The generated keys of each declared tenant.
pub(super) fn keys_of(declaration: &Declaration) -> GeneratedKeys {
    let tenants = declaration.tenants.iter();
    tenants.map(|tenant| (tenant.runtime.config.client_code.to_string(), tenant.api_keys.clone())).collect()
}

/// Wakes the sweep when a command has written the wake file.
pub(super) async fn wake_file(arguments: DevArguments, wake: Arc<Notify>) {
    let data_dir = &arguments.source.data_dir;
    let mut last = last_wake(data_dir);
    loop {
        tokio::time::sleep(POLL).await;
        let now = last_wake(data_dir);
        if now != last {
            last = now;
            wake.notify_one();
        }
    }
}
