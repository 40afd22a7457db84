//! The Lease: all replicas watch, but only the replica that holds the Lease writes.
//!
//! The right to write is measured by this process's own clock, from the moment before a renewal is sent, and expires
//! before the Lease does. So a process that was frozen finds that it may not write any more. If two replicas write
//! all the same, no harm is done: a write to a Secret or a finalizer is guarded by a resource version, a status is written as a whole
//! (server-side apply), and databases are created under locks.

use std::time::Duration;

use docket_program::clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::kube::call_error::CallError;
use crate::state::sight::Sight;

/// The Lease's name.
pub const NAME: &str = "docket-operator";

/// The settings of the Lease.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of this process; unique among the replicas.
    pub identity: String,
    /// How long the Lease is valid without renewal.
    pub duration: Duration,
    /// How often the holder renews the Lease, and how often other replicas read it.
    pub renew_every: Duration,
}

impl LeaseSettings {
    /// How long a renewal gives the right to write. It ends before the Lease: a write in progress must not outlive the Lease.
    fn right(&self) -> Duration {
        self.duration - self.duration / 5
    }
}

/// The right to write: until when this process has it, and for which installation.
#[derive(Debug)]
pub struct Leadership {
    until: Mutex<Option<Instant>>,
    leads: watch::Sender<bool>,
    installation: Mutex<String>,
}

impl Default for Leadership {
    fn default() -> Self {
        Self { until: Mutex::default(), leads: watch::Sender::new(false), installation: Mutex::default() }
    }
}

impl Leadership {
    /// Whether this process may write at this moment.
    pub fn may_write(&self) -> bool {
        self.may_write_at(Instant::now())
    }

    /// The name that distinguishes this installation from others on the same database servers, in this cluster or
    /// another. It is the Lease's uid, because the operator can read that without a further right. It is known
    /// whenever this process may write.
    pub fn installation(&self) -> String {
        self.installation.lock().clone()
    }

    fn may_write_at(&self, now: Instant) -> bool {
        self.until.lock().is_some_and(|until| now < until)
    }

