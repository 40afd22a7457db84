//! A tenth of all calls to the API server fails.

use std::time::{Duration, Instant};

use docket_tests::operator::{Release, tenant_yaml};

use super::settled::{Objects, Seen, on_server};

/// Draws the calls that fail, unless DOCKET_CALLS_SEED is another seed.
const SEED: u64 = 20_261_128;
const TENANTS: usize = 20;
/// How long all of it may take. A pass makes some ten calls, so half of the passes fail; the delay after a failure doubles.
const PATIENCE: Duration = Duration::from_secs(300);
/// The bound of failed passes, on average for each of a Tenant's three changes.
const FAILURES: f64 = 10.0;

/// What has been done to a Tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Made,
    Changed,
    Removed,
    Gone,
}

fn name(number: usize) -> String {
    format!("failing{number:02}")
}

/// The database of every second Tenant is deleted with the Tenant.
fn is_dropped(number: usize) -> bool {
    number.is_multiple_of(2)
}

fn yaml(number: usize, rotation: u8) -> String {
    let name = name(number);
    let policy = if is_dropped(number) { "Delete" } else { "Retain" };
    let limit = 20 + rotation;
    tenant_yaml(&name)
        .replace("generate: {}", &format!("generate: {{rotationGeneration: {rotation}}}"))
        .replace(
            &format!("{{name: tenant_{name}}}"),
            &format!("{{name: tenant_{name}, connectionLimit: {limit}, deletionPolicy: {policy}}}"),
        )
}

/// Does the next thing to a Tenant, once the last one is done.
fn proceed(release: &Release, seen: &Seen, number: usize, step: Step) -> Step {
    match step {
        Step::Made if seen.is_settled() => {
            release.apply(&yaml(number, 1));
            Step::Changed
        }
        Step::Changed if seen.is_settled() => {
            release.kubectl(&["delete", "tenant", &name(number), "--wait=false"]);
            Step::Removed
        }
        Step::Removed if seen.is_removed() => Step::Gone,
        unfinished => unfinished,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_end_right_although_a_tenth_of_the_calls_fails() {
    let mut release = Release::new("failing");
    let admin = release.with_postgres().await;
    let gate = release.with_gate().await;
    gate.allow_all();
    let operator = release.start().await;
    operator.leads().await;
    let given = std::env::var_os("DOCKET_CALLS_SEED");
    let seed = given.map_or(SEED, |text| text.to_str().and_then(|text| text.parse().ok()).expect("a number"));
    println!("the calls that fail are drawn from seed {seed}");
    gate.fail_a_tenth(Some(seed));

    release.apply(&(0..TENANTS).map(|number| yaml(number, 0)).collect::<String>());
    let mut steps = [Step::Made; TENANTS];
    let begun = Instant::now();
    while steps.iter().any(|step| *step != Step::Gone) {
        let objects = Objects::of(&release);
        for (number, step) in steps.iter_mut().enumerate() {
            *step = proceed(&release, &objects.about(&name(number)), number, *step);
        }
        assert!(begun.elapsed() < PATIENCE, "{steps:?}: {}", release.logs());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (calls, failed) = gate.failed();
    println!("{failed} of {calls} calls failed; {} s", begun.elapsed().as_secs());
    println!("counted: {TENANTS} random histories");
    assert!(failed as f64 > calls as f64 / 20.0, "{failed} of {calls}");

    for number in 0..TENANTS {
        let left = on_server(&admin, &name(number)).await;
        assert_eq!(left.len(), if is_dropped(number) { 0 } else { 2 }, "{}: {left:?}", name(number));
    }
    let failures =
        operator.metric("docket_operator_reconcile_total{kind=\"Tenant\",result=\"failed\"}").await;
    assert!(failures < FAILURES * 3.0 * TENANTS as f64, "{failures} failed passes");
    assert_eq!(
        operator.metric("docket_operator_reconcile_total{kind=\"Tenant\",result=\"panicked\"}").await,
        0.0
    );
}
