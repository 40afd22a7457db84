//! What the messages say, from plain values: names, numbers, the cause and the remedy. No payload is among them.

use std::collections::BTreeSet;

use docket_domain::failure::Failure;
use docket_domain::notice::WebhookState;
use docket_orders::blank::is_blank;

/// The most changes that one message describes. It counts the others.
pub const MOST_DESCRIBED: usize = 20;
/// The most characters of a name in a message.
const NAME_CHARS: usize = 80;
/// The highest count that is exact.
const MAX_COUNT: i64 = 10_000;

/// Subject and body of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The subject, in one line.
    pub subject: String,
    /// The body, as plain text.
    pub body: String,
}

/// A change of a webhook's state. Several changes may be about one webhook.
#[derive(Debug, Clone)]
pub struct ChangedWebhook<'a> {
    /// Its name for people.
    pub name: &'a str,
    /// The state that was announced.
    pub state: WebhookState,
    /// The state that it has now.
    pub state_now: WebhookState,
    /// The number of deliveries that fail or are lost.
    pub count: i64,
    /// The most frequent failure among these deliveries, without a detail, which the receiver would choose.
    pub failure: Option<Failure<'a>>,
    /// The URL of its page in the portal.
    pub link: String,
}

/// The message about changes of webhooks, at least one, in their order.
pub fn notices(tenant: &str, changed: &[ChangedWebhook<'_>], unsubscribe: &str) -> Text {
    let tenant = name(tenant);
    let webhooks: BTreeSet<&str> = changed.iter().map(|one| &*one.link).collect();
    let subject = match changed {
        [first, ..] if webhooks.len() == 1 => {
            let states: Vec<String> = changed.iter().map(summary).collect();
            format!("[{tenant}] Webhook \"{}\": {}", name(first.name), states.join("; "))
        }
        many => format!("[{tenant}] {} webhooks: {}", webhooks.len(), summary_of(many)),
    };
    let mut body: Vec<String> = changed.iter().take(MOST_DESCRIBED).map(described).collect();
    let more = changed.len().saturating_sub(MOST_DESCRIBED);
    if more > 0 {
        body.push(format!("Webhooks have {more} more changes; see the overview of the portal."));
    }
    body.push(format!(
        "--\nYou get this message because you subscribed to changes of webhooks of {tenant}. To end this subscription, open this \
         link:\n{unsubscribe}\n"
    ));
    Text { subject, body: body.join("\n\n") }
}

/// The message that asks the owner of an address to confirm it.
pub fn confirmation(tenant: &str, link: &str) -> Text {
    let tenant = name(tenant);
    let body = format!(
        "A user of {tenant} wants to send messages about its webhooks to this address: when attempts fail, when deliveries are lost, \
         and when a webhook works again.\n\nTo get these messages, open this link within 7 days:\n{link}\n\nIf you do not know about this, do \
         nothing, or press \"Never write to this address\" there. Without a confirmation, this address gets no message about webhooks.\n"
    );
    Text { subject: format!("[{tenant}] Confirm your e-mail address"), body }
}

/// A name in one line, at most 80 characters, without invisible characters, which could hide or turn a part of it.
fn name(text: &str) -> String {
    let is_blank_or_seen = |c: &char| c.is_whitespace() || !is_blank(*c);
    let characters = text.chars().filter(is_blank_or_seen);
    let characters = characters.map(|c| if c.is_control() || c.is_whitespace() { ' ' } else { c });
    // A mail program would make a link of a URL.
    let name = characters.take(NAME_CHARS + 1).collect::<String>().replace("://", ": //");
    if name.chars().count() <= NAME_CHARS {
        return name;
    }
    name.chars().take(NAME_CHARS - 1).chain(['…']).collect()
}

fn deliveries(count: i64) -> String {
    match count {
        1 => "1 delivery".to_owned(),
        count if count > MAX_COUNT => "more than 10,000 deliveries".to_owned(),
        count => format!("{count} deliveries"),
    }
}

fn summary(ChangedWebhook { state, state_now, count, .. }: &ChangedWebhook<'_>) -> String {
    let is = if *count == 1 { "is" } else { "are" };
    match state {
        WebhookState::Lost => format!("{} {is} lost", deliveries(*count)),
        WebhookState::Failing if state == state_now => "attempts fail".to_owned(),
        WebhookState::Failing => "attempts failed".to_owned(),
        WebhookState::Works if state == state_now => "works again".to_owned(),
        WebhookState::Works => "worked again".to_owned(),
    }
}

fn summary_of(changed: &[ChangedWebhook<'_>]) -> String {
    let count = |state| changed.iter().filter(|one| one.state == state).count();
    let part = |state: WebhookState, one: &str, many: &str| match count(state) {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {many}")),
    };
    let parts = [
        part(WebhookState::Lost, "loses deliveries", "lose deliveries"),
        part(WebhookState::Failing, "fails", "fail"),
        part(WebhookState::Works, "works again", "work again"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn described(changed: &ChangedWebhook<'_>) -> String {
    let ChangedWebhook { name: of, state, state_now, count, failure, link } = changed;
    let mut lines = vec![format!("Webhook \"{}\": {}.", name(of), summary(changed))];
    let (these, is_one) = (deliveries(*count), *count == 1);
    match state {
        WebhookState::Failing if state != state_now => {
            lines.push(format!("Three or more attempts of {these} failed."));
        }
        WebhookState::Failing => lines.push(format!(
            "Three or more attempts of {these} failed. Docket tries {} again, five times in all.",
            if is_one { "it" } else { "them" }
        )),
        WebhookState::Lost => lines.push(
            "Docket does not try lost deliveries again by itself. Correct the cause, then resend them on the webhook's page."
                .to_owned(),
        ),
        WebhookState::Works => lines.push("A delivery has arrived since the last message.".to_owned()),
    }
    if let Some(failure) = failure.as_ref().filter(|_| *state != WebhookState::Works) {
        let status = failure.http_status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        lines.push(format!("Cause: {}{status}", failure.heading()));
        lines.push(format!("What to do: {}", failure.remedy()));
    }
    if state != state_now {
        let now = match state_now {
            WebhookState::Failing => "attempts fail",
            WebhookState::Lost => "deliveries are lost",
            WebhookState::Works => "the webhook works again",
        };
        lines.push(format!("Since then: {now}."));
    }
    lines.push(link.clone());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use docket_domain::delivery::FailureClass;

    use super::*;

    const UNSUBSCRIBE: &str = "https://acme.example/portal/mail/00ff";

    fn webhook(name: &str, state: WebhookState, count: i64) -> ChangedWebhook<'_> {
        let failure =
            Failure { class: FailureClass::ServerError, cause: None, http_status: Some(503), detail: None };
        let link = "https://acme.example/portal/webhooks/default/crm".to_owned();
        ChangedWebhook { name, state, state_now: state, count, failure: Some(failure), link }
    }

    #[test]
    fn message_about_one_webhook_has_cause_remedy_and_links() {
        let text = notices("Acme", &[webhook("CRM sync", WebhookState::Lost, 3)], UNSUBSCRIBE);
        assert_eq!(text.subject, "[Acme] Webhook \"CRM sync\": 3 deliveries are lost");
        let remedy = webhook("", WebhookState::Lost, 3).failure.expect("a failure").remedy();
        for part in [
            "Cause: ServerError (HTTP 503)",
            &format!("What to do: {remedy}"),
            "https://acme.example/portal/webhooks/default/crm",
            UNSUBSCRIBE,
        ] {
            assert!(text.body.contains(part), "{part} in:\n{}", text.body);
        }
        let one = notices("Acme", &[webhook("CRM", WebhookState::Lost, 1)], UNSUBSCRIBE);
        assert_eq!(one.subject, "[Acme] Webhook \"CRM\": 1 delivery is lost");
        let works = notices("Acme", &[webhook("CRM", WebhookState::Works, 0)], UNSUBSCRIBE);
        assert_eq!(works.subject, "[Acme] Webhook \"CRM\": works again");
        assert!(!works.body.contains("Cause"), "{}", works.body);
    }

    #[test]
    fn message_about_one_webhook_that_works_again_says_first_what_was_lost() {
        let lost = ChangedWebhook { state_now: WebhookState::Works, ..webhook("CRM", WebhookState::Lost, 3) };
        let failing =
            ChangedWebhook { state_now: WebhookState::Works, ..webhook("CRM", WebhookState::Failing, 4) };
        let works = webhook("CRM", WebhookState::Works, 0);
        let alone = notices("Acme", std::slice::from_ref(&lost), UNSUBSCRIBE);
        assert_eq!(alone.subject, "[Acme] Webhook \"CRM\": 3 deliveries are lost");
        assert!(alone.body.contains("Since then: the webhook works again."), "{}", alone.body);
        let all = notices("Acme", &[failing, lost, works], UNSUBSCRIBE);
        let subject = "[Acme] Webhook \"CRM\": attempts failed; 3 deliveries are lost; works again";
        assert_eq!(all.subject, subject);
        assert!(!all.body.contains("tries them again, five times"), "{}", all.body);
    }

    #[test]
    fn many_webhooks_are_one_message_of_bounded_length() {
        let changed: Vec<_> = (0..1_000)
            .map(|number| {
                let state = if number % 2 == 0 { WebhookState::Lost } else { WebhookState::Failing };
                let link = format!("https://acme.example/portal/webhooks/default/{number}");
                ChangedWebhook { link, ..webhook("CRM", state, 20_000) }
            })
            .collect();
        let text = notices("Acme", &changed, UNSUBSCRIBE);
        assert_eq!(text.subject, "[Acme] 1000 webhooks: 500 lose deliveries, 500 fail");
        assert!(text.body.contains("980 more changes") && text.body.contains("more than 10,000"));
        assert!(text.body.len() < 20_000, "{}", text.body.len());
    }

    #[test]
    fn subject_about_several_webhooks_counts_each_state() {
        let of = |link: &str, state| ChangedWebhook { link: link.to_owned(), ..webhook("CRM", state, 1) };
        let each =
            [of("a", WebhookState::Works), of("b", WebhookState::Failing), of("c", WebhookState::Lost)];
        let subject = |changed: &[ChangedWebhook<'_>]| notices("Acme", changed, UNSUBSCRIBE).subject;
        let one = "[Acme] 3 webhooks: 1 loses deliveries, 1 fails, 1 works again";
        assert_eq!(subject(&each), one);
        let more = [of("d", WebhookState::Works), of("e", WebhookState::Works), of("a", WebhookState::Lost)];
        let two = "[Acme] 5 webhooks: 2 lose deliveries, 1 fails, 3 work again";
        assert_eq!(subject(&[each, more].concat()), two);
    }

    #[test]
    fn message_says_what_docket_does_next() {
        let body = |state, count| notices("Acme", &[webhook("CRM", state, count)], UNSUBSCRIBE).body;
        let one = "Three or more attempts of 1 delivery failed. Docket tries it again, five times in all.";
        assert!(body(WebhookState::Failing, 1).contains(one), "{}", body(WebhookState::Failing, 1));
        let two =
            "Three or more attempts of 2 deliveries failed. Docket tries them again, five times in all.";
        assert!(body(WebhookState::Failing, 2).contains(two), "{}", body(WebhookState::Failing, 2));
        assert!(body(WebhookState::Lost, 2).contains("does not try lost deliveries again by itself"));
        assert!(!body(WebhookState::Lost, 2).contains("Since then"));
        let link = "https://acme.example/portal/mail/00ff";
        let confirmation = confirmation("Acme", link).body;
        assert!(confirmation.contains("within 7 days") && confirmation.contains(link), "{confirmation}");
    }

    #[test]
    fn name_is_one_line_and_cut() {
        let long = "x".repeat(500);
        let text =
            notices("A\r\nBcc: eve@evil.example", &[webhook(&long, WebhookState::Failing, 1)], UNSUBSCRIBE);
        assert!(!text.subject.contains(['\r', '\n']), "{:?}", text.subject);
        assert!(text.subject.chars().count() < 200, "{}", text.subject);
        assert!(!confirmation("A\nB", UNSUBSCRIBE).subject.contains('\n'));
        assert_eq!(name(&long), format!("{}…", "x".repeat(79)));
        assert_eq!(name(&long[..80]), long[..80]);
    }

    #[test]
    fn name_hides_nothing_and_is_no_link() {
        for (given, shown) in [
            ("Zoë & Söhne, 東京", "Zoë & Söhne, 東京"),
            ("Acme\u{202e}moc.live\u{2066}\u{feff}", "Acmemoc.live"),
            ("Pay at https:\u{200b}//evil.example", "Pay at https: //evil.example"),
            ("A\u{2028}B\tC\u{85}D\u{a0}E", "A B C D E"),
        ] {
            assert_eq!(name(given), shown);
        }
    }

    #[test]
    fn twenty_changes_are_described_and_ten_thousand_deliveries_counted() {
        let body = |changes| {
            notices("Acme", &vec![webhook("CRM", WebhookState::Lost, 1); changes], UNSUBSCRIBE).body
        };
        assert!(!body(20).contains("more changes"), "{}", body(20));
        assert!(body(21).contains("Webhooks have 1 more changes"), "{}", body(21));
        let texts = [1, 2, 10_000, 10_001].map(deliveries);
        assert_eq!(texts, ["1 delivery", "2 deliveries", "10000 deliveries", "more than 10,000 deliveries"]);
    }

    #[test]
    fn message_says_which_state_follows_and_how_many_are_tried_again() {
        let body = |state, state_now, count| {
            let changed = ChangedWebhook { state_now, ..webhook("CRM", state, count) };
            notices("Acme", &[changed], UNSUBSCRIBE).body
        };
        use WebhookState::{Failing, Lost, Works};
        assert!(
            body(Failing, Failing, 1).contains("attempts of 1 delivery failed. Docket tries it again, five")
        );
        assert!(
            body(Failing, Failing, 2).contains("attempts of 2 deliveries failed. Docket tries them again")
        );
        for (state, state_now, said) in [
            (Works, Failing, "Since then: attempts fail."),
            (Failing, Lost, "Since then: deliveries are lost."),
            (Lost, Works, "Since then: the webhook works again."),
        ] {
            let text = body(state, state_now, 2);
            assert!(text.contains(said) && text.matches("Since then").count() == 1, "{text}");
        }
        assert!(!body(Lost, Lost, 2).contains("Since then") && body(Lost, Lost, 2).contains("resend them"));
        let other = ChangedWebhook { link: "https://acme.example/2".into(), ..webhook("Two", Works, 0) };
        let both = notices("Acme", &[webhook("One", Lost, 1), other.clone()], UNSUBSCRIBE);
        assert_eq!(both.subject, "[Acme] 2 webhooks: 1 loses deliveries, 1 works again");
        let works = notices("Acme", &[webhook("One", Works, 0), other], UNSUBSCRIBE);
        assert_eq!(works.subject, "[Acme] 2 webhooks: 2 work again");
    }

    #[test]
    fn name_has_eighty_characters_and_a_confirmation_its_link_and_its_time() {
        let long = name(&"é".repeat(81));
        assert_eq!((long.chars().count(), long.ends_with('…')), (80, true));
        assert_eq!(name(&"é".repeat(80)), "é".repeat(80));
        let text = confirmation("Acme", UNSUBSCRIBE);
        assert_eq!(text.subject, "[Acme] Confirm your e-mail address");
        assert!(text.body.contains(&format!("within 7 days:\n{UNSUBSCRIBE}\n")), "{}", text.body);
    }
}
