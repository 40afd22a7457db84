//! Who may write: the holder of one Lease. All replicas watch and are warm; one writes.
//!
//! Holding is counted by our own clock from the moment before the renewal was sent, and ends before the Lease does, so a
//! process that was frozen finds that it may not write. Should two write all the same, no harm is done: every write is
//! either of whole content (server-side apply) or guarded by a resource version, and databases are made under locks.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{sync::watch, time::Instant};

/// The Lease's name.
pub const NAME: &str = "docket-operator";

/// How the Lease is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the Lease is.
    pub namespace: String,
    /// Who we are; unique among the replicas.
    pub identity: String,
    /// How long the Lease is good for without renewal.
    pub duration: Duration,
    /// How often it is renewed, and how often others look at it.
    pub renew_every: Duration,
}

impl Settings {
    /// What is taken off the duration for our own count: a write under way must not outlive the Lease.
    fn margin(&self) -> Duration {
        self.duration / 5
    }
}

/// Until when we may write, and as which installation.
#[derive(Debug)]
pub struct Held(Mutex<Option<Instant>>, watch::Sender<bool>, Mutex<String>);

impl Default for Held {
    fn default() -> Self {
        Self(Mutex::new(None), watch::Sender::new(false), Mutex::default())
    }
}

impl Held {
    /// Whether we may write at this moment.
    pub fn is_held(&self) -> bool {
        self.is_held_at(Instant::now())
    }

    /// What tells this installation from others that use the same database servers, in this cluster or another: the
    /// Lease's uid, which needs no right that the operator does not have. Known whenever we may write.
    pub fn installation(&self) -> String {
        self.2.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_held_at(&self, now: Instant) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| now < until)
    }

    /// Waits until we may write.
    pub async fn wait(&self) {
        while !self.is_held() {
            let mut changes = self.1.subscribe();
            if self.is_held() {
                return;
            }
            // The sender lives as long as we do.
            let _ = changes.changed().await;
        }
    }

    /// Changes with the right to write; when it ends by itself, with the next try to renew it.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.1.subscribe()
    }

    /// Tells those who follow [`Held::changes`] where the time ran out: another may have written since.
    fn notice_its_end(&self) {
        if *self.1.borrow() && !self.is_held() {
            tracing::warn!(lease.held = false, "the lease has run out");
            self.set(None);
        }
    }

    fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.1.send_replace(until.is_some());
    }
}

/// What to do about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Renew,
    TakeOver,
    Wait,
}

/// `unchanged_for`: how long we have seen this very version of the Lease, by our own clock; the times in it are of
/// other machines and are not compared.
fn step(lease: &LeaseSpec, identity: &str, unchanged_for: Duration) -> Step {
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    if holder == identity {
        Step::Renew
    } else if holder.is_empty() || unchanged_for >= Duration::from_secs(seconds) {
        Step::TakeOver
    } else {
        Step::Wait
    }
}

/// The next version of the Lease's content.
fn renewed(last: &LeaseSpec, settings: &Settings, step: Step, now: Timestamp) -> LeaseSpec {
    let taken = step == Step::TakeOver;
    LeaseSpec {
        holder_identity: Some(settings.identity.clone()),
        lease_duration_seconds: i32::try_from(settings.duration.as_secs()).ok(),
        renew_time: Some(MicroTime(now)),
        acquire_time: if taken { Some(MicroTime(now)) } else { last.acquire_time.clone() },
        lease_transitions: Some(last.lease_transitions.unwrap_or(0) + i32::from(taken)),
        ..last.clone()
    }
}

/// Keeps the Lease for ever. `client` must not retry by itself: a renewal that is late counts as failed.
pub async fn keep(client: Client, settings: &Settings, held: &Held, now: fn() -> Timestamp) {
    let api: Api<Lease> = Api::namespaced(client, &settings.namespace);
    let mut seen: Option<(Lease, Instant)> = None;
    loop {
        let begun = Instant::now();
        let limit = settings.renew_every.max(Duration::from_secs(1));
        let result = tokio::time::timeout(limit, try_once(&api, settings, seen.take(), now)).await;
        match result {
            Ok(Ok((lease, holding))) => {
                let until = holding.then(|| begun + settings.duration - settings.margin());
                if holding != held.is_held() {
                    tracing::info!(lease.identity = settings.identity, lease.held = holding, "lease");
                }
                let uid = lease.0.metadata.uid.clone().unwrap_or_default();
                *held.2.lock().unwrap_or_else(PoisonError::into_inner) = uid;
                // Not for each look of those who wait: it would wake up whoever waits with them.
                if holding || *held.1.borrow() {
                    held.set(until);
                }
                seen = Some(lease);
            }
            Ok(Err(error)) => tracing::warn!(%error, "the lease cannot be read or renewed"),
            Err(_) => tracing::warn!("the API server does not answer about the lease in time"),
        }
        held.notice_its_end();
        tokio::time::sleep(settings.renew_every).await;
    }
}

