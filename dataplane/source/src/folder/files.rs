//! The files of a folder: their names, versions and text.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The largest file, in bytes. No folder of tenants needs this much: a larger file is most likely a mistake.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The version of a file. The inode changes when another file is renamed over it. The change time changes with an
/// edit that keeps size and modification time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The YAML files by path. `None`: the folder has the name but no file, as with a dangling link.
pub(super) type Listing = BTreeMap<PathBuf, Option<Stamp>>;

/// The subfolder in which the portal of `docket dev` declares webhooks.
pub const PORTAL_FOLDER: &str = "portal";

/// Lists the `.yaml` and `.yml` files of a folder and of its [`PORTAL_FOLDER`], but of no other subfolder. It follows
/// links, because Kubernetes volumes use them. It skips hidden names, because editors use them for temporary files.
pub(super) fn list(dir: &Path) -> io::Result<Listing> {
    let mut listing = Listing::new();
    list_one(dir, &mut listing)?;
    match list_one(&dir.join(PORTAL_FOLDER), &mut listing) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Err(error),
        Ok(()) | Err(_) => Ok(listing),
    }
}

fn list_one(dir: &Path, listing: &mut Listing) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        // The path begins with the folder as the user wrote it, because problems show it.
        let path = dir.join(entry?.file_name());
        if !is_yaml(&path) {
            continue;
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => drop(listing.insert(path, Some(stamp(&metadata)))),
            Ok(_) => {}
            Err(_) => drop(listing.insert(path, None)),
        }
    }
    Ok(())
}

fn is_yaml(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    Stamp {
        bytes: metadata.size(),
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Reads the text of a file. The error is the message of a problem.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err("must have at most 8 MiB; split it into several files".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "must be text in UTF-8".to_owned())
}
