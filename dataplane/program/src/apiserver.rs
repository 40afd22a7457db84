//! Why a call to the Kubernetes API server failed, in words that may leave the process.
//!
//! The API server may quote what it received, and a parser or an authenticator what it could not read: any of it can
//! be a Secret. So both programs turn each error of the API server and of its client into an [`ApiServerError`]
//! before they log it or write it into a status. Only these texts pass unchanged:
//!
//! * code and reason of a response;
//! * the message of a response of code 403 and reason `Forbidden`: the API server writes it from the user, the verb, the
//!   names and the quota, not from the content of the object;
//! * the message of an admission webhook or a `ValidatingAdmissionPolicy` that denied the request: its author chose the words;
//! * errors of the connection: addresses, TLS, timeouts.
//!
//! Every other message is left out, also a message of code 429 or 5xx. A fixed text replaces the message of a parser
//! or an authenticator.

use std::error::Error;
use std::string::FromUtf8Error;

use kube::core::Status;
use kube::runtime::watcher;

/// Why a call to the API server had no result.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    /// The object has changed meanwhile, or another object has its name.
    #[error("the object changed meanwhile")]
    Conflict,
    /// The object does not exist.
    #[error("the object does not exist")]
    NotFound,
    /// A right is missing, or a quota is used up.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The API server refuses the request.
    #[error("refused by the API server: {0}")]
    Refused(String),
    /// The API server can't be reached, has too much to do, or is too slow.
    #[error("the API server is not available: {0}")]
    Unavailable(String),
}

impl From<kube::Error> for ApiServerError {
    fn from(error: kube::Error) -> Self {
        Self::of(&error)
    }
}

impl ApiServerError {
    /// Converts the error of a call, without texts that may quote something.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::Auth(_) => Self::Unavailable("the credentials can't be used".into()),
            other if is_of_parser(other) => Self::Refused("its response cannot be read".into()),
            other => Self::Unavailable(chain(other)),
        }
    }

    fn of_status(status: &Status) -> Self {
        match status.code {
            403 if status.reason == "Forbidden" => Self::Forbidden(status.message.clone()),
            403 => Self::Forbidden(described(status)),
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 | 500..=599 => Self::Unavailable(described(status)),
            _ => Self::Refused(described(status)),
        }
    }
}

/// Why a watch failed, without texts that may quote something.
pub fn watch_error(error: &watcher::Error) -> String {
    let (step, error) = match error {
        watcher::Error::InitialListFailed(error) => ("list", ApiServerError::of(error)),
        watcher::Error::WatchStartFailed(error) => ("start", ApiServerError::of(error)),
        watcher::Error::WatchFailed(error) => ("read", ApiServerError::of(error)),
        watcher::Error::WatchError(status) => ("watch", ApiServerError::of_status(status)),
        watcher::Error::NoResourceVersion => return "list: it has no resource version".to_owned(),
    };
    format!("{step}: {error}")
}

/// Code and reason of a response, with the message if an admission webhook or policy wrote it.
fn described(status: &Status) -> String {
    let Status { code, reason, message, .. } = status;
    let is_denial = is_of_webhook(message) || is_of_policy(message);
    if is_denial { format!("{code} {reason}: {message}") } else { format!("{code} {reason}") }
}

/// Whether the message has the form `admission webhook "tickets.example" denied the request: no ticket`.
fn is_of_webhook(message: &str) -> bool {
    let rest = message.strip_prefix("admission webhook \"");
    let rest = rest.and_then(|rest| rest.split_once('"')).map(|(_, rest)| rest);
    rest.is_some_and(|rest| rest.starts_with(" denied the request"))
}

/// Whether the message has the form `secrets "acme" is forbidden: ValidatingAdmissionPolicy 'tickets' with binding
/// 'all' denied request: no ticket`.
fn is_of_policy(message: &str) -> bool {
    let Some((object, rest)) = message.split_once(" is forbidden: ") else {
        return false;
    };
    // Before the colon stand a resource and a name. More words may be a value that contains such a text.
    let is_object = object.split(' ').count() <= 2;
    let names = rest
        .strip_prefix("ValidatingAdmissionPolicy '")
        .and_then(|rest| rest.split_once(" denied request: "));
    is_object && names.is_some_and(|(names, _)| names.ends_with('\''))
}

/// Whether the error or one of its causes comes from a parser, which quotes what it could not read.
fn is_of_parser(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| cause.is::<serde_json::Error>() || cause.is::<FromUtf8Error>())
}