type Seen = (Lease, Instant);

/// Looks, and takes or renews the Lease if that is ours to do; answers what is there now, and whether it is ours.
async fn try_once(
    api: &Api<Lease>,
    settings: &Settings,
    seen: Option<Seen>,
    now: fn() -> Timestamp,
) -> kube::Result<(Seen, bool)> {
    let Some(lease) = api.get_opt(NAME).await? else {
        let spec = renewed(&LeaseSpec::default(), settings, Step::TakeOver, now());
        let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
        let made = api.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await?;
        return Ok(((made, Instant::now()), true));
    };
    let version = |lease: &Lease| lease.metadata.resource_version.clone();
    let since = match seen {
        Some((last, since)) if version(&last) == version(&lease) => since,
        _ => Instant::now(),
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let step = step(&spec, &settings.identity, since.elapsed());
    if step == Step::Wait {
        return Ok(((lease, since), false));
    }
    // The resource version in it makes sure that of two who try, one succeeds.
    let next = Lease { metadata: lease.metadata, spec: Some(renewed(&spec, settings, step, now())) };
    let next = api.replace(NAME, &PostParams::default(), &next).await?;
    Ok(((next, Instant::now()), true))
}

/// Stops writing, and gives the Lease up so that the next one need not wait for its end.
pub async fn release(client: Client, settings: &Settings, held: &Held) -> kube::Result<()> {
    held.set(None);
    let api: Api<Lease> = Api::namespaced(client, &settings.namespace);
    let Some(mut lease) = api.get_opt(NAME).await? else {
        return Ok(());
    };
    if let Some(spec) = lease.spec.as_mut()
        && spec.holder_identity.as_deref() == Some(&settings.identity)
    {
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        api.replace(NAME, &PostParams::default(), &lease).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            namespace: "docket".into(),
            identity: "me".into(),
            duration: Duration::from_secs(15),
            renew_every: Duration::from_secs(5),
        }
    }

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn one_renews_its_own_and_takes_what_is_free_or_was_not_renewed() {
        assert_eq!(step(&held_by("me"), "me", Duration::ZERO), Step::Renew);
        assert_eq!(step(&held_by("other"), "me", Duration::from_secs(14)), Step::Wait);
        assert_eq!(step(&held_by("other"), "me", Duration::from_secs(15)), Step::TakeOver);
        assert_eq!(step(&held_by(""), "me", Duration::ZERO), Step::TakeOver);
        assert_eq!(step(&LeaseSpec::default(), "me", Duration::ZERO), Step::TakeOver);
    }

    #[test]
    fn a_takeover_is_counted_and_a_renewal_is_not() {
        let now = Timestamp::UNIX_EPOCH;
        let taken = renewed(&held_by("other"), &settings(), Step::TakeOver, now);
        assert_eq!((taken.lease_transitions, taken.holder_identity.as_deref()), (Some(4), Some("me")));
        let later = now + Duration::from_secs(5);
        let renewed = renewed(&taken, &settings(), Step::Renew, later);
        assert_eq!(renewed.lease_transitions, Some(4));
        assert_eq!(renewed.acquire_time, Some(MicroTime(now)));
        assert_eq!(renewed.renew_time, Some(MicroTime(later)));
    }

    #[tokio::test]
    async fn the_right_to_write_ends_by_itself() {
        let (held, now) = (Held::default(), Instant::now());
        assert!(!held.is_held());
        held.set(Some(now + Duration::from_secs(12)));
        held.wait().await;
        assert!(held.is_held_at(now + Duration::from_secs(11)));
        assert!(!held.is_held_at(now + Duration::from_secs(12)));
        held.set(None);
        assert!(!held.is_held());
    }
}
