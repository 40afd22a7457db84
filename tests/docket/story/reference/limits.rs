//! Every bound that a user can meet, from the constants that hold it.

use std::fmt::Write;
use std::time::Duration;

use docket::access::passwords::MAX_PASSWORD_CHARS;
use docket::access::rates;
use docket::actions::people;
use docket::api::idempotency;
use docket::app::MAIL_LINKS;
use docket::delivery::upkeep::retention;
use docket::http::{body, paging};
use docket::notices;
use docket::platform::reviews;
use docket_crds::{Limit, Limits};
use docket_domain::{delivery, event, notice, resend, token};
use docket_listener::{anonymous, server};
use docket_mail::text;
use docket_orders::json;
use docket_orders::problem::MAX_PROBLEMS;
use docket_store::subscriptions;
use serde_json::Value;

/// The table of what a tenant can be limited to, from the definition of the kind.
pub(super) fn of_tenants(definition: &Value) -> String {
    let version = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = &version["properties"]["spec"]["properties"]["limits"]["properties"];
    let mut table =
        "| Limit | Default | Least | Most | | At the bound |\n|---|---|---|---|---|---|\n".to_owned();
    for limit in Limit::ALL {
        let field = &fields[limit.as_str()];
        let whole = |name: &str| field[name].as_f64().expect("a number");
        let default = match limit {
            Limit::DatabaseConnections => "that of the process".to_owned(),
            limit => Limits::default().get(limit).to_string(),
        };
        let about = super::cell(field["description"].as_str().expect("a text"));
        let (least, most, then) = (whole("minimum"), whole("maximum"), at_the_bound(limit));
        writeln!(table, "| `{limit}` | {default} | {least} | {most} | {about} | {then} |")
            .expect("a String takes all");
    }
    table
}

/// What happens to what is above the limit.
const fn at_the_bound(limit: Limit) -> &'static str {
    match limit {
        Limit::RequestsPerSecond | Limit::RequestBurst => {
            "[`429`](problems.md#at-limit) with `Retry-After`. While several users send requests, one who uses more than half gets it first."
        }
        Limit::SignInsPerMinute => {
            "[`429`](problems.md#at-limit) with `Retry-After`. Users who signed in lately get it last."
        }
        Limit::QueuedDeliveries => "Further deliveries wait in the tenant's database.",
        Limit::AttemptsInFlight => {
            "Further deliveries wait in Redis. In a process with the roles `api` and `worker`, a save whose deliveries have no room waits up to 0.25 s."
        }
        Limit::DatabaseConnections => {
            "A request waits up to 3 s for a connection, then gets [`429`](problems.md#at-limit) with `Retry-After`. Deliveries wait."
        }
        Limit::BodyBytes => "[`413`](problems.md#body-too-long).",
        Limit::Webhooks | Limit::ForeignWebhooks => {
            "Further Webhooks are not served, with the reason [`TooManyWebhooks`](conditions.md#toomanywebhooks)."
        }
    }
}

