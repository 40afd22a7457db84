//! A tenant with people, copied from a database that is made once: the commands that add people hash each password.

use std::sync::OnceLock;

use docket_rig::scratch::Folder;
use rusqlite::Connection;

use crate::server::{Home, tenant_yaml};
use crate::stores;

/// A contact of customer C-1, in every tenant.
pub const ADA: &str = "ada@one.example";
/// A contact of customer C-2, in every tenant.
pub const BEA: &str = "bea@two.example";
/// An employee, in every tenant.
pub const MO: &str = "mo.ito";
/// An administrator, in every tenant.
pub const ALEX: &str = "alex.admin";

/// The hash of [`PASSWORD`](crate::server::PASSWORD), made by `docket contacts add`.
const PASSWORD_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$TCJINIOC3eCCFt7MYkIf7g$RXwcPZTsBEIBDytfMWNjPQ/lzw9TBuS2zSkfnG1wSvU";

/// A database with people: made once per test process, copied for every tenant.
fn database_with_people() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let folder = Folder::new("people");
        let path = folder.path().join("tenant.db");
        let database = Connection::open(&path).expect("a file");
        database.execute_batch(docket_schema::CREATE_VERSION_TABLE).expect("a statement");
        for migration in docket_schema::MIGRATIONS {
            database.execute_batch(migration.sql.sqlite()).expect("a migration");
            for index in migration.indexes {
                database.execute_batch(index.create).expect("an index");
            }
            let row = (migration.version, migration.name, 0);
            database.execute(docket_schema::RECORD_VERSION, row).expect("a statement");
        }
        database.execute_batch(&people()).expect("people");
        drop(database);
        std::fs::read(path).expect("a file")
    })
}

fn people() -> String {
    format!(
        "INSERT INTO customer VALUES ('C-1', 'One', 0), ('C-2', 'Two', 0);
         INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms) VALUES
           ('11', 'C-1', '{ADA}', '{ADA}', 'Ada One', '{PASSWORD_HASH}', TRUE, 0),
           ('12', 'C-2', '{BEA}', '{BEA}', 'Bea Two', '{PASSWORD_HASH}', TRUE, 0);
         INSERT INTO employee (code, user_name, user_key, name, password_hash, administrator, active, created_at_ms) VALUES
           ('51', '{MO}', '{MO}', 'Mo Ito', '{PASSWORD_HASH}', FALSE, TRUE, 0),
           ('52', '{ALEX}', '{ALEX}', 'Alex Admin', '{PASSWORD_HASH}', TRUE, TRUE, 0);"
    )
}

/// Declares a tenant in its own file, with [`ADA`], [`BEA`], [`MO`] and [`ALEX`].
pub fn add_tenant(home: &Home, name: &str, digit: char) {
    add_people(home, &name.to_uppercase());
    home.write(&format!("{name}.yaml"), &tenant_yaml(name, digit));
}

/// Gives a tenant its database, with [`ADA`], [`BEA`], [`MO`] and [`ALEX`].
pub fn add_people(home: &Home, client_code: &str) {
    if stores::are_servers() {
        return home.open(client_code).change(&people());
    }
    let database = home.database(client_code);
    std::fs::create_dir_all(database.parent().expect("a folder")).expect("writable");
    std::fs::write(database, database_with_people()).expect("writable");
}
