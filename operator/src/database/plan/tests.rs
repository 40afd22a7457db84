use tokio::sync::Semaphore;

use super::super::observed::AdminRole;
use super::super::wanted::MigrationTurn;
use super::*;

const ROLE: &str = "acme_app";
const OURS: &str = "docket.dev/tenant-uid=u1 tenant=a/acme installation=i1";

/// The mark of a Tenant `uid` with the name and installation of these tests.
fn mark(uid: &str) -> String {
    OURS.replace("u1", uid)
}

fn role() -> TenantRole {
    TenantRole { comment: Some(mark("u1")), can_log_in: true, connection_limit: 50, lent_to_admin: true }
}

fn database() -> TenantDatabase {
    TenantDatabase {
        comment: Some(mark("u1")),
        owned_by_role: true,
        open: true,
        connection_limit: -1,
        public: false,
        role_connects: true,
        sessions: false,
    }
}

fn observed(role: Option<TenantRole>, database: Option<TenantDatabase>) -> Observed {
    let admin = AdminRole {
        name: "admin".to_owned(),
        superuser: false,
        creates_databases: true,
        creates_roles: true,
        inherits: true,
    };
    Observed { version: 150_000, admin, role, database }
}

fn step(observed: &Observed, adopt: bool) -> Result<Option<String>, DatabaseError> {
    let password = SecretString::from("hunter2");
    let places = Semaphore::new(1);
    let wanted = WantedDatabase {
        server: None,
        name: "acme",
        owner_uid: "u1",
        tenant: "a/acme",
        installation: "i1",
        adopt,
        connection_limit: 50,
        password: &password,
        known: None,
        migration: MigrationTurn { is_now: true, places: &places },
    };
    let step = next(observed, &wanted, ROLE)?;
    Ok(step.map(|step| step.sql))
}

