//! The offline checker: rules about what clients, receivers and tables recorded of a run. It has none of the product's code. Each rule is a
//! pure function, and each has a history below that breaks it.

use std::collections::{HashMap, HashSet};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The largest number of attempts of a delivery.
const MOST_ATTEMPTS: i64 = 5;
/// The largest error of a comparison of two times that are each rounded down to milliseconds.
const ROUNDING_MS: i64 = 2;
const LOST: &str = "WorkerLost";

/// Everything that is known of a run after its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// The base of the backoff in milliseconds: after failed attempt `n` the delay is `2^n` times this.
    pub(crate) backoff_base_ms: i64,
    /// The secrets that webhooks signed with in the run.
    pub(crate) secrets: Vec<String>,
    pub(crate) tenants: Vec<Tenant>,
    /// What the receivers got, in the order in which it came.
    pub(crate) posts: Vec<Post>,
    pub(crate) outputs: Vec<Output>,
}

/// The clients' and the tables' records of a tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tenant {
    /// The names of its webhooks; no two tenants have a webhook of the same name.
    pub(crate) webhooks: Vec<String>,
    pub(crate) saves: Vec<Save>,
    pub(crate) orders: Vec<Order>,
    pub(crate) events: Vec<Event>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) attempts: Vec<Attempt>,
}

/// A save that a client sent, with what the client learned.
#[derive(Debug, Clone)]
pub(crate) struct Save {
    /// The text by which the order is known, unless a client repeats a save under one idempotency key.
    pub(crate) reference: String,
    pub(crate) answer: Answer,
    /// When the client sent it, in milliseconds since the beginning of the run.
    pub(crate) begun_ms: i64,
    pub(crate) took_ms: i64,
}

/// What a client learned of its save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The save is acknowledged: the number of its order.
    Acknowledged(String),
    /// The save is refused for what it is, with a status from 400 to 499.
    Refused(u16),
    /// There was no response, or a status from 500 on: the order may be stored.
    Unclear,
}

/// A row of `web_order`.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) reference: String,
}

/// A row of `event`.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) code: String,
    pub(crate) order: String,
    pub(crate) body: Vec<u8>,
}

/// A row of the view `delivery`.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) webhook: String,
    pub(crate) status: String,
    pub(crate) attempts: i64,
    pub(crate) is_leased: bool,
}

/// A row of the view `attempt`.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) delivery: String,
    pub(crate) number: i64,
    pub(crate) started_at_ms: i64,
    pub(crate) finished_at_ms: Option<i64>,
    /// The class of the failure; `None`: the attempt succeeded or has not ended.
    pub(crate) class: Option<String>,
    pub(crate) http_status: Option<i64>,
    pub(crate) total_us: Option<i64>,
}

/// A POST that a receiver got.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    /// When the last byte of the POST was there, in milliseconds since the receiver started.
    pub(crate) at_ms: i64,
    pub(crate) webhook: String,
    pub(crate) delivery: String,
    pub(crate) event: String,
    pub(crate) body: Vec<u8>,
    pub(crate) signature: Option<String>,
    /// The response; `None`: the receiver sent none.
    pub(crate) response: Option<Response>,
}

/// A response of a receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The earliest time at which it was sent.
    pub(crate) at_ms: i64,
}

/// Something that left the program: a response to a client of a tenant, a log, the metrics.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) what: String,
    /// The tenant whose client got it; `None`: the people who run the service.
    pub(crate) reader: Option<usize>,
    /// The tenants whose canary it contains.
    pub(crate) canaries: Vec<usize>,
    /// Whether the output contains a password, a key or a signing secret.
    pub(crate) has_secret: bool,
    pub(crate) has_panic: bool,
}

/// How often a history breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) count: usize,
    /// The first place where the rule is broken.
    pub(crate) first: String,
}

type Rule = fn(&History) -> Vec<String>;

const RULES: [(&str, Rule); 14] = [
    ("an acknowledged order is stored", acknowledged_is_stored),
    ("a refused save stores nothing", refused_stores_nothing),
    ("an order has one client's save, and a save one order", one_order_per_save),
    ("an order has its event, and an event a delivery for each webhook", orders_are_whole),
    ("a POST is of a delivery of its webhook", posts_are_of_deliveries),
    ("all POSTs of an event have the same bytes", bytes_are_the_same),
    ("a POST is signed", posts_are_signed),
    ("a delivery has at most five POSTs, and each is counted", posts_are_counted),
    ("a delivery ends", deliveries_end),
    ("attempts have an order, and decide the status", states_are_in_order),
    ("a delivery that succeeded was answered with 2xx", success_was_answered),
    ("no attempt is early", no_attempt_is_early),
    ("no two POSTs of a delivery are under way at once", posts_do_not_overlap),
    ("what a tenant sent is read by no other", canaries_stay),
];

