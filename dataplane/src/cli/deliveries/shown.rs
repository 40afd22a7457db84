//! The texts that `docket deliveries` prints, with times in UTC.

use docket_domain::delivery::MAX_ATTEMPTS;
use docket_domain::failure::{Cause, Failure};
use docket_domain::resend::MAX_COUNT;
use docket_store::deliveries::{ListedDelivery, StoredAttempt};
use docket_store::resends::{DeadLetterRange, Resend};

use super::super::table::{table, time};
use crate::actions::resend::{Many, Progress, StoppedResend, remedy};
use crate::actions::set_aside::Aside;
use crate::actions::wait::DeliveryWait;

pub(super) fn deliveries(listed: &[ListedDelivery], waits: &[Option<DeliveryWait>]) -> String {
    if listed.is_empty() {
        return "No deliveries.\n".to_owned();
    }
    let head = ["DELIVERY", "CREATED", "EVENT", "ABOUT", "WEBHOOK", "STATUS", "ATTEMPTS", "LAST"];
    let rows = listed.iter().zip(waits).map(|(delivery, wait)| {
        let last = [last(delivery.failure(), delivery.http_status), wait.map_or_else(String::new, waits_for)];
        [
            delivery.id.clone(),
            time(delivery.created_at_ms),
            delivery.event_code.clone(),
            delivery.about.shown().to_owned(),
            delivery.webhook_name.clone(),
            status(delivery),
            format!("{}/{MAX_ATTEMPTS}", delivery.attempt_count),
            last.iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(", "),
        ]
    });
    table(head, rows)
}

/// The status, and why a dead letter counts no longer.
fn status(delivery: &ListedDelivery) -> String {
    match (&delivery.set_aside, delivery.resent) {
        (Some(_), _) => format!("{} (set aside)", delivery.status),
        (None, true) => format!("{} (resent)", delivery.status),
        (None, false) => delivery.status.to_string(),
    }
}

pub(super) fn resends(progress: &[Progress]) -> String {
    if progress.is_empty() {
        return "No resends of many.\n".to_owned();
    }
    let head = [
        "RESEND",
        "CREATED",
        "BY",
        "WEBHOOK",
        "COUNT",
        "PENDING",
        "FAILED",
        "SUCCEEDED",
        "DEADLETTER",
        "WITHDRAWN",
        "STOPPED",
    ];
    let rows = progress.iter().map(|progress| {
        let Progress { resend, pending, failed, succeeded, dead_letter } = progress;
        [
            resend.id.clone(),
            time(resend.created_at_ms),
            resend.requested_by.clone(),
            resend.webhook_name.clone(),
            resend.count.to_string(),
            pending.to_string(),
            failed.to_string(),
            succeeded.to_string(),
            dead_letter.to_string(),
            resend.taken_back.to_string(),
            resend.stopped_at_ms.map_or("–".to_owned(), time),
        ]
    });
    table(head, rows)
}

pub(super) fn preview(many: &Many, extent: DeadLetterRange, total: i64) -> String {
    let mut what = extent_of(&many.choice.webhook, many, extent);
    if total > extent.count {
        what.push_str(&format!("\nThere are {}; resend the others with further requests.", counted(total)));
    }
    match extent.count {
        0 => format!("{what}\n"),
        _ => format!("{what}\nNothing was resent; add --yes to resend them.\n"),
    }
}

pub(super) fn preview_aside(webhook: &str, aside: Aside, extent: DeadLetterRange, total: i64) -> String {
    let (which, done, to_do) = match aside {
        Aside::Set => ("", "Nothing was set aside", "set them aside"),
        Aside::Undo => (" that are set aside", "Nothing was changed", "make them count again"),
    };
    let (Some(oldest), Some(newest)) = (extent.oldest_ms, extent.newest_ms) else {
        return format!(
            "no dead letters of {webhook}{}.\n",
            if which.is_empty() { " that count" } else { which }
        );
    };
    let (oldest, newest) = (time(oldest), time(newest));
    let more = match total > extent.count {
        true => format!("\nThere are {}; the others need further requests.", counted(total)),
        false => String::new(),
    };
    format!(
        "{} of {webhook}{which}, created from {oldest} to {newest}.{more}\n{done}; add --yes to {to_do}.\n",
        dead_letters(extent.count)
    )
}

pub(super) fn aside(kind: &str, subject: &str, aside: Aside, count: i64) -> String {
    match (kind, aside, count) {
        ("delivery", Aside::Set, 0) => format!("Delivery {subject} was set aside before.\n"),
        ("delivery", Aside::Set, _) => format!("Delivery {subject} set aside: it counts no longer.\n"),
        ("delivery", Aside::Undo, 0) => format!("Delivery {subject} is not set aside.\n"),
        ("delivery", Aside::Undo, _) => format!("Delivery {subject} counts again.\n"),
        (_, Aside::Set, 1) => format!("1 dead letter of {subject} set aside: it counts no longer.\n"),
        (_, Aside::Set, _) => format!("{count} dead letters of {subject} set aside: they count no longer.\n"),
        (_, Aside::Undo, 1) => format!("1 dead letter of {subject} counts again.\n"),
        (_, Aside::Undo, _) => format!("{count} dead letters of {subject} count again.\n"),
    }
}

