//! Signing secrets of Webhooks.

use std::sync::Arc;

use super::*;
use crate::state::declared::DeclaredKind;

fn webhook(namespace: &str, spec: &str) -> Arc<Declared<Webhook>> {
    let object = format!(
        "{{metadata: {{name: orders, namespace: {namespace}, uid: uid-w}}, spec: {{tenantRef: {{name: acme}}, \
         customerCode: C, targetURL: 'https://h/', events: [order.created], {spec}}}}}"
    );
    Declared::<Webhook>::read(serde_saphyr::from_str(&object).unwrap()).unwrap()
}

#[test]
fn next_signing_secret_is_kept_then_promoted_or_dropped() {
    let tenant = declared().meta.clone();
    let plan = |spec: &str, found: Option<&Secret>, byte: u8| {
        let wanted = of_webhook(&tenant, &webhook("tenants", &format!("generateSecret: {{{spec}}}")), true);
        wanted.unwrap().plan(found, None, &tenant, NOW, &mut |bytes| bytes.fill(byte)).unwrap()
    };
    let filled = |byte: &str| SecretBytes::from(byte.repeat(32).into_bytes());
    let first = plan("", None, 1).secret;
    let made = plan("next: true", Some(&first), 2);
    assert_eq!(
        (made.step, &made.value, &made.next),
        (SecretStep::Replace, &filled("01"), &Some(filled("02")))
    );
    assert_eq!(made.event.unwrap().reason.as_str(), "SecretMade");
    let kept = plan("next: true", Some(&made.secret), 3);
    assert_eq!((kept.step, kept.event, kept.next), (SecretStep::Keep, None, Some(filled("02"))));

    let promoted = plan("rotationGeneration: 1", Some(&made.secret), 3);
    assert_eq!((promoted.value, promoted.next), (filled("02"), None));
    assert!(!promoted.secret.data.unwrap().contains_key(NEXT_SECRET));
    let again = plan("rotationGeneration: 1, next: true", Some(&made.secret), 3);
    assert_eq!((again.value, again.next), (filled("02"), Some(filled("03"))));

    let dropped = plan("", Some(&made.secret), 3);
    assert_eq!((dropped.step, dropped.value, dropped.next), (SecretStep::Replace, filled("01"), None));
    assert!(!dropped.secret.data.unwrap().contains_key(NEXT_SECRET));
}

#[test]
fn secret_of_another_customers_webhook_signs_for_no_one() {
    let tenant = declared().meta.clone();
    let plan = |customer: &str, found: Option<&Secret>, byte: u8| {
        let mut webhook = webhook("tenants", "generateSecret: {next: true}");
        let declared = Arc::make_mut(&mut webhook);
        declared.document.as_mut().unwrap().spec.customer_code = customer.to_owned();
        let wanted = of_webhook(&tenant, &webhook, true).unwrap();
        let current = found.and_then(|found| wanted.value(found, &tenant));
        (wanted.plan(found, None, &tenant, NOW, &mut |bytes| bytes.fill(byte)).unwrap(), current)
    };
    let first = plan("C-1", None, 1).0.secret;
    let (kept, current) = plan("C-1", Some(&first), 2);
    assert_eq!((kept.step, current.as_ref()), (SecretStep::Keep, Some(&kept.value)), "also after a restore");
    let (other, current) = plan("C-2", Some(&first), 2);
    assert_eq!((other.step, current), (SecretStep::Replace, None));
    let made = SecretBytes::from("02".repeat(32).into_bytes());
    assert_eq!((&other.value, &other.next), (&made, &Some(made.clone())));
    let event = other.event.unwrap();
    assert!(event.warning && event.note.contains("was made for another customer"), "{event:?}");
}

/// A Webhook with a generated secret, as it is declared by a customer.
fn generating(uid: &str, customer: &str, spec: &str) -> Arc<Declared<Webhook>> {
    let mut webhook = webhook("tenants", &format!("generateSecret: {{{spec}}}"));
    let declared = Arc::make_mut(&mut webhook);
    declared.meta.uid = uid.to_owned();
    declared.document.as_mut().unwrap().spec.customer_code = customer.to_owned();
    webhook
}

fn plan_for(
    tenant: &Meta,
    webhook: &Declared<Webhook>,
    found: Option<&Secret>,
    aside: Option<&Secret>,
    byte: u8,
) -> PlannedSecret {
    let wanted = of_webhook(tenant, webhook, false).unwrap();
    wanted.plan(found, aside, tenant, NOW, &mut |bytes| bytes.fill(byte)).unwrap()
}

fn owners(secret: &Secret) -> Vec<&str> {
    secret.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str()).collect()
}

