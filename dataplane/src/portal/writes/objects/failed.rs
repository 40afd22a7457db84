//! Why a call to the API server had no result, and what that says about a change.

use std::error::Error;

use docket_listener::fair_share::Busy;
use docket_program::apiserver::ApiServerError;
use hyper_util::client::legacy::Error as HttpError;

use super::TIMEOUT;
use crate::portal::writes::NotWritten;

/// Why a call had no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error(transparent)]
    Error(ApiServerError),
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    TooSlow,
    #[error("the API server has too many requests (429)")]
    TooMany,
    /// There was no connection, so the request was not sent.
    #[error(transparent)]
    NoConnection(ApiServerError),
    #[error(transparent)]
    Busy(#[from] Busy),
}

impl From<kube::Error> for Failed {
    fn from(error: kube::Error) -> Self {
        match error {
            // The API server refused the request before it began with it.
            kube::Error::Api(status) if status.code == 429 => Self::TooMany,
            error if is_of_connecting(&error) => Self::NoConnection(error.into()),
            error => Self::Error(error.into()),
        }
    }
}

/// Whether the error comes from the look-up of the server's name, from connecting or from TLS.
fn is_of_connecting(error: &kube::Error) -> bool {
    let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.any(|cause| cause.downcast_ref::<HttpError>().is_some_and(HttpError::is_connect))
}

impl Failed {
    /// The error of a call that writes.
    pub(super) fn of_write(self) -> NotWritten {
        match self {
            Self::TooSlow | Self::Error(ApiServerError::Unavailable(_)) => {
                tracing::warn!(error = %self, "the API server did not answer a write of the portal; the change may have been made");
                NotWritten::Unknown
            }
            failed => failed.into(),
        }
    }
}

impl From<Failed> for NotWritten {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Error(ApiServerError::Conflict | ApiServerError::NotFound) => Self::Changed,
            Failed::Error(ApiServerError::Refused(why)) => {
                tracing::warn!(error = why, "the API server refused a Webhook of the portal");
                Self::Refused(format!("The cluster does not accept this webhook: {why}"))
            }
            Failed::Error(error @ ApiServerError::Forbidden(_)) => {
                tracing::error!(%error, "the portal's service account lacks a right");
                Self::Refused(
                    "The cluster does not let the portal do this; its log says what is missing".to_owned(),
                )
            }
            failed => {
                tracing::warn!(error = %failed, "the API server did not answer the portal");
                Self::Away
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_that_may_have_been_made_is_unknown() {
        let failed = |code: u16| {
            let status = kube::core::Status { code, ..kube::core::Status::default() };
            Failed::from(kube::Error::Api(status.boxed())).of_write()
        };
        assert!(matches!(failed(429), NotWritten::Away));
        assert!(matches!(failed(503), NotWritten::Unknown));
        assert!(matches!(Failed::TooSlow.of_write(), NotWritten::Unknown));
    }
}
