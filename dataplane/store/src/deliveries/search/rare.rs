//! Searches for all deliveries with one value that may be rare, whenever they were created.

use docket_domain::delivery::{DeadLetter, DeliveryKind, Status};

use super::{
    COLUMNS, DeliveryFilter, HISTORY, MAY_BE_OF_CUSTOMER, QUEUED, named, of_customer, suffix, table,
};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::marks;
use crate::sql::{Param, Search, params};
use crate::walk::in_order_of;

/// The deliveries that meet a condition. `from` calls their table or view `d`.
fn deliveries(from: &str, condition: &str, values: Vec<Param>) -> Search {
    let mut search = Search::new(&format!("SELECT {COLUMNS} FROM {from}"));
    search.and(condition, values);
    search
}

impl DeliveryFilter {
    /// For each condition on a value that may be rare: the searches that together find all deliveries with this value.
    pub(super) async fn rare(&self, connection: &mut Connection) -> Result<Vec<Vec<Search>>, StoreError> {
        let with =
            |column: &str, value: &str| self.in_tables("{table} d", &in_order_of(column), params![value]);
        let mut rare = Vec::new();
        rare.extend(self.event_id.as_ref().map(|id| with("d.event_id", id)));
        rare.extend(self.resend_id.as_ref().map(|id| with("d.resend_id", id)));
        rare.extend(self.of_http_status());
        rare.extend(self.failure_class.map(|class| with("d.failure_class", class.as_str())));
        rare.extend(self.of_failed());
        rare.extend(self.event_code.map(|code| {
            let from = "event c JOIN {table} d ON d.event_id = c.id";
            self.in_tables(from, &in_order_of("c.code"), params![code.as_str()])
        }));
        rare.extend(self.kind.and_then(|kind| self.of_kind(kind)));
        if let Some(webhook) = &self.webhook {
            rare.push(self.to_webhook(connection, webhook).await?);
        }
        if let Some(customer) = &self.customer_code {
            rare.extend(self.to_customer(connection, customer).await?);
        }
        Ok(rare)
    }

    /// The tables and views that may have a matching delivery.
    fn tables(&self) -> Vec<&'static str> {
        match self.status() {
            None => vec![QUEUED, HISTORY],
            status => vec![table(status)],
        }
    }

    /// A search of each table that may have a matching delivery. `from` names the table as `{table}`.
    fn in_tables(&self, from: &str, condition: &str, values: Vec<Param>) -> Vec<Search> {
        let in_table = |table: &str| deliveries(&from.replace("{table}", table), condition, values.clone());
        self.tables().into_iter().map(in_table).collect()
    }

    /// A search of the queue, if it may have a matching delivery.
    fn in_queue(&self, condition: &str, value: &str) -> Option<Search> {
        let is_searched = self.tables().contains(&QUEUED);
        is_searched.then(|| deliveries(&format!("{QUEUED} d"), condition, params![value]))
    }

    /// A search of the history for each of these keys of webhooks.
    fn in_history(&self, keys: Vec<String>) -> Vec<Search> {
        let condition = match self.status() {
            // The indexes of dead letters begin with the webhook.
            Some(Status::DeadLetter) => format!("{} AND {}", self.is_dead().0, in_order_of("d.webhook")),
            _ => in_order_of("d.webhook"),
        };
        let to = |key: String| deliveries(&format!("{HISTORY} d"), &condition, params![key]);
        keys.into_iter().map(to).collect()
    }

    /// The condition of the dead letters that may match, and the column by which its index orders the dead letters of a webhook.
    fn is_dead(&self) -> (&'static str, &'static str) {
        match self.dead_letter {
            Some(DeadLetter::Open) => (marks::OPEN, "finished_at_ms"),
            Some(marked) => (marks::condition(marked), "created_at_ms"),
            None => ("status = 'DeadLetter'", "created_at_ms"),
        }
    }

    /// Searches for all deliveries whose last attempt got the HTTP status. `None`: the filter has none, or 200, which most deliveries have
    /// and which the index leaves out.
    fn of_http_status(&self) -> Option<Vec<Search>> {
        let status = self.http_status.filter(|status| *status != 200)?;
        // As `in_order_of`, for a number. The first condition is the index's own.
        let condition = "d.http_status <> 200 AND d.http_status >= $1 AND d.http_status <= $1 AND d.http_status + 0 = $1 \
                         ORDER BY d.http_status";
        Some(self.in_tables("{table} d", condition, params![status]))
    }

    /// Searches for all deliveries whose last attempt failed, or for all dead letters. `None`: other deliveries may match too.
    fn of_failed(&self) -> Option<Vec<Search>> {
        let (dead, time) = self.is_dead();
        let in_order = format!("{dead} ORDER BY d.webhook, d.{time}");
        let dead_letters = deliveries(&format!("{HISTORY} d"), &in_order, Vec::new());
        match self.status() {
            Some(Status::DeadLetter) => Some(vec![dead_letters]),
            None if self.is_failed => {
                let tried_again = deliveries(&format!("{QUEUED} d"), "d.status = 'Failed'", Vec::new());
                Some(vec![tried_again, dead_letters])
            }
            _ => None,
        }
    }

    /// `None`: most deliveries are of this kind.
    fn of_kind(&self, kind: DeliveryKind) -> Option<Vec<Search>> {
        let (from, condition) = match kind {
            DeliveryKind::First => return None,
            DeliveryKind::Resend => {
                ("{table} d", "d.resend_of IS NOT NULL ORDER BY d.created_at_ms DESC, d.id DESC")
            }
            // In this order, PostgreSQL begins with the few tests.
            DeliveryKind::Test => {
                ("test_event t JOIN {table} d ON d.event_id = t.id", "TRUE ORDER BY t.webhook")
            }
        };
        Some(self.in_tables(from, condition, Vec::new()))
    }

    async fn to_webhook(
        &self,
        connection: &mut Connection,
        webhook: &str,
    ) -> Result<Vec<Search>, StoreError> {
        let queued = self.in_queue("(d.webhook = $1 OR d.webhook_name = $1)", webhook);
        let mut searches: Vec<Search> = queued.into_iter().collect();
        if self.tables().contains(&HISTORY) {
            let mut keys = named(connection, webhook).await?;
            keys.retain(|key| key != webhook);
            keys.push(webhook.to_owned());
            searches.extend(self.in_history(keys));
        }
        Ok(searches)
    }

    /// `None`: the customer has too many webhooks to search for each.
    async fn to_customer(
        &self,
        connection: &mut Connection,
        customer_code: &str,
    ) -> Result<Option<Vec<Search>>, StoreError> {
        let queued = self.in_queue(MAY_BE_OF_CUSTOMER, &suffix(customer_code));
        let mut searches: Vec<Search> = queued.into_iter().collect();
        if self.tables().contains(&HISTORY) {
            let Some(mut keys) = of_customer(connection, customer_code).await? else { return Ok(None) };
            if keys.is_empty() {
                // A list of searches must not be empty. No webhook has this key.
                keys.push(String::new());
            }
            searches.extend(self.in_history(keys));
        }
        Ok(Some(searches))
    }
}

