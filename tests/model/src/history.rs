//! Histories as text: an action in words on each line. Lines that begin with `#` are for people.

use crate::action::Action;

/// The text of a history with these lines for people.
pub fn text(about: &[String], history: &[Action]) -> String {
    let about = about.iter().map(|line| format!("# {line}\n"));
    about.chain(history.iter().map(|action| format!("{action}\n"))).collect()
}

/// Reads a history. Errors: the line that is no action.
pub fn parse(text: &str) -> Result<Vec<Action>, String> {
    let all = Action::all();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let action = |line: &str| all.iter().find(|action| action.to_string() == line).copied();
    lines.map(|line| action(line).ok_or_else(|| format!("no action: {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_again() {
        let all = Action::all();
        assert_eq!(parse(&text(&["about".into()], &all)), Ok(all));
        assert_eq!(parse("the save eats"), Err("no action: the save eats".into()));
    }
}
