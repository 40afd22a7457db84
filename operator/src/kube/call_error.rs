//! Why a call failed: because of the Lease, or because of the API server, in the words of [`docket_program::apiserver`].

use docket_program::apiserver::ApiServerError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// This process does not hold the Lease, so nothing was written.
    #[error("the lease is not held")]
    NotLeader,
    /// The API server refused the call or could not be reached.
    #[error(transparent)]
    Api(#[from] ApiServerError),
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        Self::Api(error.into())
    }
}
