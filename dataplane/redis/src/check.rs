//! What is asked of Redis before work begins.

use std::collections::HashMap;

use crate::{Connection, Error};

/// The oldest version that has all that the scripts use.
pub const OLDEST: (u32, u32) = (6, 2);

/// What was found, where it is good enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The version, as Redis says it; of a Cluster, the oldest.
    pub version: String,
    /// What could not be looked at, for the log.
    pub warnings: Vec<String>,
}

impl Connection {
    /// Whether Redis answers, is new enough, and never evicts: of a Cluster, each primary. An eviction would take single
    /// entries out of the schedule, which nobody could see.
    ///
    /// Errors: [`Error::Unfit`] names the setting or the version and what it must be, or that it lets us in with another
    /// password or certificate only.
    pub async fn check(&self) -> Result<Checked, Error> {
        match self.query(&redis::cmd("PING")).await {
            Ok(()) => {}
            // Without the password, or a user who may not do even that. Another refusal passes: a full disk, a long script.
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
            // Not everybody may ask.
            Err(Error::Refused(_)) => vec![(String::new(), String::new())],
            sections => sections?,
        };
        let mut checked = Checked { version: String::new(), warnings: Vec::new() };
        for (node, info) in sections {
            look(&node, &info, &mut checked)?;
        }
        Ok(checked)
    }
}

fn look(node: &str, info: &str, checked: &mut Checked) -> Result<(), Error> {
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
        None => checked.warnings.push(format!("Redis does not tell its version{whose}")),
    }
    match field(info, "maxmemory_policy") {
        Some("noeviction") => {}
        Some(policy) => {
            return Err(Error::Unfit(format!(
                "maxmemory-policy{whose} is {policy}; it must be noeviction, since an evicted key is work that is forgotten"
            )));
        }
        None => checked.warnings.push(format!(
            "Redis does not tell its maxmemory-policy{whose}: see to it that it is noeviction"
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

    fn looked(info: &str) -> Result<Checked, Error> {
        let mut checked = Checked { version: String::new(), warnings: Vec::new() };
        look("", info, &mut checked).map(|()| checked)
    }

    #[test]
    fn a_good_server() {
        let checked = looked("redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n").expect("good");
        assert_eq!(checked, Checked { version: "7.0.15".to_owned(), warnings: Vec::new() });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = looked("redis_version:7.0.15\r\nmaxmemory_policy:allkeys-lru\r\n")
            .expect_err("evicts")
            .to_string();
        assert!(error.contains("maxmemory-policy is allkeys-lru; it must be noeviction"), "{error}");
        let error =
            looked("redis_version:6.0.20\r\nmaxmemory_policy:noeviction\r\n").expect_err("old").to_string();
        assert!(error.contains("the version is 6.0.20; it must be 6.2 or later"), "{error}");
        let error = looked("redis_version:10.0.1\r\nmaxmemory_policy:noeviction\r\n");
        assert!(error.is_ok());
    }

    #[test]
    fn what_cannot_be_seen_is_a_warning() {
        assert_eq!(looked("").expect("no error").warnings.len(), 2);
    }
}
