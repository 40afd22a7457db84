//! Names in SQL: a database's role, quoting, and the comment that marks ownership.

use sha2::{Digest, Sha256};

use super::error::DatabaseError;

/// The longest name, in bytes. PostgreSQL silently truncates longer names.
const LONGEST: usize = 63;

/// The role that owns a database: `<name>_app`.
///
/// If that name is too long or reserved by PostgreSQL, a `-` and a hash replace its end. The name of a Tenant's
/// database never contains a `-`, so two databases never have the same role.
pub fn role_of(database: &str) -> String {
    let short = format!("{database}_app");
    if short.len() <= LONGEST && !short.starts_with("pg_") {
        return short;
    }
    let hash = hex::encode(&Sha256::digest(database)[..8]);
    let room = LONGEST - "-_app".len() - hash.len();
    format!("{}-{hash}_app", &database[..database.floor_char_boundary(room)])
}

/// Errors: PostgreSQL would truncate or refuse this name.
pub(super) fn check(database: &str) -> Result<(), DatabaseError> {
    let fits = (1..=LONGEST).contains(&database.len()) && !database.contains('\0');
    let reason = format!("spec.database.managed.name must have 1 to {LONGEST} bytes");
    if fits { Ok(()) } else { Err(DatabaseError::refused(reason)) }
}

/// Quotes an identifier for SQL.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text for SQL.
pub(super) fn literal(text: &str) -> String {
    // The meaning of E'' does not depend on standard_conforming_strings.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

const MARK: &str = "docket.dev/tenant-uid=";

/// The comment on a database or role that names its Tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark<'a> {
    /// The Tenant's UID.
    pub(super) uid: &'a str,
    /// The Tenant's `namespace/name` and installation; `None` in marks of earlier versions.
    pub(super) of: Option<(&'a str, &'a str)>,
}

impl<'a> Mark<'a> {
    pub(super) fn new(uid: &'a str, tenant: &'a str, installation: &'a str) -> Self {
        Self { uid, of: Some((tenant, installation)) }
    }

    /// Reads a comment. `None`: the comment is not a mark of Docket.
    pub(super) fn read(comment: &'a str) -> Option<Self> {
        let mut fields = comment.strip_prefix(MARK)?.split(' ');
        let uid = fields.next().filter(|uid| !uid.is_empty())?;
        let mut field = |name: &str| fields.next()?.strip_prefix(name);
        let of = field("tenant=").and_then(|tenant| Some((tenant, field("installation=")?)));
        Some(Self { uid, of })
    }
}

impl std::fmt::Display for Mark<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{MARK}{}", self.uid)?;
        match self.of {
            Some((tenant, installation)) => write!(f, " tenant={tenant} installation={installation}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_name_derives_from_the_database_and_fits() {
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
    fn quoting_doubles_quotes_and_backslashes() {
        assert_eq!(identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(literal(r"it's \"), r"E'it''s \\'");
    }

    #[test]
    fn mark_reads_back_from_its_text() {
        let mark = Mark::new("8c1f", "a/b", "77");
        assert_eq!(mark.to_string(), "docket.dev/tenant-uid=8c1f tenant=a/b installation=77");
        assert_eq!(Mark::read(&mark.to_string()), Some(mark));
        let of_before = Mark { uid: "8c1f", of: None };
        assert_eq!(Mark::read("docket.dev/tenant-uid=8c1f"), Some(of_before));
        assert_eq!(Mark::read("docket.dev/tenant-uid=8c1f tenant=a/b"), Some(of_before));
        for other in ["", "our ERP", "docket.dev/tenant-uid="] {
            assert_eq!(Mark::read(other), None, "{other}");
        }
    }
}
