//! The pages of the administration portal: functions from plain values to HTML.
//!
//! No text is trusted: every text from receivers, users and orders is escaped. There is no inline script or style,
//! and everything works with links and forms alone. The script only adds copying, the reader's time zone,
//! relative times and live updates.

pub mod activity;
pub mod actors;
pub mod brand;
pub mod declared;
pub mod delivery;
pub mod events;
mod field;
mod filters;
mod happened;
pub mod keys;
pub mod logs;
pub mod mail_link;
pub mod message;
pub mod names;
pub mod notifications;
pub mod overview;
pub mod page;
mod parts;
pub mod people;
pub mod period;
pub mod resends;
pub mod sign_in;
mod state;
mod time;
pub mod trace;
pub mod verify;
pub mod webhooks;

/// The beginning of the path of every page.
pub const ROOT: &str = "/portal";
/// The styles, at `/portal/portal.css`.
pub const STYLES: &str = concat!(include_str!("palette.css"), include_str!("portal.css"));
/// The script, at `/portal/portal.js`.
pub const SCRIPT: &str = include_str!("portal.js");
/// The icon of all pages, as SVG.
pub const ICON: &str = include_str!("icon.svg");

/// The parameter with what the user has just done, on the page to which a form leads.
pub const DONE: &str = "done";

/// The highest count that is exact.
pub const MAX_COUNT: i64 = 10_000;

/// A count as text: exact up to [`MAX_COUNT`].
fn count(number: i64) -> String {
    if number > MAX_COUNT { "more than 10,000".to_owned() } else { number.to_string() }
}

/// A count with the name of the thing, whose plural ends in `s`.
fn counted(number: i64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A link to `path` with the parameters that have a value.
pub fn href<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let set = parameters.into_iter().filter(|(_, value)| !value.is_empty());
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(set).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_exact_up_to_its_bound() {
        assert_eq!([0, 10_000].map(count), ["0", "10000"]);
        assert_eq!([10_001, 1_000_000].map(count), ["more than 10,000"; 2]);
        let dead = [0, 1, 2, 10_001].map(|number| counted(number, "dead letter"));
        assert_eq!(
            dead,
            ["0 dead letters", "1 dead letter", "2 dead letters", "more than 10,000 dead letters"]
        );
    }
}
