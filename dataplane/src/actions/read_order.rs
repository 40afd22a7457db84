//! Reads web orders by their ids. Reads of one tenant that come at the same time share one query.

use std::collections::{HashMap, HashSet};

use docket_store::orders::{self, ReadOrder};
use docket_store::{Connection, StoreError};

use crate::telemetry::Jobs;
use crate::tenancy::lookups::Lookup;

/// Looks up web orders by id and, if a customer is named, by the customer that must own them.
#[derive(Debug)]
pub struct ById;

impl Lookup for ById {
    type Key = (String, Option<String>);
    type Found = ReadOrder;
    const MOST: usize = orders::MOST_READ;
    const JOBS: Jobs = Jobs::ReadOrder;

    async fn read(
        mut reader: Connection,
        keys: HashSet<Self::Key>,
    ) -> Result<HashMap<Self::Key, ReadOrder>, StoreError> {
        let asked = keys.iter().map(|(id, customer)| (id.as_str(), customer.as_deref()));
        let read = orders::read(&mut reader, asked).await?;
        let read: HashMap<_, _> = read.into_iter().map(|order| (order.head.id.clone(), order)).collect();
        let of_key = |(id, customer): &Self::Key| {
            let of =
                |order: &&ReadOrder| customer.as_ref().is_none_or(|code| *code == order.head.customer_code);
            read.get(id).filter(of).cloned()
        };
        Ok(keys.iter().filter_map(|key| Some((key.clone(), of_key(key)?))).collect())
    }
}