/// The rules that this history breaks.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let broken = RULES.iter().map(|(rule, broken)| (*rule, broken(history)));
    broken
        .filter_map(|(rule, broken)| {
            let first = broken.first()?.clone();
            Some(Violation { rule, count: broken.len(), first })
        })
        .collect()
}

fn acknowledged_is_stored(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    for tenant in &history.tenants {
        let orders: HashMap<&str, &str> =
            tenant.orders.iter().map(|order| (order.id.as_str(), order.reference.as_str())).collect();
        for save in &tenant.saves {
            let Answer::Acknowledged(order) = &save.answer else { continue };
            match orders.get(order.as_str()) {
                Some(reference) if *reference == save.reference => {}
                Some(reference) => broken.push(format!("{order} is {reference}, and not {}", save.reference)),
                None => broken.push(format!("{order} of {} is lost", save.reference)),
            }
        }
    }
    broken
}

fn refused_stores_nothing(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    for tenant in &history.tenants {
        let stored: HashSet<&str> = tenant.orders.iter().map(|order| order.reference.as_str()).collect();
        let refused = tenant.saves.iter().filter(|save| matches!(save.answer, Answer::Refused(_)));
        let stored = refused.filter(|save| stored.contains(save.reference.as_str()));
        broken.extend(stored.map(|save| format!("{} was refused: {:?}", save.reference, save.answer)));
    }
    broken
}

fn one_order_per_save(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    for tenant in &history.tenants {
        let sent: HashSet<&str> = tenant.saves.iter().map(|save| save.reference.as_str()).collect();
        let mut seen = HashSet::new();
        for Order { id, reference } in &tenant.orders {
            if !sent.contains(reference.as_str()) {
                broken.push(format!("no client of the tenant sent {id}: {reference}"));
            } else if !seen.insert(reference.as_str()) {
                broken.push(format!("{id} is a second order of {reference}"));
            }
        }
    }
    broken
}

fn orders_are_whole(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    for tenant in &history.tenants {
        let mut events: HashMap<&str, Vec<&Event>> = HashMap::new();
        tenant.events.iter().for_each(|event| events.entry(&event.order).or_default().push(event));
        let mut deliveries: HashMap<&str, Vec<&str>> = HashMap::new();
        for delivery in &tenant.deliveries {
            deliveries.entry(&delivery.event).or_default().push(&delivery.webhook);
        }
        let mut webhooks: Vec<&str> = tenant.webhooks.iter().map(String::as_str).collect();
        webhooks.sort_unstable();
        for order in &tenant.orders {
            match events.remove(order.id.as_str()).as_deref() {
                Some([event]) if event.code == "order.created" => {
                    let mut found = deliveries.remove(event.id.as_str()).unwrap_or_default();
                    found.sort_unstable();
                    if found != webhooks {
                        broken.push(format!("{} of {} has deliveries to {found:?}", event.id, order.id));
                    }
                }
                other => broken.push(format!("{} has the events {other:?}", order.id)),
            }
        }
        broken.extend(events.keys().map(|order| format!("an event of {order}, which is not there")));
        broken.extend(deliveries.keys().map(|event| format!("a delivery of {event}, which is not there")));
    }
    broken
}

/// All deliveries by their id.
fn deliveries(history: &History) -> HashMap<&str, &Delivery> {
    let all = history.tenants.iter().flat_map(|tenant| &tenant.deliveries);
    all.map(|delivery| (delivery.id.as_str(), delivery)).collect()
}

/// The POSTs of each delivery, in the order in which they came.
fn posts(history: &History) -> HashMap<&str, Vec<&Post>> {
    let mut posts: HashMap<&str, Vec<&Post>> = HashMap::new();
    history.posts.iter().for_each(|post| posts.entry(&post.delivery).or_default().push(post));
    posts.values_mut().for_each(|posts| posts.sort_by_key(|post| post.at_ms));
    posts
}

