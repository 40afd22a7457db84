//! A source of tenants: a folder or a cluster.

use anyhow::{Context, Result};

use crate::cluster::ClusterSource;
use crate::declaration::Declaration;
use crate::folder::Folder;

/// A folder or a cluster.
#[derive(Debug)]
pub enum Source {
    /// YAML files.
    Folder(Box<Folder>),
    /// The operator's runtime Secrets.
    Cluster(Box<ClusterSource>),
}

impl Source {
    /// Reads the declaration once. `random` fills a slice with random bytes for keys.
    ///
    /// # Errors
    ///
    /// The folder or the Kubernetes API can't be read.
    pub async fn load(&mut self, random: fn(&mut [u8])) -> Result<Declaration> {
        match self {
            Self::Folder(folder) => folder.load(&mut { random }),
            Self::Cluster(cluster) => cluster.load().await.context("--config-namespace"),
        }
    }

    /// Calls `changed` with the declaration as soon as it is known, and again after each change, until the future is
    /// dropped. If the source can't be read, it logs this, calls `failed` and retries.
    pub async fn follow(self, random: fn(&mut [u8]), changed: impl FnMut(Declaration), failed: impl Fn()) {
        match self {
            Self::Folder(mut folder) => folder.follow(random, changed, failed).await,
            Self::Cluster(cluster) => cluster.follow(changed, failed).await,
        }
    }
}
