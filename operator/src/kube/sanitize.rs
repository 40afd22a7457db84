//! Why a call to the API server failed, in words that may leave the process: they never quote what an object holds.
//!
//! The API server may repeat what was sent to it, and a parser what it could not read; both can be a Secret. All errors
//! of the API server and of its client pass through here before they are logged or put into a status.

use kube::runtime::watcher;

/// Why a call had no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// This process does not hold the Lease, so nothing was written.
    #[error("the lease is not held")]
    NotLeader,
    /// The object is another one, or of another version, than expected.
    #[error("the object changed meanwhile")]
    Conflict,
    /// The object does not exist.
    #[error("the object does not exist")]
    NotFound,
    /// A right is missing, or a quota is used up.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The API server does not accept it.
    #[error("refused by the API server: {0}")]
    Refused(String),
    /// The API server is away or too slow.
    #[error("the API server is not available: {0}")]
    Away(String),
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                403 => Self::Forbidden(status.message.clone()),
                404 => Self::NotFound,
                409 => Self::Conflict,
                429 | 500..=599 => Self::Away(status.message.clone()),
                // The words of an admission policy are its author's; the API server's own may repeat what was sent.
                _ if status.message.contains(" denied ") => {
                    Self::Refused(format!("{} {}: {}", status.code, status.reason, status.message))
                }
                _ => Self::Refused(format!("{} {}", status.code, status.reason)),
            },
            // It may quote what it could not read.
            kube::Error::SerdeError(_) => Self::Refused("its response cannot be read".into()),
            other => Self::Away(other.to_string()),
        }
    }
}

/// Why a watch failed.
pub fn watch_error(error: watcher::Error) -> String {
    let (step, error) = match error {
        watcher::Error::InitialListFailed(error) => ("list", error),
        watcher::Error::WatchStartFailed(error) => ("start", error),
        watcher::Error::WatchFailed(error) => ("read", error),
        watcher::Error::WatchError(status) => ("watch", kube::Error::Api(status)),
        watcher::Error::NoResourceVersion => return "list: it has no resource version".to_owned(),
    };
    format!("{step}: {}", CallError::from(error))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn unreadable() -> kube::Error {
        kube::Error::SerdeError(serde_json::from_str::<u8>("\"hunter2\"").unwrap_err())
    }

    fn answered(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, reason).with_code(code)))
    }

    #[test]
    fn what_a_parser_could_not_read_is_never_quoted() {
        assert!(unreadable().to_string().contains("hunter2"), "it would be");
        assert_eq!(
            CallError::from(unreadable()).to_string(),
            "refused by the API server: its response cannot be read"
        );
        let failed = watch_error(watcher::Error::WatchFailed(unreadable()));
        assert_eq!(failed, "read: refused by the API server: its response cannot be read");
    }

    #[test]
    fn sent_values_are_never_quoted_but_the_message_of_a_policy_is() {
        let refused = CallError::from(answered(422, "Invalid", "data: Invalid value: \"hunter2\""));
        assert_eq!(refused.to_string(), "refused by the API server: 422 Invalid");
        let denied =
            CallError::from(answered(400, "BadRequest", "admission webhook \"p\" denied the request: no"));
        assert!(denied.to_string().ends_with("denied the request: no"), "{denied}");
        let expired = watch_error(watcher::Error::InitialListFailed(answered(403, "Forbidden", "no list")));
        assert_eq!(expired, "list: forbidden: no list");
    }
}
