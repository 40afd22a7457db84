//! Beginning, keeping and finishing attempts: which worker may send, and whose finish counts.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{
    DeliveryId, FailureClass, MAX_ATTEMPTS, Next, Outcome, PhaseTimes, Report, Status,
};
use docket_domain::failure::{Cause, Explanation};
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase, WEBHOOK, at, delivery_id, held, lease};
use docket_store::deliveries::{self, LATE_END_MS, Lease, Started};
use docket_store::{Database, StoreError};
use tokio::sync::Barrier;

on_both_databases!(
    an_attempt_is_counted_and_leased,
    what_is_not_due_is_not_begun,
    what_is_leased_is_not_begun,
    what_is_finished_or_unknown_is_not_begun,
    an_other_name_lease_is_taken_over,
    no_delivery_has_a_sixth_attempt,
    sixty_are_begun_in_one_call,
    an_id_given_twice_is_begun_once,
    two_claimers_never_share_a_delivery,
    two_claimers_in_opposite_order_both_get_through,
    a_success_ends_the_delivery,
    a_failure_is_retried_later,
    a_last_failure_is_a_dead_letter,
    the_second_attempt_clears_what_the_first_said,
    a_wrong_token_finishes_nothing,
    an_end_that_was_stored_already_is_ours,
    a_late_end_after_a_takeover_counts_for_nothing,
    a_lost_attempt_counts_once_when_two_find_it,
    a_finish_counts_once,
    a_lease_is_kept_by_its_owner_only,
    sixty_leases_are_kept_in_one_call,
);

fn succeeded() -> Outcome {
    Outcome::Succeeded(Report { http_status: Some(204), ..Report::default() })
}

fn failed(class: FailureClass) -> Outcome {
    Outcome::Failed(class, Report::default())
}

fn retry_at(at_ms: i64) -> Next {
    Next::RetryAt(at(at_ms))
}

fn owner(process: &str, incarnation: &str) -> Owner {
    Owner { process: process.into(), incarnation: incarnation.into() }
}

fn numbers(started: &[Started]) -> BTreeSet<DeliveryId> {
    started.iter().map(|started| started.id).collect()
}

async fn an_attempt_is_counted_and_leased(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    let started = rig.begin(&ids[..1], "mine", T0, T0 + 4).await;
    let [Started { id, event_id, webhook, attempt, at_ms }] = &started[..] else { panic!("{started:?}") };
    let stored = rig.delivery(ids[0]).await;
    assert_eq!((*id, *attempt, webhook.as_str(), *at_ms), (ids[0], 1, WEBHOOK, T0));
    assert_eq!(*event_id, stored.event_id);
    assert_eq!((stored.status, stored.attempt_count, stored.due_at_ms), (Status::Pending, 1, T0));
    assert_eq!(rig.lease(ids[0]).await, (Some("mine".into()), Some(T0 + 4)));
    let attempts = rig.attempts(ids[0]).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].number, attempts[0].started_at_ms, attempts[0].finished_at_ms), (1, T0, None));
    assert_eq!((rig.delivery(ids[1]).await.attempt_count, rig.lease(ids[1]).await), (0, (None, None)));
    let names = ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let begun = deliveries::begun(&mut rig.reader().await, &names).await.expect("a statement");
    assert_eq!(begun, HashSet::from([names[0].clone()]));
}

async fn what_is_not_due_is_not_begun(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let before = rig.picture(id).await;
    assert!(rig.begin(&[id], "mine", T0 - 1, T0 + 4).await.is_empty());
    assert_eq!(rig.picture(id).await, before);
    assert_eq!(rig.begin(&[id], "mine", T0, T0 + 4).await.len(), 1);
}

async fn what_is_leased_is_not_begun(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    rig.begin(&[id], "theirs", T0, T0 + 4).await;
    let before = rig.picture(id).await;
    for (token, now_ms) in [("mine", T0), ("mine", T0 + 3), ("theirs", T0 + 3)] {
        assert!(rig.begin(&[id], token, now_ms, T0 + 9).await.is_empty(), "{token} {now_ms}");
    }
    assert_eq!(rig.picture(id).await, before);
}

async fn what_is_finished_or_unknown_is_not_begun(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    rig.set_status(ids[0], Status::Succeeded).await;
    rig.set_status(ids[1], Status::DeadLetter).await;
    let asked = [ids[0], ids[1], delivery_id(999)];
    assert!(rig.begin(&asked, "mine", T0 + 1, T0 + 4).await.is_empty());
    assert!(rig.begin(&[], "mine", T0 + 1, T0 + 4).await.is_empty());
    assert_eq!(rig.number("SELECT count(*) FROM attempt").await, 0);
}

