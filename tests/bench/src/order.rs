//! The order that is saved, and the search for its number in responses and deliveries.

use crate::http::{find, request};
use crate::load::Client;

/// An order for the court, 418 bytes long.
pub(crate) const BODY: &str = r#"{"orderType":"Court","clientMatterNumber":"4410-0012","serviceLevel":"SameDay","courtTask":"Research","court":{"name":"Superior Court of California, County of Los Angeles","courtType":"Superior","county":"Los Angeles","state":"CA"},"case":{"caseNumber":"26STCV99901","caption":"Larkspur Tile Co. v. Brindle"},"attorney":{"name":"Dana Quillfeather","represents":"Plaintiff"},"request":"Copies of the last three orders"}"#;

/// The client that saves the order in a tenant.
pub(crate) fn client(tenant: u32, key: &str, token: &str) -> Client {
    let bearer = format!("Bearer {token}");
    let headers = [("x-api-key", key), ("authorization", &bearer), ("content-type", "application/json")];
    let request = request("POST", "/Orders/Save", &headers, BODY).into();
    Client { tenant, request, number }
}

/// The number in `"webOrderId":"W00000042"`; `None`: the body has no such number.
pub(crate) fn number(body: &[u8]) -> Option<u64> {
    const BEFORE: &[u8] = br#""webOrderId":"W"#;
    let digits = &body[find(body, BEFORE)? + BEFORE.len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_the_length_that_the_figures_are_for() {
        assert_eq!(BODY.len(), 418);
    }

    #[test]
    fn a_number_is_found() {
        assert_eq!(number(br#"{"orderType":"Court","webOrderId":"W00000042","status":"Draft"}"#), Some(42));
        assert_eq!(number(BODY.as_bytes()), None);
    }
}
