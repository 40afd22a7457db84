//! The state of a database and its role on a server, read by one query.

use super::error::DatabaseError;
use super::pool::AdminConnection;

/// The state of a database and its role at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// The server's version as in `server_version_num`, such as 150018.
    pub(super) version: i32,
    pub(super) admin: AdminRole,
    pub(super) role: Option<TenantRole>,
    pub(super) database: Option<TenantDatabase>,
}

/// The role with which the operator logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AdminRole {
    pub(super) name: String,
    pub(super) superuser: bool,
    pub(super) creates_databases: bool,
    pub(super) creates_roles: bool,
    pub(super) inherits: bool,
}

/// The tenant's role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TenantRole {
    pub(super) comment: Option<String>,
    /// Whether the role has LOGIN, without an expiry.
    pub(super) can_log_in: bool,
    /// The role's limit of connections; -1: no limit.
    pub(super) connection_limit: i32,
    /// Whether the administrator has the role's rights and may make it the owner of databases.
    pub(super) lent_to_admin: bool,
}

/// The tenant's database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TenantDatabase {
    pub(super) comment: Option<String>,
    pub(super) owned_by_role: bool,
    /// Whether the database allows connections (ALLOW_CONNECTIONS).
    pub(super) open: bool,
    pub(super) connection_limit: i32,
    /// Whether PUBLIC has any right on the database.
    pub(super) public: bool,
    /// Whether the role itself may connect to the database.
    pub(super) role_connects: bool,
    /// Whether a session is connected to the database. The server's own workers do not count.
    pub(super) sessions: bool,
}

/// The query: `$1` is the database, `$2` the role. Since PostgreSQL 16, being a member of a role is not the same as
/// being allowed to act as the role.
const QUERY: &str = "
    SELECT
        v.version,
        a.rolname, a.rolsuper, a.rolcreatedb, a.rolcreaterole, a.rolinherit,
        r.oid IS NOT NULL,
        left(shobj_description(r.oid, 'pg_authid'), 1024),
        r.rolcanlogin AND coalesce(r.rolvaliduntil = 'infinity', true),
        r.rolconnlimit,
        pg_has_role(a.oid, r.oid, 'USAGE')
            AND pg_has_role(a.oid, r.oid, CASE WHEN v.version >= 160000 THEN 'SET' ELSE 'MEMBER' END),
        d.oid IS NOT NULL,
        left(shobj_description(d.oid, 'pg_database'), 1024),
        d.datdba = r.oid,
        d.datallowconn,
        d.datconnlimit,
        EXISTS (SELECT FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) WHERE grantee = 0),
        EXISTS (SELECT FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba)))
                WHERE grantee = r.oid AND privilege_type = 'CONNECT'),
        EXISTS (SELECT FROM pg_stat_activity WHERE datid = d.oid AND usesysid IS NOT NULL)
    FROM (SELECT current_setting('server_version_num')::int AS version) v
    JOIN pg_roles a ON a.rolname = current_user
    LEFT JOIN pg_roles r ON r.rolname = $2
    LEFT JOIN pg_database d ON d.datname = $1";

impl Observed {
    pub(super) async fn read(
        admin: &mut AdminConnection,
        database: &str,
        role: &str,
    ) -> Result<Self, DatabaseError> {
        let row = admin.query_one(QUERY, &[&database, &role]).await?;
        let there = |column: usize| row.try_get::<_, bool>(column);
        Ok(Self {
            version: row.try_get(0)?,
            admin: AdminRole {
                name: row.try_get(1)?,
                superuser: row.try_get(2)?,
                creates_databases: row.try_get(3)?,
                creates_roles: row.try_get(4)?,
                inherits: row.try_get(5)?,
            },
            role: match there(6)? {
                false => None,
                true => Some(TenantRole {
                    comment: row.try_get(7)?,
                    can_log_in: row.try_get(8)?,
                    connection_limit: row.try_get(9)?,
                    lent_to_admin: row.try_get(10)?,
                }),
            },
            database: match there(11)? {
                false => None,
                true => Some(TenantDatabase {
                    comment: row.try_get(12)?,
                    owned_by_role: row.try_get::<_, Option<bool>>(13)?.unwrap_or(false),
                    open: row.try_get(14)?,
                    connection_limit: row.try_get(15)?,
                    public: row.try_get(16)?,
                    role_connects: row.try_get(17)?,
                    sessions: row.try_get(18)?,
                }),
            },
        })
    }
}
