//! What is wrong with the kubeconfig, and what to do about it.

use std::io::ErrorKind;

use kube::config::{KubeconfigError, LoadDataError};

use crate::problem::Problem;

/// What to do if no context is chosen.
const CHOOSE: &str = "choose a context with --context or `kubectl config use-context`";

/// The problem of a kubeconfig that can't be used. Its text quotes nothing but names and paths.
pub(crate) fn problem(error: &KubeconfigError) -> Problem {
    let text = match error {
        KubeconfigError::FindPath => {
            "there is no kubeconfig; name one with --kubeconfig or KUBECONFIG".to_owned()
        }
        KubeconfigError::ReadConfig(why, file) if why.kind() == ErrorKind::NotFound => {
            format!(
                "the kubeconfig {} does not exist; name another one with --kubeconfig or KUBECONFIG",
                file.display()
            )
        }
        KubeconfigError::ReadConfig(why, file) => {
            format!("the kubeconfig {} can't be read: {why}", file.display())
        }
        // The error may quote a line with a token.
        KubeconfigError::Parse(_) => {
            "the kubeconfig is no valid YAML; `kubectl config view` says where it is wrong".to_owned()
        }
        KubeconfigError::LoadContext(name) if !name.is_empty() => {
            format!("the kubeconfig has no context {name}; `kubectl config get-contexts` lists its contexts")
        }
        KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_) => {
            format!("the kubeconfig has no current context; {CHOOSE}")
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("the context names the cluster {name}, which the kubeconfig does not have; {CHOOSE}")
        }
        KubeconfigError::MissingClusterUrl => {
            format!("the cluster of the context has no server; {CHOOSE}")
        }
        KubeconfigError::LoadCertificateAuthority(LoadDataError::ReadFile(why, file))
        | KubeconfigError::LoadClientCertificate(LoadDataError::ReadFile(why, file))
        | KubeconfigError::LoadClientKey(LoadDataError::ReadFile(why, file)) => {
            format!("the kubeconfig names the file {}, which can't be read: {why}", file.display())
        }
        KubeconfigError::ParseNoProxy(error) => {
            format!(
                "NO_PROXY can't be read: {error}; separate hosts, addresses and networks by one comma each"
            )
        }
        other => format!("the kubeconfig can't be used: {other}"),
    };
    Problem::NoLogin(text)
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use kube::config::Kubeconfig;

    use super::*;

    fn said(error: &KubeconfigError) -> String {
        let problem = problem(error);
        assert_eq!(problem.exit_code(), 3);
        problem.to_string()
    }

    #[test]
    fn kubeconfig_that_is_missing_or_names_no_context_says_what_to_do() {
        let read = |kind: ErrorKind| KubeconfigError::ReadConfig(Error::from(kind), "/home/a/config".into());
        assert_eq!(
            said(&read(ErrorKind::NotFound)),
            "no access: the kubeconfig /home/a/config does not exist; name another one with --kubeconfig or KUBECONFIG"
        );
        let denied = said(&read(ErrorKind::PermissionDenied));
        assert!(denied.starts_with("no access: the kubeconfig /home/a/config can't be read: "), "{denied}");
        let none = "no access: the kubeconfig has no current context; choose a context with --context or `kubectl config use-context`";
        for error in [KubeconfigError::CurrentContextNotSet, KubeconfigError::LoadContext(String::new())] {
            assert_eq!(said(&error), none);
        }
        let other = said(&KubeconfigError::LoadContext("staging".to_owned()));
        assert!(other.starts_with("no access: the kubeconfig has no context staging; `kubectl "), "{other}");
    }

    #[test]
    fn mistake_in_the_yaml_quotes_no_token() {
        let yaml = "apiVersion: v1\nusers: [{name: a, user: {token: hunter2, token: hunter2}]\n";
        let error = Kubeconfig::from_yaml(yaml).expect_err("a bracket is missing");
        let text = said(&error);
        assert!(text.contains("is no valid YAML") && !text.contains("hunter2"), "{text}");
    }
}
