//! A form that was sent after its session had ended. The sign-in page keeps it, and its user can send it again after the sign-in. The
//! server stores nothing of it.

use docket_portal::sign_in::FormToSend;
use serde::{Deserialize, Serialize};
use url::form_urlencoded::byte_serialize;

use super::csrf::user_of;
use super::session::local;
use crate::http::body::KEPT_FORM_LIMIT;

/// The form that verifies a signature. It changes nothing, and may have a payload.
const VERIFY: &str = "/portal/verify";
/// The field of the sign-in form that has the kept form.
pub(super) const KEPT: &str = "kept";

/// A form that was not sent.
#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(super) struct KeptForm {
    path: String,
    /// The user whose form it is. No other user gets it.
    user: String,
    fields: Vec<(String, String)>,
    /// The names of the fields that are not kept, because their values are secret.
    secrets: Vec<String>,
}

impl KeptForm {
    /// The form that was sent to this path; `None` if it does not say whose it is, or changes nothing.
    pub(super) fn new(path: &str, pairs: Vec<(String, String)>) -> Option<Self> {
        if path == VERIFY {
            return None;
        }
        let (csrf, pairs): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(name, _)| name == "csrf");
        let user = user_of(&csrf.first()?.1)?.to_owned();
        let (secrets, fields): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(name, _)| is_secret(name));
        let secrets = secrets.into_iter().map(|(name, _)| name).collect();
        Some(Self { path: path.to_owned(), user, fields, secrets })
    }

    /// The form as a text, which [`read`](Self::read) reads; `None`: a browser would need more than [`KEPT_FORM_LIMIT`] bytes to
    /// send it.
    pub(super) fn text(&self) -> Option<String> {
        let text = serde_json::to_string(self).ok()?;
        let sent: usize = byte_serialize(text.as_bytes()).map(str::len).sum();
        Some(text).filter(|_| sent <= KEPT_FORM_LIMIT)
    }

    /// Reads the form that the sign-in page has kept; `None`: it is none of the portal.
    pub(super) fn read(text: &str) -> Option<Self> {
        let form: Self = serde_json::from_str(text).ok()?;
        Some(form).filter(|form| !form.path.contains('?') && local(Some(form.path.clone())) == form.path)
    }

    /// The form for this user to send, with the token of a new session; `None`: it is another user's.
    pub(super) fn form_for(self, user: &str, csrf: String) -> Option<FormToSend> {
        let Self { path, user: owner, fields, secrets } = self;
        (owner == user).then_some(FormToSend { path, csrf, fields, secrets })
    }
}

/// Whether a field of this name has a secret, which no page may repeat.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["secret", "password"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/portal/webhooks/new";

    fn form(more: &[(&str, &str)]) -> Option<KeptForm> {
        let pairs = [&[("csrf", "00ff employee 52"), ("targetUrl", "https://h.example/")], more].concat();
        KeptForm::new(PATH, pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    #[test]
    fn form_is_kept_for_its_user_without_secrets() {
        let kept = form(&[("secret", "hunter2"), ("newPassword", "hunter3")]).expect("it names its user");
        let text = kept.text().expect("it is short");
        assert!(!text.contains("hunter") && !text.contains("00ff"), "{text}");
        let read = || KeptForm::read(&text).expect("it is ours");
        assert_eq!(read(), kept);
        assert!(read().form_for("employee 51", "c".into()).is_none());
        assert!(read().form_for("contact 52", "c".into()).is_none());
        let sent = read().form_for("employee 52", "c".into()).expect("its user");
        assert_eq!((&*sent.path, &*sent.csrf), (PATH, "c"));
        assert_eq!(sent.fields, [("targetUrl".to_owned(), "https://h.example/".to_owned())]);
        assert_eq!(sent.secrets, ["secret", "newPassword"]);
    }

    #[test]
    fn form_without_its_user_and_form_that_is_too_long_are_not_kept() {
        let pairs = |csrf: &str| vec![("csrf".to_owned(), csrf.to_owned())];
        for csrf in ["00ff", "00ff ", ""] {
            assert_eq!(KeptForm::new(PATH, pairs(csrf)), None, "{csrf}");
        }
        assert_eq!(KeptForm::new(PATH, Vec::new()), None);
        let of_user = || pairs("00ff employee 52");
        assert!(KeptForm::new(PATH, of_user()).is_some() && KeptForm::new(VERIFY, of_user()).is_none());
        let text = |letter: &str, count: usize| form(&[("body", &*letter.repeat(count))])?.text();
        assert!(text("a", 11_000).is_some() && text("a", KEPT_FORM_LIMIT).is_none());
        assert!(text("\"", 3_000).is_none(), "a browser sends six bytes for each");
    }

    #[test]
    fn form_for_another_place_is_not_read() {
        let text = |path: &str| {
            let form = KeptForm { path: path.into(), ..form(&[]).expect("a form") };
            form.text().expect("it is short")
        };
        assert!(KeptForm::read(&text("/portal/resends")).is_some());
        for path in
            ["https://evil.example/", "//evil.example", "/swagger", "/portal/a?b=c", "/portal/%2e%2e/x"]
        {
            assert_eq!(KeptForm::read(&text(path)), None, "{path}");
        }
        assert_eq!(KeptForm::read("{}"), None);
    }
}