    /// Waits until this process may write.
    pub async fn wait(&self) {
        while !self.may_write() {
            let mut changes = self.leads.subscribe();
            if self.may_write() {
                return;
            }
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// A receiver that is notified when the right to write changes. If the right expires, it is notified at the next
    /// try to renew the Lease.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Notifies the receivers of [`Leadership::changes`] if the time ran out: another process may have written since.
    fn notice_expiry(&self) {
        if *self.leads.borrow() && !self.may_write() {
            tracing::warn!(
                lease.held = false,
                "the lease expired before it was renewed; another replica may take over"
            );
            self.set(None);
        }
    }

    fn set(&self, until: Option<Instant>) {
        *self.until.lock() = until;
        self.leads.send_replace(until.is_some());
    }
}

/// What this replica does with the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Renew,
    TakeOver,
    Wait,
    GiveUp,
}

/// Decides what to do. `unchanged_for`: how long this replica has seen the same version of the Lease, by its own
/// clock. The times in the Lease come from other machines and are not compared. `is_blind`: this replica sees no changes, so
/// another replica must lead.
fn step(lease: &LeaseSpec, identity: &str, unchanged_for: Duration, is_blind: bool) -> Step {
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    if is_blind {
        return if holder == identity { Step::GiveUp } else { Step::Wait };
    }
    if holder == identity {
        Step::Renew
    } else if holder.is_empty() || unchanged_for >= Duration::from_secs(seconds) {
        Step::TakeOver
    } else {
        Step::Wait
    }
}

/// The content of the Lease's next version.
fn renewed(last: &LeaseSpec, settings: &LeaseSettings, step: Step, now: Timestamp) -> LeaseSpec {
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

/// The content of a Lease that its holder gives up: another replica may take it at once.
fn given_up(last: &LeaseSpec) -> LeaseSpec {
    LeaseSpec { holder_identity: Some(String::new()), lease_duration_seconds: Some(1), ..last.clone() }
}

/// Holds the Lease, or tries to get it, without end. `client` must not retry by itself: a late renewal counts as failed. A
/// process whose watches are silent while these requests succeed gives the Lease up, and takes it only when it sees again.
pub async fn keep(
    client: Client,
    settings: &LeaseSettings,
    leadership: &Leadership,
    sight: &Sight,
    clock: &Clock,
) {
    let api: Api<Lease> = Api::namespaced(client, &settings.namespace);
    let mut seen: Option<(Lease, Instant)> = None;
    let mut answers_since: Option<Instant> = None;
    // Also after a request that failed, a process that was blind leads again only when it sees.
    let mut was_blind = false;
    loop {
        let begun = Instant::now();
        let limit = settings.renew_every.max(Duration::from_secs(1));
        let is_blind = sight.is_blind(answers_since, begun) || was_blind && sight.is_silent(begun);
        was_blind = is_blind;
        if is_blind && leadership.may_write() {
            tracing::error!(
                "a watch of the API server is silent and can't be opened again, although other requests succeed: giving up the \
                 lease, so that another replica can lead; check what is between this pod and the API server"
            );
            leadership.set(None);
        }
        let tried = try_once(&api, settings, seen.take(), is_blind, clock);
        let result = tokio::time::timeout(limit, tried).await;
        answers_since = matches!(result, Ok(Ok(_))).then(|| answers_since.unwrap_or(begun));
        match result {
            Ok(Ok((lease, leads))) => {
                let until = leads.then(|| begun + settings.right());
                if leads != leadership.may_write() {
                    tracing::info!(
                        lease.identity = settings.identity,
                        lease.held = leads,
                        "the lease changed hands"
                    );
                }

                *leadership.installation.lock() = lease.0.metadata.uid.clone().unwrap_or_default();
                // Not for each read of a waiting replica, because that would wake all its workers.
                if leads || *leadership.leads.borrow() {
                    leadership.set(until);
                }
                seen = Some(lease);
            }
            Ok(Err(error)) => {
                let error = CallError::from(error);
                tracing::warn!(%error, "reading or renewing the lease failed; retrying in {:?}", settings.renew_every);
            }
            Err(_) => tracing::warn!(
                "reading or renewing the lease failed: the API server did not respond in time; retrying in {:?}",
                settings.renew_every
            ),
        }
        leadership.notice_expiry();
        tokio::time::sleep(settings.renew_every).await;
    }
}

type SeenLease = (Lease, Instant);

/// Reads the Lease, and takes or renews it if this replica may. Returns the Lease, and whether this replica holds it.
async fn try_once(
    api: &Api<Lease>,
    settings: &LeaseSettings,
    seen: Option<SeenLease>,
    is_blind: bool,
    clock: &Clock,
) -> kube::Result<(SeenLease, bool)> {
    let Some(lease) = api.get_opt(NAME).await? else {
        let spec = renewed(&LeaseSpec::default(), settings, Step::TakeOver, clock.now());
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
    let step = step(&spec, &settings.identity, since.elapsed(), is_blind);
    if step == Step::Wait {
        return Ok(((lease, since), false));
    }
    if step == Step::GiveUp {
        let free = Lease { spec: Some(given_up(&spec)), ..lease };
        return Ok(((api.replace(NAME, &PostParams::default(), &free).await?, Instant::now()), false));
    }
    // The resource version makes sure that only one of two replicas that try at the same time succeeds.
    let next = Lease { metadata: lease.metadata, spec: Some(renewed(&spec, settings, step, clock.now())) };
    let next = api.replace(NAME, &PostParams::default(), &next).await?;
    Ok(((next, Instant::now()), true))
}

/// Stops writing and gives the Lease up, so that the next replica need not wait until it expires.
pub async fn release(client: Client, settings: &LeaseSettings, leadership: &Leadership) -> kube::Result<()> {
    leadership.set(None);
    let api: Api<Lease> = Api::namespaced(client, &settings.namespace);
    let Some(lease) = api.get_opt(NAME).await? else {
        return Ok(());
    };
    if let Some(spec) = &lease.spec
        && spec.holder_identity.as_deref() == Some(&settings.identity)
    {
        let free = Lease { spec: Some(given_up(spec)), ..lease };
        api.replace(NAME, &PostParams::default(), &free).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LeaseSettings {
        LeaseSettings {
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
    fn replica_renews_its_own_lease_and_takes_a_free_or_expired_one() {
        let step = |lease: &LeaseSpec, unchanged_for| step(lease, "me", unchanged_for, false);
        assert_eq!(step(&held_by("me"), Duration::ZERO), Step::Renew);
        assert_eq!(step(&held_by("other"), Duration::from_secs(14)), Step::Wait);
        assert_eq!(step(&held_by("other"), Duration::from_secs(15)), Step::TakeOver);
        assert_eq!(step(&held_by(""), Duration::ZERO), Step::TakeOver);
        assert_eq!(step(&LeaseSpec::default(), Duration::ZERO), Step::TakeOver);
    }

    #[test]
    fn blind_replica_gives_its_lease_up_and_takes_none() {
        let step = |lease: &LeaseSpec| step(lease, "me", Duration::from_secs(60), true);
        assert_eq!(step(&held_by("me")), Step::GiveUp);
        for lease in [held_by("other"), held_by(""), LeaseSpec::default()] {
            assert_eq!(step(&lease), Step::Wait, "{lease:?}");
        }
        let free = given_up(&held_by("me"));
        assert_eq!((free.holder_identity.as_deref(), free.lease_transitions), (Some(""), Some(3)));
        assert_eq!(free.lease_duration_seconds, Some(1), "the API server refuses 0");
    }

    #[test]
    fn takeover_is_counted_and_renewal_is_not() {
        let now = Timestamp::UNIX_EPOCH;
        let taken = renewed(&held_by("other"), &settings(), Step::TakeOver, now);
        assert_eq!((taken.lease_transitions, taken.holder_identity.as_deref()), (Some(4), Some("me")));
        let later = now + Duration::from_secs(5);
        let renewed = renewed(&taken, &settings(), Step::Renew, later);
        assert_eq!(renewed.lease_transitions, Some(4));
        assert_eq!(renewed.acquire_time, Some(MicroTime(now)));
        assert_eq!(renewed.renew_time, Some(MicroTime(later)));
    }

    #[test]
    fn right_to_write_ends_before_the_lease() {
        assert_eq!(
            (settings().right(), settings().duration),
            (Duration::from_secs(12), Duration::from_secs(15))
        );
    }

    #[tokio::test]
    async fn right_to_write_expires() {
        let (leadership, now) = (Leadership::default(), Instant::now());
        assert!(!leadership.may_write());
        leadership.set(Some(now + Duration::from_secs(12)));
        leadership.wait().await;
        assert!(leadership.may_write_at(now + Duration::from_secs(11)));
        assert!(!leadership.may_write_at(now + Duration::from_secs(12)));
        leadership.set(None);
        assert!(!leadership.may_write());
    }

    #[test]
    fn right_that_ran_out_is_noticed_and_one_that_lasts_stays() {
        let (leadership, now) = (Leadership::default(), Instant::now());
        let leads = leadership.changes();
        leadership.set(Some(now + Duration::from_secs(600)));
        leadership.notice_expiry();
        assert!(*leads.borrow());
        leadership.set(Some(now));
        leadership.notice_expiry();
        assert!(!*leads.borrow());
    }
}
