//! Signing secrets that a folder generates, and keeps while deliveries may wait.

use std::os::unix::fs::PermissionsExt;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn generating(name: &str, more: &str) -> String {
    webhook(name, "acme", &format!("{URL}, generateSecret: {{{more}}}"))
}

#[track_caller]
fn signing_secret(loaded: &Declaration) -> Vec<u8> {
    let webhooks = &of(loaded, "acme").runtime.config.webhooks;
    webhooks[0].secret.as_ref().unwrap().expose().to_vec()
}

#[test]
fn generated_signing_secret_survives_a_restart() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    assert!(first.len() == 64 && first.iter().all(u8::is_ascii_hexdigit));
    assert_eq!(fs::metadata(case.keys("ACME")).unwrap().permissions().mode() & 0o777, 0o600);
    case.restart();
    assert_eq!(signing_secret(&case.load()), first);

    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    let rotated = signing_secret(&case.load());
    assert_ne!(rotated, first);
    case.write("w.yaml", &generating("w", ""));
    assert_eq!(signing_secret(&case.load()), rotated, "lowering the number brings nothing back");
}

#[track_caller]
fn signing_secrets(loaded: &Declaration) -> Vec<Vec<u8>> {
    let webhooks = &of(loaded, "acme").runtime.config.webhooks;
    webhooks[0].secrets().into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn secret_of_another_customers_webhook_signs_for_no_one() {
    let next = generating("w", "next: true");
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &next)]);
    let first = signing_secrets(&case.load());
    // A process that runs refuses the change. A process that starts does not know of the earlier customer.
    case.restart();
    case.write("w.yaml", &next.replace("C-1", "C-2"));
    let others = signing_secrets(&case.load());
    assert!(others.len() == 2 && others.iter().all(|secret| !first.contains(secret)));
    case.restart();
    case.write("w.yaml", &next);
    assert_eq!(
        signing_secrets(&case.load()),
        first,
        "the first customer's deliveries wait, and sign as before"
    );
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &next.replace("C-1", "C-2"));
    assert_eq!(signing_secrets(&case.load()), others);
}

#[test]
fn next_signing_secret_takes_the_place_of_the_current_one() {
    let secrets = signing_secrets;
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = secrets(&case.load());
    assert_eq!(first.len(), 1);
    case.write("w.yaml", &generating("w", "next: true"));
    let both = secrets(&case.load());
    assert!(both.len() == 2 && both[0] == first[0] && both[1] != first[0]);
    case.restart();
    assert_eq!(secrets(&case.load()), both);
    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    assert_eq!(secrets(&case.load()), both[1..]);

    case.write("w.yaml", &generating("w", "rotationGeneration: 1, next: true"));
    assert_eq!(secrets(&case.load()).len(), 2);
    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    assert_eq!(secrets(&case.load()), both[1..], "the next one is dropped");
}

#[test]
fn generated_signing_secret_stays_after_a_mistake() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    let broken = [webhook("w", "acme", &format!("{BAD_URL}, generateSecret: {{}}")), "kind: [".to_owned()];
    for broken in broken {
        case.restart();
        case.write("w.yaml", &broken);
        case.load();
        assert!(!stored(&case).contains("unusedSecrets"), "after {broken}");
        case.write("w.yaml", &generating("w", ""));
        assert_eq!(signing_secret(&case.load()), first, "after {broken}");
    }
}

fn stored(case: &Case) -> String {
    fs::read_to_string(case.keys("ACME")).unwrap()
}