/// An error with its causes, without repetitions: most errors of the client contain the text of their cause.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error).map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        match text.as_str() {
            "" => text = cause,
            said if said.ends_with(&cause) => {}
            _ => text = format!("{text}: {cause}"),
        }
    }
    text
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreadable() -> kube::Error {
        kube::Error::SerdeError(serde_json::from_str::<u8>("\"hunter2\"").unwrap_err())
    }

    fn response(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, reason).with_code(code)))
    }

    fn text(code: u16, reason: &str, message: &str) -> String {
        ApiServerError::from(response(code, reason, message)).to_string()
    }

    #[test]
    fn what_a_parser_could_not_read_is_never_quoted() {
        assert!(unreadable().to_string().contains("hunter2"), "it would be");
        let fixed = "refused by the API server: its response cannot be read";
        assert_eq!(ApiServerError::from(unreadable()).to_string(), fixed);
        let not_utf8 = String::from_utf8(b"hunter2\xff".to_vec()).unwrap_err();
        assert_eq!(ApiServerError::from(kube::Error::FromUtf8(not_utf8)).to_string(), fixed);
        let inner = kube::Error::Service(Box::new(unreadable()));
        assert_eq!(ApiServerError::from(inner).to_string(), fixed, "also as a cause");
        let failed = watch_error(&watcher::Error::WatchFailed(unreadable()));
        assert_eq!(failed, "read: refused by the API server: its response cannot be read");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Caused(&'static str, #[source] Option<Box<Caused>>);

    #[test]
    fn causes_follow_unless_the_text_before_ends_with_them() {
        for (said, shown) in [("no", "no: broken pipe"), ("no: broken pipe", "no: broken pipe")] {
            let error = Caused(said, Some(Box::new(Caused("broken pipe", None))));
            assert_eq!(chain(&error), shown);
        }
    }

    #[test]
    fn sent_values_are_never_quoted_but_the_message_of_a_policy_is() {
        let refused = text(422, "Invalid", "data: Invalid value: \"hunter2\"");
        assert_eq!(refused, "refused by the API server: 422 Invalid");
        let denied = text(400, "BadRequest", "admission webhook \"p\" denied the request: no");
        assert!(denied.ends_with("denied the request: no"), "{denied}");
        let policy =
            "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        assert_eq!(text(422, "Invalid", policy), format!("refused by the API server: 422 Invalid: {policy}"));
        let expired = watch_error(&watcher::Error::InitialListFailed(response(403, "Forbidden", "no list")));
        assert_eq!(expired, "list: forbidden: no list");
    }

    #[test]
    fn value_that_looks_like_the_message_of_a_policy_is_not_quoted() {
        for message in [
            "Secret \"a\" is invalid: data: Invalid value: \"hunter2 denied the request\"",
            "data: Invalid value: \"admission webhook \"p\" denied the request: hunter2\"",
            "data: Invalid value: \"x is forbidden: ValidatingAdmissionPolicy 'p' denied request: hunter2\"",
            "secrets \"a\" is forbidden: hunter2 ValidatingAdmissionPolicy 'p' denied request: no",
            "admission webhook \"p\" failed: hunter2 denied the request",
        ] {
            assert_eq!(text(422, "Invalid", message), "refused by the API server: 422 Invalid", "{message}");
        }
    }

    #[test]
    fn only_the_classes_of_the_heading_keep_their_message() {
        let unavailable = text(500, "InternalError", "failed to create typed patch object: hunter2");
        assert_eq!(unavailable, "the API server is not available: 500 InternalError");
        let unavailable = text(429, "TooManyRequests", "hunter2");
        assert_eq!(unavailable, "the API server is not available: 429 TooManyRequests");
        let of_a_proxy = text(403, "Failed to parse error data", "<p>hunter2</p>");
        assert_eq!(of_a_proxy, "forbidden: 403 Failed to parse error data");
        assert_eq!(text(404, "NotFound", "hunter2"), "the object does not exist");
        assert_eq!(text(409, "Conflict", "hunter2"), "the object changed meanwhile");
        let status = Status::failure("hunter2", "Expired").with_code(410);
        let ended = watch_error(&watcher::Error::WatchError(Box::new(status)));
        assert_eq!(ended, "watch: refused by the API server: 410 Expired");
    }

    #[test]
    fn error_of_the_connection_names_each_cause_once() {
        let refused = std::io::Error::other("connection refused");
        let text = ApiServerError::from(kube::Error::Service(Box::new(refused))).to_string();
        assert_eq!(text, "the API server is not available: ServiceError: connection refused");
    }
}
