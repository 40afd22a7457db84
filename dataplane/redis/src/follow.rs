//! Follows the files with the URL and the certificates: a new password, or another Redis, is used without a restart.

use std::time::Duration;

use anyhow::Result;

use crate::connect::RedisConnection;
use crate::files::RedisFiles;

/// How often the files are read while Redis responds. They are also read when a connection is lost, or when Redis
/// refuses the credentials.
pub const READ_EVERY: Duration = Duration::from_secs(5);
/// The shortest pause between two reads.
const PAUSE: Duration = Duration::from_millis(250);

/// A connection that the files describe and this process can't use.
struct Refused {
    /// The connection that the files describe; `None`: the files can't be read or are not valid.
    candidate: Option<RedisConnection>,
    problem: String,
}

/// Reads the files again and again, without end. What they name is used once it [passes the check](RedisConnection::check):
/// `connection` then changes to it, calls under way finish, and the old connection is closed. What can't be used is logged
/// once and reported by [`RedisConnection::is_stale`], and the URL before stays in use.
pub async fn follow(connection: RedisConnection, files: RedisFiles) {
    let mut refused: Option<Refused> = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(READ_EVERY) => {}
            () = connection.doubted() => {}
        }
        let now = renewed(&connection, files.clone()).await.err();
        if let Some(now) = &now
            && !refused.as_ref().is_some_and(|before| is_known(before, now))
        {
            let problem = &now.problem;
            tracing::warn!("{problem}; the URL of Redis that was read before stays in use");
        }
        connection.set_stale(now.is_some());
        refused = now;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Changes `connection` to what the files name, if that differs and can be used.
async fn renewed(connection: &RedisConnection, files: RedisFiles) -> Result<(), Refused> {
    let unreadable = |error: anyhow::Error| Refused { candidate: None, problem: format!("{error:#}") };
    let read = tokio::task::spawn_blocking(move || files.connection()).await;
    let candidate = read.map_err(anyhow::Error::from).flatten().map_err(unreadable)?;
    if connection.is_same(&candidate) {
        return Ok(());
    }
    match candidate.check().await {
        Ok(checked) => {
            for warning in &checked.warnings {
                tracing::warn!("{warning}");
            }
            connection.adopt(&candidate).await;
            tracing::info!("--redis-url-file: the new URL of Redis is in use");
            Ok(())
        }
        Err(error) => {
            let problem = format!("--redis-url-file: the new URL of Redis does not work: {error}");
            Err(Refused { candidate: Some(candidate), problem })
        }
    }
}

/// Whether the second refusal is about the same content of the files as the first one. A server that is away may give
/// another error each time.
fn is_known(before: &Refused, now: &Refused) -> bool {
    match (&before.candidate, &now.candidate) {
        (Some(before), Some(now)) => before.is_same(now),
        (None, None) => before.problem == now.problem,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::RedisUrl;

    fn connection(url: &str) -> RedisConnection {
        RedisConnection::new(RedisUrl::parse(url).expect("a URL"), None).expect("without TLS")
    }

    #[test]
    fn same_content_is_refused_once_and_another_one_again() {
        let refused = |url: Option<&str>, problem: &str| Refused {
            candidate: url.map(connection),
            problem: problem.to_owned(),
        };
        let away = refused(Some("redis://:a@localhost"), "no connection in time");
        assert!(is_known(&away, &refused(Some("redis://:a@localhost"), "connection refused")));
        assert!(!is_known(&away, &refused(Some("redis://:b@localhost"), "no connection in time")));
        let unreadable = refused(None, "no such file");
        assert!(is_known(&unreadable, &refused(None, "no such file")));
        assert!(!is_known(&unreadable, &refused(None, "no host")) && !is_known(&away, &unreadable));
    }

    #[test]
    fn authorities_without_tls_are_refused_and_the_url_is_not_shown() {
        let folder = std::env::temp_dir().join(format!("docket-redis-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("writable");
        let (url, ca) = (folder.join("url"), folder.join("ca"));
        std::fs::write(&ca, include_str!("../../../crds/src/compile/authority/prime256v1.pem"))
            .expect("writable");
        let refusal = |text: &str, ca: Option<&std::path::Path>| {
            std::fs::write(&url, text).expect("writable");
            RedisFiles::new(&url, ca).connection().err().map(|error| format!("{error:#}"))
        };
        assert_eq!(refusal("rediss://:hunter2@localhost\n", Some(&ca)), None);
        assert_eq!(refusal("redis://:hunter2@localhost\n", None), None);
        let error = refusal("redis://:hunter2@localhost\n", Some(&ca)).expect("there is no TLS");
        assert!(
            error.contains("--redis-ca-file is for a rediss:// URL") && !error.contains("hunter2"),
            "{error}"
        );
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[tokio::test]
    async fn unreadable_file_leaves_the_connection_as_it_is() {
        let (old, files) =
            (connection("redis://127.0.0.1:1"), RedisFiles::new("/nowhere/url".as_ref(), None));
        let refused = renewed(&old, files).await.expect_err("there is no file");
        assert!(
            refused.problem.contains("--redis-url-file: /nowhere/url can't be read"),
            "{}",
            refused.problem
        );
        assert!(old.is_same(&connection("redis://127.0.0.1:1")));
    }
}