/// What is queued for it is sent when it is put back, to a receiver that has this secret.
#[test]
fn generated_signing_secret_is_kept_while_deliveries_may_wait_for_the_webhook() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", "next: true"))]);
    let first = signing_secrets(&case.load());
    assert_eq!(first.len(), 2);
    for back in ["put back", "put back after a restart", "signed again"] {
        let gone = if back == "signed again" { webhook("w", "acme", URL) } else { String::new() };
        case.write("w.yaml", &gone);
        case.load();
        case.clock.advance(GRACE + DAY - Duration::from_secs(1));
        if back.ends_with("restart") {
            case.restart();
        }
        let left = case.load();
        assert!(webhooks(of(&left, "acme")).is_empty() || back == "signed again");
        case.write("w.yaml", &generating("w", "next: true"));
        assert_eq!(signing_secrets(&case.load()), first, "{back}");
        assert!(!stored(&case).contains("unusedSecrets"), "{back}");
    }
    // Rotated meanwhile, as an edit would.
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &generating("w", "rotationGeneration: 1"));
    assert_eq!(signing_secrets(&case.load()), first[1..]);
}

/// From its own generation: the documents of Git don't know how often someone has rotated by hand.
#[test]
fn webhook_that_was_put_back_rotates_by_its_own_generation() {
    let rotated = generating("w", "rotationGeneration: 1");
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &rotated)]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &generating("w", "next: true"));
    let both = signing_secrets(&case.load());
    assert_eq!(both[0], first);
    case.write("w.yaml", &rotated);
    assert_eq!(signing_secrets(&case.load()), both[1..]);
}

/// Users of the portal can add and remove webhooks all day.
#[test]
fn of_too_many_kept_signing_secrets_the_oldest_end() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    for number in 0..=docket_crds::kept::MOST {
        case.clock.advance(Duration::from_secs(1));
        case.write("w.yaml", &generating(&format!("w{number}"), ""));
        case.load();
    }
    let kept = stored(&case).matches("\"since\"").count();
    assert_eq!(kept, docket_crds::kept::MOST);
    case.write("w.yaml", &generating("w", ""));
    assert_ne!(signing_secret(&case.load()), first);
}

#[test]
fn kept_signing_secret_ends_by_itself_and_costs_no_write_before() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    let kept = stored(&case);
    assert!(kept.contains("unusedSecrets") && !kept.contains("webhookSecrets"), "{kept}");
    case.clock.advance(GRACE + DAY - Duration::from_secs(1));
    assert!(!case.changed());
    case.load();
    assert_eq!(stored(&case), kept);
    // A command reads the folder and does not know the grace.
    case.clock.advance(Duration::from_secs(1));
    Folder::new(case.root.join("config"), case.root.join("data")).load(&mut random()).unwrap();
    assert_eq!(stored(&case), kept);
    assert!(case.changed(), "it ends although no file changes");
    case.load();
    assert!(!stored(&case).contains("unusedSecrets"));
    assert!(!case.changed());
    case.write("w.yaml", &generating("w", ""));
    assert_ne!(signing_secret(&case.load()), first);
}

/// While a tenant is suspended, its deliveries wait without a limit.
#[test]
fn kept_signing_secret_does_not_end_while_its_tenant_is_suspended() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "")), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    case.write("a.yaml", &tenant("acme", "suspend: true"));
    case.load();
    case.clock.advance(DAY * 100);
    assert!(!case.changed());
    case.load();
    case.write("a.yaml", &tenant("acme", ""));
    case.load();
    case.clock.advance(GRACE);
    case.write("w.yaml", &generating("w", ""));
    assert_eq!(signing_secret(&case.load()), first);
}

#[test]
fn signing_secret_is_never_given_to_another_tenant() {
    let both = tenant("acme", "") + &tenant("globex", "");
    let mut case = Case::with(&[("a.yaml", &both), ("w.yaml", &generating("w", ""))]);
    let first = signing_secret(&case.load());
    case.write("w.yaml", "");
    case.load();
    case.write("w.yaml", &generating("w", "").replace("name: acme}", "name: globex}"));
    let loaded = case.load();
    let theirs = &of(&loaded, "globex").runtime.config.webhooks[0];
    assert_ne!(theirs.secret.as_ref().unwrap().expose(), first);
    case.restart();
    case.write("w.yaml", &generating("w", ""));
    assert_eq!(signing_secret(&case.load()), first);
}
