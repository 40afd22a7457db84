//! The tables of a tenant's database, from the migrations.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use docket_schema::MIGRATIONS;
use regex::Regex;
use rusqlite::Connection;

/// The sections of all tables, in alphabetical order.
pub(super) fn sections() -> String {
    let database = Connection::open_in_memory().expect("a database");
    let mut said = HashMap::new();
    for migration in MIGRATIONS {
        database.execute_batch(migration.sql.sqlite()).expect("a migration");
        read(migration.sql.postgres(), &mut said);
    }
    let mut tables = database
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
        )
        .expect("a statement");
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).expect("rows").map(|row| row.expect("a row")).collect();
    let mut page = String::new();
    for table in tables {
        let about = said.get(&(table.clone(), String::new()));
        write!(page, "\n## {table}\n").expect("a String takes all");
        if let Some(Said { about, .. }) = about.filter(|said| !said.about.is_empty()) {
            // A released migration never changes, and this one names a page that has moved.
            write!(page, "\n{}\n", about.replace("docs/audit.md", "[the audit](audit.md)"))
                .expect("a String takes all");
        }
        page += "\n| Column | Type | Rules | |\n|---|---|---|---|\n";
        let mut columns = database
            .prepare(&format!("SELECT name, type, \"notnull\", pk FROM pragma_table_info('{table}')"))
            .expect("a statement");
        let columns = columns.query_map([], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, bool>(2)?,
                row.get::<_, i64>(3)?,
            ))
        });
        for column in columns.expect("rows") {
            let (name, kind, must, key) = column.expect("a row");
            let mut words = Vec::new();
            if key > 0 {
                words.push("key".to_owned());
            } else if !must {
                words.push("may be NULL".to_owned());
            }
            let said = said.get(&(table.clone(), name.clone()));
            words.extend(said.into_iter().flat_map(|said| said.rules.iter().cloned()));
            let about = said.map(|said| super::cell(&said.about)).unwrap_or_default();
            writeln!(
                page,
                "| `{name}` | {} | {} | {about} |",
                kind.to_uppercase(),
                super::cell(&words.join("; "))
            )
            .expect("a String takes all");
        }
    }
    page
}

/// What a migration says about a table (whose column is empty) or a column.
#[derive(Debug, Default)]
struct Said {
    about: String,
    rules: Vec<String>,
}

/// Reads the comments before tables and columns, and the rules of columns.
fn read(sql: &str, said: &mut HashMap<(String, String), Said>) {
    static CREATE: LazyLock<Regex> = LazyLock::new(|| expression(r"^CREATE TABLE (\w+) \($"));
    static ADD: LazyLock<Regex> =
        LazyLock::new(|| expression(r"^ALTER TABLE (\w+)\s+ADD COLUMN (\w+) (.*)$"));
    static COLUMN: LazyLock<Regex> = LazyLock::new(|| {
        expression(r"^([a-z]\w*) (?:TEXT|BIGINT|BOOLEAN|BYTEA|DOUBLE PRECISION|REAL)\b(.*)$")
    });
    let (mut comment, mut table) = (String::new(), None::<String>);
    // The column that is being read, and what follows its type.
    let mut column = None::<((String, String), String)>;
    // The content of a column from this migration on.
    static NOW: LazyLock<Regex> = LazyLock::new(|| expression(r"^-- (\w+)\.(\w+): (.*)$"));
    for line in sql.lines().map(str::trim) {
        if let Some(now) = NOW.captures(line) {
            said.entry((now[1].to_owned(), now[2].to_owned())).or_default().about = now[3].to_owned();
            continue;
        }
        if let Some(text) = line.strip_prefix("--") {
            comment = format!("{comment} {}", text.trim()).trim().to_owned();
            continue;
        }
        let about = std::mem::take(&mut comment);
        let found = match &table {
            Some(table) => {
                COLUMN.captures(line).map(|found| ((table.clone(), found[1].to_owned()), found[2].to_owned()))
            }
            None => ADD
                .captures(line)
                .map(|found| ((found[1].to_owned(), found[2].to_owned()), found[3].to_owned())),
        };
        let of_table =
            ["UNIQUE (", "PRIMARY KEY (", "FOREIGN KEY (", ")"].iter().any(|start| line.starts_with(start));
        if let Some(created) = CREATE.captures(line) {
            let name = created[1].to_owned();
            let of_table = said.entry((name.clone(), String::new())).or_default();
            if !about.is_empty() {
                of_table.about = about;
            }
            table = Some(name);
        } else if let Some((key, rest)) = found {
            finish(&mut column, said);
            let entry = said.entry(key.clone()).or_default();
            entry.rules.clear();
            if !about.is_empty() {
                entry.about = about;
            }
            column = Some((key, rest));
        } else if let (Some((_, text)), false) = (&mut column, of_table) {
            text.push(' ');
            text.push_str(line);
        }
        if of_table || line.ends_with(';') {
            finish(&mut column, said);
        }
        if line.ends_with(';') {
            table = None;
        }
    }
}

/// Keeps the rules of a column that has been read.
fn finish(column: &mut Option<((String, String), String)>, said: &mut HashMap<(String, String), Said>) {
    if let Some((key, text)) = column.take() {
        said.entry(key).or_default().rules = rules(&text);
    }
}

/// The rules of a column that say more than its type.
fn rules(text: &str) -> Vec<String> {
    static REFERENCES: LazyLock<Regex> = LazyLock::new(|| expression(r"REFERENCES (\w+) \((\w+)\)"));
    static DEFAULT: LazyLock<Regex> = LazyLock::new(|| expression(r"DEFAULT ('[^']*'|\w+)"));
    static ONE_OF: LazyLock<Regex> = LazyLock::new(|| expression(r"IN\s+\(('[^)]*')\)"));
    static LENGTH: LazyLock<Regex> = LazyLock::new(|| expression(r"length\(\w+\) BETWEEN (\d+) AND (\d+)"));
    let mut rules = Vec::new();
    rules.extend(
        REFERENCES
            .captures(text)
            .map(|found| format!("refers to `{}` of [{}](#{})", &found[2], &found[1], &found[1])),
    );
    rules.extend(DEFAULT.captures(text).map(|found| format!("default `{}`", &found[1])));
    rules.extend(ONE_OF.captures(text).map(|found| format!("one of {}", found[1].replace('\'', "`"))));
    rules.extend(LENGTH.captures(text).map(|found| format!("{} to {} characters", &found[1], &found[2])));
    if text.contains("UNIQUE") {
        rules.push("unique".to_owned());
    }
    rules
}

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("an expression")
}
