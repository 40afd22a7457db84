//! The sign-in page.

use maud::{Markup, html};

use crate::brand::Brand;
use crate::{ROOT, page};

/// A sign-in page.
#[derive(Debug, Clone, Default)]
pub struct SignInPage {
    /// The tenant's name.
    pub tenant: String,
    /// What the tenant's pages have of its own.
    pub brand: Brand,
    /// The local path to go to afterwards.
    pub to: String,
    /// The user id of the previous sign-in, which was refused.
    pub user_id: String,
    /// Whether the previous sign-in was a contact's.
    pub is_contact: bool,
    /// Whether a session has ended, which is why the user is here.
    pub has_ended: bool,
    /// Why the previous sign-in was refused.
    pub refusal: Option<String>,
    /// The token for forms, if the browser has a session already.
    pub csrf: Option<String>,
    /// A form that could not be sent without a session, as a text that the sign-in sends back.
    pub kept: Option<String>,
}

/// The page after a sign-in with a form that was sent when the session had ended.
#[derive(Debug, Clone)]
pub struct SendAgain {
    /// The tenant's name.
    pub tenant: String,
    /// The path of the form's page.
    pub to: String,
    /// The form; `None`: it is another user's.
    pub form: Option<FormToSend>,
}

/// A form that its user may send now.
#[derive(Debug, Clone)]
pub struct FormToSend {
    /// The path that the form is sent to.
    pub path: String,
    /// The token of the new session.
    pub csrf: String,
    /// The names and values that the user entered.
    pub fields: Vec<(String, String)>,
    /// The names of the fields that the user has to enter again, because no page repeats a secret.
    pub secrets: Vec<String>,
}

/// The page.
pub fn page(sign_in: &SignInPage) -> String {
    let SignInPage { tenant, brand, to, user_id, is_contact, has_ended, refusal, csrf, kept } = sign_in;
    let main = html! {
        h1 { "Sign in to " (tenant) }
        @if kept.is_some() {
            p.look role="status" { "Your session has ended, so the form was not sent. Sign in as the same user to send it." }
        } @else if *has_ended {
            p.look role="status" { "Your session has ended. Sign in to continue where you were." }
        }
        @if let Some(refusal) = refusal { p.wrong role="alert" { (refusal) } }
        div.card {
            form.fields.in method="post" action={ (ROOT) "/sign-in" } {
                input type="hidden" name="to" value=(to);
                @if let Some(kept) = kept { input type="hidden" name="kept" value=(kept); }
                fieldset {
                    legend { "I am" }
                    label.check { input type="radio" name="kind" value="employee" checked[!is_contact]; " an employee" }
                    label.check { input type="radio" name="kind" value="contact" checked[*is_contact]; " a customer's contact" }
                }
                label { "User id" input name="userId" value=(user_id) autocomplete="username" maxlength="320" autofocus required aria-describedby="user-id-hint"; }
                p.hint #user-id-hint { "The check-in name of an employee, or the e-mail address of a contact." }
                label { "Password" input name="password" type="password" autocomplete="current-password" required; }
                button.primary type="submit" { "Sign in" }
            }
        }
        p.hint { "If you have lost the password, ask an administrator of " (tenant) "." }
        p.hint {
            "The API takes the same user id and password: an employee's at " code { "/Employee/SignIn" } ", a contact's at "
            code { "/Auth/Token" } "."
        }
        @if let Some(csrf) = csrf {
            form method="post" action={ (ROOT) "/sign-out" } {
                input type="hidden" name="csrf" value=(csrf);
                p { "This browser is signed in already. " button type="submit" { "Sign out" } }
            }
        }
    };
    page::of_tenant(tenant, brand, "Sign in", &main)
}

/// The page with a form to send again. Only its user's button sends it.
pub fn send_again(again: &SendAgain) -> String {
    let SendAgain { tenant, to, form } = again;
    let (title, body) = match form {
        Some(form) => ("Send the form again", to_send(form)),
        None => (
            "The form was not sent",
            html! { p { "The form is another user's. That user can fill it in again after a sign-in; nothing was changed." } },
        ),
    };
    let main = html! {
        h1 { (title) }
        div.card { div.in { (body) p { a href=(to) { "Go back to its page without sending it" } } } }
    };
    page::bare(&format!("{title} · {tenant}"), &main)
}

