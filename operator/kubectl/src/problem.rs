//! Why a command ends with another exit code than 0. A message of the API server is quoted only if it contains
//! nothing of an object.

use std::fmt;

use docket_program::apiserver::ApiServerError;
use docket_program::screen::clean_lines;

/// Why a command ends with another exit code than 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The text says which problem the command found.
    Found(String),
    /// The user lacks a right, or a token for the data plane.
    NoAccess(String),
    /// The user has no kubeconfig or login that can be used.
    NoLogin(String),
    /// The API server or the data plane can't be reached, has too much to do, or fails.
    Unavailable(String),
}

impl Problem {
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Found(_) => 1,
            Self::NoAccess(_) | Self::NoLogin(_) | Self::Unavailable(_) => 3,
        }
    }

    /// The text without the hint about what to read.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Found(text) | Self::NoAccess(text) | Self::NoLogin(text) | Self::Unavailable(text) => text,
        }
    }

    /// A problem of the same kind with another text.
    pub(crate) fn retold(&self, text: String) -> Self {
        match self {
            Self::Found(_) => Self::Found(text),
            Self::NoAccess(_) => Self::NoAccess(text),
            Self::NoLogin(_) => Self::NoLogin(text),
            Self::Unavailable(_) => Self::Unavailable(text),
        }
    }

    /// The same problem, with `what` in front of its text.
    pub(crate) fn about(&self, what: &str) -> Self {
        self.retold(format!("{what}: {}", self.text()))
    }

    /// An object that a command names does not exist.
    pub(crate) fn missing(kind: &str, name: &str, namespace: &str) -> Self {
        Self::Found(format!("there is no {kind} {name} in namespace {namespace}; -n names another one"))
    }

    /// The API server does not serve this kind.
    pub(crate) fn unserved(plural: &str, group: &str) -> Self {
        Self::Found(format!(
            "the API server does not serve {plural}.{group}; `kubectl docket check` says what is not installed"
        ))
    }

    /// The problem that the API server did not patch an object. `refused`: what to do if the API server refuses the change.
    pub(crate) fn of_patch(
        error: kube::Error,
        kind: &str,
        name: &str,
        namespace: &str,
        refused: &str,
    ) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 404 => Self::missing(kind, name, namespace),
            kube::Error::Api(status) if matches!(status.code, 400 | 409 | 422) => {
                let why = ApiServerError::of(&error);
                Self::Found(format!("{kind} {name} in namespace {namespace} is unchanged: {why}; {refused}"))
            }
            _ => error.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may quote names that others chose.
        let text = clean_lines(self.text());
        match self {
            Self::Found(_) | Self::Unavailable(_) => f.write_str(&text),
            Self::NoLogin(_) => write!(f, "no access: {text}"),
            Self::NoAccess(_) => write!(
                f,
                "no access: {text}; the page /docs/reference/kubectl-docket.html#rights lists the rights of each command"
            ),
        }
    }
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        let why = ApiServerError::of(&error);
        let is_unknown = matches!(&error, kube::Error::Api(status) if status.code == 401);
        match why {
            _ if matches!(error, kube::Error::Auth(_)) => Self::NoLogin(
                "the credentials of the kubeconfig can't be used; try `kubectl auth whoami`".to_owned(),
            ),
            ApiServerError::Forbidden(_) => Self::NoAccess(why.to_string()),
            _ if is_unknown => Self::NoAccess(why.to_string()),
            ApiServerError::Unavailable(_) => Self::Unavailable(format!("{why}; try again")),
            ApiServerError::Conflict | ApiServerError::NotFound | ApiServerError::Refused(_) => {
                Self::Found(why.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answer(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("hunter2", reason).with_code(code)))
    }

    #[test]
    fn names_that_others_chose_move_no_cursor() {
        let text = Problem::Found("key of \u{1b}[2Jacme\nnext line".to_owned()).to_string();
        assert_eq!(text, "key of  [2Jacme\nnext line");
    }

    #[test]
    fn answer_of_a_busy_api_server_is_no_problem_of_the_cluster_and_no_missing_right() {
        for (code, reason) in [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")]
        {
            let problem = Problem::from(answer(code, reason));
            let text = format!("the API server is not available: {code} {reason}; try again");
            assert_eq!((problem.exit_code(), problem.to_string()), (3, text));
        }
        let away = kube::Error::Service(Box::new(std::io::Error::other("connection refused")));
        assert!(matches!(Problem::from(away), Problem::Unavailable(_)));
        for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden")] {
            assert!(matches!(Problem::from(answer(code, reason)), Problem::NoAccess(_)), "{code}");
        }
        for (code, reason) in [(404, "NotFound"), (409, "Conflict"), (422, "Invalid")] {
            assert_eq!(Problem::from(answer(code, reason)).exit_code(), 1, "{code}");
        }
    }

    #[test]
    fn refused_patch_names_the_object_and_what_to_do() {
        let of = |code, reason| {
            let problem = Problem::of_patch(answer(code, reason), "Tenant", "acme", "tenants", "try again");
            (problem.exit_code(), problem.to_string())
        };
        let missing = "there is no Tenant acme in namespace tenants; -n names another one";
        assert_eq!(of(404, "NotFound"), (1, missing.to_owned()));
        let invalid = "Tenant acme in namespace tenants is unchanged: refused by the API server: 422 Invalid; try again";
        assert_eq!(of(422, "Invalid"), (1, invalid.to_owned()));
        assert_eq!(of(503, "ServiceUnavailable").0, 3);
        assert!(of(403, "Forbidden").1.starts_with("no access: "));
    }
}
