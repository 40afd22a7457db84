//! URLs of Redis.

use docket_redis::url::{Endpoint, RedisUrl, Topology};

use super::names_secret_once;
use crate::SECRET;

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match RedisUrl::parse(text) {
        Ok(url) => {
            let is_password = url.password.as_ref().is_some_and(|word| word.contains(SECRET));
            if is_password && names_secret_once(text) {
                assert!(!format!("{url:?}").contains(SECRET));
            }
            let is_of_sentinels = url.sentinel.as_ref().is_some_and(|login| login.password.contains(SECRET));
            if is_of_sentinels && names_secret_once(text) {
                assert!(!format!("{url:?}").contains(SECRET));
            }
            assert!((0..=1_000_000).contains(&url.db));
            let written = written(&url);
            assert!(RedisUrl::parse(&written).is_ok_and(|again| again == url), "{written}");
        }
        Err(error) => {
            assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
        }
    }
}

/// A URL that says the same.
fn written(url: &RedisUrl) -> String {
    let endpoints = |endpoints: &[Endpoint]| {
        let one = |(host, port): &Endpoint| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        endpoints.iter().map(one).collect::<Vec<_>>().join(",")
    };
    let security = if url.tls { "rediss" } else { "redis" };
    let (user, password) = (encoded(&url.user), encoded(&url.password));
    let (kind, hosts, path) = match &url.topology {
        Topology::Standalone(endpoint) => {
            ("", endpoints(std::slice::from_ref(endpoint)), format!("/{}", url.db))
        }
        Topology::Sentinel(sentinels, name) => {
            ("+sentinel", endpoints(sentinels), format!("/{}/{}", encoded(&Some(name.clone())), url.db))
        }
        Topology::Cluster(nodes) => ("+cluster", endpoints(nodes), String::new()),
    };
    let sentinel = url.sentinel.as_ref().map(|login| {
        let (user, password) = (encoded(&login.user), encoded(&Some(login.password.clone())));
        format!("?sentinel_username={user}&sentinel_password={password}")
    });
    format!("{security}{kind}://{user}:{password}@{hosts}{path}{}", sentinel.unwrap_or_default())
}

fn encoded(text: &Option<String>) -> String {
    text.iter().flat_map(|text| text.bytes()).map(|byte| format!("%{byte:02x}")).collect()
}
