//! The forms of a webhook, and the declaration that a form makes.

use docket_crds::webhook::{GenerateSecret, TenantRef};
use docket_crds::{EventCode, TargetUrl, WebhookSpec};
use docket_portal::period::Range;
use docket_portal::webhooks::FormSettings;
use docket_portal::webhooks::detail::Show;
use docket_portal::webhooks::list::StateFilter;
use secrecy::SecretString;

use crate::api::webhook_logs::answers::EventWord;
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::kinds::{LineText, Whole};
use crate::http::request::request;
use crate::http::words::word_schema;
use crate::portal::form_words::in_words;
use crate::portal::forms::FromForm;
use crate::portal::session::Viewer;
use crate::portal::writes::Declared;

/// The most characters of a secret that a user chooses.
const MAX_SECRET: usize = 256;

/// The fields of the form of a webhook.
pub struct WebhookForm {
    pub(super) settings: FormSettings,
    /// The id of the form of a new webhook: sent again, it adds no second one.
    pub(super) form: Option<String>,
    /// The version that the form was made from; `None`: of a new webhook.
    pub(super) version: Option<String>,
    /// The secret that the user chose; `None`: one is made.
    pub(super) secret: Option<SecretString>,
}

impl FromForm for WebhookForm {
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut fields = RequestFields::of_pairs(pairs);
        let mut is_set = |name| fields.opt::<LineText<8>>(name).is_some();
        let active = is_set("active");
        let chosen: Vec<EventCode> =
            EventCode::ALL.into_iter().filter(|code| is_set(code.as_str())).collect();
        let events = if is_set("all") { EventCode::ALL.to_vec() } else { chosen };
        let mut text = |name| fields.opt::<LineText<4096>>(name).unwrap_or_default();
        let (display_name, target_url) = (text("displayName").trim().to_owned(), text("targetUrl"));
        // The code of a customer that is not in the list is typed.
        let (listed, typed) = (text("customerCode"), text("otherCode"));
        let customer_code = if typed.is_empty() { listed } else { typed };
        let form = fields.opt::<LineText<64>>("form");
        let version = fields.opt::<LineText<64>>("version");
        let secret = fields.opt::<LineText<MAX_SECRET>>("secret").map(SecretString::from);
        fields.finish()?;
        let settings = FormSettings { display_name, customer_code, target_url, events, active };
        Ok(Self { settings, form, version, secret })
    }
}

word_schema!(
    /// The state of the webhooks that the list shows: [`StateFilter`].
    StateWord => StateFilter,
    "The state of the webhooks that the list shows."
);

word_schema!(
    /// The period of the figures: [`Range`].
    RangeWord => Range,
    "The period of the figures."
);

word_schema!(
    /// Which of the last deliveries the page of a webhook shows: [`Show`].
    ShowWord => Show,
    "Which of the last deliveries the page of a webhook shows."
);

request! {
    /// The parameters of the list.
    query ListQuery {
        /// A part of the name, the URL or the customer.
        opt q: LineText<128>;
        /// Only webhooks in this state.
        opt state: StateWord;
        /// Only webhooks of this customer.
        opt customer: LineText<64>;
        /// The page, from 1.
        opt page: Whole<1, 1_000>;
        /// What the user has just done.
        opt done: LineText<32>;
    }
}

request! {
    /// The parameters of the page of a webhook.
    query DetailQuery {
        /// The period of the figures.
        opt range: RangeWord;
        /// Which of the last deliveries are shown.
        opt show: ShowWord;
        /// What the user has just done.
        opt done: LineText<32>;
    }
}

request! {
    /// The field of a form with one button.
    query VersionForm {
        /// The version that the form was made from.
        req version: LineText<64>;
    }
}

request! {
    /// The field of the form that sends a test event.
    query TestForm {
        /// The event.
        req event: EventWord;
    }
}

/// The declaration that a form with these settings makes, with a generated secret.
pub(super) fn spec(viewer: &Viewer, settings: &FormSettings) -> WebhookSpec {
    let FormSettings { display_name, customer_code, target_url, events, active } = settings.clone();
    // The URL takes the form in which it will be served, so that the change can be recognised: https://h.example becomes
    // https://h.example/.
    let target_url = target_url.parse::<TargetUrl>().map_or(target_url, |parsed| parsed.url().to_string());
    WebhookSpec {
        display_name: Some(display_name).filter(|name| !name.is_empty()),
        tenant_ref: TenantRef { name: viewer.caller.tenant.config.name.clone(), namespace: None },
        customer_code,
        target_url,
        secret_ref: None,
        generate_secret: Some(GenerateSecret::default()),
        ca_bundle_ref: None,
        events,
        active,
    }
}

/// Each field of the form that is wrong, with what would be right.
pub(super) fn wrong(declared: &Declared) -> Vec<(String, String)> {
    let nameless = declared.spec.display_name.is_none();
    let nameless = nameless.then(|| ("displayName".to_owned(), "Give the webhook a name.".to_owned()));
    let violations = declared.violations().into_iter();
    let broken = violations.map(|violation| in_words(&violation.field, &violation.message));
    nameless.into_iter().chain(broken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sent: &[(&str, &str)]) -> WebhookForm {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        WebhookForm::from_form(sent.iter().map(pair).collect()).expect("fields of the form")
    }

    #[test]
    fn form_has_what_is_ticked_and_the_customer_that_is_typed() {
        let form = read(&[
            ("displayName", " Orders "),
            ("customerCode", "C-1"),
            ("targetUrl", "https://h.example"),
            ("order.created", "on"),
            ("note.created", "on"),
            ("active", "on"),
            ("version", "v1"),
        ]);
        let FormSettings { display_name, customer_code, target_url, events, active } = form.settings;
        assert_eq!((&*display_name, &*customer_code, &*target_url), ("Orders", "C-1", "https://h.example"));
        assert_eq!((events, active), (vec![EventCode::OrderCreated, EventCode::NoteCreated], true));
        assert_eq!((form.version.as_deref(), form.form, form.secret.is_none()), (Some("v1"), None, true));
        let other = read(&[("customerCode", "C-1"), ("otherCode", "C-2"), ("all", "on"), ("form", "f")]);
        assert_eq!((&*other.settings.customer_code, other.form.as_deref()), ("C-2", Some("f")));
        assert_eq!(other.settings.events, EventCode::ALL);
        assert!(!other.settings.active, "a box that is not ticked is not sent");
    }

    #[test]
    fn chosen_secret_has_at_most_256_characters_and_no_field_is_unknown() {
        let secret = |count: usize| WebhookForm::from_form(vec![("secret".to_owned(), "x".repeat(count))]);
        assert!(secret(256).is_ok_and(|form| form.secret.is_some()) && secret(257).is_err());
        assert!(WebhookForm::from_form(vec![("secretRef".to_owned(), "x".to_owned())]).is_err());
    }
}