async fn an_other_name_lease_is_taken_over(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    rig.begin(&[id], "theirs", T0, T0 + 4).await;
    let started = rig.begin(&[id], "mine", T0 + 4, T0 + 8).await;
    assert_eq!((started.len(), started[0].attempt), (1, 2));
    let stored = rig.delivery(id).await;
    assert_eq!((stored.status, stored.attempt_count), (Status::Failed, 2));
    assert_eq!(rig.lease(id).await, (Some("mine".into()), Some(T0 + 8)));
    let attempts = rig.attempts(id).await;
    let lost = &attempts[0];
    assert_eq!((lost.finished_at_ms, lost.failure_class), (Some(T0 + 4), Some(FailureClass::WorkerLost)));
    assert_eq!((lost.number, lost.started_at_ms), (1, T0));
    assert_eq!((attempts[1].number, attempts[1].finished_at_ms, attempts[1].failure_class), (2, None, None));
}

async fn no_delivery_has_a_sixth_attempt(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    for attempt in 1..=MAX_ATTEMPTS {
        let now_ms = T0 + i64::from(attempt);
        let started = rig.begin(&[id], &attempt.to_string(), now_ms, now_ms + 1).await;
        assert_eq!(started[0].attempt, attempt);
    }
    let before = rig.picture(id).await;
    assert!(rig.begin(&[id], "sixth", T0 + 5 + LATE_END_MS, T0 + 2_000_000).await.is_empty());
    let sixth = lease("sixth", 9);
    let begun = rig.write(async |t| deliveries::begin_attempts(t, &[id], &sixth, T0 + 2_000_000).await).await;
    assert!(begun.is_empty());
    assert_eq!(rig.picture(id).await, before);
    // A sixth attempt does not begin either when the fifth attempt is certainly lost.
    assert!(rig.begin(&[id], "sixth", T0 + 1_000_000, T0 + 2_000_000).await.is_empty());
    let stored = rig.delivery(id).await;
    assert_eq!((stored.status, stored.attempt_count), (Status::DeadLetter, 5));
    assert_eq!(rig.attempts(id).await.len(), 5);
}

async fn sixty_are_begun_in_one_call(rig: TenantDatabase) {
    let ids = rig.queued(61, T0).await;
    let started = rig.begin(&ids[..60], "mine", T0, T0 + 4).await;
    assert_eq!(started.len(), 60);
    assert_eq!(numbers(&started), ids[..60].iter().copied().collect());
    assert!(started.iter().all(|started| started.attempt == 1));
    assert_eq!(rig.number("SELECT count(*) FROM attempt").await, 60);
    assert_eq!(rig.number("SELECT count(*) FROM delivery WHERE lease_token IS NULL").await, 1);
}

async fn an_id_given_twice_is_begun_once(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    // The ids are repeated, so that the same id is in one chunk, and in two.
    let ids: Vec<DeliveryId> = std::iter::repeat_n(id, 30).collect();
    assert_eq!(rig.begin(&ids, "mine", T0, T0 + 4).await.len(), 1);
    assert_eq!(rig.delivery(id).await.attempt_count, 1);
}

