//! The bodies of requests.

use docket::api::auth::SessionTokenRequest;
use docket::api::notes::NoteRequest;
use docket::api::orders::ExportRequest;
use docket::api::webhook_logs::resends::requests::{ResendRequest, StopResendRequest};
use docket::api::webhook_logs::set_aside::SetAsideRequest;
use docket::http::request::FromBody;
use docket_orders::{Order, SaveRequest};

use super::{check_problems, check_refusal};
use crate::SECRET;

pub(crate) fn run(body: &[u8]) {
    match SaveRequest::read(body) {
        Ok(request) => check_order(&request, body.len()),
        Err(problems) => check_problems(&problems),
    }
    check::<SessionTokenRequest>(body);
    check::<NoteRequest>(body);
    check::<ExportRequest>(body);
    check::<ResendRequest>(body);
    check::<StopResendRequest>(body);
    check::<SetAsideRequest>(body);
}

/// An order that was accepted is stored, read back and exported: none of it may fail.
fn check_order(request: &SaveRequest, length: usize) {
    assert!(!format!("{request:?}").contains(SECRET));
    let stored = request.order.to_stored();
    let again = Order::from_stored(&stored).expect("what was accepted can be read back");
    assert!(again == request.order);
    assert_eq!(again.to_stored(), stored);
    // `1e2` becomes `100.0`: a number may grow, a text may not.
    assert!(stored.len() <= 8 * length, "{} from {length} bytes", stored.len());
    let terms = request.order.search_terms();
    assert!(terms.text.chars().count() <= docket_orders::search::MAX_TEXT);
    for problems in [request.order.check_draft(), request.order.check_export()] {
        if !problems.is_empty() {
            check_problems(&problems);
        }
    }
}

fn check<R: FromBody>(body: &[u8]) {
    if let Err(error) = R::from_body(body) {
        check_refusal(&error);
    }
}
