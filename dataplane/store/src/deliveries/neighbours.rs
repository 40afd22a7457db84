//! The deliveries to the same webhook that ended just before and just after another delivery.

use docket_domain::delivery::Status;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::sql::params;

/// The ids of the neighbours of a delivery, by the time of the end; `None`: there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The delivery that ended just before.
    pub before: Option<String>,
    /// The delivery that ended just after.
    pub after: Option<String>,
}

/// Reads the neighbours of a delivery to the webhook with this key. `finished_at_ms`: `None` if the delivery has not ended: then the last
/// delivery that has ended is before it, and none after it.
pub async fn neighbours(
    connection: &mut Connection,
    webhook: &str,
    finished_at_ms: Option<i64>,
    id: &str,
) -> Result<Neighbours, StoreError> {
    let values = params![webhook, finished_at_ms.unwrap_or(i64::MAX), id];
    let row = connection.query_opt(&neighbours_sql(), values).await?;
    let row = row.ok_or(StoreError::Unexpected("no row"))?;
    Ok(Neighbours { before: row.get(0)?, after: row.get(1)? })
}

/// The statement for [`neighbours`].
#[doc(hidden)] // for the suite that checks its plan
pub fn neighbours_sql() -> String {
    let nearest = |compare: &str, order: &str| {
        let [delivered, lost] = [Status::Succeeded, Status::DeadLetter].map(|status| {
            // The index of a webhook's ends leads to the entry. Deliveries that ended at the same time are ordered by their ids.
            format!(
                "SELECT id, finished_at_ms FROM (SELECT d.finished_at_ms, d.id FROM delivery_history d \
                 WHERE d.finished_at_ms IS NOT NULL AND d.webhook = $1 AND d.status = '{status}' \
                 AND (d.finished_at_ms, d.id) {compare} ($2, $3) \
                 ORDER BY d.finished_at_ms {order}, d.id {order} LIMIT 1) AS near"
            )
        });
        format!(
            "(SELECT id FROM ({delivered} UNION ALL {lost}) AS ended ORDER BY finished_at_ms {order}, id {order} LIMIT 1)"
        )
    };
    format!("SELECT {}, {}", nearest("<", "DESC"), nearest(">", "ASC"))
}