/// The tables of the bounds that are the same for all.
pub(super) fn of_all() -> String {
    let table = |title: &str, rows: &[(&str, String)]| {
        let rows: String = rows.iter().map(|(what, bound)| format!("| {what} | {bound} |\n")).collect();
        format!("\n## {title}\n\n| | Bound |\n|---|---|\n{rows}")
    };
    let requests = table(
        "Requests",
        &[
            ("Body of an order", bytes(body::ORDER_LIMIT)),
            ("Body of a sign-in", bytes(body::SIGN_IN_LIMIT)),
            ("Other bodies", bytes(body::LIMIT)),
            ("Body of a response", bytes(body::LONGEST_RESPONSE)),
            ("Time for a body to arrive", time(body::TIME)),
            ("Headers that always fit", bytes(server::BUFFER)),
            ("Time for the headers to arrive", time(server::HEADER_TIME)),
            ("`Idempotency-Key`", format!("{} characters", idempotency::MAX_CHARS)),
            ("Bearer token", bytes(token::MAX_TOKEN_BYTES)),
            (
                "A session of the portal, from the sign-in on",
                format!("{} h", token::LONGEST_SESSION.as_secs() / 3600),
            ),
            ("Password", format!("{MAX_PASSWORD_CHARS} characters")),
            ("Depth of JSON", format!("{} levels", json::MAX_DEPTH)),
            ("Values in a JSON document", count(json::MAX_VALUES)),
            ("Objects and lists in a JSON document", count(json::MAX_CONTAINERS)),
            ("Fields that one response lists as wrong", count(MAX_PROBLEMS)),
            ("Rows of a page, if the request has no `pageSize`", paging::DEFAULT_PAGE_SIZE.to_string()),
            (
                "Users of each list on a page of *People*; users that a search reads for it",
                format!("50; {}", count(people::MOST_READ as usize)),
            ),
            (
                "Webhooks that the contacts of a customer add in the portal",
                format!(
                    "{} at once in each process, then one in {} min",
                    rates::ADDITIONS,
                    rates::ADDITION_EVERY.as_secs() / 60
                ),
            ),
            ("Connections of clients to one pod", count(server::CONNECTIONS)),
            ("Time that an idle connection is kept", time(server::IDLE_TIME)),
        ],
    );
    let turns = format!(
        "{} at a time, at most one of them for each source; {} ms later the next. {} may wait or be served, at most a quarter of them for each source; a further one, and one that waits for 2 s, gets [`503`](problems.md#unavailable)",
        anonymous::AT_ONCE,
        anonymous::PAUSE.as_millis(),
        anonymous::PLACES
    );
    let fixed = "Text that is in the program, made once".to_owned();
    let anonymous = table(
        "Requests without credentials",
        &[
            (
                "`/Auth/Token`, `/Session/Create`, `/Employee/SignIn`, `/portal/sign-in`",
                format!(
                    "A body of {} in {}, of `/portal/sign-in` {}; `signInsPerMinute` of the tenant; [wrong passwords](../api/sign-in.md) of a user, of an address, and of both; the memory of the process for passwords, of which a tenant has half of what is free",
                    bytes(body::SIGN_IN_LIMIT),
                    time(body::TIME),
                    bytes(body::SIGN_IN_FORM_LIMIT)
                ),
            ),
            (
                "`/docs`, `/docs/`, `/docs/{*path}`, `/openapi.json`, `/openapi/events.json`, `/swagger`, `/swagger/`, `/swagger/{*file}`",
                format!(
                    "{fixed}; of `/docs/` also a page that names the host of the request, and one for a path that has none; off with `--docs off` of `docket serve`"
                ),
            ),
            (
                "`/docs/search`",
                format!(
                    "The first {} bytes and {} words of a query, and {} results; {turns}; off with `--docs off` of `docket serve`",
                    docket_docs::MAX_QUERY,
                    docket_docs::MAX_WORDS,
                    docket_docs::MOST_FOUND
                ),
            ),
            (
                "`/portal/portal.css`, `/portal/portal.js`, `/portal/icon.svg`, `/portal/brand.css`, `/portal/logo`",
                fixed.clone(),
            ),
            (
                "`/portal/mail/{token}`",
                format!(
                    "A body of {} in {}; one read of the tenant's database; {MAIL_LINKS} at a time, one of them for each source, and two while no other source has one",
                    bytes(body::SIGN_IN_LIMIT),
                    time(body::TIME)
                ),
            ),
            (
                "`/portal/{*other}`, and each path that is no route",
                "A short text; no body is read".to_owned(),
            ),
            (
                "Each other route of the API and the portal",
                format!(
                    "[`401`](problems.md#invalid-token), or the sign-in page; no body is read, except the form of a page of the portal: the sign-in page keeps one of {}, which must arrive in {}",
                    bytes(body::KEPT_FORM_LIMIT),
                    time(body::TIME)
                ),
            ),
            (
                "Connections to a management port, which the operator has too",
                count(server::MANAGEMENT_CLIENTS),
            ),
            ("`/healthz`, `/readyz` there", "A short text".to_owned()),
            ("`/metrics` there", turns.clone()),
            (
                "`/platform/…`",
                format!(
                    "Asks the API server who has the token: {} requests at a time, of which one address has half; {} s later the next, if the API server does not know the token; {} may wait or be served; an answer counts for 10 s",
                    reviews::AT_ONCE,
                    reviews::PAUSE.as_secs_f64(),
                    reviews::PLACES
                ),
            ),
        ],
    );
    let deliveries = table(
        "Deliveries",
        &[
            ("Attempts of a delivery", delivery::MAX_ATTEMPTS.to_string()),
            ("An attempt, from the DNS lookup to the response's headers", time(delivery::ATTEMPT_TIMEOUT)),
            (
                "In this time: the DNS lookup and the connection, each; the TLS handshake",
                format!("{}; {}", time(docket_egress::PHASE_LIMIT), time(docket_egress::HANDSHAKE_LIMIT)),
            ),
            ("Body of a delivery", bytes(event::LONGEST_ENVELOPE)),
            ("Time for the body of a 2xx response", time(docket_egress::SUCCESS_BODY_LIMIT)),
            (
                "Headers of a response",
                format!("{}, {}", count(docket_egress::MAX_HEADERS), bytes(docket_egress::MAX_HEADER_BYTES)),
            ),
            ("Bytes of a response that are read", bytes(delivery::READ_ANSWER_BYTES)),
            ("Characters of a response that are kept", count(delivery::KEPT_ANSWER_CHARS)),
            ("Connections that a worker keeps open to one URL", count(docket_egress::MAX_PER_TARGET)),
            (
                "Connections that a worker opens to one URL at a time",
                format!(
                    "{}; if an attempt has waited for {}, as many as are in use or were opened in a row without trouble; if none is in use, one for each attempt that waits",
                    docket_egress::OPENINGS,
                    time(docket_egress::LONGEST_WAIT)
                ),
            ),
            (
                "Time that an unused connection is kept open",
                format!(
                    "{0}; {1} while another connection to its host and port takes longer than {1} to open; not at all if another one takes longer than {2}, if this one did, or if an opening there was given up. The limits {1} and {2} are at least {3} times as long as opening a connection there takes",
                    time(docket_egress::IDLE_LIMIT),
                    time(docket_egress::LONGEST_WAIT),
                    time(docket_egress::STARVING),
                    docket_egress::FAR
                ),
            ),
            (
                "Age from which a connection is closed after an answer",
                format!(
                    "{}; {} while another connection to its host and port takes longer than that to open",
                    time(docket_egress::OLDEST),
                    time(docket_egress::STARVING)
                ),
            ),
            (
                "Addresses of a host that an attempt tries",
                format!(
                    "{}; if the IPv4 and the IPv6 addresses are found at different times, as many of each",
                    docket_egress::MAX_TRIED
                ),
            ),
            (
                "Time that deliveries of a webhook that is not declared any more wait for it, by default (`--webhook-grace`)",
                format!(
                    "{} h; then they are dead letters of the class [`WebhookGone`](failure-classes.md#webhookgone)",
                    delivery::WEBHOOK_GRACE.as_secs() / 3600
                ),
            ),
            ("Deliveries of one bulk resend", count(resend::MAX_COUNT.unsigned_abs() as usize)),
            (
                "Pace of a bulk resend",
                format!("{} a second; {} by default", resend::MAX_PER_SECOND, resend::DEFAULT_PER_SECOND),
            ),
        ],
    );
    let kept = table(
        "What is kept",
        &[
            ("Bulk resends", days(retention::KEEP_RESENDS)),
            (
                "The generated secret of a webhook that is not declared any more",
                format!(
                    "{} h longer than `--webhook-grace`; for a tenant at most {}",
                    docket_crds::kept::LONGER.as_secs() / 3600,
                    docket_crds::kept::MOST
                ),
            ),
            ("Audit entries, by default (`--audit-retention`)", days(retention::KEEP_AUDIT)),
            ("Sign-ins in the audit of a database", count(retention::MAX_SIGN_INS.unsigned_abs() as usize)),
            ("Refused sign-ins there", count(retention::MAX_REFUSED.unsigned_abs() as usize)),
            ("Reads of payloads there", count(retention::MAX_READS.unsigned_abs() as usize)),
            ("Entries of each other event there", count(retention::MAX_OF_AN_EVENT.unsigned_abs() as usize)),
            (
                "Links of messages about webhooks",
                days(Duration::from_millis(subscriptions::KEEP_LINKS_MS.unsigned_abs())),
            ),
        ],
    );
    let subscriptions = table(
        "Subscriptions to changes of webhooks",
        &[
            ("Subscriptions of a user", subscriptions::MOST_OF_USER.to_string()),
            ("Subscriptions of the contacts of a customer", subscriptions::MOST_OF_CUSTOMER.to_string()),
            ("Subscriptions of all contacts of a tenant", subscriptions::MOST_OF_CONTACTS.to_string()),
            ("Subscriptions of all users of a tenant", subscriptions::MOST_OF_TENANT.to_string()),
            ("Notices of one state of one webhook", format!("1 in {} h", notice::APART.as_secs() / 3600)),
            (
                "Messages of one subscription",
                format!("1 in {} min; what changes meanwhile is one message", notices::APART.as_secs() / 60),
            ),
            (
                "Messages of all subscriptions of a tenant",
                format!(
                    "{} an hour, and {} of one user, also if they could not be sent; what changes then is one message to an address",
                    notices::MOST_NOTICES,
                    notices::MOST_NOTICES_OF_USER
                ),
            ),
            (
                "Messages that ask the owners of addresses to confirm them",
                format!(
                    "{} an hour for a tenant, {} for a user; one in {} h to an address",
                    notices::MOST_CONFIRMATIONS,
                    notices::MOST_CONFIRMATIONS_OF_USER,
                    subscriptions::ASK_AGAIN_MS / 3_600_000
                ),
            ),
            (
                "Time to confirm an address",
                format!("{} days", subscriptions::CONFIRM_MS / (24 * 3600 * 1000)),
            ),
            ("Changes that one message describes", text::MOST_DESCRIBED.to_string()),
            ("Time of one message to the SMTP server", time(docket_mail::SEND_TIME)),
        ],
    );
    [requests, anonymous, deliveries, subscriptions, kept].concat()
}

fn bytes(bytes: usize) -> String {
    match bytes {
        bytes if bytes % (1024 * 1024) == 0 => format!("{} MiB", bytes / (1024 * 1024)),
        bytes if bytes % 1024 == 0 => format!("{} KiB", bytes / 1024),
        bytes => format!("{bytes} bytes"),
    }
}

fn time(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

fn days(time: Duration) -> String {
    format!("{} days", time.as_secs() / (24 * 3600))
}

/// 10,000.
fn count(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
