//! Query strings.

use docket::api::invoices::InvoiceSearch;
use docket::api::notes::NoteSearch;
use docket::api::orders::{OrderQuery, OrderSearch};
use docket::api::processes::ProcessSearch;
use docket::api::webhook_logs::resends::requests::ResendSearch;
use docket::api::webhook_logs::{DeliveryQuery, DeliverySearch};
use docket::http::fields::RequestFields;
use docket::http::request::FromFields;

use super::check_refusal;

pub(crate) fn run(query: &[u8]) {
    let Ok(query) = str::from_utf8(query) else { return };
    let is_text = |text: &Option<String>, most: usize| {
        text.as_ref().is_none_or(|text| {
            (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control)
        })
    };
    if let Some(search) = read::<OrderSearch>(query) {
        assert!((1..=100).contains(&search.page_size) && is_text(&search.text, 100));
    }
    if let Some(search) = read::<DeliverySearch>(query) {
        assert!((1..=100).contains(&search.page_size) && is_text(&search.webhook, 330));
    }
    if let Some(search) = read::<NoteSearch>(query) {
        assert!((1..=100).contains(&search.page_size));
    }
    if let Some(search) = read::<ProcessSearch>(query) {
        assert!((1..=100).contains(&search.page_size));
    }
    if let Some(search) = read::<InvoiceSearch>(query) {
        assert!((1..=100).contains(&search.page_size));
    }
    read::<OrderQuery>(query);
    read::<DeliveryQuery>(query);
    read::<ResendSearch>(query);
}

fn read<Q: FromFields>(query: &str) -> Option<Q> {
    Q::read(RequestFields::of_query(Some(query))).inspect_err(check_refusal).ok()
}
