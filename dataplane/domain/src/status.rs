//! What to do about each HTTP status that fails an attempt.

use crate::failure_class::{FailureClass, class_of_status};

/// The remedy for each status or range of statuses that has one: first status, last status, sentence.
pub const REMEDIES: &[(u16, u16, &str)] = &[
    (
        100,
        199,
        "The receiver left HTTP or ended with an interim status, which no delivery asks for; let the route answer a POST with 2xx.",
    ),
    (
        304,
        304,
        "The receiver answered 304, which is for copies of a page; let the route answer a POST with 2xx.",
    ),
    (
        400,
        400,
        "The receiver can't read the request; see its log for what it refuses, and whether it reads JSON in UTF-8 over HTTPS.",
    ),
    (
        401,
        401,
        "The receiver wants credentials that it did not get; let the route check the delivery's signature instead, with the secret of the Webhook.",
    ),
    (
        403,
        403,
        "The receiver, or a firewall in front of it, forbids the request; allow it there, and check that both sides have the same signing secret.",
    ),
    (404, 404, "The receiver has no such route; correct the path of targetURL, or add the route."),
    (405, 405, "The receiver's route does not take POST; add POST to it, or correct the path of targetURL."),
    (
        406,
        406,
        "The receiver has no answer in a form that it thinks Docket reads; answer 2xx, in any form or with no body.",
    ),
    (407, 407, "A proxy in front of the receiver wants credentials; let it pass deliveries without them."),
    (
        408,
        408,
        "The receiver waited too long for the request; check its load and its time limits, and those of the proxy in front of it.",
    ),
    (
        409,
        409,
        "The receiver reports a conflict; answer 2xx if it has the event already, which its webhook-id says.",
    ),
    (
        410,
        410,
        "The receiver says that its route is gone for good; set targetURL to the new one, or delete the Webhook.",
    ),
    (
        411,
        411,
        "The receiver misses the Content-Length that every delivery has; find the proxy in front of it that removes the header.",
    ),
    (
        412,
        412,
        "The receiver names a condition that the request did not set; let the route take a POST without conditions.",
    ),
    (413, 413, "The event is longer than the receiver takes; raise its limit for bodies to 64 KiB or more."),
    (414, 414, "The target URL is longer than the receiver takes; raise its limit, or shorten targetURL."),
    (415, 415, "The receiver does not take the Content-Type application/json; let the route read JSON."),
    (
        417,
        417,
        "The receiver, or a proxy in front of it, expects a header Expect that no delivery has; correct the proxy.",
    ),
    (
        421,
        421,
        "The server does not answer for the host of targetURL; add the host to its configuration, or correct the DNS record.",
    ),
    (
        422,
        422,
        "The receiver reads the event and refuses a value; see its log for the field, and compare its check with the schema of the event.",
    ),
    (
        425,
        425,
        "The receiver does not take a request that early; answer 2xx to a POST over a new connection.",
    ),
    (
        426,
        426,
        "The receiver wants another protocol than HTTP/1.1, which deliveries use; allow HTTP/1.1 for the route.",
    ),
    (
        428,
        428,
        "The receiver wants a condition in the request; let the route take a POST without conditions.",
    ),
    (
        429,
        429,
        "The receiver, or a proxy in front of it, gets more requests than it allows; raise its limit, or resend at a lower pace.",
    ),
    (
        431,
        431,
        "The headers of the request are longer than the receiver takes; raise its limit for headers to 8 KiB or more.",
    ),
    (451, 451, "The receiver refuses for legal reasons; ask who runs it."),
    (
        500,
        500,
        "The receiver failed while handling the request; see the receiver's log, and correct what failed.",
    ),
    (
        501,
        501,
        "The receiver does not know how to handle a POST; correct the path of targetURL, or add the route.",
    ),
    (
        502,
        502,
        "The proxy in front of the receiver got no valid answer from it; start or repair the program behind the proxy.",
    ),
    (
        503,
        503,
        "The receiver is not ready: it is overloaded, starts, or is under maintenance; check when it is back.",
    ),
    (
        504,
        504,
        "The proxy in front of the receiver waited too long for it; answer 2xx at once, and do the work afterwards.",
    ),
    (505, 505, "The receiver does not take HTTP/1.1, which deliveries use; allow it."),
    (507, 507, "The receiver has no room to store the event; free some."),
    (508, 508, "The receiver found a loop in its own routing; correct the rules of its proxies."),
    (
        511,
        511,
        "A network between Docket and the receiver wants a sign-in; ask who runs it to let deliveries pass.",
    ),
    (
        520,
        520,
        "The CDN in front of the receiver got an empty or broken answer from it; see the receiver's log for a crash.",
    ),
    (
        521,
        523,
        "The CDN in front of the receiver can't connect to it; start the receiver, and allow the CDN's addresses in its firewall.",
    ),
    (
        524,
        524,
        "The CDN in front of the receiver waited too long for it; answer 2xx at once, and do the work afterwards.",
    ),
    (
        525,
        526,
        "The CDN in front of the receiver can't make a trusted TLS connection to it; renew the certificate behind the CDN, or correct the CDN's TLS mode.",
    ),
    (
        527,
        527,
        "The CDN in front of the receiver could not hand the request on; look up the error that its answer names.",
    ),
    (
        529,
        529,
        "The receiver, or a service in front of it, is overloaded; give it more room, or resend at a lower pace.",
    ),
    (
        530,
        530,
        "The CDN in front of the receiver has no way to it, often for want of a DNS record; look up the error of four digits that its answer names.",
    ),
];