fn to_send(form: &FormToSend) -> Markup {
    let FormToSend { path, csrf, fields, secrets } = form;
    let shown: Vec<_> = fields.iter().filter(|(name, _)| !OF_PAGE.contains(&name.as_str())).collect();
    html! {
        p role="status" { "You are signed in. Your session had ended before, so the form was not sent and nothing was changed." }
        @if !shown.is_empty() {
            dl.facts { @for (name, value) in shown { dt { (words(name)) } dd { (value) } } }
        }
        form.fields method="post" action=(path) {
            input type="hidden" name="csrf" value=(csrf);
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            @for name in secrets {
                label { (words(name)) input name=(name) type="password" autocomplete="off" required; }
            }
            @if !secrets.is_empty() { p.hint { "No page repeats a secret, so enter it again." } }
            button.primary type="submit" { "Send the form" }
        }
    }
}

/// Fields that a page adds to its form, and that say nothing to its user.
const OF_PAGE: [&str; 3] = ["version", "form", "endedBefore"];

/// The name of a field in words: `targetUrl` becomes "Target url".
fn words(name: &str) -> String {
    let mut words = String::new();
    for (place, letter) in name.char_indices() {
        match letter {
            _ if place == 0 => words.extend(letter.to_uppercase()),
            _ if letter.is_uppercase() => {
                words.push(' ');
                words.extend(letter.to_lowercase());
            }
            _ => words.push(letter),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_page_keeps_a_form_escaped() {
        let kept = Some(r#"{"fields":[["a","<b>"]]}"#.to_owned());
        let text = page(&SignInPage { kept, has_ended: true, ..SignInPage::default() });
        assert!(text.contains("the form was not sent") && !text.contains("<b>"), "{text}");
        let value = "name=\"kept\" value=\"{&quot;fields&quot;:[[&quot;a&quot;,&quot;&lt;b&gt;&quot;]]}\"";
        assert!(text.contains(value), "{text}");
        assert!(!page(&SignInPage::default()).contains("kept"));
    }

    #[test]
    fn form_keeps_what_its_user_was_and_only_a_session_can_end() {
        let checked = |is_contact| {
            let text = page(&SignInPage { is_contact, ..SignInPage::default() });
            ["employee", "contact"].map(|kind| text.contains(&format!("value=\"{kind}\" checked>")))
        };
        assert_eq!([checked(false), checked(true)], [[true, false], [false, true]]);
        let refusal = Some("No <b>".to_owned());
        let text = page(&SignInPage { user_id: "\"><i>".into(), refusal, ..SignInPage::default() });
        assert!(
            text.contains("role=\"alert\">No &lt;b&gt;<") && text.contains("value=\"&quot;&gt;&lt;i&gt;\"")
        );
        assert!(!text.contains("signed in already"), "{text}");
        let signed_in = page(&SignInPage { csrf: Some("c0ffee".into()), ..SignInPage::default() });
        assert!(signed_in.contains("action=\"/portal/sign-out\"") && signed_in.contains("value=\"c0ffee\""));
    }

    #[test]
    fn form_to_send_again_has_all_fields_and_asks_for_its_secrets() {
        let fields = [("targetUrl", "https://<h>.example/"), ("version", "7")];
        let form = FormToSend {
            path: "/portal/webhooks/new".into(),
            csrf: "c0ffee".into(),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            secrets: vec!["secret".into()],
        };
        let again =
            |form| send_again(&SendAgain { tenant: "Acme".into(), to: "/portal/webhooks/new".into(), form });
        let text = again(Some(form));
        for part in [
            "<form class=\"fields\" method=\"post\" action=\"/portal/webhooks/new\">",
            "name=\"csrf\" value=\"c0ffee\"",
            "<dt>Target url</dt><dd>https://&lt;h&gt;.example/</dd>",
            "name=\"targetUrl\" value=\"https://&lt;h&gt;.example/\"",
            "name=\"version\" value=\"7\"",
            "<input name=\"secret\" type=\"password\"",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        assert!(!text.contains("<dt>Version"), "{text}");
        let of_another = again(None);
        assert!(of_another.contains("another user's") && !of_another.contains("<form"), "{of_another}");
    }
}
