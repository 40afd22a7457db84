//! Customers, contacts, employees, and the counters that give their codes.

use std::collections::BTreeSet;

use docket_domain::token::UserKind;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase};
use docket_store::contacts::{self, Contact};
use docket_store::employees::{self, Employee};
use docket_store::people::{self, Person};
use docket_store::{StoreError, next_number};

on_both_databases!(
    parameters_of_hashes_are_found_without_salts_and_outputs,
    customers_are_found_by_their_code,
    customers_are_listed_by_name_up_to_a_limit,
    customers_are_found_by_a_part_of_their_names,
    a_customer_code_is_taken_once,
    a_contact_is_found_by_its_address_in_any_case,
    a_user_is_found_however_an_accented_letter_is_written,
    a_contact_comes_back_as_it_was_stored,
    a_contact_conflicts_in_code_and_in_address,
    a_contact_needs_its_customer,
    an_employee_is_found_by_its_name_in_any_case,
    an_employee_conflicts_in_code_and_in_name,
    names_of_people_are_found_by_code,
    a_sign_out_changes_one_users_owner,
    a_password_is_set_for_one_user,
    users_are_listed_with_the_rights_that_were_set,
    numbers_are_unique_under_16_transactions_at_once,
    numbers_of_an_abandoned_transaction_are_given_again,
    an_unknown_counter_is_an_internal_error,
);

fn contact(code: &str) -> Contact {
    Contact {
        code: code.into(),
        customer_code: CUSTOMER.into(),
        name: "Zoë 🦊 O'Brien".into(),
        password_hash: Some("$argon2id$…".into()),
        active: true,
        sign_outs: 0,
        manages_webhooks: false,
    }
}

fn employee(code: &str) -> Employee {
    Employee {
        code: code.into(),
        name: "Ann".into(),
        password_hash: None,
        administrator: true,
        active: false,
        sign_outs: 0,
    }
}

fn user(kind: UserKind, code: &str) -> Person<'_> {
    Person { kind, code }
}

async fn add_contact(rig: &TenantDatabase, contact: &Contact, email: &str) -> Result<(), StoreError> {
    rig.try_write(async |t| contacts::insert_contact(t, contact, email, T0).await).await
}

async fn users_are_listed_with_the_rights_that_were_set(rig: TenantDatabase) {
    for (code, email) in [("2", "B@x.example"), ("1", "a@x.example")] {
        add_contact(&rig, &contact(code), email).await.expect("no one has them");
    }
    add_employee(&rig, &employee("9"), "Ann").await.expect("no one has it");
    let found = rig
        .try_write(async |t| {
            Ok([
                people::set_right(t, user(UserKind::Contact, "2"), true).await?,
                people::set_active(t, user(UserKind::Contact, "2"), false).await?,
                people::set_active(t, user(UserKind::Contact, "9"), false).await?,
                people::set_active(t, user(UserKind::Employee, "9"), true).await?,
                people::set_right(t, user(UserKind::Employee, "9"), false).await?,
                people::set_right(t, user(UserKind::Employee, "2"), false).await?,
            ])
        })
        .await
        .expect("statements");
    assert_eq!(found, [true, true, false, true, true, false]);
    let mut reader = rig.reader().await;
    let states = [
        people::state_of(&mut reader, user(UserKind::Contact, "2")).await.expect("a look-up"),
        people::state_of(&mut reader, user(UserKind::Employee, "9")).await.expect("a look-up"),
        people::state_of(&mut reader, user(UserKind::Employee, "2")).await.expect("a look-up"),
    ];
    let states = states.map(|found| found.map(|one| (one.name, one.has_right, one.active)));
    let state = |name: &str, has_right, active| Some((name.to_owned(), has_right, active));
    assert_eq!(states, [state("Zoë 🦊 O'Brien", true, false), state("Ann", false, true), None]);
    let listed = contacts::list(&mut reader, Some(CUSTOMER), None, 10).await.expect("a list");
    assert_eq!(listed[0].customer_name, "Smith & Partners");
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one.code.as_str(), one.email.as_str(), one.manages_webhooks, one.active))
        .collect();
    assert_eq!(listed, [("1", "a@x.example", false, true), ("2", "B@x.example", true, false)]);
    assert!(contacts::list(&mut reader, Some("none"), None, 10).await.expect("a list").is_empty());
    let first = contacts::list(&mut reader, None, None, 1).await.expect("a list");
    let next = contacts::list(&mut reader, None, Some(&first[0].email_key), 9).await.expect("a list");
    assert_eq!((&*first[0].code, &*next[0].code, first.len(), next.len()), ("1", "2", 1, 1));
    let listed = employees::list(&mut reader, None, 10).await.expect("a list");
    assert!(employees::list(&mut reader, Some(&listed[0].user_key), 10).await.expect("a list").is_empty());
    let listed: Vec<_> =
        listed.iter().map(|one| (one.user_name.as_str(), one.administrator, one.active)).collect();
    assert_eq!(listed, [("Ann", false, true)]);
    let found = contacts::find(&mut reader, "b@x.example").await.expect("a look-up").expect("it is there");
    assert_eq!(found.sign_outs, 1, "its tokens ended for good");
}