#[test]
fn recreated_webhook_signs_with_the_kept_values_and_says_so() {
    let tenant = declared().meta.clone();
    let spec = "rotationGeneration: 2, next: true";
    let made = plan_for(&tenant, &generating("1", "C-1", spec), None, None, 1);
    let unused = kept::marked(made.secret.clone(), Some(NOW)).unwrap();
    let again = generating("2", "C-1", spec);
    let taken = plan_for(&tenant, &again, Some(&unused), None, 2);
    assert_eq!((taken.step, &taken.value, &taken.next), (SecretStep::Replace, &made.value, &made.next));
    assert_eq!(kept::mark_of(&taken.secret.metadata), None);
    assert_eq!(owners(&taken.secret), ["uid-acme", "2"], "the earlier Webhook is gone");
    let event = taken.event.unwrap();
    assert_eq!(event.reason.as_str(), "SecretKept");
    assert!(event.note.contains("was kept since 1970-01-01T00:00:00Z") && !event.warning, "{event:?}");
    let kept = plan_for(&tenant, &again, Some(&taken.secret), None, 3);
    assert_eq!((kept.step, kept.event, kept.set_aside), (SecretStep::Keep, None, None));
    // The Secret comes back before any pass has seen that it was gone.
    let quick = plan_for(&tenant, &again, Some(&made.secret), None, 2);
    assert_eq!((quick.step, quick.value, quick.event), (SecretStep::Replace, made.value, None));
}

#[test]
fn generation_that_was_lowered_and_raised_again_rotates_nothing() {
    let tenant = declared().meta.clone();
    let plan = |generation: u8, found: Option<&Secret>| {
        let webhook = generating("1", "C-1", &format!("rotationGeneration: {generation}"));
        plan_for(&tenant, &webhook, found, None, generation)
    };
    let made = plan(2, None).secret;
    assert_eq!(plan(0, Some(&made)).step, SecretStep::Keep);
    let recreated = plan(0, kept::marked(made.clone(), Some(NOW)).as_ref()).secret;
    assert_eq!(plan(2, Some(&recreated)).step, SecretStep::Keep);
    assert_eq!(plan(3, Some(&recreated)).value.expose(), "03".repeat(32).as_bytes());
}

#[test]
fn recreated_webhook_rotates_by_its_own_generation() {
    let tenant = declared().meta.clone();
    let plan = |uid: &str, spec: &str, found: Option<&Secret>, byte: u8| {
        plan_for(&tenant, &generating(uid, "C-1", spec), found, None, byte)
    };
    let made = plan("1", "rotationGeneration: 1", None, 1).secret;
    let again = plan("2", "", Some(&made), 2);
    assert_eq!(again.value.expose(), "01".repeat(32).as_bytes());
    let begun = plan("2", "next: true", Some(&again.secret), 3);
    let promoted = plan("2", "rotationGeneration: 1", Some(&begun.secret), 4);
    assert_eq!(promoted.value.expose(), "03".repeat(32).as_bytes());
    assert_eq!(promoted.event.unwrap().reason.as_str(), "SecretRotated");
}

#[test]
fn secret_of_an_earlier_version_is_written_once() {
    let tenant = declared().meta.clone();
    let webhook = generating("1", "C-1", "");
    let mut earlier = plan_for(&tenant, &webhook, None, None, 1).secret;
    earlier.metadata.owner_references = Some(vec![kept::owner(Webhook::KIND, "orders", "1")]);
    let adopted = plan_for(&tenant, &webhook, Some(&earlier), None, 2);
    assert_eq!((adopted.step, &adopted.event), (SecretStep::Replace, &None));
    assert_eq!(adopted.secret.data, earlier.data);
    assert_eq!(owners(&adopted.secret), ["1", "uid-acme"]);
    assert_eq!(plan_for(&tenant, &webhook, Some(&adopted.secret), None, 3).step, SecretStep::Keep);
}

#[test]
fn value_of_an_earlier_customer_is_set_aside_and_comes_back_to_that_customer_alone() {
    let tenant = declared().meta.clone();
    let (one, two) = (generating("1", "C-1", "next: true"), generating("2", "C-2", "next: true"));
    let first = plan_for(&tenant, &one, None, None, 1);
    let second = plan_for(&tenant, &two, Some(&first.secret), None, 2);
    let aside = second.set_aside.unwrap();
    let name = of_webhook(&tenant, &one, false).unwrap().aside(&tenant).unwrap();
    assert_eq!(aside.metadata.name.as_ref(), Some(&name.name));
    assert_eq!(second.value.expose(), "02".repeat(32).as_bytes());

    let back =
        plan_for(&tenant, &generating("3", "C-1", "next: true"), Some(&second.secret), Some(&aside), 3);
    assert_eq!((back.step, &back.value, &back.next), (SecretStep::Replace, &first.value, &first.next));
    assert!(back.ends_aside && !first.ends_aside && !second.ends_aside);
    assert_eq!(back.event.unwrap().reason.as_str(), "SecretKept");
    let kept = back.set_aside.unwrap();
    assert_eq!(kept.metadata.annotations.unwrap()[labels::CUSTOMER], "C-2");
    assert_eq!(value_at(&second.secret, SIGNING_SECRET).unwrap().as_bytes(), second.value.expose());
    // Where the Secret itself is gone, and to no one else.
    let alone = plan_for(&tenant, &one, None, Some(&aside), 4);
    assert_eq!((alone.step, &alone.value), (SecretStep::Create, &first.value));
    assert_eq!(alone.secret.metadata.name.as_deref(), Some("orders.signing-secret"));
    let other = plan_for(&tenant, &generating("4", "C-3", ""), None, Some(&aside), 4);
    assert_eq!((other.value.expose(), other.ends_aside), ("04".repeat(32).as_bytes(), false));
}

