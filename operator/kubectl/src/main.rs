//! The binary `kubectl-docket`, which kubectl runs as `kubectl docket`. It answers the first questions of someone who
//! runs Docket, from the API server and the data plane, with the user's rights.
//!
//! - `args`: the command line; `cluster`: the calls to the API server, by a `proxy`; `problem`: errors and exit codes; `kubeconfig`:
//!   what is wrong with it
//! - `check`: what is wrong with the installation; `status`: what the API server stores about tenants and webhooks; `upgrade`: the
//!   migrations of their databases
//! - `deliveries`, `tenant_lists`: the commands that `docket` has too (`docket_commands`), answered by the data plane, never with
//!   payloads; `dataplane`: the calls to it
//! - `report`: writes all of this into a file for support
//! - `reconcile`, `rotate_key`, `adopt`: the changes of objects
//! - `conditions`: what `docs/reference/conditions.md` says about a reason; `rights`: the rights that each command
//!   needs; `krew`: the manifest for krew
//! - `completion`: what Tab offers

mod adopt;
mod args;
mod check;
mod cluster;
mod completion;
mod conditions;
mod dataplane;
mod deliveries;
#[cfg(test)]
mod krew;
mod kubeconfig;
mod problem;
mod proxy;
mod reconcile;
mod report;
#[cfg(test)]
mod rights;
mod rotate_key;
mod status;
mod tenant_lists;
mod upgrade;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Arguments, Command};
use crate::cluster::Cluster;
use crate::problem::Problem;

fn main() -> ExitCode {
    rustls::crypto::ring::default_provider().install_default().expect("no provider is installed before");
    if std::env::args_os().nth(1).is_some_and(|first| first == completion::ASK) {
        completion::print(std::env::args_os().skip(2));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    if let Command::Completion { shell } = arguments.command {
        match shell {
            Some(shell) => {
                let mut command = Arguments::command();
                clap_complete::generate(shell, &mut command, "kubectl-docket", &mut std::io::stdout());
            }
            None => print!("{}", completion::SCRIPT),
        }
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(Problem::Found(error.to_string())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(problem.exit_code())
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Problem> {
    let Arguments { cluster: settings, command } = arguments;
    let cluster = Cluster::connect(&settings, command.is_everywhere()).await?;
    match command {
        Command::Check { pre: true, release_namespace, printed, .. } => {
            check::print(&check::before(&cluster.before(&release_namespace).await?), printed.output)
        }
        Command::Check { pre: false, release_namespace, printed, .. } => {
            check::print_installed(&cluster.found(&release_namespace).await, printed.output)
        }
        Command::Status { tenant, printed, .. } => {
            status::print(&cluster, tenant.as_deref(), printed.output).await
        }
        Command::Upgrade { view, printed, .. } => upgrade::print(&cluster, view, printed.output).await,
        Command::Deliveries(asked) => deliveries::list(&cluster, &asked).await,
        Command::Trace(asked) => deliveries::trace(&cluster, &asked).await,
        Command::Resend(asked) => deliveries::resend(&cluster, &asked).await,
        Command::SetAside(asked) => deliveries::set_aside(&cluster, &asked).await,
        Command::Test(asked) => deliveries::test(&cluster, &asked).await,
        Command::Audit(asked) => tenant_lists::audit(&cluster, &asked, deliveries::now()).await,
        Command::People(asked) => tenant_lists::people(&cluster, &asked).await,
        Command::Report(asked) => report::write(&cluster, &asked).await,
        Command::Reconcile { object, wait, timeout, printed } => {
            reconcile::run(&cluster, &object, wait.then_some(timeout), printed.output).await
        }
        Command::RotateKey { key, finish, printed } => {
            rotate_key::run(&cluster, &key, finish, printed.output).await
        }
        Command::Adopt(asked) => adopt::run(&cluster, &asked).await,
        Command::Completion { .. } => Ok(()),
    }
}
