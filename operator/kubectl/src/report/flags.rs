//! The flags of a container, without what may be a secret.

use url::Url;

/// A flag with its value, if the value is a plain one; free text is left out. Of a URL only the address stays.
pub(super) fn argument_shown(argument: &str) -> String {
    let (flag, value) = argument.split_once('=').unwrap_or((argument, ""));
    let is_flag = flag.starts_with("--") && flag.len() <= 64 || matches!(flag, "serve" | "run");
    if !is_flag || !is_plain(flag) {
        return "(left out)".to_owned();
    }
    let shown = match value {
        "" => return flag.to_owned(),
        url if url.contains("://") => address(url),
        value => Some(value.to_owned()),
    };
    let shown = shown.filter(|shown| shown.len() <= 128 && is_plain(shown));
    format!("{flag}={}", shown.as_deref().unwrap_or("(left out)"))
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,*[]=".contains(c))
}

/// The scheme, host and port of a URL, because user, password, path and query may be secrets. `None`: the parts can't
/// be distinguished with certainty.
fn address(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if text.matches('@').count() > usize::from(has_user) || text.matches("://").count() > 1 {
        return None;
    }
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_more_than_a_plain_value_is_left_out() {
        for plain in
            ["serve", "--platform", "--roles=api,portal", "--listen=[::]:8080", "--trusted-proxy=10.0.0.0/8"]
        {
            assert_eq!(argument_shown(plain), plain);
        }
        for (argument, shown) in [
            ("--redis-url=redis://:hunter2@host", "--redis-url=redis://host"),
            ("--url=postgres://w:hunter2@db:5432/x?sslmode=require", "--url=postgres://db:5432"),
            ("--hook=https://hooks.example/hunter2", "--hook=https://hooks.example"),
            ("--url=postgres://w:12/hunter2@db", "--url=(left out)"),
            ("--urls=redis://a:hunter2@b,redis://c", "--urls=(left out)"),
            ("--url=://hunter2", "--url=(left out)"),
            ("--note=hunter2 hunter2", "--note=(left out)"),
            ("hunter2", "(left out)"),
            ("--a b", "(left out)"),
        ] {
            assert_eq!(argument_shown(argument), shown);
        }
    }
}