/// The attempts of each delivery, by their number.
fn attempts(history: &History) -> HashMap<&str, Vec<&Attempt>> {
    let mut attempts: HashMap<&str, Vec<&Attempt>> = HashMap::new();
    let all = history.tenants.iter().flat_map(|tenant| &tenant.attempts);
    all.for_each(|attempt| attempts.entry(&attempt.delivery).or_default().push(attempt));
    attempts.values_mut().for_each(|attempts| attempts.sort_by_key(|attempt| attempt.number));
    attempts
}

fn posts_are_of_deliveries(history: &History) -> Vec<String> {
    let deliveries = deliveries(history);
    let mut broken = Vec::new();
    for post in &history.posts {
        match deliveries.get(post.delivery.as_str()) {
            None => broken.push(format!("{} was sent to {}, and is not there", post.delivery, post.webhook)),
            Some(delivery) if delivery.webhook != post.webhook || delivery.event != post.event => {
                broken.push(format!("{delivery:?} was sent to {} as {}", post.webhook, post.event));
            }
            Some(_) => {}
        }
    }
    broken
}

fn bytes_are_the_same(history: &History) -> Vec<String> {
    let events = history.tenants.iter().flat_map(|tenant| &tenant.events);
    let bodies: HashMap<&str, &[u8]> =
        events.map(|event| (event.id.as_str(), event.body.as_slice())).collect();
    let other = |post: &&Post| bodies.get(post.event.as_str()).is_none_or(|body| *body != post.body);
    history.posts.iter().filter(other).map(|post| format!("{} of {}", post.delivery, post.event)).collect()
}

fn posts_are_signed(history: &History) -> Vec<String> {
    let unsigned =
        |post: &&Post| !history.secrets.iter().any(|secret| is_signed(&post.body, secret, &post.signature));
    history.posts.iter().filter(unsigned).map(|post| post.delivery.clone()).collect()
}

/// Whether this signature is the HMAC-SHA256 of the body by this secret, in hexadecimal.
pub(crate) fn is_signed(body: &[u8], secret: &str, signature: &Option<String>) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length is a key");
    mac.update(body);
    signature.as_deref() == Some(&hex::encode(mac.finalize().into_bytes()))
}

fn posts_are_counted(history: &History) -> Vec<String> {
    let (posts, attempts) = (posts(history), attempts(history));
    let mut broken = Vec::new();
    for (id, delivery) in deliveries(history) {
        let sent = posts.get(id).map_or(0, |posts| posts.len() as i64);
        let rows = attempts.get(id).map_or(0, |attempts| attempts.len() as i64);
        if sent > delivery.attempts || delivery.attempts > MOST_ATTEMPTS || rows != delivery.attempts {
            broken.push(format!("{id}: {sent} POSTs, {} counted, {rows} rows", delivery.attempts));
        }
    }
    broken
}

fn deliveries_end(history: &History) -> Vec<String> {
    let all = history.tenants.iter().flat_map(|tenant| &tenant.deliveries);
    let open = all.filter(|delivery| {
        delivery.is_leased || !matches!(delivery.status.as_str(), "Succeeded" | "DeadLetter")
    });
    open.map(|delivery| format!("{delivery:?}")).collect()
}

fn states_are_in_order(history: &History) -> Vec<String> {
    let attempts = attempts(history);
    let mut broken = Vec::new();
    for (id, delivery) in deliveries(history) {
        let of = attempts.get(id).map(Vec::as_slice).unwrap_or_default();
        let numbers = (1..).zip(of).all(|(number, attempt)| attempt.number == number);
        let ended = |attempt: &Attempt| {
            attempt.finished_at_ms.is_some_and(|finished| finished >= attempt.started_at_ms)
        };
        let in_turn = of
            .windows(2)
            .all(|pair| pair[0].finished_at_ms.is_some_and(|finished| finished <= pair[1].started_at_ms));
        let is_success = |attempt: &Attempt| {
            attempt.class.is_none() && attempt.http_status.is_some_and(|status| (200..300).contains(&status))
        };
        let result = match (delivery.status.as_str(), of.split_last()) {
            ("Succeeded", Some((last, before))) => {
                is_success(last) && before.iter().all(|attempt| attempt.class.is_some())
            }
            ("DeadLetter", Some(_)) => {
                of.len() as i64 == MOST_ATTEMPTS && of.iter().all(|attempt| attempt.class.is_some())
            }
            // Another rule is about deliveries that do not end.
            ("Pending" | "Failed", _) => continue,
            _ => false,
        };
        if !(numbers && in_turn && result && of.iter().all(|attempt| ended(attempt))) {
            broken.push(format!("{delivery:?}: {of:?}"));
        }
    }
    broken
}

