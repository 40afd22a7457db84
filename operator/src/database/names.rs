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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark<'a> {
    /// The Tenant's UID.
    pub(super) uid: &'a str,
    /// Its `namespace/name`, and the installation it is in; absent in what earlier versions have marked.
    pub(super) of: Option<(&'a str, &'a str)>,
}

impl<'a> Mark<'a> {
    pub(super) fn new(uid: &'a str, tenant: &'a str, installation: &'a str) -> Self {
        Self { uid, of: Some((tenant, installation)) }
    }

    /// `None`: it is no mark of ours.
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
