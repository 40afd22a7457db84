//! The sign-in page.

use maud::html;

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
}

/// The page.
pub fn page(sign_in: &SignInPage) -> String {
    let SignInPage { tenant, brand, to, user_id, is_contact, has_ended, refusal, csrf } = sign_in;
    let main = html! {
        h1 { "Sign in to " (tenant) }
        @if *has_ended { p.look role="status" { "Your session has ended. Sign in to continue where you were." } }
        @if let Some(refusal) = refusal { p.wrong role="alert" { (refusal) } }
        div.card {
            form.fields.in method="post" action={ (ROOT) "/sign-in" } {
                input type="hidden" name="to" value=(to);
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
        p.hint { "The API takes the same user id and password. If you have lost the password, ask an administrator of " (tenant) "." }
        @if let Some(csrf) = csrf {
            form method="post" action={ (ROOT) "/sign-out" } {
                input type="hidden" name="csrf" value=(csrf);
                p { "This browser is signed in already. " button type="submit" { "Sign out" } }
            }
        }
    };
    page::of_tenant(tenant, brand, "Sign in", &main)
}
