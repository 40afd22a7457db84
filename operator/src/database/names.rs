//! Names in SQL: the role of a database, quoting, and the mark of ownership.

use sha2::{Digest, Sha256};

use super::DatabaseError;

/// PostgreSQL cuts longer names off, silently.
const LONGEST: usize = 63;

/// The role that owns a database: `<name>_app`.
///
/// Where that would be too long, or reserved by PostgreSQL, a hash stands for the end of the name, behind a `-`, which
/// the name of a Tenant's database never has: no two databases share a role.
pub fn role_of(database: &str) -> String {
    let short = format!("{database}_app");
    if short.len() <= LONGEST && !short.starts_with("pg_") {
        return short;
    }
    let hash = hex::encode(&Sha256::digest(database)[..8]);
    let room = LONGEST - "-_app".len() - hash.len();
    format!("{}-{hash}_app", &database[..database.floor_char_boundary(room)])
}

/// Errors: PostgreSQL would cut this name, or refuse it.
pub(super) fn check(database: &str) -> Result<(), DatabaseError> {
    let fits = (1..=LONGEST).contains(&database.len()) && !database.contains('\0');
    let reason = format!("spec.database.managed.name must have 1 to {LONGEST} bytes");
    if fits { Ok(()) } else { Err(DatabaseError::refused(reason)) }
}

/// An identifier as it is, whatever it holds.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as it is, whatever it holds.
pub(super) fn literal(text: &str) -> String {
    // E'': independent of standard_conforming_strings.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

const MARK: &str = "docket.dev/tenant-uid=";

/// The comment that says whose a database or role is.
pub(super) fn mark(owner_uid: &str) -> String {
    format!("{MARK}{owner_uid}")
}

/// The UID in a comment; `None`: it is no mark of ours.
pub(super) fn marked(comment: &str) -> Option<&str> {
    comment.strip_prefix(MARK).filter(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_its_databases_name_and_fits() {
        assert_eq!(role_of("tenant_acme"), "tenant_acme_app");
        assert_eq!(role_of(&"a".repeat(59)).len(), 63);
        let long: Vec<String> = ["b", "c"].map(|end| role_of(&("a".repeat(62) + end))).into();
        assert_ne!(long[0], long[1], "they differ in the last letter only");
        for role in &long {
            assert_eq!(role.len(), 63);
            assert!(role.contains('-'), "not the role of a short name: {role}");
        }
        assert!(role_of("pg").starts_with("pg-"), "pg_app is reserved");
        assert_eq!(role_of(&("x".to_owned() + &"ä".repeat(30))).len(), 62, "cut between letters");
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(literal(r"it's \"), r"E'it''s \\'");
    }

    #[test]
    fn a_mark_is_read_back() {
        assert_eq!(marked(&mark("8c1f")), Some("8c1f"));
        for other in ["", "our ERP", "docket.dev/tenant-uid="] {
            assert_eq!(marked(other), None, "{other}");
        }
    }
}