fn dead_letters(count: i64) -> String {
    format!("{count} dead letter{}", if count == 1 { "" } else { "s" })
}

/// A count of dead letters, which goes to one more than [`MAX_COUNT`].
fn counted(total: i64) -> String {
    if total > MAX_COUNT { format!("more than {MAX_COUNT}") } else { total.to_string() }
}

pub(super) fn started(
    tenant: &str,
    server: &str,
    many: &Many,
    resend: &Resend,
    extent: DeadLetterRange,
) -> String {
    let id = &resend.id;
    format!(
        "Resend {id}: {}\nA running `{server}` sends them. To stop it: docket deliveries stop --tenant {tenant} {id}\n",
        extent_of(&resend.webhook_name, many, extent)
    )
}

fn extent_of(webhook: &str, many: &Many, extent: DeadLetterRange) -> String {
    let (Some(oldest), Some(newest)) = (extent.oldest_ms, extent.newest_ms) else {
        return format!("no dead letters of {webhook} to resend.");
    };
    format!(
        "{} of {webhook}, created from {} to {}; {} per second take {} s.",
        dead_letters(extent.count),
        time(oldest),
        time(newest),
        many.per_second,
        many.seconds(extent.count)
    )
}

pub(super) fn stopped(id: &str, stopped: StoppedResend) -> String {
    let StoppedResend { taken_back, gone } = stopped;
    format!("Resend {id} stopped: {taken_back} deliveries withdrawn, {gone} attempted before.\n")
}

fn waits_for(wait: DeliveryWait) -> String {
    format!("waits for {wait}")
}

/// A delivery with what it waits for, its attempts, oldest first, and its resends, newest first.
pub(super) fn details(
    listed: &ListedDelivery,
    wait: Option<DeliveryWait>,
    attempts: &[StoredAttempt],
    later: &[ListedDelivery],
) -> String {
    let mut out = format!(
        "Delivery {}\n  event     {} {} about {}\n  webhook   {} (customer {})\n  status    {} after {} of {MAX_ATTEMPTS} attempts\n  created   {}\n",
        listed.id,
        if listed.event_code.is_empty() { "(invalid code)" } else { &listed.event_code },
        if listed.event_id.is_empty() { "(invalid id)" } else { &listed.event_id },
        listed.about.shown(),
        listed.webhook_name,
        listed.customer_code,
        listed.status,
        listed.attempt_count,
        time(listed.created_at_ms),
    );
    if !listed.status.is_final() {
        let wait = wait.map_or_else(String::new, |wait| format!(", {}", waits_for(wait)));
        out.push_str(&format!("  next      {}{wait}\n", time(listed.due_at_ms)));
    }
    if let Some(original) = &listed.resend_of {
        let by = listed.requested_by.as_deref().unwrap_or("");
        out.push_str(&format!("  resend of {original} by {by}\n"));
    }
    for resend in later.iter().rev() {
        let by = resend.requested_by.as_deref().unwrap_or("–");
        out.push_str(&format!(
            "  resent    {} by {by}: {} ({})\n",
            time(resend.created_at_ms),
            resend.status,
            resend.id
        ));
    }
    if let Some((by, at_ms)) = &listed.set_aside {
        out.push_str(&format!("  set aside {} by {by}\n", time(*at_ms)));
    }
    for attempt in attempts {
        let took = attempt.total_us.map_or("–".to_owned(), |micros| format!("{} ms", micros / 1000));
        let phases: Vec<String> = [
            ("dns", attempt.dns_us),
            ("connect", attempt.connect_us),
            ("tls", attempt.tls_us),
            ("first byte", attempt.first_byte_us),
        ]
        .into_iter()
        .filter_map(|(phase, micros)| Some(format!("{phase} {:.1} ms", micros? as f64 / 1000.0)))
        .collect();
        let end = match attempt.finished_at_ms {
            None => "under way".to_owned(),
            Some(_) => last(attempt.failure(), attempt.http_status),
        };
        out.push_str(&format!(
            "  attempt {}  {}  {end}  {took}  {}  {}\n",
            attempt.number,
            time(attempt.started_at_ms),
            attempt.remote_address.as_deref().unwrap_or(""),
            phases.join(" · "),
        ));
    }
    if let Some(remedy) = remedy(listed, later.first().map(|newest| newest.status)) {
        out.push_str(&format!("  what to do: {remedy}\n"));
    }
    out
}

fn last(failure: Option<Failure<'_>>, http_status: Option<i64>) -> String {
    let cause = failure.and_then(|failure| failure.known_cause()).map(Cause::as_str);
    let words: Vec<String> = failure
        .map(|failure| failure.class.to_string())
        .into_iter()
        .chain(cause.map(str::to_owned))
        .chain(http_status.map(|status| status.to_string()))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use docket_domain::delivery::FailureClass;

    use super::*;

    #[test]
    fn attempt_shows_its_status() {
        assert_eq!(deliveries(&[], &[]), "No deliveries.\n");
        let failure = |class: FailureClass| Some(Failure::from(class));
        assert_eq!(last(failure(FailureClass::ServerError), Some(500)), "ServerError 500");
        let expired = Failure { cause: Some(Cause::CertificateExpired), ..FailureClass::TlsUntrusted.into() };
        assert_eq!(last(Some(expired), None), "TlsUntrusted CertificateExpired");
    }
}
