//! Sign-in, the cookie, the forms and who may enter.

use std::time::Duration;

use docket_tests::people::{ADA, ALEX, MO};
use docket_tests::server::{JSON, PASSWORD, Reply, api_key, eventually, request};
use docket_tests::stores;
use serde_json::json;

use super::rig::{
    Browser, cookie_attributes, forgets_session, hidden, is_protected, session_cookie, token_of_before,
};
use crate::api::rig::{Rig, home};
use crate::serve::stage::Stage;

const PAGES: [&str; 6] = [
    "/portal",
    "/portal/logs",
    "/portal/logs/01900000-0000-7000-8000-00000000dead",
    "/portal/nothing",
    "/portal/resends",
    "/portal/activity",
];

#[tokio::test]
async fn session_is_the_apis_token_in_a_cookie_that_only_pages_get() {
    let rig = Rig::start().await;
    let browser = Browser::new(&rig.server, "acme");
    let reply = browser.sign_in(ALEX, PASSWORD, "/portal/logs?status=Failed").await;
    assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal/logs?status=Failed"), "{reply:?}");
    let cookie = &reply.headers["set-cookie"];
    let (pair, attributes) = cookie.split_once("; ").expect("attributes");
    // The cookie lasts longer than the token, so that a page can say that the session has ended.
    assert_eq!(attributes, cookie_attributes(43_200));
    let token = pair.strip_prefix(&session_cookie("")).expect("the name of the cookie");
    // The API takes the token as a Bearer token, never as a cookie.
    let key = ("x-api-key", &*api_key('a'));
    let bearer = format!("Bearer {token}");
    let of_api = async |header| {
        let path = "/WebhookLogs/Search";
        request(rig.server.api, "GET", path, &[key, header], "").await.expect("an answer").status
    };
    assert_eq!(of_api(("authorization", &bearer)).await, 200);
    assert_eq!(of_api(("cookie", pair)).await, 401);
    // And a page takes no Bearer token.
    let reply = browser.send("GET", "/portal/logs", &[("authorization", &bearer)], "").await;
    assert_eq!(reply.status, 303);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cookie_of_docket_serve_is_for_https_and_for_this_host_only() {
    let stage = Stage::new().await;
    let add = ["employee", "add", "--user", "boss", "--name", "A boss", "--administrator"];
    stage.command(&add, "a-password-for-tests\n").expect("an employee");
    let portal = stage.serve("portal").await;
    let mut browser = Browser::new(&portal, "acme");
    // Headers in which a client claims TLS change nothing.
    let headers = [("origin", &*browser.origin()), ("x-forwarded-proto", "http")];
    let fields = [("kind", "employee"), ("userId", "boss"), ("password", PASSWORD)];
    let reply = browser.post_from(&headers, "/portal/sign-in", &fields).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    let (pair, attributes) = reply.headers["set-cookie"].split_once("; ").expect("attributes");
    assert!(pair.starts_with("__Host-docket=ey"), "{pair}");
    assert_eq!(attributes, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure");
    browser.cookie = pair.to_owned();
    assert_eq!(browser.open("/portal").await.status, 200);
    // The role has no API.
    let body = json!({"userId": "boss", "password": PASSWORD}).to_string();
    let headers = [("x-api-key", &*api_key('a')), JSON];
    let reply = request(portal.api, "POST", "/Employee/SignIn", &headers, &body).await.expect("an answer");
    assert_eq!(reply.status, 404);
    // And the API has no portal.
    drop(portal);
    let api = stage.serve("api").await;
    assert_eq!(Browser::new(&api, "acme").get("/portal/sign-in").await.status, 404);
}

#[tokio::test]
async fn pages_are_for_administrators_of_the_hosts_tenant() {
    let rig = Rig::of(&[("acme", 'a'), ("bolt", 'b')]).await;
    let acme = |cookie: &str| {
        let mut browser = Browser::new(&rig.server, "acme");
        cookie.clone_into(&mut browser.cookie);
        browser
    };
    let session = async |tenant, user| Browser::signed_in(&rig.server, tenant, user).await.cookie;
    for page in PAGES {
        let to = match page {
            "/portal/nothing" => None,
            page => Some(format!("/portal/sign-in?to={}", page.replace('/', "%2F"))),
        };
        for (cookie, ended) in [
            (String::new(), ""),
            (session_cookie("x"), "&ended=yes"),
            (session("bolt", ALEX).await, "&ended=yes"),
        ] {
            let reply = acme(&cookie).get(page).await;
            let to = to.as_ref().map(|to| format!("{to}{ended}"));
            assert_eq!(reply.headers.get("location"), to.as_ref(), "{page} {cookie}");
            is_protected(&reply);
        }
    }
    for (user, name) in [(ADA, "Ada One"), (MO, "Mo Ito")] {
        let browser = acme(&session("acme", user).await);
        for page in PAGES.into_iter().filter(|page| *page != "/portal/nothing") {
            let reply = browser.get(page).await;
            assert_eq!(reply.status, 403, "{user} {page}");
            assert!(reply.text().contains("Only an administrator of the tenant may see this"));
            assert!(reply.text().contains(&format!("<strong>{name}</strong>")), "{reply:?}");
            is_protected(&reply);
        }
        let fields = [("deliveryId", "01900000-0000-7000-8000-00000000dead"), ("csrf", "00")];
        for path in ["/portal/logs/resend", "/portal/resends", "/portal/resends/stop"] {
            assert_eq!(browser.post(path, &fields).await.status, 403, "{user} {path}");
        }
        // Users without rights can still sign out.
        let page = browser.get("/portal/sign-in").await;
        is_protected(&page);
        assert!(page.text().contains("This browser is signed in already."), "{page:?}");
        let signed_out = browser.post("/portal/sign-out", &[("csrf", &*hidden(&page, "csrf"))]).await;
        assert_eq!(signed_out.status, 303, "{signed_out:?}");
        assert!(forgets_session(&signed_out), "{signed_out:?}");
    }
    let browser = acme(&session("acme", ALEX).await);
    for (page, status) in PAGES.into_iter().zip([200, 200, 404, 404, 200, 200]) {
        let reply = browser.get(page).await;
        assert_eq!(reply.status, status, "{page}");
        is_protected(&reply);
    }
    // The right that a token was issued with is not enough.
    rig.change("UPDATE employee SET administrator = FALSE");
    assert_eq!(browser.get("/portal/logs").await.status, 403);
}

#[tokio::test]
async fn sign_in_page_leads_to_paths_of_the_portal_only() {
    let rig = Rig::start().await;
    let browser = Browser::new(&rig.server, "acme");
    for wrong in
        ["https://evil.example/portal", "//evil.example", "/portal/../swagger", "/swagger", "/portal\\@evil"]
    {
        let reply = browser.sign_in(ALEX, PASSWORD, wrong).await;
        assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal"), "{wrong}");
    }
    let reply = browser.get("/portal/sign-in?to=https://evil.example").await;
    assert_eq!((reply.status, &*hidden(&reply, "to")), (200, "/portal"));
    is_protected(&reply);
}

#[tokio::test]
async fn form_that_another_page_sends_is_refused() {
    let rig = Rig::of(&[("acme", 'a'), ("bolt", 'b')]).await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let csrf = hidden(&browser.get("/portal/logs").await, "csrf");
    let (own, port) = (browser.origin(), rig.server.api.port());
    let neighbour = format!("http://bolt.localhost:{port}");
    let foreign: [&[(&str, &str)]; 6] = [
        &[],
        &[("origin", "null")],
        &[("origin", "https://evil.example")],
        // To a browser, a tenant of the same base domain is the same site.
        &[("origin", &neighbour), ("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site")],
        &[("origin", &own), ("sec-fetch-site", "same-site")],
    ];
    let refused = "The form was not sent by a page of this session";
    let sign_in = [("kind", "employee"), ("userId", ALEX), ("password", PASSWORD)];
    for headers in foreign {
        for (path, fields) in [("/portal/sign-out", &[("csrf", &*csrf)][..]), ("/portal/sign-in", &sign_in)] {
            let reply = browser.post_from(headers, path, fields).await;
            assert_eq!((reply.status, reply.headers.get("set-cookie")), (403, None), "{path} {headers:?}");
            assert!(reply.text().contains(refused));
        }
    }
    // Forms without a token, with a wrong token, and with the token of another session.
    let other = Browser::signed_in(&rig.server, "bolt", ALEX).await;
    let others = hidden(&other.get("/portal/logs").await, "csrf");
    for fields in
        [&[][..], &[("csrf", "")], &[("csrf", "zz")], &[("csrf", &*others)], &[("csrf", &csrf[2..])]]
    {
        assert_eq!(browser.post("/portal/sign-out", fields).await.status, 403, "{fields:?}");
    }
    // Pages send no referrer, so browsers make the origin null and say by another header where the form is from.
    let headers = [("origin", "null"), ("sec-fetch-site", "same-origin")];
    let reply = browser.post_from(&headers, "/portal/sign-out", &[("csrf", &*csrf)]).await;
    assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal/sign-in"), "{reply:?}");
    assert!(forgets_session(&reply), "{reply:?}");
}

#[tokio::test]
async fn sign_out_everywhere_ends_all_sessions_and_tokens_of_the_user_alone() {
    let rig = Rig::start().await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let other = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let api = rig.server.sign_in_employee(&api_key('a'), ALEX).await;
    let mo = rig.server.sign_in_employee(&api_key('a'), MO).await;
    let token = hidden(&browser.get("/portal").await, "csrf");
    assert_eq!(api.get("/WebhookLogs/Search").await.status, 200);
    let reply = browser.post("/portal/sign-out-everywhere", &[("csrf", &*token)]).await;
    assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal/sign-in"), "{reply:?}");
    assert!(forgets_session(&reply), "{reply:?}");
    eventually("all sessions and tokens end", Duration::from_secs(8), async || {
        let ended = [&browser, &other].map(async |one| one.get("/portal").await.status == 303);
        let [one, other] = ended;
        one.await && other.await && api.get("/WebhookLogs/Search").await.status == 401
    })
    .await;
    assert_eq!(mo.get("/Orders/Search").await.status, 200, "another user's token");
    let entries = "SELECT count(*) FROM audit WHERE event = 'SignedOut' AND actor LIKE 'employee %' AND subject LIKE 'employee %'";
    assert_eq!(rig.count(entries), 1);
    let again = Browser::signed_in(&rig.server, "acme", ALEX).await;
    assert_eq!(again.get("/portal").await.status, 200);
}

#[tokio::test]
async fn sign_out_ends_each_token_of_the_session_and_no_other_session() {
    let rig = Rig::start().await;
    let other = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let at = |cookie: String| {
        let mut browser = Browser::new(&rig.server, "acme");
        browser.cookie = cookie;
        browser
    };
    let of = |issued, since| at(session_cookie(&token_of_before(&rig, issued, Some(since))));
    let old = of(1_900, 4_000);
    let page = old.get("/portal").await;
    let csrf = hidden(&page, "csrf");
    let renewed = at(page.headers["set-cookie"].split(';').next().expect("a pair").to_owned());
    assert_eq!(renewed.get("/portal").await.status, 200);
    // The browser that was idle has a token that has expired.
    let expired = of(3_700, 4_000);
    let reply = expired.post("/portal/sign-out", &[("csrf", &*csrf)]).await;
    assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal/sign-in"), "{reply:?}");
    for copy in [&old, &renewed, &of(1_900, 4_000)] {
        let reply = copy.get("/portal").await;
        let to = "/portal/sign-in?to=%2Fportal&ended=yes";
        assert_eq!((reply.status, &*reply.headers["location"]), (303, to), "{reply:?}");
        assert!(!reply.headers.contains_key("set-cookie"), "{reply:?}");
        let bearer = format!("Bearer {}", copy.cookie.trim_start_matches(&session_cookie("")));
        let headers = [("x-api-key", &*api_key('a')), ("authorization", &*bearer)];
        let of_api = request(rig.server.api, "GET", "/WebhookLogs/Search", &headers, "").await;
        assert_eq!(of_api.expect("an answer").status, 401);
    }
    assert_eq!(other.get("/portal").await.status, 200);
    // Again.
    assert_eq!(renewed.post("/portal/sign-out", &[("csrf", &*csrf)]).await.status, 303);
    assert_eq!(rig.count("SELECT count(*) FROM ended_session"), 1);
    // It is remembered until the session would have ended: twelve hours after the sign-in, which was 4,000 s ago.
    let late = format!("SELECT count(*) FROM ended_session WHERE until_ms > {} + 36000000", stores::now_ms());
    assert_eq!(rig.count(&late), 1);
}

#[tokio::test]
async fn sign_outs_are_requests_that_the_limit_of_the_tenant_counts() {
    let home = home(&[("acme", 'a')], "");
    let limits = home.log("limits.yaml");
    std::fs::write(&limits, "defaults: {requestsPerSecond: 1, requestBurst: 8}").expect("writable");
    let rig = Rig::on(home, &format!("--tenant-limits {}", limits.display())).await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let csrf = hidden(&browser.get("/portal").await, "csrf");
    // A program need not forget its cookie.
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(browser.post("/portal/sign-out", &[("csrf", &*csrf)]).await.status);
    }
    assert!(statuses[0] == 303 && statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn session_ends_within_five_seconds_after_its_user_is_signed_out_everywhere() {
    let rig = Rig::start().await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    assert_eq!(browser.get("/portal/logs").await.status, 200);
    rig.change("UPDATE employee SET sign_outs = sign_outs + 1");
    eventually("the session ends", Duration::from_secs(8), async || {
        browser.get("/portal/logs").await.status == 303
    })
    .await;
}

#[tokio::test]
async fn session_is_renewed_by_pages_that_its_user_opens_for_at_most_twelve_hours() {
    const LONGEST: i64 = 12 * 3600;
    let rig = Rig::start().await;
    let of = |issued, session| {
        let mut browser = Browser::new(&rig.server, "acme");
        browser.cookie = session_cookie(&token_of_before(&rig, issued, session));
        browser
    };
    for (what, issued, session, renewed) in [
        ("less than half of its hour is used", 1_700, Some(1_700), false),
        ("half of its hour is used", 1_900, Some(1_900), true),
        ("it was renewed before", 1_900, Some(LONGEST - 3_000), true),
        ("its token lasts as long as it may", 1_900, Some(LONGEST - 600), false),
        ("a token of the API", 1_900, None, false),
    ] {
        let page = of(issued, session).get("/portal").await;
        assert_eq!((page.status, page.headers.contains_key("set-cookie")), (200, renewed), "{what}");
    }
    for (what, issued, session) in [
        ("its token has expired", 3_601, Some(3_601)),
        ("twelve hours have passed", 1_900, Some(LONGEST + 1)),
    ] {
        let reply = of(issued, session).get("/portal/keys").await;
        let to = "/portal/sign-in?to=%2Fportal%2Fkeys&ended=yes";
        assert_eq!((reply.status, &*reply.headers["location"]), (303, to), "{what}");
        let page = of(issued, session).open("/portal/keys").await;
        assert!(page.text().contains("Your session has ended."), "{what}: {page:?}");
        let page = of(issued, session).get("/portal/sign-in").await;
        assert!(!page.text().contains("signed in already"), "{what}: {page:?}");
    }
    // Neither an update of a live page nor a form renews the token.
    let mut browser = of(1_900, Some(1_900));
    let live = browser.send("GET", "/portal", &[("x-live", "yes")], "").await;
    assert_eq!((live.status, live.headers.get("set-cookie")), (200, None));
    let form = browser.post("/portal/sign-out", &[]).await;
    assert_eq!((form.status, form.headers.get("set-cookie")), (403, None));
    // A form from before the renewal is accepted afterwards.
    let page = browser.get("/portal").await;
    let (csrf, cookie) = (hidden(&page, "csrf"), &page.headers["set-cookie"]);
    assert!(cookie.ends_with(&format!("; {}", cookie_attributes(43_200))), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    assert_ne!(pair, browser.cookie);
    browser.cookie = pair;
    let page = browser.get("/portal").await;
    assert_eq!((page.status, page.headers.get("set-cookie")), (200, None));
    assert_eq!(hidden(&page, "csrf"), csrf);
    assert_eq!(browser.post("/portal/sign-out", &[("csrf", &csrf)]).await.status, 303);
}

/// The value of a hidden field as a browser sends it.
fn sent(page: &Reply, name: &str) -> String {
    let text = hidden(page, name);
    [("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
        .iter()
        .fold(text, |text, (escaped, plain)| text.replace(escaped, plain))
}

/// How many webhooks the portal has declared.
fn declared(rig: &Rig) -> usize {
    let folder = std::fs::read_dir(rig.home.config().join("portal"));
    let names = folder.into_iter().flatten().filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".yaml")).count()
}

#[tokio::test]
async fn form_whose_session_has_ended_is_kept_until_its_own_user_sends_it_again() {
    const NEW: &str = "/portal/webhooks/new";
    const SECRET: &str = "correct horse battery staple";
    let rig = Rig::start().await;
    let mut browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let page = browser.get(NEW).await;
    let (ended, id) = (hidden(&page, "csrf"), hidden(&page, "form"));
    let fields = [
        ("displayName", "<b>\"Orders\" & more"),
        ("customerCode", "C-1"),
        ("targetUrl", "https://127.0.0.1:9/"),
        ("order.created", "yes"),
        ("active", "yes"),
        ("form", &*id),
    ];
    let form = [&fields[..], &[("csrf", &*ended), ("secret", SECRET)]].concat();
    let referer = format!("{}{NEW}", browser.origin());
    let origin = browser.origin();
    let headers = [("origin", &*origin), ("referer", &*referer)];
    for cookie in [String::new(), session_cookie(&token_of_before(&rig, 4_000, Some(4_000)))] {
        browser.cookie = cookie;
        let kept = browser.post_from(&headers, NEW, &form).await;
        assert_eq!(kept.status, 401, "{kept:?}");
        is_protected(&kept);
        assert!(kept.text().contains("the form was not sent") && !kept.text().contains(SECRET), "{kept:?}");
        assert!(!kept.text().contains("<b>"), "{kept:?}");
        assert_eq!(hidden(&kept, "to"), NEW);
        let text = sent(&kept, "kept");
        let sign_in = async |user: &str, password: &str| {
            let fields = [
                ("kind", "employee"),
                ("userId", user),
                ("password", password),
                ("to", NEW),
                ("kept", &*text),
            ];
            browser.post("/portal/sign-in", &fields).await
        };
        // The form that was kept survives a wrong password.
        let refused = sign_in(ALEX, "wrong").await;
        assert_eq!((refused.status, sent(&refused, "kept")), (401, text.clone()), "{refused:?}");
        // Another user does not get the form that was kept.
        let others = sign_in(MO, PASSWORD).await;
        assert_eq!(others.status, 200, "{others:?}");
        assert!(
            others.text().contains("another user's") && !others.text().contains("127.0.0.1"),
            "{others:?}"
        );
        is_protected(&others);
        let again = sign_in(ALEX, PASSWORD).await;
        assert_eq!(again.status, 200, "{again:?}");
        is_protected(&again);
        assert!(again.text().contains("Send the form again") && again.text().contains(NEW), "{again:?}");
        assert!(!again.text().contains(SECRET) && !again.text().contains("<b>"), "{again:?}");
        assert_eq!(declared(&rig), 0, "nothing is sent without the user's button");
        let cookie = again.headers["set-cookie"].split(';').next().expect("a pair").to_owned();
        let csrf = hidden(&again, "csrf");
        let all: Vec<(&str, String)> = fields.iter().map(|(name, _)| (*name, sent(&again, name))).collect();
        assert!(all.iter().zip(&fields).all(|((_, sent), (_, value))| sent == value), "{all:?}");
        browser.cookie = cookie;
        assert_eq!(hidden(&browser.get("/portal").await, "csrf"), csrf, "the form is of the new session");
        assert_eq!(browser.post(NEW, &form).await.status, 403, "the token is of the ended session");
    }
    let csrf = hidden(&browser.get(NEW).await, "csrf");
    let made = browser.post(NEW, &[&fields[..], &[("csrf", &*csrf), ("secret", SECRET)]].concat()).await;
    assert_eq!((made.status, declared(&rig)), (303, 1), "{made:?}");
    // A form that is too long, does not say whose it is or changes nothing is not kept; the user comes back to its page.
    browser.cookie = String::new();
    let long = "a".repeat(13 * 1024);
    for (path, form) in [
        (NEW, &[("csrf", &*csrf), ("displayName", &*long)][..]),
        (NEW, &[("csrf", &csrf[..64]), ("displayName", "x")]),
        // A check of a signature changes nothing, and its payload stays out of further pages.
        ("/portal/verify", &[("csrf", &*csrf), ("body", "{}")]),
    ] {
        let lost = browser.post_from(&headers, path, form).await;
        let to = "/portal/sign-in?to=%2Fportal%2Fwebhooks%2Fnew";
        assert_eq!((lost.status, &*lost.headers["location"]), (303, to), "{lost:?}");
    }
    // Another site's form is refused before anything is read.
    let foreign = browser.post_from(&[("origin", "https://evil.example")], NEW, &form).await;
    assert_eq!(foreign.status, 403, "{foreign:?}");
    // A form that is made up leads to no other place.
    let kept = r#"{"path":"https://evil.example/","user":"employee 52","fields":[],"secrets":[]}"#;
    let fields = [("kind", "employee"), ("userId", ALEX), ("password", PASSWORD), ("kept", kept)];
    let reply = browser.post("/portal/sign-in", &fields).await;
    assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal"), "{reply:?}");
}

#[tokio::test]
async fn wrong_passwords_are_refused_recorded_and_slowed_down_as_in_the_api() {
    let rig = Rig::start().await;
    let browser = Browser::new(&rig.server, "acme");
    let reply = browser.sign_in("<b>unknown", "wrong", "").await;
    assert_eq!((reply.status, reply.headers.get("set-cookie")), (401, None));
    assert!(reply.text().contains("No employee has this user id and password."));
    assert!(reply.text().contains("value=\"&lt;b&gt;unknown\""), "{reply:?}");
    is_protected(&reply);
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(browser.sign_in(ALEX, "wrong", "").await.status);
    }
    assert_eq!((statuses[0], statuses.last()), (401, Some(&429)), "{statuses:?}");
    // The API counts the same guesses.
    let reply = rig.sign_in("/Employee/SignIn", &crate::api::rig::credentials(ALEX)).await;
    assert_eq!(reply.status, 429);
    let reply = browser.sign_in(ALEX, PASSWORD, "").await;
    assert!(reply.status == 429 && reply.headers.contains_key("retry-after"), "{reply:?}");
    let Rig { server, home, log } = rig;
    server.terminate().await;
    let refused = "SELECT CAST(sum(count) AS BIGINT) FROM audit WHERE event = 'SignInRefused'";
    let count: i64 = home.open("ACME").get(refused);
    assert_eq!(count, 15, "each refusal is recorded");
    drop(log);
}

#[tokio::test]
async fn host_without_a_tenant_says_where_the_portal_is() {
    let rig = Rig::start().await;
    let at = async |host: &str| {
        let headers = [("host", host)];
        request(rig.server.api, "GET", "/portal/sign-in", &headers, "").await.expect("an answer")
    };
    let reply = at("localhost").await;
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("own subdomain"), "{reply:?}");
    is_protected(&reply);
    assert!(at("unknown.localhost").await.text().contains("Tenant not found"));
}

#[tokio::test]
async fn assets_are_served_with_their_types() {
    let rig = Rig::start().await;
    let browser = Browser::new(&rig.server, "acme");
    for (path, kind) in [
        ("portal.css", "text/css; charset=utf-8"),
        ("portal.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let reply = browser.get(&format!("/portal/{path}")).await;
        assert_eq!((reply.status, &*reply.headers["content-type"]), (200, kind));
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    }
}