/// Begins attempts of all of `ids` at the same moment as another worker. Like a worker, it repeats a transaction that
/// conflicted with the other transaction.
async fn claim(database: Database, barrier: Arc<Barrier>, token: &str, ids: Vec<DeliveryId>) -> Vec<Started> {
    barrier.wait().await;
    for _ in 0..20 {
        let claimed = async {
            let mut transaction = database.begin(&Clock::System).await?;
            let lease = lease(token, 4);
            let started = deliveries::begin_attempts(&mut transaction, &ids, &lease, T0).await?;
            transaction.commit().await?;
            Ok::<_, StoreError>(started)
        };
        match claimed.await {
            Ok(started) => return started,
            Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("no turn in 20 tries")
}

async fn two_claimers(rig: &TenantDatabase, ids: [Vec<DeliveryId>; 2]) {
    let barrier = Arc::new(Barrier::new(2));
    let [first, second] = ids;
    let one = tokio::spawn(claim(rig.opened_again(), Arc::clone(&barrier), "one", first));
    let two = tokio::spawn(claim(rig.opened_again(), barrier, "two", second));
    let (one, two) = (one.await.expect("no panic"), two.await.expect("no panic"));
    assert_eq!(one.len() + two.len(), 100);
    assert!(numbers(&one).is_disjoint(&numbers(&two)));
    assert_eq!(rig.number("SELECT count(*) FROM attempt").await, 100);
    assert_eq!(rig.number("SELECT count(*) FROM delivery WHERE attempt_count = 1").await, 100);
    for (token, started) in [("one", one), ("two", two)] {
        let leased =
            rig.number(&format!("SELECT count(*) FROM delivery WHERE lease_token LIKE '{token}.%'")).await;
        assert_eq!(leased, started.len() as i64);
    }
}

async fn two_claimers_never_share_a_delivery(rig: TenantDatabase) {
    let ids = rig.queued(100, T0).await;
    two_claimers(&rig, [ids.clone(), ids]).await;
}

async fn two_claimers_in_opposite_order_both_get_through(rig: TenantDatabase) {
    let ids = rig.queued(100, T0).await;
    let reversed = ids.iter().rev().copied().collect();
    two_claimers(&rig, [ids, reversed]).await;
}

async fn a_success_ends_the_delivery(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let started = rig.begin(&[id], "mine", T0, T0 + 4).await;
    let report = Report {
        remote: Some("[2001:db8::1]:443".parse().expect("an address")),
        http_status: Some(202),
        answer: Some("danke 🦊".into()),
        explanation: Explanation::default(),
        times: PhaseTimes {
            dns: Some(Duration::from_micros(1)),
            connect: Some(Duration::from_micros(2)),
            tls: None,
            first_byte: Some(Duration::from_micros(4)),
            total: Duration::from_secs(30),
        },
    };
    assert!(rig.finish(&started[0], "mine", &Outcome::Succeeded(report), Next::Succeeded, T0 + 3).await);
    let stored = rig.delivery(id).await;
    assert_eq!((stored.status, stored.attempt_count), (Status::Succeeded, 1));
    assert_eq!((stored.failure_class, stored.http_status), (None, Some(202)));
    assert_eq!((stored.due_at_ms, stored.finished_at_ms), (T0, Some(T0 + 3)));
    assert_eq!(rig.lease(id).await, (None, None));
    let attempt = rig.attempts(id).await.remove(0);
    assert_eq!((attempt.finished_at_ms, attempt.failure_class), (Some(T0 + 3), None));
    assert_eq!(attempt.remote_address.as_deref(), Some("[2001:db8::1]:443"));
    assert_eq!((attempt.http_status, attempt.response_body.as_deref()), (Some(202), Some("danke 🦊")));
    assert_eq!((attempt.dns_us, attempt.connect_us, attempt.tls_us), (Some(1), Some(2), None));
    assert_eq!((attempt.first_byte_us, attempt.total_us), (Some(4), Some(30_000_000)));
}

async fn a_failure_is_retried_later(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let started = rig.begin(&[id], "mine", T0, T0 + 4).await;
    let class = FailureClass::TlsUntrusted;
    let times = PhaseTimes {
        dns: Some(Duration::from_micros(1)),
        connect: Some(Duration::from_micros(2)),
        tls: Some(Duration::from_micros(3)),
        first_byte: Some(Duration::from_micros(4)),
        total: Duration::from_micros(5),
    };
    let report = Report {
        remote: Some("192.0.2.7:443".parse().expect("an address")),
        http_status: None,
        answer: Some("no".into()),
        explanation: Explanation::with(Some(Cause::CertificateForOtherName), "a.example"),
        times,
    };
    let other_name = Outcome::Failed(class, report);
    assert!(rig.finish(&started[0], "mine", &other_name, retry_at(T0 + 60_000), T0 + 3).await);
    let stored = rig.delivery(id).await;
    assert_eq!((stored.status, stored.attempt_count, stored.due_at_ms), (Status::Failed, 1, T0 + 60_000));
    assert_eq!((stored.failure_class, stored.finished_at_ms), (Some(class), None));
    assert_eq!(rig.lease(id).await, (None, None));
    let attempt = rig.attempts(id).await.remove(0);
    assert_eq!((attempt.failure_class, &attempt.failure()), (Some(class), &stored.failure()));
    assert_eq!((attempt.started_at_ms, attempt.finished_at_ms), (T0, Some(T0 + 3)));
    assert_eq!(attempt.remote_address.as_deref(), Some("192.0.2.7:443"));
    assert_eq!((attempt.http_status, attempt.response_body.as_deref()), (None, Some("no")));
    assert_eq!((attempt.dns_us, attempt.connect_us, attempt.tls_us), (Some(1), Some(2), Some(3)));
    assert_eq!((attempt.first_byte_us, attempt.total_us), (Some(4), Some(5)));
    let failure = stored.failure().expect("a failure");
    assert_eq!((failure.cause, failure.detail), (Some(Cause::CertificateForOtherName), Some("a.example")));
    // A newer version beside this one stores a class that this version does not know.
    for table in ["delivery_queue", "attempt_history"] {
        rig.run(&format!("UPDATE {table} SET failure_class = 'OfANewerVersion'")).await;
    }
    let unknown = Some(FailureClass::Unknown("OfANewerVersion"));
    assert_eq!(rig.delivery(id).await.failure_class, unknown);
    assert_eq!(rig.attempts(id).await[0].failure_class, unknown);
    for table in ["delivery_queue", "attempt_history"] {
        rig.run(&format!("UPDATE {table} SET failure_class = 'TlsUntrusted'")).await;
    }
    assert!(rig.begin(&[id], "mine", T0 + 59_999, T0 + 70_000).await.is_empty());
    let started = rig.begin(&[id], "mine", T0 + 60_000, T0 + 70_000).await;
    assert_eq!(started[0].attempt, 2);
    // The first attempt has ended, so it is not lost.
    assert_eq!(rig.attempts(id).await[0].failure_class, Some(class));
    assert_eq!(rig.delivery(id).await.status, Status::Failed);
}

async fn a_last_failure_is_a_dead_letter(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let started = rig.begin(&[id], "mine", T0, T0 + 4).await;
    assert!(
        rig.finish(&started[0], "mine", &failed(FailureClass::ServerError), Next::DeadLetter, T0 + 3).await
    );
    let stored = rig.delivery(id).await;
    assert_eq!((stored.status, stored.finished_at_ms), (Status::DeadLetter, Some(T0 + 3)));
    assert_eq!(stored.failure_class, Some(FailureClass::ServerError));
    assert_eq!(rig.attempts(id).await.len(), 1);
    let measured =
        "SELECT count(*) FROM delivery_history WHERE total_us IS NOT NULL OR started_at_ms IS NOT NULL";
    assert_eq!(rig.number(measured).await, 0, "its failed attempt has a row of its own");
    assert!(rig.begin(&[id], "mine", T0 + 100, T0 + 200).await.is_empty());
}

async fn the_second_attempt_clears_what_the_first_said(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let started = rig.begin(&[id], "mine", T0, T0 + 4).await;
    let report = Report { http_status: Some(500), answer: Some("oops".into()), ..Report::default() };
    let first = Outcome::Failed(FailureClass::ServerError, report);
    assert!(rig.finish(&started[0], "mine", &first, retry_at(T0 + 5), T0 + 1).await);
    let started = rig.begin(&[id], "mine", T0 + 5, T0 + 9).await;
    assert!(rig.finish(&started[0], "mine", &succeeded(), Next::Succeeded, T0 + 6).await);
    let stored = rig.delivery(id).await;
    assert_eq!((stored.failure_class, stored.http_status), (None, Some(204)));
    let attempts = rig.attempts(id).await;
    assert_eq!((attempts[0].http_status, attempts[0].response_body.as_deref()), (Some(500), Some("oops")));
    assert_eq!((attempts[1].http_status, attempts[1].response_body.as_deref()), (Some(204), None));
}

/// Simulates a commit whose result was lost.
async fn an_end_that_was_stored_already_is_ours(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    for (id, outcome, next) in
        [(ids[0], succeeded(), Next::Succeeded), (ids[1], failed(FailureClass::Dns), retry_at(T0 + 60_000))]
    {
        let started = rig.begin(&[id], "mine", T0, T0 + 4).await.remove(0);
        assert!(rig.finish(&started, "mine", &outcome, next, T0 + 1).await);
        let before = rig.picture(id).await;
        assert!(rig.finish(&started, "mine", &outcome, next, T0 + 2).await, "{outcome:?}");
        assert_eq!(rig.picture(id).await, before);
    }
}

async fn a_wrong_token_finishes_nothing(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let started = rig.begin(&[id], "mine", T0, T0 + 4).await.remove(0);
    let before = rig.picture(id).await;
    assert!(!rig.finish(&started, "theirs", &succeeded(), Next::Succeeded, T0 + 1).await);
    let of_another_batch = Lease::new(&owner("mine", "1"), 1, Duration::ZERO);
    let of_another_life = Lease::new(&owner("mine", "2"), 0, Duration::ZERO);
    for lease in [of_another_batch, of_another_life] {
        for (outcome, next) in [(succeeded(), Next::Succeeded), (failed(FailureClass::Dns), retry_at(T0 + 9))]
        {
            let end = lease.end(started.clone(), outcome);
            let ours = rig.write(async |t| deliveries::finish_attempt(t, &end, next, T0 + 1).await).await;
            assert!(!ours, "{lease:?} {next:?}");
        }
    }
    let unknown = Started { id: delivery_id(999), ..started };
    assert!(!rig.finish(&unknown, "mine", &succeeded(), Next::Succeeded, T0 + 1).await);
    assert_eq!(rig.picture(id).await, before);
}

async fn a_late_end_after_a_takeover_counts_for_nothing(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let late = rig.begin(&[id], "theirs", T0, T0 + 4).await.remove(0);
    let mine = rig.begin(&[id], "mine", T0 + 4, T0 + 8).await.remove(0);
    let before = rig.picture(id).await;
    assert!(!rig.finish(&late, "theirs", &succeeded(), Next::Succeeded, T0 + 5).await);
    assert_eq!(rig.picture(id).await, before);
    assert!(rig.finish(&mine, "mine", &failed(FailureClass::Refused), retry_at(T0 + 99), T0 + 6).await);
    let before = rig.picture(id).await;
    assert!(!rig.finish(&late, "theirs", &succeeded(), Next::Succeeded, T0 + 7).await);
    assert_eq!(rig.picture(id).await, before);
}

async fn end_lost(rig: &TenantDatabase, ids: &[DeliveryId]) -> (u64, u64) {
    let now = at(T0 + 4 + LATE_END_MS);
    rig.write(async |t| deliveries::end_lost_attempts(t, ids, Duration::ZERO, now).await).await
}

/// The second call waits for the first, and then finds nothing to end.
async fn a_lost_attempt_counts_once_when_two_find_it(rig: TenantDatabase) {
    let ids = rig.queued(2, T0).await;
    rig.begin(&ids, "dead", T0, T0 + 4).await;
    rig.run(&format!("UPDATE delivery_queue SET attempt_count = 5 WHERE id = '{}'", ids[1])).await;
    let calls = async { tokio::join!(end_lost(&rig, &ids), end_lost(&rig, &ids)) };
    let ((lost, dead), (lost_again, dead_again)) = rig.meeting(2, "delivery_queue", calls).await;
    assert_eq!((lost + lost_again, dead + dead_again), (2, 1));
}

async fn a_finish_counts_once(rig: TenantDatabase) {
    let id = rig.one_queued().await;
    let started = rig.begin(&[id], "mine", T0, T0 + 4).await.remove(0);
    assert!(rig.finish(&started, "mine", &succeeded(), Next::Succeeded, T0 + 1).await);
    let before = rig.picture(id).await;
    assert!(!rig.finish(&started, "mine", &failed(FailureClass::Dns), retry_at(T0 + 9), T0 + 2).await);
    assert_eq!(rig.picture(id).await, before);
}

async fn a_lease_is_kept_by_its_owner_only(rig: TenantDatabase) {
    let ids = rig.queued(3, T0).await;
    rig.begin(&ids[..1], "mine", T0, T0 + 4).await;
    rig.begin(&ids[1..2], "theirs", T0, T0 + 4).await;
    rig.write(async |t| deliveries::renew(t, &held(&lease("mine", 0), &ids), T0 + 100).await).await;
    assert_eq!(rig.lease(ids[0]).await, (Some("mine".into()), Some(T0 + 100)));
    assert_eq!(rig.lease(ids[1]).await, (Some("theirs".into()), Some(T0 + 4)));
    assert_eq!(rig.lease(ids[2]).await, (None, None));
    // Only the leases of the given deliveries are renewed, and none of a finished delivery.
    rig.write(async |t| deliveries::renew(t, &held(&lease("mine", 0), &ids[1..]), T0 + 200).await).await;
    assert_eq!(rig.lease(ids[0]).await, (Some("mine".into()), Some(T0 + 100)));
}

async fn sixty_leases_are_kept_in_one_call(rig: TenantDatabase) {
    let ids = rig.queued(60, T0).await;
    rig.begin(&ids, "mine", T0, T0 + 4).await;
    rig.write(async |t| deliveries::renew(t, &held(&lease("mine", 0), &ids), T0 + 100).await).await;
    let kept = format!("SELECT count(*) FROM delivery WHERE lease_until_ms = {}", T0 + 100);
    assert_eq!(rig.number(&kept).await, 60);
}
