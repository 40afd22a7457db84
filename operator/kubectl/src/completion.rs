//! Completion: what kubectl offers when the user presses Tab after `kubectl docket`. kubectl runs the program
//! `kubectl_complete-docket` with the words so far. It reads one candidate per line and a directive, in the format of
//! programs made with cobra.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{Arg, Command, CommandFactory, FromArgMatches};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use docket_program::screen::clean;

use crate::args::{Arguments, ClusterArguments, without_list};
use crate::cluster::Cluster;
use crate::problem::Problem;

/// The text of `kubectl_complete-docket`, which the user puts on the `PATH`.
pub(crate) const SCRIPT: &str = "#!/bin/sh\nexec kubectl-docket __complete \"$@\"\n";
/// The first argument with which that program calls the plugin.
pub(crate) const ASK: &str = "__complete";
/// cobra's directive not to add file names.
const NO_FILES: &str = ":4";
/// How long Tab waits for the API server.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Prints the candidates for the last of these words, each with its help.
pub(crate) fn print(words: impl Iterator<Item = OsString>) {
    let mut words: Vec<OsString> = std::iter::once("kubectl-docket".into()).chain(words).collect();
    // The user types the last word. It is empty if there is no other.
    let typed = if words.len() == 1 { None } else { words.pop() };
    let mut words = without_list(words);
    words.push(typed.unwrap_or_default());
    let last = words.len() - 1;
    let is_flag = |word: &OsStr| word.as_encoded_bytes().starts_with(b"-");
    let wants_flag = is_flag(&words[last]);
    let folder = std::env::current_dir().ok();
    // A word that is not UTF-8 has no candidates.
    let found =
        complete(&mut offering(Arguments::command()), words, last, folder.as_deref()).unwrap_or_default();
    // Like kubectl, it offers flags only after a hyphen.
    let shown = |candidate: &&CompletionCandidate| {
        !candidate.is_hide_set() && (wants_flag || !is_flag(candidate.get_value()))
    };
    for candidate in found.iter().filter(shown) {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        println!("{}\t{help}", clean(&candidate.get_value().to_string_lossy()));
    }
    println!("{NO_FILES}");
}

/// A command whose arguments have candidates: the names of objects.
fn offering(command: Command) -> Command {
    command.mut_args(with_candidates).mut_subcommands(offering)
}

/// An argument with the candidates for its values. Its id is the name of its field in [`crate::args`].
fn with_candidates(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "namespace" | "release_namespace" => argument.add(ArgValueCompleter::new(namespaces)),
        "tenant" => argument.add(ArgValueCompleter::new(tenants)),
        "webhook" => argument.add(ArgValueCompleter::new(webhooks)),
        "object" => argument.add(ArgValueCompleter::new(objects)),
        "key" => argument.add(ArgValueCompleter::new(keys)),
        _ => argument,
    }
}

fn tenants(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(current, async |cluster| {
        Ok(cluster.tenants().await?.into_iter().filter_map(|tenant| tenant.metadata.name).collect())
    })
}

fn webhooks(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(current, async |cluster| {
        Ok(cluster.webhooks().await?.into_iter().filter_map(|webhook| webhook.metadata.name).collect())
    })
}

/// Candidates such as `tenant/acme` and `webhook/orders`.
fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(current, async |cluster| {
        let (tenants, webhooks) = tokio::try_join!(cluster.tenants(), cluster.webhooks())?;
        let tenants = tenants.into_iter().filter_map(|tenant| tenant.metadata.name);
        let webhooks = webhooks.into_iter().filter_map(|webhook| webhook.metadata.name);
        Ok(tenants
            .map(|name| format!("tenant/{name}"))
            .chain(webhooks.map(|name| format!("webhook/{name}")))
            .collect())
    })
}

/// Candidates such as `acme/primary`.
fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(current, async |cluster| {
        let mut found = Vec::new();
        for tenant in cluster.tenants().await? {
            let name = tenant.metadata.name.unwrap_or_default();
            found.extend(tenant.spec.api_keys.iter().map(|key| format!("{name}/{}", key.name)));
        }
        Ok(found)
    })
}

fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(current, async |cluster| cluster.namespaces().await)
}

/// The candidates that begin with what the user typed. If the cluster can't be read there are none: an error would
/// disturb the user, who is typing.
fn candidates(
    current: &OsStr,
    list: impl AsyncFnOnce(&Cluster) -> Result<Vec<String>, Problem>,
) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return vec![];
    };
    let found = runtime.block_on(async {
        let asked = async { list(&Cluster::connect(&where_to_look()?, false).await?).await };
        tokio::time::timeout(TIMEOUT, asked).await.ok()?.ok()
    });
    let current = current.to_string_lossy();
    let found = found.unwrap_or_default().into_iter().filter(|name| name.starts_with(&*current));
    found.map(CompletionCandidate::new).collect()
}

/// The cluster and the namespace that the words so far choose.
fn where_to_look() -> Result<ClusterArguments, Problem> {
    let words = std::env::args_os().skip(2);
    let matches = Arguments::command()
        .ignore_errors(true)
        .try_get_matches_from(std::iter::once("kubectl-docket".into()).chain(words));
    let matches = matches.and_then(|matches| ClusterArguments::from_arg_matches(&matches));
    matches.map_err(|error| Problem::Found(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of a command and of its subcommands that have candidates, each after the name of its command. For tests.
    fn offered(command: &Command) -> Vec<String> {
        let own = command.get_arguments().filter(|argument| argument.get::<ArgValueCompleter>().is_some());
        let own = own.map(|argument| format!("{} {}", command.get_name(), argument.get_id()));
        own.chain(command.get_subcommands().flat_map(offered)).collect()
    }

    #[test]
    fn each_argument_that_is_the_name_of_an_object_has_candidates() {
        let expected = [
            "kubectl-docket namespace",
            "check release_namespace",
            "status tenant",
            "deliveries webhook",
            "deliveries tenant",
            "deliveries release_namespace",
            "trace tenant",
            "trace release_namespace",
            "resend webhook",
            "resend release_namespace",
            "set-aside webhook",
            "set-aside release_namespace",
            "test webhook",
            "test release_namespace",
            "audit webhook",
            "audit tenant",
            "audit release_namespace",
            "people tenant",
            "people release_namespace",
            "reconcile object",
            "rotate-key key",
            "adopt tenant",
            "report release_namespace",
        ];
        assert_eq!(offered(&offering(Arguments::command())), expected);
    }
}
