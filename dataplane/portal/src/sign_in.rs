//! The sign-in page.

use maud::html;

use crate::{ROOT, page};

/// A sign-in page.
#[derive(Debug, Clone, Default)]
pub struct SignInPage {
    /// The tenant's name.
    pub tenant: String,
    /// The local path to go to afterwards.
    pub to: String,
    /// The user id of the previous sign-in, which was refused.
    pub user_id: String,
    /// Whether the previous sign-in was a contact's.
    pub is_contact: bool,
    /// Why the previous sign-in was refused.
    pub refusal: Option<String>,
    /// The token for forms, if the browser has a session already.
    pub csrf: Option<String>,
}

/// The page.
pub fn page(sign_in: &SignInPage) -> String {
    let SignInPage { tenant, to, user_id, is_contact, refusal, csrf } = sign_in;
    let main = html! {
        h1 { "Sign in to " (tenant) }
        @if let Some(refusal) = refusal { p.wrong role="alert" { (refusal) } }
        form.fields method="post" action={ (ROOT) "/sign-in" } {
            input type="hidden" name="to" value=(to);
            fieldset {
                legend { "I am" }
                label { input type="radio" name="kind" value="employee" checked[!is_contact]; " an employee" }
                label { input type="radio" name="kind" value="contact" checked[*is_contact]; " a customer's contact" }
            }
            label { "User id" input name="userId" value=(user_id) autocomplete="username" maxlength="320" required; }
            label { "Password" input name="password" type="password" autocomplete="current-password" required; }
            p.hint { "The check-in name or e-mail address and the password that the API takes." }
            button.primary type="submit" { "Sign in" }
        }
        @if let Some(csrf) = csrf {
            form method="post" action={ (ROOT) "/sign-out" } {
                input type="hidden" name="csrf" value=(csrf);
                p { "This browser is signed in already. " button type="submit" { "Sign out" } }
            }
        }
    };
    page::bare(&format!("Sign in · {tenant}"), &main)
}
