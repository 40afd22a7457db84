//! Every route of the portal for everyone who may try it. A route that is missing here fails the test.

use docket_domain::token::claimed_session;
use docket_tests::people::{ADA, ALEX, BEA, MO};
use docket_tests::server::{Reply, eventually, request};
use docket_tests::stores;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::rig::{Browser, is_protected, session_cookie};
use crate::api::rig::Rig;
use crate::delivery::stage::SOON;

/// Where the routes are declared.
const ROUTER: &str = include_str!("../../../dataplane/src/portal.rs");
/// An id that no delivery has.
const UNKNOWN: &str = "01900000-0000-7000-8000-00000000dead";

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing: everyone gets the same.
    Nothing,
    /// A session, of anyone.
    Session,
    /// An administrator of the tenant or a contact that manages webhooks, by the database's last word.
    Manager,
    /// A manager; the status for a contact whose customer does not have the webhook.
    Webhook(u16),
    /// An administrator.
    Administrator,
}
use Needs::{Administrator, Manager, Nothing, Session, Webhook};

/// Method, route, what it needs, and what an administrator gets with the right form.
const ROUTES: &[(&str, &str, Needs, u16)] = &[
    ("GET", "/portal", Manager, 200),
    ("GET", "/portal/sign-in", Nothing, 200),
    // Without a user id.
    ("POST", "/portal/sign-in", Nothing, 400),
    ("POST", "/portal/sign-out", Session, 303),
    ("GET", "/portal/logs", Manager, 200),
    ("POST", "/portal/logs/resend", Manager, 404),
    ("POST", "/portal/logs/set-aside", Manager, 404),
    ("POST", "/portal/logs/undo-set-aside", Manager, 404),
    ("GET", "/portal/logs/{id}", Manager, 404),
    // The token belongs to no message.
    ("GET", "/portal/mail/{token}", Nothing, 200),
    ("POST", "/portal/mail/{token}", Nothing, 200),
    ("GET", "/portal/notifications", Manager, 200),
    // Without a mail server.
    ("POST", "/portal/notifications", Manager, 409),
    ("POST", "/portal/notifications/webhook", Manager, 409),
    ("POST", "/portal/notifications/end", Manager, 404),
    ("GET", "/portal/activity", Administrator, 200),
    ("GET", "/portal/events", Manager, 200),
    ("GET", "/portal/keys", Administrator, 200),
    ("GET", "/portal/trace", Manager, 200),
    ("GET", "/portal/verify", Manager, 200),
    ("POST", "/portal/verify", Webhook(400), 200),
    ("GET", "/portal/resends", Manager, 200),
    // The webhook has no dead letters.
    ("POST", "/portal/resends", Webhook(409), 303),
    ("POST", "/portal/resends/probe", Webhook(409), 303),
    ("POST", "/portal/resends/stop", Manager, 404),
    ("POST", "/portal/resends/set-aside", Webhook(404), 303),
    ("POST", "/portal/resends/undo-set-aside", Webhook(404), 303),
    ("GET", "/portal/people", Administrator, 200),
    // The form names no user.
    ("POST", "/portal/people", Administrator, 404),
    ("GET", "/portal/webhooks", Manager, 200),
    ("GET", "/portal/webhooks/new", Manager, 200),
    // Without settings.
    ("POST", "/portal/webhooks/new", Manager, 400),
    ("GET", "/portal/webhooks/{namespace}/{name}", Webhook(404), 200),
    ("POST", "/portal/webhooks/{namespace}/{name}/test", Webhook(404), 303),
    // The webhook is declared in a file that is not the portal's.
    ("POST", "/portal/webhooks/{namespace}/{name}", Webhook(404), 409),
    ("POST", "/portal/webhooks/{namespace}/{name}/{action}", Webhook(404), 409),
    ("GET", "/portal/{*other}", Nothing, 404),
    ("POST", "/portal/{*other}", Nothing, 404),
    ("GET", "/portal/portal.css", Nothing, 200),
    ("GET", "/portal/portal.js", Nothing, 200),
    ("GET", "/portal/icon.svg", Nothing, 200),
    // The tenant has no colour and no logo.
    ("GET", "/portal/brand.css", Nothing, 404),
    ("GET", "/portal/logo", Nothing, 404),
    // This route comes last, because it ends the session.
    ("POST", "/portal/sign-out-everywhere", Manager, 303),
];