async fn add_employee(rig: &TenantDatabase, employee: &Employee, name: &str) -> Result<(), StoreError> {
    rig.try_write(async |t| employees::insert(t, employee, name, T0).await).await
}

async fn customers_are_found_by_their_code(rig: TenantDatabase) {
    let mut reader = rig.reader().await;
    assert!(contacts::customer_exists(&mut reader, CUSTOMER).await.expect("a statement"));
    assert!(!contacts::customer_exists(&mut reader, "smith").await.expect("a statement"));
}

/// More codes than one statement takes.
async fn names_of_people_are_found_by_code(rig: TenantDatabase) {
    for number in 0..30 {
        let code = format!("E{number}");
        let named = Employee { name: format!("Ann {number}"), ..employee(&code) };
        add_employee(&rig, &named, &format!("ann.{number}")).await.expect("a new employee");
    }
    add_contact(&rig, &contact("C1"), "ann@example.com").await.expect("a new contact");
    let codes: Vec<String> = (0..40).map(|number| format!("E{number}")).collect();
    let mut reader = rig.reader().await;
    let found = people::names(&mut reader, UserKind::Employee, &codes).await.expect("a statement");
    assert_eq!((found.len(), found["E29"].as_str()), (30, "Ann 29"));
    let both = ["C1".to_owned(), "E1".to_owned()];
    let found = people::names(&mut reader, UserKind::Contact, &both).await.expect("a statement");
    assert_eq!((found.len(), found["C1"].as_str()), (1, "Zoë 🦊 O'Brien"));
    assert!(people::names(&mut reader, UserKind::Contact, &[]).await.expect("no statement").is_empty());
}

async fn customers_are_listed_by_name_up_to_a_limit(rig: TenantDatabase) {
    for (code, name) in [("A-2", "öl"), ("A-1", "zoe"), ("A-3", "Anna")] {
        rig.write(async |t| contacts::insert_customer(t, code, name, T0).await).await;
    }
    let mut reader = rig.reader().await;
    // The limit leaves out the last code, which belongs to the rig's own customer.
    for (limit, codes) in [(3, &["A-3", "A-1", "A-2"][..]), (100, &["A-3", CUSTOMER, "A-1", "A-2"])] {
        let found = contacts::customers(&mut reader, limit).await.expect("a statement");
        assert_eq!(found.iter().map(|customer| &*customer.code).collect::<Vec<_>>(), codes);
    }
    let names = contacts::customer_names(&mut reader, &["A-2", "A-2", "none"]).await.expect("a statement");
    assert_eq!(names, [("A-2".to_owned(), "öl".to_owned())].into());
}

async fn a_customer_code_is_taken_once(rig: TenantDatabase) {
    let again = rig.try_write(async |t| contacts::insert_customer(t, CUSTOMER, "Other", T0).await).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    assert_eq!(rig.number("SELECT count(*) FROM customer").await, 1);
}

async fn a_contact_is_found_by_its_address_in_any_case(rig: TenantDatabase) {
    add_contact(&rig, &contact("C1"), "Ann@Example.com").await.expect("a new contact");
    add_contact(&rig, &contact("C2"), "JÖRG.ÅSTRÖM@EXÄMPLE.SE").await.expect("a new contact");
    let mut reader = rig.reader().await;
    for (typed, code) in [
        ("ann@example.com", Some("C1")),
        ("  ANN@EXAMPLE.COM\n", Some("C1")),
        ("jörg.åström@exämple.se", Some("C2")),
        ("JÖRG.åström@EXÄMPLE.se", Some("C2")),
        ("ann@example.co", None),
        ("ann@example.co_", None),
        ("", None),
    ] {
        let found = contacts::find(&mut reader, typed).await.expect("a statement");
        assert_eq!(found.map(|contact| contact.code).as_deref(), code, "{typed:?}");
    }
}