fn success_was_answered(history: &History) -> Vec<String> {
    let posts = posts(history);
    let answered = |delivery: &&Delivery| {
        let of = posts.get(delivery.id.as_str()).map(Vec::as_slice).unwrap_or_default();
        of.iter().any(|post| post.response.is_some_and(|response| (200..300).contains(&response.status)))
    };
    let all = deliveries(history).into_values();
    let succeeded = all.filter(|delivery| delivery.status == "Succeeded");
    succeeded.filter(|delivery| !answered(delivery)).map(|delivery| format!("{delivery:?}")).collect()
}

/// The delay after failed attempt `number`.
fn backoff_ms(history: &History, number: i64) -> i64 {
    history.backoff_base_ms << number.clamp(0, MOST_ATTEMPTS)
}

/// For each attempt but the first of a delivery: the earliest time at which it may begin by the rows, and the attempt.
fn earliest<'a>(history: &History, of: &[&'a Attempt]) -> Vec<(i64, &'a Attempt)> {
    let mut losses = 0;
    of.windows(2)
        .map(|pair| {
            let backoff = backoff_ms(history, pair[0].number);
            let earliest = if pair[0].class.as_deref() == Some(LOST) {
                // After its first loss, a delivery is due at once.
                losses += 1;
                pair[0].finished_at_ms.unwrap_or(0) + if losses == 1 { 0 } else { backoff }
            } else {
                // The attempt was counted before it began, and lasted at least this long.
                pair[0].started_at_ms + pair[0].total_us.unwrap_or(0) / 1_000 + backoff
            };
            (earliest, pair[1])
        })
        .collect()
}

fn no_attempt_is_early(history: &History) -> Vec<String> {
    let posts = posts(history);
    let mut broken = Vec::new();
    for (id, of) in attempts(history) {
        for (earliest, attempt) in earliest(history, &of) {
            if attempt.started_at_ms + ROUNDING_MS < earliest {
                broken.push(format!("{attempt:?}: not before {earliest}"));
            }
        }
        // If each attempt had a response, each POST is of the attempt at its place.
        let sent = posts.get(id).map(Vec::as_slice).unwrap_or_default();
        if sent.len() == of.len() && of.iter().all(|attempt| attempt.http_status.is_some()) {
            for (attempt, pair) in of.iter().zip(sent.windows(2)) {
                let Some(response) = pair[0].response else { continue };
                let earliest = response.at_ms + backoff_ms(history, attempt.number);
                if pair[1].at_ms + ROUNDING_MS < earliest {
                    broken.push(format!("{id}: a POST came at {}, not before {earliest}", pair[1].at_ms));
                }
            }
        }
    }
    broken
}

/// For each retry that waited for a backoff, how much later than its earliest time it began, in milliseconds, sorted.
pub(crate) fn lateness_ms(history: &History) -> Vec<i64> {
    let attempts = attempts(history);
    let all = attempts.values().flat_map(|of| earliest(history, of));
    let mut late: Vec<i64> = all.map(|(earliest, attempt)| attempt.started_at_ms - earliest).collect();
    late.sort_unstable();
    late
}

fn posts_do_not_overlap(history: &History) -> Vec<String> {
    let attempts = attempts(history);
    let mut broken = Vec::new();
    for (id, sent) in posts(history) {
        // A sender that was lost or gave up has no response, and its successor may come before the receiver has responded.
        let of = attempts.get(id).map(Vec::as_slice).unwrap_or_default();
        if of.iter().any(|attempt| attempt.http_status.is_none()) {
            continue;
        }
        let overlaps = |pair: &&[&Post]| {
            pair[0].response.is_some_and(|response| pair[1].at_ms + ROUNDING_MS < response.at_ms)
        };
        broken.extend(sent.windows(2).filter(overlaps).map(|pair| format!("{id} at {}", pair[1].at_ms)));
    }
    broken
}

