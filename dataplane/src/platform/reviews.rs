//! Asks the cluster's API server who a user of the cluster is, and what the user may do.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context, Result};
use docket_crds::AUDIENCE;
use docket_listener::fair_share::FairShare;
use docket_listener::source::RequestSource;
use docket_program::apiserver::ApiServerError;
use docket_program::clock::Clock;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::http::error::ApiError;

/// How long an answer of the API server is used.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// The most answers that are kept.
const MOST_KEPT: usize = 1_024;
/// The most questions to the API server at the same time. One source has at most half of them.
pub const AT_ONCE: u32 = 8;
/// The most requests that have a turn or wait for one: a quarter of the connections of the management port, so that probes get the
/// others.
pub const PLACES: u32 = 16;
/// How long a turn is kept after a token that the API server does not know. So guesses reach it 64 times a second at most, from one
/// source 32 times.
pub const PAUSE: Duration = Duration::from_millis(250);
/// How long the reviews of one request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest name of a user that is recorded, in characters.
const MAX_NAME: usize = 100;

/// What a user wants to do, in the words of a Role's rule for the group of Docket's kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// The verb.
    pub verb: &'static str,
    /// `tenants` or `webhooks`.
    pub resource: &'static str,
    /// What of the object: a subresource that no object has, and that only roles name, such as `deliveries`.
    pub subresource: &'static str,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl Right {
    fn text(&self) -> String {
        let Self { verb, resource, subresource, namespace, name } = self;
        format!(
            "{verb} {resource}/{subresource} in the group {} for {name} in namespace {namespace}",
            docket_crds::GROUP
        )
    }

    fn attributes(&self) -> ResourceAttributes {
        ResourceAttributes {
            group: Some(docket_crds::GROUP.to_owned()),
            version: Some(docket_crds::VERSION.to_owned()),
            resource: Some(self.resource.to_owned()),
            subresource: Some(self.subresource.to_owned()),
            verb: Some(self.verb.to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ResourceAttributes::default()
        }
    }
}

/// The answer of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReviewVerdict {
    /// The API server does not know the token.
    Unknown,
    /// The user may not do it.
    Refused,
    /// The user of this name may do it.
    Allowed(String),
}

/// The answers of the last ten seconds, by a digest of token and right.
#[derive(Default)]
struct ReviewCache(HashMap<[u8; 32], (Duration, ReviewVerdict)>);

impl ReviewCache {
    fn get(&self, key: &[u8; 32], now: Duration) -> Option<ReviewVerdict> {
        let (at, verdict) = self.0.get(key)?;
        (now < *at + KEPT_FOR).then(|| verdict.clone())
    }

    fn put(&mut self, key: [u8; 32], now: Duration, verdict: ReviewVerdict) {
        if self.0.len() >= MOST_KEPT {
            self.0.retain(|_, (at, _)| now < *at + KEPT_FOR);
        }
        if self.0.len() >= MOST_KEPT {
            self.0.clear();
        }
        self.0.insert(key, (now, verdict));
    }
}

/// Asks the API server, and keeps its answers for ten seconds.
pub struct Reviews {
    tokens: Api<TokenReview>,
    rights: Api<SubjectAccessReview>,
    clock: Clock,
    kept: Mutex<ReviewCache>,
    places: FairShare<RequestSource>,
    turns: FairShare<RequestSource>,
}

impl Reviews {
    /// Connects by the file that KUBECONFIG names, else by `~/.kube/config`, else as a pod of the cluster. Sends no request yet.
    ///
    /// # Errors
    ///
    /// There is none of these, or it can't be used.
    pub async fn new(clock: Clock) -> Result<Self> {
        let mut config = Config::infer().await.context(
            "no configuration of the Kubernetes API; set KUBECONFIG to a kubeconfig file, or run as a pod",
        )?;
        config.connect_timeout = Some(TIMEOUT);
        config.read_timeout = Some(TIMEOUT);
        let client = Client::try_from(config).context("the Kubernetes API can't be used")?;
        Ok(Self {
            tokens: Api::all(client.clone()),
            rights: Api::all(client),
            clock,
            kept: Mutex::default(),
            places: FairShare::new(PLACES, 1),
            turns: FairShare::new(AT_ONCE, 1),
        })
    }

    /// Returns the name of the user with this token, if the user has the right.
    ///
    /// # Errors
    ///
    /// The API server does not know the token, the user may not, the API server can't be asked, or there was no turn to ask it.
    pub async fn user(&self, source: RequestSource, token: &str, right: &Right) -> Result<String, ApiError> {
        let key = key(token, right);
        let now = self.clock.elapsed();
        let kept = self.kept.lock().get(&key, now);
        let verdict = match kept {
            Some(verdict) => verdict,
            None => {
                let verdict = self.asked(source, token, right).await?;
                self.kept.lock().put(key, now, verdict.clone());
                verdict
            }
        };
        match verdict {
            ReviewVerdict::Unknown => Err(ApiError::UnknownClusterUser),
            ReviewVerdict::Refused => Err(ApiError::NoClusterRight(right.text())),
            ReviewVerdict::Allowed(name) => Ok(name),
        }
    }

