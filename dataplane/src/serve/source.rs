//! Where the tenants of `docket serve` come from.

use std::time::Duration;

use anyhow::{Context, Result};
use docket_cluster::Cluster;
use docket_folder::Folder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::args::ServeArguments;
use crate::dev;
use crate::serving::{Declared, Serving};
use crate::tenants::Tenants;
use docket_program::random;

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(400);

/// Where tenants come from.
pub(super) enum Source {
    /// YAML files.
    Folder(Box<Folder>),
    /// The operator's runtime Secrets.
    Cluster(Box<Cluster>),
}

impl Source {
    /// Errors: there is no such folder, or no way to the Kubernetes API.
    pub(super) async fn open(arguments: &ServeArguments) -> Result<Self> {
        let source = &arguments.source;
        if let Some(namespace) = &source.config_namespace {
            let cluster = Cluster::new(namespace.clone()).await.context("--config-namespace")?;
            return Ok(Self::Cluster(Box::new(cluster)));
        }
        let folder = source.config_dir.clone().context("--config-dir or --config-namespace is missing")?;
        dev::check_config_dir(&folder)?;
        Ok(Self::Folder(Box::new(Folder::new(folder, arguments.data_dir.clone()).with_external_databases())))
    }

    /// Serves what is declared, again after each change, until shutdown is requested. `first` hears of the first time.
    pub(super) async fn follow(
        self,
        mut serving: Serving,
        first: oneshot::Sender<()>,
        shutdown: CancellationToken,
    ) {
        let mut first = Some(first);
        let tenants = serving.tenants();
        let mut replace = |declared: Declared| {
            serving.replace(declared);
            if let Some(first) = first.take() {
                // Nobody waits for it any more when the process is stopping.
                let _ = first.send(());
            }
        };
        let follow = async {
            match self {
                Self::Folder(folder) => follow_folder(*folder, &tenants, replace).await,
                Self::Cluster(cluster) => {
                    cluster.follow(|loaded| replace(loaded.into()), || tenants.doubt()).await
                }
            }
        };
        tokio::select! {
            () = follow => {}
            () = shutdown.cancelled() => {}
        }
    }
}

async fn follow_folder(mut folder: Folder, tenants: &Tenants, mut replace: impl FnMut(Declared)) {
    loop {
        if folder.changed() {
            match folder.load(&mut random::fill) {
                Ok(loaded) => replace(Declared::from(&loaded)),
                Err(error) => {
                    tenants.doubt();
                    tracing::warn!("{error:#}; what was served before goes on");
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
