//! The binary `docket-operator`: a match over its commands.

use clap::Parser;
use docket_operator::{
    args::{Arguments, Command, LogFormat, RunArguments},
    run,
};
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Crds => {
            print!("{}", docket_crds::crd::yaml());
            Ok(())
        }
        Command::Licenses => Ok(docket_program::licenses::print()?),
        Command::Run(arguments) => start(*arguments),
    }
}

fn start(arguments: RunArguments) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&arguments.log).expect("the arguments have checked it");
    // It tells the whole of an answer that it can't read, which may hold Secrets.
    let filter = filter.add_directive("kube_client::client=error".parse().expect("a directive"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Text => {
            builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
        }
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    // A panic's message may quote an object.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a panic, which is a defect");
    }));
    rustls::crypto::ring::default_provider().install_default().expect("nobody has installed one before");
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run::run(arguments))
}