    async fn asked(
        &self,
        source: RequestSource,
        token: &str,
        right: &Right,
    ) -> Result<ReviewVerdict, ApiError> {
        let source = source.subscriber();
        let _place = self.places.try_take(source, (), 1)?;
        let turn = self.turns.take(source, 1).await?;
        let reviewed = timeout(TIMEOUT, self.review(token, right));
        let why = match reviewed.await {
            Ok(Ok(ReviewVerdict::Unknown)) => {
                turn.keep_for(PAUSE);
                return Ok(ReviewVerdict::Unknown);
            }
            Ok(Ok(verdict)) => return Ok(verdict),
            Ok(Err(error)) => ApiServerError::of(&error).to_string(),
            Err(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
        };
        tracing::warn!(error = why, "the API server can't be asked about a user of the platform's routes");
        Err(ApiError::ReviewsAway)
    }

    /// The user of a token that is for one of these audiences, or for the API server itself if there are none.
    async fn reviewed(
        &self,
        token: &str,
        audiences: Option<Vec<String>>,
    ) -> Result<Option<UserInfo>, kube::Error> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: audiences.clone() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = self.tokens.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        // An authenticator that does not know audiences answers without any. Then the token is for the API server.
        let is_for = |wanted: &Vec<String>| status.audiences.iter().flatten().any(|one| wanted.contains(one));
        let counts = status.authenticated == Some(true) && audiences.as_ref().is_none_or(is_for);
        Ok(status.user.filter(|_| counts))
    }

    async fn review(&self, token: &str, right: &Right) -> Result<ReviewVerdict, kube::Error> {
        // A token for our audience is of no use at the API server. A login's own token is for the API server.
        let ours = self.reviewed(token, Some(vec![AUDIENCE.to_owned()])).await?;
        let user = match ours {
            Some(user) => Some(user),
            None => self.reviewed(token, None).await?,
        };
        let Some(user) = user else { return Ok(ReviewVerdict::Unknown) };
        let Some(name) = user.username.as_deref().filter(|name| !name.is_empty()).map(shown) else {
            return Ok(ReviewVerdict::Unknown);
        };
        let review = SubjectAccessReview { spec: spec_of(user, right), ..SubjectAccessReview::default() };
        let status = self.rights.create(&PostParams::default(), &review).await?.status;
        let allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { ReviewVerdict::Allowed(name) } else { ReviewVerdict::Refused })
    }
}

fn spec_of(user: UserInfo, right: &Right) -> SubjectAccessReviewSpec {
    let UserInfo { username, groups, uid, extra } = user;
    let extra = extra.map(|extra| extra.into_iter().collect::<BTreeMap<_, _>>());
    let resource_attributes = Some(right.attributes());
    SubjectAccessReviewSpec {
        user: username,
        groups,
        uid,
        extra,
        resource_attributes,
        non_resource_attributes: None,
    }
}

/// A user's name on one line.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_NAME).collect()
}

fn key(token: &str, right: &Right) -> [u8; 32] {
    let Right { verb, resource, subresource, namespace, name } = right;
    let mut hasher = Sha256::new();
    for part in [token, verb, resource, subresource, namespace, name] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_used_for_ten_seconds_and_for_one_token_and_right() {
        let right = Right {
            verb: "list",
            resource: "webhooks",
            subresource: "deliveries",
            namespace: "a".into(),
            name: "b".into(),
        };
        let asked = key("token", &right);
        let mut kept = ReviewCache::default();
        kept.put(asked, Duration::ZERO, ReviewVerdict::Refused);
        assert_eq!(kept.get(&asked, Duration::from_millis(9_999)), Some(ReviewVerdict::Refused));
        assert_eq!(kept.get(&asked, Duration::from_secs(10)), None);
        for other in [
            key("other", &right),
            key("token", &Right { verb: "get", ..right.clone() }),
            key("token", &Right { resource: "tenants", ..right.clone() }),
            key("token", &Right { subresource: "people", ..right.clone() }),
            key("token", &Right { namespace: "c".into(), ..right.clone() }),
            key("token", &Right { name: "c".into(), ..right.clone() }),
            key("token", &Right { namespace: "ab".into(), name: String::new(), ..right.clone() }),
        ] {
            assert_eq!(kept.get(&other, Duration::ZERO), None);
        }
    }

    #[test]
    fn kept_answers_are_bounded() {
        let mut kept = ReviewCache::default();
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_be_bytes());
            key
        };
        for number in 0..3 * MOST_KEPT {
            kept.put(key(number), Duration::ZERO, ReviewVerdict::Unknown);
            assert!(kept.0.len() <= MOST_KEPT);
        }
        assert!(kept.get(&key(3 * MOST_KEPT - 1), Duration::ZERO).is_some());
    }

    #[test]
    fn name_stays_on_one_line() {
        assert_eq!(shown("a\nb\u{1b}c"), "a b c");
        assert_eq!(shown(&"é".repeat(500)).chars().count(), MAX_NAME);
    }
}