fn canaries_stay(history: &History) -> Vec<String> {
    let leaks = |output: &&Output| {
        let foreign = output.canaries.iter().any(|tenant| Some(*tenant) != output.reader);
        foreign || output.has_secret || output.has_panic
    };
    let leaking = history.outputs.iter().filter(leaks);
    leaking.map(|output| format!("{} has what it must not have: {output:?}", output.what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "key";

    /// A tenant with one order, whose delivery failed once and then succeeded; and a refused save.
    fn good() -> History {
        let body = b"The quick brown fox jumps over the lazy dog".to_vec();
        // The well-known example of HMAC-SHA256.
        let signature = Some("f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8".to_owned());
        let save = |reference: &str, answer| Save {
            reference: reference.to_owned(),
            answer,
            begun_ms: 0,
            took_ms: 1,
        };
        let attempt = |number, started_at_ms, class: Option<&str>, status| Attempt {
            delivery: "d1".to_owned(),
            number,
            started_at_ms,
            finished_at_ms: Some(started_at_ms + 10),
            class: class.map(str::to_owned),
            http_status: Some(status),
            total_us: Some(8_000),
        };
        let post = |at_ms, status| Post {
            at_ms,
            webhook: "w".to_owned(),
            delivery: "d1".to_owned(),
            event: "e1".to_owned(),
            body: body.clone(),
            signature: signature.clone(),
            response: Some(Response { status, at_ms: at_ms + 3 }),
        };
        let tenant = Tenant {
            webhooks: vec!["w".to_owned()],
            saves: vec![
                save("r1", Answer::Acknowledged("W1".to_owned())),
                save("r2", Answer::Refused(400)),
                save("r3", Answer::Unclear),
            ],
            orders: vec![Order { id: "W1".to_owned(), reference: "r1".to_owned() }],
            events: vec![Event {
                id: "e1".to_owned(),
                code: "order.created".to_owned(),
                order: "W1".to_owned(),
                body: body.clone(),
            }],
            deliveries: vec![Delivery {
                id: "d1".to_owned(),
                event: "e1".to_owned(),
                webhook: "w".to_owned(),
                status: "Succeeded".to_owned(),
                attempts: 2,
                is_leased: false,
            }],
            attempts: vec![attempt(1, 1_000, Some("ServerError"), 500), attempt(2, 1_208, None, 200)],
        };
        History {
            backoff_base_ms: 100,
            secrets: vec![SECRET.to_owned()],
            tenants: vec![tenant],
            posts: vec![post(10, 500), post(220, 200)],
            outputs: vec![output(Some(0), &[0])],
        }
    }

    fn output(reader: Option<usize>, canaries: &[usize]) -> Output {
        let canaries = canaries.to_vec();
        Output { what: "a text".to_owned(), reader, canaries, has_secret: false, has_panic: false }
    }

    /// A change that makes the good history break a rule, and the rule's number.
    type Breaking = (usize, fn(&mut History));

    /// The changes. Each rule has at least one.
    const BREAKING: &[Breaking] = &[
        (0, |history| history.tenants[0].orders.clear()),
        (0, |history| history.tenants[0].orders[0].reference = "r3".to_owned()),
        (1, |history| history.tenants[0].saves[0].answer = Answer::Refused(401)),
        (2, |history| {
            history.tenants[0].saves.remove(0);
        }),
        (2, |history| {
            let order = Order { id: "W2".to_owned(), reference: "r1".to_owned() };
            history.tenants[0].orders.push(order);
        }),
        (3, |history| history.tenants[0].events.clear()),
        (3, |history| history.tenants[0].events[0].code = "order.updated".to_owned()),
        (3, |history| {
            let second = history.tenants[0].events[0].clone();
            history.tenants[0].events.push(second);
        }),
        (3, |history| history.tenants[0].webhooks.push("other".to_owned())),
        (3, |history| history.tenants[0].orders.clear()),
        (3, |history| {
            let second = history.tenants[0].deliveries[0].clone();
            history.tenants[0].deliveries.push(second);
        }),
        (4, |history| history.posts[0].delivery = "d2".to_owned()),
        (4, |history| history.posts[0].webhook = "of another tenant".to_owned()),
        (4, |history| history.posts[1].event = "e2".to_owned()),
        (5, |history| history.posts[1].body.push(b' ')),
        (6, |history| history.posts[1].signature = None),
        (6, |history| history.secrets = vec!["another key".to_owned()]),
        (7, |history| {
            let third = history.posts[1].clone();
            history.posts.push(third);
        }),
        (7, |history| history.tenants[0].deliveries[0].attempts = 6),
        (7, |history| {
            history.tenants[0].attempts.remove(0);
        }),
        (8, |history| history.tenants[0].deliveries[0].status = "Failed".to_owned()),
        (8, |history| history.tenants[0].deliveries[0].is_leased = true),
        (9, |history| history.tenants[0].attempts[1].number = 3),
        (9, |history| history.tenants[0].attempts[0].class = None),
        (9, |history| history.tenants[0].attempts[0].finished_at_ms = None),
        (9, |history| history.tenants[0].attempts[0].finished_at_ms = Some(1_300)),
        (9, |history| history.tenants[0].attempts[1].http_status = Some(500)),
        (9, |history| history.tenants[0].deliveries[0].status = "DeadLetter".to_owned()),
        (9, |history| history.tenants[0].attempts.clear()),
        (10, |history| history.posts[1].response = Some(Response { status: 500, at_ms: 223 })),
        (10, |history| history.posts.clear()),
        (11, |history| history.tenants[0].attempts[1].started_at_ms = 1_205),
        (11, |history| history.posts[1].at_ms = 210),
        (12, |history| history.posts[0].response = Some(Response { status: 500, at_ms: 230 })),
        (13, |history| history.outputs.push(output(Some(0), &[0, 1]))),
        (13, |history| history.outputs.push(output(None, &[0]))),
        (13, |history| history.outputs[0].has_secret = true),
        (13, |history| history.outputs[0].has_panic = true),
    ];

    fn passes(history: &History) {
        let broken = check(history);
        assert!(broken.is_empty(), "{broken:?}");
    }

    #[test]
    fn a_good_history_breaks_no_rule() {
        passes(&good());
    }

    #[test]
    fn each_rule_has_histories_that_break_it() {
        for (place, (rule, change)) in BREAKING.iter().enumerate() {
            let mut history = good();
            change(&mut history);
            let broken: Vec<&str> = check(&history).iter().map(|violation| violation.rule).collect();
            assert!(broken.contains(&RULES[*rule].0), "change {place}: {broken:?}");
        }
        for (number, (rule, _)) in RULES.iter().enumerate() {
            assert!(BREAKING.iter().any(|(of, _)| *of == number), "no history breaks: {rule}");
        }
    }

    /// The good history, with a first attempt that was cut off before its POST.
    fn lost(again_at_ms: i64) -> History {
        let mut history = good();
        let attempts = &mut history.tenants[0].attempts;
        attempts[0].class = Some(LOST.to_owned());
        attempts[0].http_status = None;
        attempts[0].total_us = None;
        attempts[1].started_at_ms = again_at_ms;
        attempts[1].finished_at_ms = Some(again_at_ms + 10);
        history.posts.remove(0);
        history
    }

    #[test]
    fn after_its_first_loss_a_delivery_is_due_at_once() {
        passes(&lost(1_010));
        let broken = check(&lost(1_005));
        assert!(broken.iter().any(|violation| violation.rule == RULES[11].0), "{broken:?}");
    }

    #[test]
    fn after_its_second_loss_a_delivery_waits() {
        let again = |third_at_ms: i64| {
            let mut history = lost(1_010);
            let mut third = history.tenants[0].attempts[1].clone();
            history.tenants[0].attempts[1].class = Some(LOST.to_owned());
            history.tenants[0].attempts[1].http_status = None;
            (third.number, third.started_at_ms) = (3, third_at_ms);
            third.finished_at_ms = Some(third_at_ms + 10);
            history.tenants[0].attempts.push(third);
            history.tenants[0].deliveries[0].attempts = 3;
            history
        };
        passes(&again(1_420));
        let broken = check(&again(1_415));
        assert!(broken.iter().any(|violation| violation.rule == RULES[11].0), "{broken:?}");
    }

    #[test]
    fn a_sender_that_gave_up_may_be_followed_before_the_response() {
        let mut history = good();
        history.posts[0].response = Some(Response { status: 500, at_ms: 230 });
        history.tenants[0].attempts[0].http_status = None;
        history.tenants[0].attempts[0].class = Some("TimeoutFirstByte".to_owned());
        passes(&history);
    }

    #[test]
    fn lateness_is_measured_from_the_earliest_time() {
        let mut history = good();
        history.tenants[0].attempts[1].started_at_ms = 1_258;
        assert_eq!(lateness_ms(&history), [50]);
    }
}
