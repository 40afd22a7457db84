//! Blocks of code as HTML: commands, what they print, and files look different, and the parts of their text have colours.

use std::fmt::Write;

use maud::Escaper;

/// Converts a block of code. `info` is what follows the opening fence, such as `sh test`.
pub(crate) fn block(info: &str, text: &str) -> String {
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default();
    let code = coloured(language, text.trim_end_matches('\n'));
    match (language, words.next()) {
        ("text", Some("output" | "printed")) | ("json", Some("output")) => {
            format!(
                "<figure class=\"code output\"><figcaption>Output</figcaption><pre><code>{code}</code></pre></figure>\n"
            )
        }
        // A drawing, whose lines must stay whole.
        ("text" | "", _) => format!(
            "<div class=\"code drawing\" tabindex=\"0\" role=\"group\" aria-label=\"Text\"><pre><code>{code}</code></pre></div>\n"
        ),
        ("sh", _) => format!("<div class=\"code command copies\"><pre><code>{code}</code></pre></div>\n"),
        _ => format!("<div class=\"code copies\"><pre><code>{code}</code></pre></div>\n"),
    }
}

/// Converts code within a line. A long name may break after its separators, and nowhere else.
pub(crate) fn inline(text: &str) -> String {
    /// Shorter ones fit in a line of a narrow window.
    const LONG: usize = 20;
    // Browsers break addresses themselves, and an address is replaced as a whole.
    let between = if text.len() > LONG && !text.contains("://") { "<wbr>" } else { "" };
    let pieces = text.split_inclusive(['_', '.', ':', ',', '=']).map(|piece| {
        let mut html = String::new();
        push(&mut html, piece);
        html
    });
    format!("<code>{}</code>", pieces.collect::<Vec<_>>().join(between))
}

/// A kind of token; the name of its class.
const COMMENT: &str = "c";
const STRING: &str = "s";
const NAME: &str = "k";
const VALUE: &str = "v";

/// The text as HTML, with a class for each token that the language has.
fn coloured(language: &str, text: &str) -> String {
    let (mut html, mut at) = (String::with_capacity(text.len() * 2), 0);
    // What was before, which decides whether a token begins here.
    let mut before = '\n';
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let (class, length) = token(language, before, rest).unwrap_or(("", c.len_utf8()));
        let piece = &rest[..length];
        if class.is_empty() {
            push(&mut html, piece);
        } else {
            html += &format!("<span class=\"{class}\">");
            push(&mut html, piece);
            html += "</span>";
        }
        before = piece.chars().next_back().unwrap_or(c);
        at += length;
    }
    html
}

/// The token at the beginning of a text: its class and its length, which is not 0.
fn token(language: &str, before: char, rest: &str) -> Option<(&'static str, usize)> {
    let begins_word =
        before.is_whitespace() || matches!(before, '(' | '[' | '{' | '=' | ',' | ':' | '|' | '"');
    let comment = match language {
        "sh" | "yaml" => "#",
        "sql" => "-- ",
        _ => "\0",
    };
    match language {
        "sh" | "yaml" | "sql" if before.is_whitespace() && rest.starts_with(comment) => {
            Some((COMMENT, rest.find('\n').unwrap_or(rest.len())))
        }
        "sh" if rest.starts_with('$') => variable(rest).map(|length| (VALUE, length)),
        "sh" if before.is_whitespace() && is_flag(rest) => {
            Some((NAME, run(rest, |c| c == '-' || c.is_alphanumeric())))
        }
        "yaml" if before.is_whitespace() => {
            let name = run(rest, |c| c.is_alphanumeric() || matches!(c, '.' | '/' | '-' | '_'));
            let is_name = rest[..name].starts_with(char::is_alphanumeric)
                && rest[name..]
                    .strip_prefix(':')
                    .is_some_and(|after| after.is_empty() || after.starts_with(char::is_whitespace));
            if is_name { Some((NAME, name)) } else { quoted(language, rest) }
        }
        "json" => match quoted(language, rest) {
            Some((_, length)) if rest[length..].trim_start().starts_with(':') => Some((NAME, length)),
            None if begins_word => number(rest).map(|length| (VALUE, length)),
            quoted => quoted,
        },
        "sh" | "sql" if begins_word => quoted(language, rest),
        _ => None,
    }
}

