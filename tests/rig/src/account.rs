//! The account of servers that refuse to run as root: root runs them as another account.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The account that runs a server.
pub(crate) struct Account {
    other: Option<(u32, u32)>,
}

impl Account {
    /// Chooses the account by the owner of `ours`, a file that this process has made.
    pub(crate) fn beside(ours: &Path) -> Self {
        let our_uid = std::fs::metadata(ours).expect("the folder is new").uid();
        let other = (our_uid == 0).then(|| {
            let passwd = std::fs::read_to_string("/etc/passwd").expect("accounts are listed");
            ["postgres", "nobody"]
                .iter()
                .find_map(|name| ids_of(&passwd, name))
                .expect("root needs an account `postgres` or `nobody` to run servers as")
        });
        Self { other }
    }

    /// Gives a file to the account.
    pub(crate) fn own(&self, path: &Path) {
        if let Some((uid, gid)) = self.other {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("root gives files away");
        }
    }

    /// A command that runs as the account, in this folder.
    pub(crate) fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder);
        if let Some((uid, gid)) = self.other {
            command.uid(uid).gid(gid);
        }
        command
    }
}

fn ids_of(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields =
        passwd.lines().map(|line| line.split(':')).find(|fields| fields.clone().next() == Some(name))?;
    Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
}
