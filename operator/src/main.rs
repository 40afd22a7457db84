//! The binary `docket-operator`: runs the given command.

use clap::Parser;
use docket_operator::args::{Arguments, Command, RunArguments};
use docket_operator::run;
use docket_program::logging;

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Crds => {
            print!("{}", docket_crds::crd::yaml());
            Ok(())
        }
        Command::Licenses => Ok(docket_program::licenses::print(std::io::stdout())?),
        Command::Run(arguments) => start(*arguments),
    }
}

fn start(arguments: RunArguments) -> anyhow::Result<()> {
    let _logging = logging::start(&arguments.log, true);
    rustls::crypto::ring::default_provider().install_default().expect("no provider is installed before");
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run::run(arguments))
}