#[cfg(test)]
mod tests {
    use docket_program::clock::Clock;
    use docket_rig::scratch::Folder;

    use super::*;
    use crate::database::Database;
    use crate::sqlite::Sqlite;

    async fn reader() -> (Connection, Folder) {
        let folder = Folder::new("rare");
        let database = Database::Sqlite(Sqlite::new(folder.path().join("tenant.db")));
        database.migrate(&Clock::System).await.expect("a file");
        (database.reader().await.expect("a connection"), folder)
    }

    /// A search reads this index alone. A sort of its own would read all before it ends.
    async fn reads(reader: &mut Connection, search: Search, index: &str) {
        let (sql, params) = search.end("LIMIT $1", [Param::from(25_i64)]);
        let rows = reader.query(&format!("EXPLAIN QUERY PLAN {sql}"), params).await.expect("a plan");
        let plan: Vec<String> = rows.iter().map(|row| row.get(3).expect("text")).collect();
        assert!(plan.len() == 1 && plan[0].contains(&format!(" USING INDEX {index}")), "{plan:?}");
    }

    #[tokio::test]
    async fn http_status_is_found_by_its_index_unless_nearly_all_have_it() {
        let (mut reader, _folder) = reader().await;
        let of = |http_status| DeliveryFilter {
            status: Some(Status::DeadLetter),
            http_status: Some(http_status),
            ..DeliveryFilter::default()
        };
        for search in of(503).of_http_status().expect("it may be rare") {
            reads(&mut reader, search, "delivery_by_http_status").await;
        }
        assert!(of(200).of_http_status().is_none() && DeliveryFilter::default().of_http_status().is_none());
    }

    #[tokio::test]
    async fn dead_letters_in_each_state_are_found_by_the_index_of_this_state() {
        let (mut reader, _folder) = reader().await;
        for (state, index) in [
            (None, "delivery_dead"),
            (Some(DeadLetter::Open), "delivery_open"),
            (Some(DeadLetter::Resent), "delivery_resent"),
            (Some(DeadLetter::SetAside), "delivery_set_aside"),
        ] {
            let filter = DeliveryFilter {
                status: Some(Status::DeadLetter),
                dead_letter: state,
                ..DeliveryFilter::default()
            };
            let of_all = filter.of_failed().expect("dead letters may be rare");
            let of_webhook = filter.in_history(vec!["smith/orders/SMITH".to_owned()]);
            for search in [of_all, of_webhook].concat() {
                reads(&mut reader, search, index).await;
            }
        }
    }
}
