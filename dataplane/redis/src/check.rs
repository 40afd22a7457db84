//! Checks Redis before work begins.

use std::collections::HashMap;

use crate::connect::RedisConnection;
use crate::error::Error;

/// The oldest version with every command that the scripts use.
pub const OLDEST: (u32, u32) = (6, 2);

/// A Redis that passed the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The version, as Redis reports it. For a Cluster, it is the oldest version of its primaries. Valkey reports here the
    /// version of Redis with which it is compatible, 7.2.4.
    pub version: String,
    /// What could not be checked, for the log.
    pub warnings: Vec<String>,
}

impl RedisConnection {
    /// Checks that Redis responds, is new enough and never evicts; in a Cluster, it checks each primary. An eviction
    /// would remove single entries of the schedule, and no process would notice.
    ///
    /// Errors: [`Error::Unfit`] names the setting or the version and what it must be, or says that Redis refused the
    /// password or the certificate.
    pub async fn check(&self) -> Result<Checked, Error> {
        match self.query(&redis::cmd("PING")).await {
            Ok(()) => {}
            // The password is missing, or the user may not even run PING. Other refusals, such as for a full disk or
            // a long script, pass.
            Err(Error::Refused(said))
                if ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|code| said.contains(code)) =>
            {
                return Err(Error::Unfit(said));
            }
            Err(error) => return Err(error),
        }
        let info = redis::cmd("INFO");
        let sections = match self.is_cluster() {
            true => {
                self.query::<HashMap<String, String>>(&info).await.map(|nodes| nodes.into_iter().collect())
            }
            false => self.query(&info).await.map(|info| vec![(String::new(), info)]),
        };
        let sections: Vec<(String, String)> = match sections {
            // The user may lack the right to run INFO.
            Err(Error::Refused(_)) => vec![(String::new(), String::new())],
            sections => sections?,
        };
        let mut checked = Checked { version: String::new(), warnings: Vec::new() };
        for (node, info) in sections {
            inspect(&node, &info, &mut checked)?;
        }
        Ok(checked)
    }
}

fn inspect(node: &str, info: &str, checked: &mut Checked) -> Result<(), Error> {
    let whose = match node {
        "" => String::new(),
        node => format!(" of node {node}"),
    };
    let version = field(info, "redis_version").unwrap_or_default();
    match numbers(version) {
        Some(numbers) if numbers < OLDEST => {
            let (major, minor) = OLDEST;
            return Err(Error::Unfit(format!(
                "the version{whose} is {version}; it must be {major}.{minor} or later"
            )));
        }
        Some(numbers_here) => {
            if numbers(&checked.version).is_none_or(|oldest| numbers_here < oldest) {
                version.clone_into(&mut checked.version);
            }
        }
        None => checked.warnings.push(format!("Redis does not report its version{whose}")),
    }
    match field(info, "maxmemory_policy") {
        Some("noeviction") => {}
        Some(policy) => {
            return Err(Error::Unfit(format!(
                "maxmemory-policy{whose} is {policy}; it must be noeviction, since an evicted key is work that is lost"
            )));
        }
        None => checked.warnings.push(format!(
            "Redis does not report its maxmemory-policy{whose}: make sure that it is noeviction"
        )),
    }
    Ok(())
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(info: &str) -> Result<Checked, Error> {
        let mut checked = Checked { version: String::new(), warnings: Vec::new() };
        inspect("", info, &mut checked).map(|()| checked)
    }

    #[test]
    fn suitable_server_passes() {
        let checked = inspected("redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n").expect("good");
        assert_eq!(checked, Checked { version: "7.0.15".to_owned(), warnings: Vec::new() });
    }

    /// The lines that Valkey 8.1 sends. The rest of its INFO equals the INFO of Redis 7.2.
    #[test]
    fn valkey_passes_as_the_redis_that_it_is_compatible_with() {
        let info = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n\
                    valkey_release_stage:ga\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory_policy:";
        let checked = inspected(&format!("{info}noeviction\r\n")).expect("good");
        assert_eq!(checked, Checked { version: "7.2.4".to_owned(), warnings: Vec::new() });
        let error = inspected(&format!("{info}allkeys-lfu\r\n")).expect_err("evicts").to_string();
        assert!(error.contains("maxmemory-policy is allkeys-lfu"), "{error}");
    }

    #[test]
    fn unsuitable_setting_or_version_is_named() {
        let error = inspected("redis_version:7.0.15\r\nmaxmemory_policy:allkeys-lru\r\n")
            .expect_err("evicts")
            .to_string();
        assert!(error.contains("maxmemory-policy is allkeys-lru; it must be noeviction"), "{error}");
        let error = inspected("redis_version:6.0.20\r\nmaxmemory_policy:noeviction\r\n")
            .expect_err("old")
            .to_string();
        assert!(error.contains("the version is 6.0.20; it must be 6.2 or later"), "{error}");
        for version in ["6.2.0", "10.0.1"] {
            let checked = inspected(&format!("redis_version:{version}\r\nmaxmemory_policy:noeviction\r\n"));
            assert_eq!(checked.expect("new enough").version, version);
        }
        assert!(inspected("redis_version:6.1.9\r\nmaxmemory_policy:noeviction\r\n").is_err());
    }

    #[test]
    fn version_of_a_cluster_is_the_oldest_of_its_primaries() {
        let mut checked = Checked { version: String::new(), warnings: Vec::new() };
        for (version, oldest) in [("7.2.4", "7.2.4"), ("7.0.15", "7.0.15"), ("8.0.1", "7.0.15")] {
            let info = format!("redis_version:{version}\r\nmaxmemory_policy:noeviction\r\n");
            inspect("10.0.0.1:6379", &info, &mut checked).expect("good");
            assert_eq!(checked.version, oldest);
        }
        let error = inspect("10.0.0.1:6379", "redis_version:6.0.0\r\n", &mut checked).expect_err("old");
        assert!(error.to_string().contains("of node 10.0.0.1:6379 is 6.0.0"), "{error}");
    }

    #[test]
    fn what_redis_does_not_report_is_a_warning() {
        assert_eq!(inspected("").expect("no error").warnings.len(), 2);
    }
}
