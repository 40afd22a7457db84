//! The rights that each command needs, as `docs/reference/kubectl-docket.md` lists them. The operator's suite tests
//! them on an API server.

use clap::CommandFactory;

use crate::args::Arguments;

#[test]
fn every_command_has_a_row_in_the_document() {
    let document = include_str!("../../../docs/reference/kubectl-docket.md");
    let (_, table) = document.split_once("## Rights").expect("its section");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: Vec<&str> = rows.map(|(command, _)| command).collect();
    let command = Arguments::command();
    let mut commands: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    commands.insert(1, "check --pre".to_owned());
    assert_eq!(documented, commands);
}
