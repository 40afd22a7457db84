//! The server's log of the operator's statements.

use std::path::PathBuf;

use docket_operator::database::role_of;

use super::{Rig, quoted};

/// The statements that the server has logged since the log began, of one rig's admin and tenant.
pub(crate) struct Log {
    path: PathBuf,
    from: usize,
    roles: [String; 2],
}

impl Log {
    pub(crate) async fn begin(rig: &Rig) -> Self {
        let root = rig.root().await;
        let roles = [rig.admin(), role_of(&rig.name)];
        for role in &roles {
            let there =
                root.query("SELECT FROM pg_roles WHERE rolname = $1", &[role]).await.expect("a good query");
            if !there.is_empty() {
                let sql = format!("ALTER ROLE {} SET log_statement = 'all'", quoted(role));
                root.batch_execute(&sql).await.expect("a good query");
            }
            // A setting of a role counts from its next connection on.
            let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = $1";
            root.query(end, &[role]).await.expect("a superuser may");
        }
        root.batch_execute("ALTER SYSTEM SET log_line_prefix = 'by %u: '").await.expect("a superuser may");
        root.batch_execute("SELECT pg_reload_conf()").await.expect("a superuser may");
        while root.query_one("SHOW log_line_prefix", &[]).await.expect("a good query").get::<_, String>(0)
            != "by %u: "
        {}
        let folder: PathBuf = root
            .query_one("SHOW data_directory", &[])
            .await
            .expect("a good query")
            .get::<_, String>(0)
            .into();
        let path = folder.parent().expect("the rig's folder").join("log");
        let from = std::fs::read(&path).expect("the server logs").len();
        Self { path, from, roles }
    }

    /// The statements, each on one line.
    pub(crate) fn statements(&self) -> Vec<String> {
        let log = std::fs::read(&self.path).expect("the server logs");
        // Lines of one message begin with a tab.
        let log = String::from_utf8_lossy(&log[self.from..]).replace("\n\t", " ");
        let of_a_role =
            |line: &&str| self.roles.iter().any(|role| line.starts_with(&format!("by {role}: LOG:  ")));
        log.lines()
            .filter(of_a_role)
            .filter_map(|line| {
                let (_, rest) = line
                    .split_once("LOG:  statement: ")
                    .or_else(|| line.split_once("LOG:  execute ")?.1.split_once(": "))?;
                Some(rest.split_whitespace().collect::<Vec<_>>().join(" "))
            })
            .collect()
    }
}
