//! The binary `docket`: a match over the commands.

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, FromArgMatches};
use docket::args::{self, Arguments, Command};
use docket::{cli, dev, serve};
use docket_program::screen::clean_lines;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            // Without a stack trace: the user can fix what fails here.
            eprintln!("error: {}", clean_lines(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let matches = args::command().get_matches();
    let command = match read(Ok(matches)).command {
        Some(command) => command,
        None => dev_by_default()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let done = match command {
            Command::Verify(arguments) => return Ok(cli::verify::run(&arguments)),
            Command::Dev(arguments) => dev::run(arguments).await,
            Command::Serve(arguments) => serve::run(*arguments).await,
            Command::Migrate(arguments) => cli::migrate::run(*arguments).await,
            Command::Tenants(command) => cli::declared::tenants(command).await,
            Command::Webhooks(command) => cli::declared::webhooks(command).await,
            Command::Customers(command) => cli::people::customer(command).await,
            Command::Contacts(command) => cli::people::contact(command).await,
            Command::Employees(command) => cli::people::employee(command).await,
            Command::Audit(command) => cli::audit::run(command).await,
            Command::Deliveries(command) => cli::deliveries::run(command).await,
            Command::Trace(arguments) => cli::deliveries::trace(*arguments).await,
            Command::Resend(arguments) => cli::deliveries::resend(*arguments).await,
            Command::SetAside(arguments) => cli::deliveries::set_aside(*arguments).await,
            Command::Test(arguments) => cli::deliveries::test(*arguments).await,
            Command::Listen(arguments) => cli::listen::run(arguments).await,
            Command::Trigger(arguments) => cli::trigger::run(arguments).await,
            Command::Healthcheck(arguments) => cli::healthcheck::run(arguments).await,
            Command::Completion { shell } => cli::completion::run(shell),
            Command::Docs(arguments) => cli::docs::run(&arguments),
            Command::Licenses => Ok(docket_program::licenses::print(std::io::stdout())?),
        };
        done.map(|()| ExitCode::SUCCESS)
    })
}

/// `docket` alone is `docket dev`, with the settings of the environment.
fn dev_by_default() -> Result<Command> {
    let arguments = read(args::command().try_get_matches_from(["docket", "dev"]));
    arguments.command.ok_or_else(|| anyhow::anyhow!("`docket dev` could not be understood"))
}

fn read(matches: Result<ArgMatches, clap::Error>) -> Arguments {
    let arguments = matches.and_then(|mut matches| Arguments::from_arg_matches_mut(&mut matches));
    arguments.unwrap_or_else(|error| error.exit())
}
