//! The body of a response for each type of problem, for the documentation.

use docket_crds::Limit;
use serde_json::Value;

use super::body::LIMIT;
use super::error::ApiError;
use super::problem_type::ProblemType;
use crate::access::rates::OverLimit;
use crate::refusal::MovedOn;

/// The body of a response of this type.
pub fn example(kind: ProblemType) -> Value {
    error(kind).example()
}

/// An error of this type, as a client is likely to see it.
fn error(kind: ProblemType) -> ApiError {
    match kind {
        ProblemType::InvalidFields => ApiError::field("pageSize", "must be a whole number from 1 to 100"),
        ProblemType::InvalidRequest => ApiError::BadRequest("Send a Host header"),
        ProblemType::InvalidApiKey => ApiError::InvalidApiKey,
        ProblemType::InvalidToken => ApiError::InvalidToken,
        ProblemType::UnknownClusterUser => ApiError::UnknownClusterUser,
        ProblemType::ApiAccessOff => ApiError::ApiAccessOff("0123456789abcdef0123456789abcdef".to_owned()),
        ProblemType::NotAdministrator => ApiError::NotAdministrator,
        ProblemType::NoClusterRight => {
            let right =
                "get webhooks/deliveries in the group docket.dev for acme-orders in namespace tenants";
            ApiError::NoClusterRight(right.to_owned())
        }
        ProblemType::ForeignForm => ApiError::ForeignForm,
        ProblemType::TenantNotFound => ApiError::TenantNotFound,
        ProblemType::UnknownUser => ApiError::UnknownUser("ada@quillfeather.example".to_owned()),
        ProblemType::NotFound => ApiError::NotFound("There is no such web order"),
        ProblemType::NoSuchRoute => ApiError::MisspelledRoute("/Orders/Save".to_owned()),
        ProblemType::MethodNotAllowed => ApiError::MethodNotAllowed,
        ProblemType::BodyTooSlow => ApiError::RequestTimeout,
        ProblemType::Conflict => ApiError::Conflict("the order is exported and can no longer be changed"),
        ProblemType::OrderChanged => ApiError::OrderChanged(MovedOn::Version(4)),
        ProblemType::IdempotencyKeyReused => ApiError::KeyReused,
        ProblemType::RefusedByCluster => {
            let why = "admission webhook \"policy.example.com\" denied the request: the host of targetURL is not allowed";
            ApiError::Refused(format!("The cluster does not accept this webhook: {why}"))
        }
        ProblemType::PreconditionFailed => ApiError::OrderChanged(MovedOn::IfMatch(4)),
        ProblemType::BodyTooLong => ApiError::TooLarge(LIMIT),
        ProblemType::UnsupportedMediaType => ApiError::UnsupportedMediaType,
        ProblemType::TooManySignIns => ApiError::TryLater(4),
        ProblemType::AtLimit => {
            ApiError::OverLimit(OverLimit { limit: Limit::RequestsPerSecond, seconds: 1 })
        }
        ProblemType::InternalError => ApiError::Internal,
        ProblemType::Unavailable => ApiError::Unavailable,
        ProblemType::ClusterAway => ApiError::ClusterAway,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_has_its_type_and_status() {
        for kind in ProblemType::ALL {
            let example = example(kind);
            assert_eq!(example["type"], kind.reference());
            assert_eq!(example["status"], kind.status().as_u16());
            assert!(example["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{example}");
        }
    }
}
