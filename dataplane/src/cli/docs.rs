//! `docket docs`: the documentation as files of a website.

use std::fs;

use anyhow::{Context, Result, ensure};
use docket_docs::Site;

use crate::args::DocsArguments;

/// Writes every page into a folder that is new or empty.
///
/// # Errors
///
/// The folder has something in it, or a file can't be written.
pub fn run(arguments: &DocsArguments) -> Result<()> {
    let out = &arguments.out;
    fs::create_dir_all(out).with_context(|| format!("can't make {}", out.display()))?;
    let is_empty =
        fs::read_dir(out).with_context(|| format!("can't read {}", out.display()))?.next().is_none();
    ensure!(is_empty, "{} is not empty; name a folder that is empty or does not exist", out.display());
    let site = Site::new(false);
    for path in site.paths() {
        let asset = site.get(&path).context("the site has each of its paths")?;
        let file = out.join(&path);
        let written =
            file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, asset.bytes));
        written.with_context(|| format!("can't write {}", file.display()))?;
    }
    println!("Open {}", out.join("index.html").display());
    Ok(())
}