/// Older versions stored the address as the user typed it.
async fn a_user_is_found_however_an_accented_letter_is_written(rig: TenantDatabase) {
    let (one, two) = ("josé@x.example", "jose\u{301}@x.example");
    add_contact(&rig, &contact("C1"), two).await.expect("a new contact");
    add_employee(&rig, &employee("E1"), one).await.expect("a new employee");
    for kept in [one, two] {
        for sql in ["UPDATE contact SET email_key = $1", "UPDATE employee SET user_key = $1"] {
            rig.write(async |t| t.execute(sql, vec![kept.to_owned().into()]).await).await;
        }
        for typed in [one, two, "JOSÉ@X.example", "JOSE\u{301}@x.example"] {
            let mut reader = rig.reader().await;
            let contact =
                contacts::find(&mut reader, typed).await.expect("a statement").expect("it is there");
            let employee =
                employees::find(&mut reader, typed).await.expect("a statement").expect("it is there");
            assert_eq!((contact.code.as_str(), employee.code.as_str()), ("C1", "E1"), "{typed:?}");
            drop(reader);
            let again = add_contact(&rig, &self::contact("C2"), typed).await;
            assert!(matches!(again, Err(StoreError::Conflict)), "{typed:?}: {again:?}");
            let again = add_employee(&rig, &self::employee("E2"), typed).await;
            assert!(matches!(again, Err(StoreError::Conflict)), "{typed:?}: {again:?}");
            let changed =
                rig.write(async |t| people::set_password(t, UserKind::Contact, typed, "$other").await).await;
            assert_eq!(changed.as_deref(), Some("C1"));
            let mut reader = rig.reader().await;
            let code = people::code_of(&mut reader, UserKind::Employee, typed).await.expect("a look-up");
            assert_eq!(code.as_deref(), Some("E1"));
        }
    }
    // An older version has stored two such users. Each is found by its own address.
    rig.run(&format!(
        "INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms) \
         VALUES ('C9', '{CUSTOMER}', '{one}', '{one}', 'x', TRUE, 1)"
    ))
    .await;
    for (typed, code) in [(one, "C9"), (two, "C1"), ("jose@x.example", "")] {
        let found = contacts::find(&mut rig.reader().await, typed).await.expect("a statement");
        assert_eq!(found.map_or(String::new(), |contact| contact.code), code);
    }
}

async fn a_contact_comes_back_as_it_was_stored(rig: TenantDatabase) {
    let without_password =
        Contact { password_hash: None, active: false, manages_webhooks: true, ..contact("C2") };
    add_contact(&rig, &contact("C1"), "1@example.com").await.expect("a new contact");
    add_contact(&rig, &without_password, "2@example.com").await.expect("a new contact");
    let mut reader = rig.reader().await;
    for (address, stored) in [("1@example.com", contact("C1")), ("2@example.com", without_password)] {
        let found = contacts::find(&mut reader, address).await.expect("a statement").expect("it is there");
        let Contact { code, customer_code, name, password_hash, active, sign_outs: _, manages_webhooks } =
            found;
        assert_eq!((code, customer_code, name), (stored.code, stored.customer_code, stored.name));
        assert_eq!((password_hash, active), (stored.password_hash, stored.active));
        assert_eq!(manages_webhooks, stored.manages_webhooks);
    }
    let manages = async |code: &'static str, customer: &'static str| {
        contacts::manager(&mut rig.reader().await, code, customer).await.expect("a statement").is_some()
    };
    assert!(!manages("C1", CUSTOMER).await, "it has no mark");
    assert!(!manages("C2", CUSTOMER).await, "it is inactive");
    rig.write(async |t| t.execute("UPDATE contact SET active = TRUE", Vec::new()).await).await;
    assert!(manages("C2", CUSTOMER).await && !manages("C2", "OTHER").await);
}

async fn a_contact_conflicts_in_code_and_in_address(rig: TenantDatabase) {
    add_contact(&rig, &contact("C1"), "straße@example.com").await.expect("a new contact");
    for (code, address) in [("C1", "other@example.com"), ("C2", "STRAßE@example.com ")] {
        let again = add_contact(&rig, &contact(code), address).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{address}: {again:?}");
    }
}