/// What a route needs here, and what an administrator gets. `docket serve` declares no webhooks in a folder, and says so.
fn here(method: &str, route: &str, needs: Needs, granted: u16) -> (Needs, u16) {
    let of_webhook = method == "POST" && route.starts_with("/portal/webhooks/{") && !route.ends_with("/test");
    match stores::are_servers() && (of_webhook || route == "/portal/webhooks/new") {
        true => (Manager, 409),
        false => (needs, granted),
    }
}

/// The methods and routes that the router declares.
fn declared() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for part in ROUTER.split(".route(").skip(1) {
        let quoted = part.split('"').nth(1).expect("a path").to_owned();
        let handlers: String = part.chars().skip_while(|one| *one != ',').collect();
        let has = |word: &str| handlers.split(")\n").next().is_some_and(|handler| handler.contains(word));
        let any = has(" any(") || has("\n            any(");
        assert!(any || has("get(") || has("post("), "{part}");
        for (method, word) in [("GET", "get("), ("POST", "post(")] {
            if any || has(word) {
                all.push((method, quoted.clone()));
            }
        }
    }
    all
}

fn path(route: &str) -> String {
    let values = [
        ("{id}", UNKNOWN),
        ("{token}", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
        ("{namespace}", "default"),
        ("{name}", "orders"),
        ("{action}", "remove"),
        ("{*other}", "nothing"),
    ];
    values.iter().fold(route.to_owned(), |path, (name, value)| path.replace(name, value))
}

/// The token that forms of a session carry, as the portal makes it from the cookie.
fn csrf(cookie: &str) -> String {
    let token = cookie.split_once('=').map_or("", |(_, token)| token);
    let session = claimed_session(token).unwrap_or_else(|| token.to_owned());
    let mac = Hmac::<Sha256>::new_from_slice(session.as_bytes()).expect("any length");
    hex::encode(mac.chain_update(b"a form of the portal").finalize().into_bytes())
}

async fn send(browser: &Browser<'_>, method: &str, path: &str, csrf: &str) -> Reply {
    if method == "GET" {
        return browser.get(path).await;
    }
    let fields = [
        ("csrf", csrf),
        ("deliveryId", UNKNOWN),
        ("version", "0"),
        ("webhook", "default/orders"),
        ("event", "order.created"),
        ("body", "{}"),
        ("signature", "00"),
        ("resendId", "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a"),
        ("id", "0f9d2c5b7a3e4d6c8b1a"),
        ("kind", "contact"),
        ("code", "none"),
        ("change", "grant"),
    ];
    let wanted: &[&str] = match path {
        "/portal/notifications/end" => &["csrf", "id"],
        "/portal/notifications/webhook" => &["csrf", "webhook"],
        "/portal/resends/stop" => &["csrf", "resendId"],
        path if path.starts_with("/portal/logs/") => &["csrf", "deliveryId"],
        path if path.starts_with("/portal/resends") => &["csrf", "webhook"],
        "/portal/verify" => &["csrf", "webhook", "body", "signature"],
        "/portal/people" => &["csrf", "kind", "code", "change"],
        path if path.ends_with("/test") => &["csrf", "event"],
        path if path.starts_with("/portal/webhooks/default") => &["csrf", "version"],
        _ => &["csrf"],
    };
    let fields: Vec<_> = fields.into_iter().filter(|(name, _)| wanted.contains(name)).collect();
    browser.post(path, &fields).await
}

async fn expect(rig: &Rig, who: &str, cookie: &str, status: impl Fn(Needs, u16) -> u16) {
    let is_let_in = status(Manager, 200) == 200;
    // The sign-out ends the session, so it comes last.
    let (sign_out, others): (Vec<_>, Vec<_>) =
        ROUTES.iter().partition(|(_, route, ..)| *route == "/portal/sign-out");
    for &(method, route, needs, granted) in others.into_iter().chain(sign_out) {
        let (needs, granted) = here(method, route, needs, granted);
        let mut browser = Browser::new(&rig.server, "acme");
        cookie.clone_into(&mut browser.cookie);
        let reply = send(&browser, method, &path(route), &csrf(cookie)).await;
        assert_eq!(reply.status, status(needs, granted), "{who}: {method} {route}: {reply:?}");
        if !["/portal/portal.", "/portal/icon."].iter().any(|asset| route.starts_with(asset)) {
            is_protected(&reply);
        }
        let leads_to_sign_in =
            reply.headers.get("location").is_some_and(|to| to.starts_with("/portal/sign-in"));
        assert_eq!(
            leads_to_sign_in,
            reply.status == 303 && (granted != 303 || route.starts_with("/portal/sign-out") || !is_let_in),
            "{who}: {method} {route}: {reply:?}"
        );
    }
}

#[tokio::test]
async fn each_route_answers_each_user_as_the_table_says() {
    let listed: Vec<(&str, String)> =
        ROUTES.iter().map(|(method, route, ..)| (*method, (*route).to_owned())).collect();
    for route in declared() {
        assert!(listed.contains(&route), "{route:?} is missing in the table");
    }
    assert_eq!(listed.len(), declared().len(), "{:#?}", declared());

    let home = crate::api::rig::home(
        &[("acme", 'a'), ("bolt", 'b')],
        &docket_tests::server::webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"),
    );
    let rig = Rig::on(home, "").await;
    let session = async |tenant, user| Browser::signed_in(&rig.server, tenant, user).await.cookie;
    let or = |refused: u16| {
        move |needs, granted| if matches!(needs, Nothing | Session) { granted } else { refused }
    };
    let administrator = session("acme", ALEX).await;
    expect(&rig, "no one", "", or(303)).await;
    expect(&rig, "a made-up session", &session_cookie("eyJhbGciOiJub25lIn0.e30."), or(303)).await;
    expect(&rig, "two sessions", &format!("{administrator}; {administrator}"), or(303)).await;
    expect(&rig, "a contact", &session("acme", ADA).await, or(403)).await;
    expect(&rig, "an employee", &session("acme", MO).await, or(403)).await;
    expect(&rig, "another tenant's administrator", &session("bolt", ALEX).await, or(303)).await;
    expect(&rig, "administrator", &administrator, |_, granted| granted).await;
    // The test event is tried again later, so that it is under way.
    let failed = "SELECT count(*) FROM delivery_queue WHERE status = 'Failed'";
    eventually("the test event has failed once", SOON, async || rig.count(failed) == 1).await;
    rig.change("DELETE FROM delivery_queue");
    rig.change("UPDATE contact SET manages_webhooks = TRUE");
    let (ada, bea) = (session("acme", ADA).await, session("acme", BEA).await);
    let own = |needs, granted| if needs == Administrator { 403 } else { granted };
    expect(&rig, "the contact that manages the webhook", &ada, own).await;
    let foreign = |needs, granted| match needs {
        Webhook(refused) => refused,
        needs => own(needs, granted),
    };
    expect(&rig, "a contact that manages those of another customer", &bea, foreign).await;
    let (administrator, ada) = (session("acme", ALEX).await, session("acme", ADA).await);
    rig.change("UPDATE contact SET manages_webhooks = FALSE");
    expect(&rig, "a contact whose right was withdrawn", &ada, or(403)).await;
    rig.change("UPDATE employee SET administrator = FALSE");
    expect(&rig, "an administrator whose right was withdrawn", &administrator, or(403)).await;
}

#[tokio::test]
async fn no_form_is_accepted_without_the_token_of_its_session_or_from_elsewhere() {
    let rig = Rig::of(&[("acme", 'a'), ("bolt", 'b')]).await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let others = Browser::signed_in(&rig.server, "bolt", ALEX).await;
    let neighbour = others.origin();
    let posts = ROUTES.iter().filter(|(method, _, needs, _)| *method == "POST" && *needs != Nothing);
    for (_, route, ..) in posts {
        for token in ["", "zz", &csrf(&others.cookie), &csrf(&browser.cookie)[2..]] {
            let reply = send(&browser, "POST", &path(route), token).await;
            assert_eq!(reply.status, 403, "{route} {token}: {reply:?}");
            is_protected(&reply);
        }
        let fields = [("csrf", &*csrf(&browser.cookie))];
        for origin in ["https://evil.example", &neighbour, "null"] {
            let reply = browser.post_from(&[("origin", origin)], &path(route), &fields).await;
            assert_eq!(reply.status, 403, "{route} from {origin}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_wrong_method_gets_a_page() {
    let rig = Rig::start().await;
    for (method, path, allow) in [
        ("PUT", "/portal/webhooks", "GET,HEAD"),
        ("GET", "/portal/sign-out", "POST"),
        ("DELETE", "/portal/portal.css", "GET,HEAD"),
    ] {
        let reply = request(rig.server.api, method, path, &[], "").await.expect("an answer");
        assert_eq!((reply.status, &*reply.headers["allow"]), (405, allow), "{method} {path}");
        assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
        assert!(reply.text().contains("does not accept this method"), "{reply:?}");
        is_protected(&reply);
    }
}
