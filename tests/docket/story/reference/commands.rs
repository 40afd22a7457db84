//! The commands of a program with their arguments, from its command line.

use std::fmt::Write;

use clap::{Arg, Command};

/// The page of a program.
pub(super) fn page(program: &str, about: &str, mut command: Command) -> String {
    command.build();
    let mut page = super::head(program, about);
    let mut all = Vec::new();
    collect(&command, &mut Vec::new(), &mut all);
    let mut connection = Vec::new();
    for (path, command) in all {
        write!(page, "\n## {}\n\n{}\n", path.join(" "), text(command)).expect("a String takes all");
        let arguments =
            command.get_arguments().filter(|argument| !argument.is_hide_set() && argument.get_id() != "help");
        let (shared, own): (Vec<&Arg>, Vec<&Arg>) =
            arguments.partition(|argument| argument.get_help_heading() == Some(CONNECTION));
        page += &table(&own);
        if !shared.is_empty() {
            page += "\nAnd the options of the [connection](#connection).\n";
            connection = shared;
        }
    }
    if !connection.is_empty() {
        page += "\n## Connection\n\nThese options say where a command finds the tenant and its database.\n";
        page += &table(&connection);
    }
    page
}

/// The heading of options that many commands have in common.
const CONNECTION: &str = "Connection";

/// The rows of these arguments; nothing without one.
fn table(arguments: &[&Arg]) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let with_variables = arguments.iter().any(|argument| argument.get_env().is_some());
    let mut table = if with_variables {
        "\n| Argument | Variable | Default | |\n|---|---|---|---|\n".to_owned()
    } else {
        "\n| Argument | Default | |\n|---|---|---|\n".to_owned()
    };
    for argument in arguments {
        let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
        let default = defaults.collect::<Vec<_>>().join(",");
        let variable = argument.get_env().map(|name| name.to_string_lossy()).unwrap_or_default();
        let variable = if with_variables { format!(" {} |", code(&variable)) } else { String::new() };
        writeln!(
            table,
            "| {} |{variable} {} | {} |",
            code(&written(argument)),
            code(&default),
            help(argument)
        )
        .expect("a String takes all");
    }
    table
}

/// The commands that do something, each with its words, in the order of the program's own help.
fn collect<'a>(command: &'a Command, path: &mut Vec<String>, all: &mut Vec<(Vec<String>, &'a Command)>) {
    path.push(command.get_name().to_owned());
    let inner: Vec<&Command> = command
        .get_subcommands()
        .filter(|command| command.get_name() != "help" && !command.is_hide_set())
        .collect();
    if inner.is_empty() {
        all.push((path.clone(), command));
    }
    for command in inner {
        collect(command, path, all);
    }
    path.pop();
}

fn text(command: &Command) -> String {
    let about =
        command.get_long_about().or(command.get_about()).expect("each command says what it does").to_string();
    let mut text = about.trim().to_owned();
    if !text.ends_with('.') {
        text.push('.');
    }
    text.replace('<', "\\<")
}

/// `--flag <VALUE>` or `<VALUE>`.
fn written(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>"));
    let values = if argument.get_action().takes_values() {
        values.collect::<Vec<_>>().join(" ")
    } else {
        String::new()
    };
    match argument.get_long() {
        Some(long) => format!("--{long} {values}").trim_end().to_owned(),
        None => values,
    }
}

/// What it is for and what it may be, in one line.
fn help(argument: &Arg) -> String {
    let help = argument
        .get_long_help()
        .or(argument.get_help())
        .expect("each argument says what it is for")
        .to_string();
    let mut line = super::cell(&help);
    if !line.ends_with(['.', ']']) {
        line.push('.');
    }
    let choices: Vec<String> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if argument.get_action().takes_values() && !choices.is_empty() {
        write!(line, " One of {}.", choices.join(", ")).expect("a String takes all");
    }
    line
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}