/// One sentence about a failed attempt with this status; `None`: the sentence of the class is enough.
pub(crate) fn remedy(class: FailureClass, status: u16, detail: Option<&str>) -> Option<String> {
    if class_of_status(status) != Some(class) {
        return None; // the status did not decide, for example because the body did not end in time
    }
    if class == FailureClass::Redirect {
        return detail.map(|location| redirect(status, location));
    }
    let row = REMEDIES.iter().find(|(first, last, _)| (*first..=*last).contains(&status));
    row.map(|(_, _, text)| (*text).to_owned())
}

/// The sentence for a redirect to an https address that is not the target URL.
fn redirect(status: u16, location: &str) -> String {
    match status {
        301 | 308 => format!(
            "The receiver's route has moved to {location} and redirects are not followed; set targetURL to this address."
        ),
        302 | 303 | 307 => format!(
            "The receiver redirects to {location} for now and redirects are not followed; set targetURL to this address, or, if it is a page for people, let the route take a POST without a sign-in."
        ),
        _ => format!(
            "The receiver answered {status} and names {location}, where it is not followed; set targetURL to the address that takes the POST."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_that_fails_has_one_sentence_and_the_common_ones_their_own() {
        let detail = Some("https://new.example/a");
        let mut own = Vec::new();
        for status in (100..=999).filter(|status| !(200..=299).contains(status)) {
            let class = class_of_status(status).expect("a failure");
            if let Some(remedy) = remedy(class, status, detail) {
                assert!(remedy.ends_with('.') && remedy.matches(". ").count() == 0, "{remedy}");
                assert!(remedy.contains("; "), "{remedy}");
                assert_eq!(remedy.contains("new.example"), class == FailureClass::Redirect, "{remedy}");
                own.push(status);
            }
        }
        for status in
            [101, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 408, 410, 411, 413, 414]
                .into_iter()
                .chain([415, 421, 422, 429, 431, 500, 501, 502, 503, 504, 520, 522, 526, 529, 530])
        {
            assert!(own.contains(&status), "{status}");
        }
        assert!(!own.contains(&418) && !own.contains(&599));
        let remedy = remedy(FailureClass::ServerError, 529, None).expect("a sentence of its own");
        assert!(remedy.contains("overloaded") && !remedy.contains("CDN"), "{remedy}");
    }

    #[test]
    fn ranges_rise_and_no_sentence_stands_twice() {
        assert!(REMEDIES.is_sorted_by(|a, b| a.0 <= a.1 && a.1 < b.0));
        let mut texts: Vec<&str> = REMEDIES.iter().map(|row| row.2).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), REMEDIES.len());
    }

    #[test]
    fn status_of_an_answer_whose_body_timed_out_chooses_no_remedy() {
        assert_eq!(remedy(FailureClass::BodyTimeout, 500, None), None);
        assert_eq!(
            remedy(FailureClass::Redirect, 301, None),
            None,
            "an older attempt, whose Location was not kept"
        );
    }
}
