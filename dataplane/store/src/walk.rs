//! Searches, newest first, that read a limited number of rows at a time (a *window*). So no statement reads all of a
//! long history to find a rare value, and a search without an index of its own ends in time.

use std::time::Duration;

use docket_program::clock::Clock;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::indexes;
use crate::sql::{Param, Row, Search};

/// After this time, a search returns what it has found. A running statement ends first.
const SEARCH_TIME: Duration = Duration::from_millis(500);
/// The number of rows in the first window. Frequent values are among them.
const FIRST_WINDOW: i64 = 2_000;
/// The largest number of rows in a later window, which takes some tenths of a second.
const LARGEST_WINDOW: i64 = 50_000;

/// A value that at most this many rows have is rare. All of its rows are read and sorted, which takes some 30 ms.
const RARE: i64 = 5_000;

/// The place of a row in the order of a search: its time in milliseconds since 1970, and its id.
pub type RowPosition = (i64, String);

/// A page of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items that were found, newest first; at most as many as the caller asked for.
    pub items: Vec<T>,
    /// Where the search continues; `None`: there is no more. A search whose time was up may have found fewer items than were
    /// asked for, even none.
    pub next: Option<RowPosition>,
}

/// The condition that a column has the value `$1`, for an index that begins with the column. PostgreSQL uses this
/// index whatever it estimates for the value: only this index has the order. PostgreSQL estimates that few rows pass
/// the last comparison, so that it joins other tables by look-ups.
pub(crate) fn in_order_of(column: &str) -> String {
    format!("{column} >= $1 AND {column} <= $1 AND {column} || '' = $1 ORDER BY {column}")
}

/// A search for rows of one table, in the order of `created_at_ms` and `id`.
pub(crate) struct Walk<'a> {
    /// The table's name in the statements.
    pub(crate) table: &'static str,
    /// The number of items on a page, at least 1.
    pub(crate) page_size: i64,
    /// The place of the last row that was seen.
    pub(crate) after: Option<&'a RowPosition>,
    /// Whether an index finds what matches, or everything matches, so that one statement is enough.
    pub(crate) is_indexed: bool,
    /// For each condition on a value that may be rare and has an index: searches for all rows with this value,
    /// whenever they were created.
    pub(crate) rare: Vec<Vec<Search>>,
    /// Whether to search for rare values before the first window. Set this for values that are nearly always rare:
    /// PostgreSQL knows only a sample of the rows, may not know such a value, and would then read far more than a
    /// window.
    pub(crate) rare_first: bool,
}

impl Walk<'_> {
    /// Reads a page. `rows` selects all rows that this search may read, by conditions that an index serves.
    /// `matching` selects the matching rows, with the columns for `item`; with a search as its argument, only among
    /// the rows of that search.
    pub(crate) async fn page<T>(
        &self,
        connection: &mut Connection,
        clock: &Clock,
        rows: impl Fn() -> Search,
        matching: impl Fn(Option<Search>) -> Search,
        item: impl Fn(&Row) -> Result<T, StoreError>,
        place_of: impl Fn(&T) -> RowPosition,
    ) -> Result<Page<T>, StoreError> {
        let until = clock.elapsed() + SEARCH_TIME;
        let (mut items, mut after, mut window) = (Vec::new(), self.after.cloned(), FIRST_WINDOW);
        let mut few = if self.rare_first { self.few(connection).await? } else { None };
        loop {
            let end = match self.is_indexed || few.is_some() {
                true => None,
                false => self.end_of(connection, rows(), after.as_ref(), window).await?,
            };
            let wanted = self.page_size + 1 - items.len() as i64;
            let mut search = matching(few.take());
            self.limit(&mut search, after.as_ref(), end.as_ref());
            let (sql, params) = search.end(&format!("{} LIMIT $1", self.order()), [wanted.into()]);
            for row in connection.query(&sql, params).await? {
                items.push(item(&row)?);
            }
            if items.len() as i64 > self.page_size {
                items.pop();
                let next = items.last().map(place_of);
                return Ok(Page { items, next });
            }
            if end.is_none() || clock.elapsed() > until {
                return Ok(Page { items, next: end });
            }
            after = end;
            if window == FIRST_WINDOW {
                few = self.few(connection).await?;
            }
            window = (window * 5).min(LARGEST_WINDOW);
        }
    }

    /// A search for the rows with a rare value, if the conditions have one.
    async fn few(&self, connection: &mut Connection) -> Result<Option<Search>, StoreError> {
        if self.rare.is_empty() || !indexes::are_there(connection).await? {
            return Ok(None);
        }
        for rare in &self.rare {
            let (sql, params) = Search::any(rare, RARE + 1).end("", []);
            let count: Option<i64> =
                connection.value(&format!("SELECT count(*) FROM ({sql}) AS few"), params).await?;
            if count.unwrap_or(0) <= RARE {
                // The limit is higher than the count, because rows may have been added since.
                return Ok(Some(Search::any(rare, 2 * RARE)));
            }
        }
        Ok(None)
    }

    /// The place of the last row of a window; `None`: fewer rows are left than a window has.
    async fn end_of(
        &self,
        connection: &mut Connection,
        mut rows: Search,
        after: Option<&RowPosition>,
        window: i64,
    ) -> Result<Option<RowPosition>, StoreError> {
        self.limit(&mut rows, after, None);
        let (sql, params) = rows.end(&format!("{} LIMIT 1 OFFSET $1", self.order()), [(window - 1).into()]);
        let row = connection.query_opt(&sql, params).await?;
        row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
    }

    /// Only rows after the first place, up to the second.
    fn limit(&self, search: &mut Search, after: Option<&RowPosition>, end: Option<&RowPosition>) {
        let values = |(at_ms, id): &RowPosition| [Param::from(*at_ms), Param::from(id)];
        let table = self.table;
        for (place, comparison) in [(after, "<"), (end, ">=")] {
            if let Some(place) = place {
                let condition = format!("({table}.created_at_ms, {table}.id) {comparison} ($1, $2)");
                search.and(&condition, values(place));
            }
        }
    }

    fn order(&self) -> String {
        let table = self.table;
        format!("ORDER BY {table}.created_at_ms DESC, {table}.id DESC")
    }
}