/// The operator may die after it has written the Webhook's own Secret, and before it deletes the copy.
#[test]
fn copy_that_outlived_its_return_ends_before_it_can_return_again() {
    let tenant = declared().meta.clone();
    let webhook = generating("1", "C-1", "next: true");
    let first = plan_for(&tenant, &webhook, None, None, 1).secret;
    let aside = plan_for(&tenant, &generating("2", "C-2", ""), Some(&first), None, 2).set_aside;
    let back = plan_for(&tenant, &webhook, None, aside.as_ref(), 3).secret;
    let again = plan_for(&tenant, &webhook, Some(&back), aside.as_ref(), 4);
    assert_eq!((again.step, again.ends_aside), (SecretStep::Keep, true));
    let rotating = generating("1", "C-1", "rotationGeneration: 1, next: true");
    let rotated = plan_for(&tenant, &rotating, Some(&back), aside.as_ref(), 4);
    assert_eq!((rotated.step, rotated.ends_aside), (SecretStep::Replace, true));
}

#[test]
fn value_of_another_tenants_webhook_is_set_aside_for_that_tenant() {
    let acme = declared().meta.clone();
    let beta = Meta { name: Name::new("tenants", "beta"), uid: "uid-beta".into(), ..acme.clone() };
    let webhook = generating("1", "C-1", "");
    let first = plan_for(&acme, &webhook, None, None, 1);
    let theirs = plan_for(&beta, &webhook, Some(&first.secret), None, 2);
    assert_eq!((theirs.step, theirs.value.expose()), (SecretStep::Replace, "02".repeat(32).as_bytes()));
    assert_eq!(owners(&theirs.secret), ["1", "uid-beta"]);
    let event = theirs.event.unwrap();
    assert!(event.warning && event.note.contains("was made for another Tenant"), "{event:?}");
    let aside = theirs.set_aside.unwrap();
    assert_eq!(owners(&aside), ["uid-acme"]);
    let back = plan_for(&acme, &webhook, Some(&theirs.secret), Some(&aside), 3);
    assert_eq!(back.value, first.value);
    let not_theirs = plan_for(&beta, &webhook, None, Some(&aside), 4);
    assert_eq!(not_theirs.value.expose(), "04".repeat(32).as_bytes());
}

#[test]
fn signing_secret_belongs_to_its_webhook_in_the_tenants_namespace() {
    let tenant = declared().meta.clone();
    let of = |webhook: &Declared<Webhook>| of_webhook(&tenant, webhook, false);
    let wanted = of(&webhook("tenants", "generateSecret: {}")).unwrap();
    let made = wanted.plan(None, None, &tenant, NOW, &mut |bytes| bytes.fill(7)).unwrap();
    assert_eq!(made.secret.metadata.name.as_deref(), Some("orders.signing-secret"));
    assert_eq!(made.secret.data.unwrap()[SIGNING_SECRET].0, "07".repeat(32).as_bytes());
    assert_eq!(made.secret.metadata.labels.unwrap()[labels::TENANT_UID], tenant.uid);
    let owners = made.secret.metadata.owner_references.unwrap();
    let owners: Vec<_> = owners.iter().map(|owner| (owner.kind.as_str(), owner.uid.as_str())).collect();
    assert_eq!(owners, [("Webhook", "uid-w"), ("Tenant", "uid-acme")]);
    for nothing in [
        webhook("elsewhere", "generateSecret: {}"),
        webhook("tenants", "active: true"),
        webhook("tenants", "generateSecret: {}, secretRef: {name: s}"),
    ] {
        assert!(of(&nothing).is_none(), "{nothing:?}");
    }
}

#[test]
fn secret_of_a_user_in_the_place_of_a_kept_one_is_named() {
    let tenant = declared().meta.clone();
    let first = plan_for(&tenant, &generating("1", "C-1", ""), None, None, 1);
    let two = generating("2", "C-2", "");
    let kept = plan_for(&tenant, &two, Some(&first.secret), None, 2).set_aside.unwrap();
    let reason = of_webhook(&tenant, &two, false).unwrap().is_not_set_aside(&kept).to_string();
    let name = kept.metadata.name.unwrap();
    let beginning = format!("SecretInvalid: spec.generateSecret: Secret tenants/{name} exists and ");
    assert!(reason.starts_with(&beginning) && reason.ends_with("another name for the Webhook"), "{reason}");
}