async fn a_contact_needs_its_customer(rig: TenantDatabase) {
    let stranger = Contact { customer_code: "UNKNOWN".into(), ..contact("C1") };
    let result = add_contact(&rig, &stranger, "1@example.com").await;
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
}

async fn an_employee_is_found_by_its_name_in_any_case(rig: TenantDatabase) {
    add_employee(&rig, &employee("E1"), "Ånn.Smith").await.expect("a new employee");
    let mut reader = rig.reader().await;
    let found = employees::find(&mut reader, " åNN.sMITH").await.expect("a statement").expect("it is there");
    let Employee { code, name, password_hash, administrator, active, sign_outs: _ } = found;
    assert_eq!((code.as_str(), name.as_str(), password_hash), ("E1", "Ann", None));
    assert_eq!((administrator, active), (true, false));
    assert!(employees::find(&mut reader, "ann.smith").await.expect("a statement").is_none());
}

async fn an_employee_conflicts_in_code_and_in_name(rig: TenantDatabase) {
    add_employee(&rig, &employee("E1"), "ann").await.expect("a new employee");
    for (code, name) in [("E1", "bob"), ("E2", "ANN")] {
        let again = add_employee(&rig, &employee(code), name).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{name}: {again:?}");
    }
    // A contact may have an employee's name: they are different users.
    add_contact(&rig, &contact("E1"), "ann").await.expect("a new contact");
}

async fn a_sign_out_changes_one_users_owner(rig: TenantDatabase) {
    add_contact(&rig, &contact("C1"), "1@example.com").await.expect("a new contact");
    add_contact(&rig, &contact("C2"), "2@example.com").await.expect("a new contact");
    let active = Employee { active: true, ..employee("E1") };
    add_employee(&rig, &active, "ann").await.expect("a new employee");
    let owners = async || {
        let mut reader = rig.reader().await;
        let mut owners =
            people::owners(&mut reader, UserKind::Contact, &["C1", "C2"]).await.expect("a statement");
        owners.extend(people::owners(&mut reader, UserKind::Employee, &["E1"]).await.expect("a statement"));
        owners.sort_by(|a, b| a.0.cmp(&b.0));
        owners.into_iter().map(|(_, owner)| owner).collect::<Vec<_>>()
    };
    let before = owners().await;
    assert!(rig.write(async |t| people::end_tokens(t, user(UserKind::Contact, "C1")).await).await);
    let after = owners().await;
    assert_eq!([0, 1, 2].map(|place| before[place] == after[place]), [false, true, true]);
    assert!(rig.write(async |t| people::end_tokens(t, user(UserKind::Employee, "E1")).await).await);
    let last = owners().await;
    assert_eq!([0, 1, 2].map(|place| after[place] == last[place]), [true, true, false]);
    assert!(!rig.write(async |t| people::end_tokens(t, user(UserKind::Contact, "E1")).await).await);
    assert!(!rig.write(async |t| people::end_tokens(t, user(UserKind::Employee, "C1")).await).await);
    let mut reader = rig.reader().await;
    for (email, code) in [(" 1@EXAMPLE.com", Some("C1")), ("3@example.com", None), ("ann", None)] {
        assert_eq!(
            people::code_of(&mut reader, UserKind::Contact, email).await.expect("a look-up").as_deref(),
            code
        );
    }
    drop(reader);
    let found = contacts::find(&mut rig.reader().await, "1@example.com").await.expect("a statement");
    assert_eq!(found.map(|contact| contact.sign_outs), Some(1));
}

async fn a_password_is_set_for_one_user(rig: TenantDatabase) {
    add_contact(&rig, &contact("C1"), "1@example.com").await.expect("a new contact");
    add_contact(&rig, &contact("C2"), "2@example.com").await.expect("a new contact");
    add_employee(&rig, &employee("E1"), "ann").await.expect("a new employee");
    let of_contact =
        rig.write(async |t| people::set_password(t, UserKind::Contact, "1@EXAMPLE.com ", "new").await).await;
    let of_employee =
        rig.write(async |t| people::set_password(t, UserKind::Employee, "ANN", "newer").await).await;
    assert_eq!((of_contact.as_deref(), of_employee.as_deref()), (Some("C1"), Some("E1")));
    let mut reader = rig.reader().await;
    for (address, hash) in
        [("1@example.com", Some("new".to_owned())), ("2@example.com", contact("C2").password_hash)]
    {
        let found = contacts::find(&mut reader, address).await.expect("a statement").expect("it is there");
        assert_eq!(found.password_hash, hash, "{address}");
    }
    let ann = employees::find(&mut reader, "ann").await.expect("a statement").expect("it is there");
    assert_eq!(ann.password_hash.as_deref(), Some("newer"));
    drop(reader);
    assert_eq!(
        rig.write(async |t| people::set_password(t, UserKind::Contact, "3@example.com", "x").await).await,
        None
    );
    assert_eq!(
        rig.write(async |t| people::set_password(t, UserKind::Employee, "bob", "x").await).await,
        None
    );
}