#[cfg(test)]
mod tests {
    use docket_program::clock::ManualClock;
    use docket_rig::scratch::Folder;
    use jiff::Timestamp;

    use super::*;
    use crate::database::Database;
    use crate::sql::params;
    use crate::sqlite::Sqlite;

    /// The rows of three windows. Only the oldest row, and the last row of the second window, match.
    const ROWS: i64 = FIRST_WINDOW + 2 * 5 * FIRST_WINDOW;
    const OF_THE_SECOND: i64 = ROWS - 6 * FIRST_WINDOW + 1;

    async fn connection() -> (Connection, Folder) {
        let folder = Folder::new("walk");
        let database = Database::Sqlite(Sqlite::new(folder.path().join("tenant.db")));
        database.migrate(&Clock::System).await.expect("a file");
        let mut transaction = database.begin(&Clock::System).await.expect("a file");
        let create = "CREATE TABLE rows (id TEXT PRIMARY KEY, created_at_ms BIGINT, matches BOOLEAN)";
        transaction.execute(create, Vec::new()).await.expect("a statement");
        let insert = "WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < $1) \
                      INSERT INTO rows SELECT printf('%06d', n), n / 3, n IN (1, $2) FROM row";
        transaction.execute(insert, params![ROWS, OF_THE_SECOND]).await.expect("a statement");
        transaction.commit().await.expect("committed");
        (database.reader().await.expect("a connection"), folder)
    }

    async fn page(
        connection: &mut Connection,
        after: Option<&RowPosition>,
        page_size: i64,
        takes: Duration,
    ) -> Page<String> {
        let moved = ManualClock::new(Timestamp::UNIX_EPOCH);
        let clock = Clock::Manual(moved.clone());
        let rows = || Search::new("SELECT created_at_ms, id FROM rows");
        let matching = |_| {
            moved.advance(takes);
            let mut search = Search::new("SELECT id FROM rows");
            search.and("matches", []);
            search
        };
        let place_of = |id: &String| (id.parse::<i64>().expect("a number") / 3, id.clone());
        let walk =
            Walk { table: "rows", page_size, after, is_indexed: false, rare: Vec::new(), rare_first: false };
        walk.page(connection, &clock, rows, matching, |row| row.get(0), place_of).await.expect("a page")
    }

    fn id(number: i64) -> String {
        format!("{number:06}")
    }

    #[tokio::test]
    async fn rare_rows_are_found_behind_many_windows() {
        let (mut connection, _folder) = connection().await;
        let all = page(&mut connection, None, 2, Duration::ZERO).await;
        assert_eq!(all, Page { items: vec![id(OF_THE_SECOND), id(1)], next: None });
        let first = page(&mut connection, None, 1, Duration::ZERO).await;
        assert_eq!(
            first,
            Page { items: vec![id(OF_THE_SECOND)], next: Some((OF_THE_SECOND / 3, id(OF_THE_SECOND))) }
        );
        let second = page(&mut connection, first.next.as_ref(), 1, Duration::ZERO).await;
        assert_eq!(second, Page { items: vec![id(1)], next: None });
    }

    #[tokio::test]
    async fn search_whose_time_is_up_returns_what_it_found_and_continues_from_there() {
        let (mut connection, _folder) = connection().await;
        let (mut next, mut pages) = (None, Vec::new());
        loop {
            let Page { items, next: place } = page(&mut connection, next.as_ref(), 9, SEARCH_TIME * 2).await;
            pages.push(items);
            next = place;
            if next.is_none() {
                break;
            }
        }
        // Each statement takes longer than the whole search may, so each page is one window of the first size.
        assert_eq!(pages.len() as i64, ROWS / FIRST_WINDOW + 1);
        assert_eq!(pages.concat(), [id(OF_THE_SECOND), id(1)]);
    }
}
