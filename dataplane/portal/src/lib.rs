//! The pages of the administration portal: functions from plain values to HTML.
//!
//! No text is trusted: what receivers, users and orders hold is escaped wherever it appears. There is no inline script or
//! style, and every function works by links and forms alone; the script only adds copying, relative times and live updates.

pub mod activity;
pub mod day;
pub mod delivery;
pub mod events;
pub mod keys;
pub mod logs;
pub mod message;
pub mod overview;
pub mod page;
pub mod resends;
pub mod sign_in;
mod time;
pub mod verify;
pub mod webhooks;

/// The path of every page begins with this.
pub const ROOT: &str = "/portal";
/// The styles, at `/portal/portal.css`.
pub const STYLES: &str = concat!(include_str!("palette.css"), include_str!("portal.css"));
/// The script, at `/portal/portal.js`.
pub const SCRIPT: &str = include_str!("portal.js");
/// The icon of all pages, as SVG.
pub const ICON: &str = include_str!("icon.svg");

/// A link to `path` with these parameters, as far as they have a value.
pub fn href<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let set = parameters.into_iter().filter(|(_, value)| !value.is_empty());
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(set).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
