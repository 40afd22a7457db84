//! The targets, one file each.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod bundle;
pub(crate) mod client;
pub(crate) mod cursor;
pub(crate) mod database_url;
pub(crate) mod query;
pub(crate) mod redis_url;
pub(crate) mod signature;
pub(crate) mod token;
pub(crate) mod yaml;

use std::cell::RefCell;

use docket::http::error::ApiError;
use docket_orders::problem::MAX_PROBLEMS;
use docket_orders::{Problem, Problems};
use tokio::runtime::{Builder, Runtime};

use crate::SECRET;

/// What holds for everything that a refusal says: it repeats no value, and its size does not follow the input's.
fn check_problems(problems: &Problems) {
    assert!((1..=MAX_PROBLEMS).contains(&problems.len()), "{}", problems.len());
    for Problem { field, message } in problems.iter() {
        assert!(!field.contains(SECRET) && !message.contains(SECRET), "{field}: {message}");
        // A path has at most 32 names of 64 characters; a message may list the names of all fields, or the choices.
        assert!(field.len() <= 4_096 && message.len() <= 4_096, "{field}: {message}");
    }
}

fn check_refusal(error: &ApiError) {
    match error {
        ApiError::Invalid(problems) => check_problems(problems),
        other => panic!("a reader refuses with the fields that are wrong, not with {other:?}"),
    }
}

/// Whether a URL has the secret in one part only. Hosts are read in lower case, `%21` is another way to write its `!`, and
/// readers of URLs leave out tabs and ends of lines.
fn names_secret_once(url: &str) -> bool {
    let read = url.replace(['\t', '\n', '\r'], "").to_ascii_lowercase();
    read.matches(SECRET).count() == 1 && !read.contains('%')
}

/// Runs what is async.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: RefCell<Runtime> =
            RefCell::new(Builder::new_current_thread().enable_time().build().expect("a runtime"));
    }
    RUNTIME.with_borrow(|runtime| runtime.block_on(work))
}