/// A text in quotes, which ends before the end of the code.
fn quoted(language: &str, rest: &str) -> Option<(&'static str, usize)> {
    let quote = rest.chars().next().filter(|c| *c == '"' || (*c == '\'' && language != "json"))?;
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == quote && !is_escaped;
        // Between single quotes, a backslash is a character like others.
        is_escaped = quote == '"' && *c == '\\' && !is_escaped;
        is_end
    });
    end.map(|(end, _)| (STRING, end + 1))
}

/// The length of a variable of the shell: `$NAME` or `${NAME}`.
fn variable(rest: &str) -> Option<usize> {
    let name = &rest[1..];
    if name.starts_with('{') {
        return name.find('}').map(|end| end + 2);
    }
    let length = run(name, |c| c.is_ascii_alphanumeric() || c == '_');
    (length > 0).then_some(length + 1)
}

/// Whether an option of a command begins here: `-n` or `--name`.
fn is_flag(rest: &str) -> bool {
    let name = rest.strip_prefix("--").or_else(|| rest.strip_prefix('-'));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The length of a number or of `true`, `false` or `null`.
fn number(rest: &str) -> Option<usize> {
    let length = run(rest, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    let word = &rest[..length];
    let is_value =
        matches!(word, "true" | "false" | "null") || (!word.is_empty() && word.parse::<f64>().is_ok());
    is_value.then_some(length)
}

/// The length of the beginning that has only such characters.
fn run(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// Adds a text, escaped.
fn push(html: &mut String, text: &str) {
    // A String takes every write.
    let _ = Escaper::new(html).write_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_options_variables_texts_and_comments() {
        let html =
            coloured("sh", "curl -s \"http://a/$B\" --data-dir x # it's \"so\"\necho $KEY ${A} don't '<b>'");
        assert_eq!(
            html,
            "curl <span class=\"k\">-s</span> <span class=\"s\">&quot;http://a/$B&quot;</span> \
             <span class=\"k\">--data-dir</span> x <span class=\"c\"># it's &quot;so&quot;</span>\n\
             echo <span class=\"v\">$KEY</span> <span class=\"v\">${A}</span> don't <span class=\"s\">'&lt;b&gt;'</span>"
        );
    }

    #[test]
    fn yaml_and_json_have_names_and_values() {
        assert_eq!(
            coloured("yaml", "spec:\n  - url: \"https://h/\" # here\n    a.b/c: d:e"),
            "<span class=\"k\">spec</span>:\n  - <span class=\"k\">url</span>: <span class=\"s\">&quot;https://h/&quot;</span> \
             <span class=\"c\"># here</span>\n    <span class=\"k\">a.b/c</span>: d:e"
        );
        assert_eq!(
            coloured("json", "{\"a\\\"\": [1, \"b\", null]}"),
            "{<span class=\"k\">&quot;a\\&quot;&quot;</span>: [<span class=\"v\">1</span>, <span class=\"s\">&quot;b&quot;</span>, \
             <span class=\"v\">null</span>]}"
        );
    }

    #[test]
    fn text_of_every_language_stays_whole() {
        let text = "é \" ' $ ${ # -- -\u{301} --x '\\' \"\\\" : a: -1e5,\n\n\"";
        for language in ["sh", "yaml", "json", "sql", "text", "", "rust"] {
            let html = coloured(language, text);
            let mut plain = String::new();
            let mut rest = html.as_str();
            while let Some((before, after)) = rest.split_once('<') {
                plain += before;
                rest = after.split_once('>').expect("tags end").1;
            }
            plain += rest;
            let plain =
                plain.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            assert_eq!(plain, text, "{language}");
        }
    }

    #[test]
    fn commands_and_their_output_look_different() {
        assert!(
            block("sh test", "ls\n")
                .starts_with("<div class=\"code command copies\"><pre><code>ls</code></pre>")
        );
        for output in [block("text output", "a\n"), block("json output", "{}\n")] {
            assert!(
                output.contains("code output") && output.contains("Output") && !output.contains("copies"),
                "{output}"
            );
        }
        assert!(block("text", "a").contains("drawing") && block("yaml", "a: b").contains("copies"));
    }

    #[test]
    fn long_names_break_after_separators() {
        assert_eq!(inline("DOCKET_CONFIG_DIRECTORY"), "<code>DOCKET_<wbr>CONFIG_<wbr>DIRECTORY</code>");
        assert_eq!(inline("127.0.0.1:8080"), "<code>127.0.0.1:8080</code>");
        assert_eq!(
            inline("http://acme.localhost:8080/portal"),
            "<code>http://acme.localhost:8080/portal</code>"
        );
        assert_eq!(inline("a<b"), "<code>a&lt;b</code>");
    }
}