async fn numbers_are_unique_under_16_transactions_at_once(rig: TenantDatabase) {
    let counting: Vec<_> = (0..16)
        .map(|_| {
            let database = rig.database.clone();
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                for _ in 0..5 {
                    let mut transaction = database.begin(&Clock::System).await.expect("a turn");
                    numbers.push(next_number(&mut transaction, "contact").await.expect("a counter"));
                    numbers.push(next_number(&mut transaction, "contact").await.expect("a counter"));
                    transaction.commit().await.expect("a commit");
                }
                numbers
            })
        })
        .collect();
    let mut numbers = BTreeSet::new();
    for counted in counting {
        numbers.extend(counted.await.expect("no panic"));
    }
    assert_eq!(numbers, (1001..=1160).collect());
}

async fn numbers_of_an_abandoned_transaction_are_given_again(rig: TenantDatabase) {
    let mut abandoned = rig.database.begin(&Clock::System).await.expect("a turn");
    assert_eq!(next_number(&mut abandoned, "employee").await.expect("a counter"), 101);
    drop(abandoned);
    assert_eq!(rig.write(async |t| next_number(t, "employee").await).await, 101);
}

async fn an_unknown_counter_is_an_internal_error(rig: TenantDatabase) {
    let result = rig.try_write(async |t| next_number(t, "no such counter").await).await;
    assert!(matches!(result, Err(StoreError::Unexpected(_))), "{result:?}");
}

async fn parameters_of_hashes_are_found_without_salts_and_outputs(rig: TenantDatabase) {
    let hashes = [
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdC5z-XQ/$AAAA+/AA",
        "$argon2id$v=19$m=19456,t=2,p=1$b3RoZXI$BBBB",
        "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$CCCC==",
        "$2b$12$aaaa",
        "!",
    ];
    for (number, hash) in hashes.iter().enumerate() {
        rig.run(&format!(
            "INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms)
               VALUES ('h{number}', '{CUSTOMER}', 'h{number}@x.example', 'h{number}@x.example', 'H', '{hash}', TRUE, 0)"
        ))
        .await;
    }
    rig.run(
        "INSERT INTO employee (code, user_name, user_key, name, password_hash, administrator, active, created_at_ms)
           VALUES ('h', 'h', 'h', 'H', '$argon2id$m=64,t=1,p=1$c2FsdA$DDDD', FALSE, TRUE, 0)",
    )
    .await;
    let mut found = contacts::hash_parameters(&mut rig.reader().await).await.expect("a statement");
    found.sort_unstable();
    let expected =
        ["$argon2id$m=64,t=1,p=1", "$argon2id$v=19$m=19456,t=2,p=1", "$argon2id$v=19$m=65536,t=3,p=4"];
    assert_eq!(found, expected);
}

async fn customers_are_found_by_a_part_of_their_names(rig: TenantDatabase) {
    for (code, name) in [("J", "Jones & Söhne"), ("K", "100% Legal"), ("L", "smithson")] {
        rig.write(async |t| contacts::insert_customer(t, code, name, T0).await).await;
    }
    let mut reader = rig.reader().await;
    for (text, expected) in [
        ("smith", &["SMITH", "L"][..]),
        ("JONES & SÖ", &["J"]),
        ("0% l", &["K"]),
        ("1__%", &[]),
        ("brown", &[]),
    ] {
        let found = contacts::customers_named(&mut reader, text, 10).await.expect("a statement");
        assert_eq!(found.iter().map(|one| one.code.as_str()).collect::<Vec<_>>(), expected, "{text}");
    }
    assert_eq!(contacts::customers_named(&mut reader, "s", 2).await.expect("a statement").len(), 2);
}