#[track_caller]
fn foreign(observed: &Observed, what: &str) {
    for adopt in [false, true] {
        match step(observed, adopt) {
            Err(DatabaseError::NotOwned { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn unchanged_database_needs_no_step() {
    assert_eq!(step(&observed(Some(role()), Some(database())), false), Ok(None));
}

#[test]
fn missing_database_is_created_in_three_steps() {
    let first = step(&observed(None, None), false).unwrap().unwrap();
    assert!(
        first.starts_with("CREATE ROLE \"acme_app\" LOGIN CONNECTION LIMIT 50 PASSWORD E'SCRAM-SHA-256$")
    );
    assert!(
        first.ends_with(
            "; COMMENT ON ROLE \"acme_app\" IS E'docket.dev/tenant-uid=u1 tenant=a/acme installation=i1'; GRANT \"acme_app\" TO CURRENT_USER"
        ),
        "{first}"
    );
    assert!(!first.contains("hunter2"));
    let second = step(&observed(Some(role()), None), false).unwrap().unwrap();
    assert_eq!(
        second,
        "CREATE DATABASE \"acme\" OWNER \"acme_app\" TEMPLATE template0 ENCODING 'UTF8' ALLOW_CONNECTIONS false",
        "it stays closed until it is marked"
    );
    let half_made = TenantDatabase { comment: None, open: false, public: true, ..database() };
    assert_eq!(
        step(&observed(Some(role()), Some(half_made)), false).unwrap().unwrap(),
        "COMMENT ON DATABASE \"acme\" IS E'docket.dev/tenant-uid=u1 tenant=a/acme installation=i1'; \
         REVOKE ALL ON DATABASE \"acme\" FROM PUBLIC; ALTER DATABASE \"acme\" ALLOW_CONNECTIONS true"
    );
}

#[test]
fn each_difference_is_repaired() {
    let of_role = |role: TenantRole| step(&observed(Some(role), Some(database())), false).unwrap();
    let limited = "ALTER ROLE \"acme_app\" LOGIN CONNECTION LIMIT 50 VALID UNTIL 'infinity'";
    assert_eq!(of_role(TenantRole { can_log_in: false, ..role() }).as_deref(), Some(limited));
    assert_eq!(of_role(TenantRole { connection_limit: 51, ..role() }).as_deref(), Some(limited));
    assert_eq!(of_role(TenantRole { connection_limit: -1, ..role() }).as_deref(), Some(limited));
    let of_database = |database: TenantDatabase| step(&observed(Some(role()), Some(database)), false);
    let granted = "GRANT ALL ON DATABASE \"acme\" TO \"acme_app\"";
    let closed = TenantDatabase { role_connects: false, ..database() };
    assert_eq!(of_database(closed).unwrap().as_deref(), Some(granted));
    let given = TenantDatabase { owned_by_role: false, ..database() };
    let owned = "ALTER DATABASE \"acme\" OWNER TO \"acme_app\"";
    assert_eq!(of_database(given).unwrap().as_deref(), Some(owned));
    let half_dropped = TenantDatabase { connection_limit: -2, ..database() };
    assert!(of_database(half_dropped).unwrap_err().to_string().contains("half dropped"));
}

#[test]
fn database_without_a_mark_is_never_touched() {
    let unmarked =
        |comment: Option<&str>| TenantDatabase { comment: comment.map(str::to_owned), ..database() };
    let not_ours = |database: TenantDatabase| TenantDatabase { owned_by_role: false, ..database };
    foreign(&observed(None, Some(not_ours(unmarked(None)))), "database \"acme\"");
    foreign(&observed(Some(role()), Some(not_ours(unmarked(None)))), "database \"acme\"");
    foreign(&observed(Some(role()), Some(unmarked(Some("our ERP")))), "database \"acme\"");
    let other_role = TenantRole { comment: None, ..role() };
    foreign(&observed(Some(other_role.clone()), None), "role \"acme_app\"");
    foreign(&observed(Some(other_role.clone()), Some(unmarked(None))), "database \"acme\"");
    foreign(&observed(Some(other_role), Some(not_ours(database()))), "role \"acme_app\"");
}

#[test]
fn earlier_tenants_database_needs_the_annotation() {
    let theirs = observed(
        Some(TenantRole { comment: Some(mark("u0")), ..role() }),
        Some(TenantDatabase { comment: Some(mark("u0")), ..database() }),
    );
    let error = step(&theirs, false).unwrap_err().to_string();
    assert_eq!(
        error,
        "database \"acme\" exists and belongs to the Tenant with UID u0; to take it over, annotate this Tenant with \
         docket.dev/adopt-database=acme"
    );
    assert_eq!(
        step(&theirs, true).unwrap().unwrap(),
        "COMMENT ON ROLE \"acme_app\" IS E'docket.dev/tenant-uid=u1 tenant=a/acme installation=i1'; \
         COMMENT ON DATABASE \"acme\" IS E'docket.dev/tenant-uid=u1 tenant=a/acme installation=i1'"
    );
}

#[test]
fn other_tenants_database_needs_the_administrator() {
    for mark in [
        "docket.dev/tenant-uid=u0",
        "docket.dev/tenant-uid=u0 tenant=b/acme installation=i1",
        "docket.dev/tenant-uid=u0 tenant=a/acme installation=i0",
    ] {
        let comment = Some(mark.to_owned());
        let role = TenantRole { comment: comment.clone(), ..role() };
        let theirs = observed(Some(role.clone()), Some(TenantDatabase { comment, ..database() }));
        for adopt in [false, true] {
            let error = step(&theirs, adopt).unwrap_err().to_string();
            assert!(error.ends_with(&format!(": COMMENT ON DATABASE \"acme\" IS E'{OURS}'")), "{error}");
            assert!(!error.contains("adopt-database"), "{error}");
            let error = step(&observed(Some(role.clone()), None), adopt).unwrap_err().to_string();
            assert!(error.ends_with(&format!(": COMMENT ON ROLE \"acme_app\" IS E'{OURS}'")), "{error}");
        }
        let given = observed(Some(role), Some(database()));
        assert!(
            step(&given, false).unwrap().unwrap().starts_with("COMMENT ON ROLE"),
            "the rest is ours to do"
        );
    }
}

#[test]
fn old_mark_is_completed() {
    let old = Some("docket.dev/tenant-uid=u1".to_owned());
    let ours = observed(
        Some(TenantRole { comment: old.clone(), ..role() }),
        Some(TenantDatabase { comment: old, ..database() }),
    );
    let marks =
        format!("COMMENT ON ROLE \"acme_app\" IS E'{OURS}'; COMMENT ON DATABASE \"acme\" IS E'{OURS}'");
    assert_eq!(step(&ours, false), Ok(Some(marks)));
}

#[test]
fn missing_right_is_named() {
    let mut weak = observed(None, None);
    weak.admin.creates_roles = false;
    let words = |observed: &Observed| step(observed, false).unwrap_err().to_string();
    assert_eq!(
        words(&weak),
        "the database server refused: the admin role lacks CREATEROLE: ALTER ROLE \"admin\" CREATEROLE"
    );
    let mut weak = observed(Some(role()), None);
    weak.admin.creates_databases = false;
    assert!(words(&weak).contains("lacks CREATEDB"));
    let mut weak = observed(Some(TenantRole { lent_to_admin: false, ..role() }), None);
    weak.admin.inherits = false;
    assert!(words(&weak).contains("lacks INHERIT"));
    weak.version = 160_000;
    assert_eq!(
        step(&weak, false).unwrap().unwrap(),
        "GRANT \"acme_app\" TO CURRENT_USER WITH INHERIT TRUE, SET TRUE",
        "from 16 on it can be had without"
    );
    weak.version = 140_000;
    assert!(words(&weak).contains("PostgreSQL 15"));
}

#[test]
fn deletion_drops_only_the_tenants_own_database() {
    let next = |role: Option<TenantRole>, database: Option<TenantDatabase>, uid: &str| {
        let step = next_of_deletion(&observed(role, database), "acme", ROLE, uid);
        step.map(|next| match next {
            NextOfDeletion::Step(step) => Some(step.sql),
            NextOfDeletion::Nothing => None,
            NextOfDeletion::LockOut(why) => Some(format!("LOCK OUT: {why}")),
        })
    };
    let close = "ALTER DATABASE \"acme\" ALLOW_CONNECTIONS false".to_owned();
    assert_eq!(next(Some(role()), Some(database()), "u1"), Ok(Some(close.clone())));
    let closed = TenantDatabase { open: false, ..database() };
    let busy = TenantDatabase { sessions: true, ..closed.clone() };
    let ended = next(Some(role()), Some(busy), "u1").unwrap().unwrap();
    assert!(ended.starts_with("SELECT pg_terminate_backend("), "{ended}");
    assert_eq!(next(Some(role()), Some(closed), "u1"), Ok(Some("DROP DATABASE \"acme\"".to_owned())));
    assert_eq!(next(Some(role()), None, "u1"), Ok(Some("DROP ROLE \"acme_app\"".to_owned())));
    assert_eq!(next(None, None, "u1"), Ok(None));
    assert_eq!(next(Some(role()), None, "u2"), Ok(None), "another Tenant's role");
    assert!(matches!(next(Some(role()), Some(database()), "u2"), Err(DatabaseError::NotOwned { .. })));
    let foreign = TenantDatabase { comment: None, owned_by_role: false, ..database() };
    assert!(matches!(next(None, Some(foreign), "u1"), Err(DatabaseError::NotOwned { .. })));
    let commented =
        |comment: Option<&str>| TenantDatabase { comment: comment.map(str::to_owned), ..database() };
    for comment in [None, Some("mine"), Some("docket.dev/tenant-uid=u2 tenant=a/b installation=i1")] {
        assert_eq!(
            next(Some(role()), Some(commented(comment)), "u1"),
            Ok(Some(close.clone())),
            "{comment:?}"
        );
        let other = next(Some(role()), Some(commented(comment)), "u2");
        assert!(
            matches!(other, Err(DatabaseError::NotOwned { .. })),
            "a comment gives nothing away: {other:?}"
        );
    }
    let unmarked = TenantRole { comment: None, ..role() };
    assert_eq!(next(Some(unmarked), Some(database()), "u1"), Ok(Some(close.clone())), "as the database says");
    let given = TenantDatabase { owned_by_role: false, ..database() };
    let locked = next(Some(role()), Some(given), "u1").unwrap().unwrap();
    assert!(locked.starts_with("LOCK OUT: another role owns it"), "{locked}");
    let not_lent = TenantRole { lent_to_admin: false, ..role() };
    let lend = "GRANT \"acme_app\" TO CURRENT_USER".to_owned();
    assert_eq!(next(Some(not_lent), Some(database()), "u1"), Ok(Some(lend)));
}
