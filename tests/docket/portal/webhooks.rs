//! The section Webhooks in `docket dev`: declared in a folder of the portal's own, and what others declare is only shown.

use std::time::Duration;

use docket_rig::ports::free_port;
use docket_tests::people::{ADA, ALEX, MO, add_people};
use docket_tests::server::{Home, Options, Reply, Server, api_key, eventually, tenant_yaml, webhook_yaml};
use serde_json::json;

use super::rig::{Browser, hidden, is_protected, page_of, send, shown, unserved_copy};

/// Why an [`unserved_copy`] is not served.
const UNSERVED: &str = "spec.targetURL: ";
const SOON: Duration = Duration::from_secs(15);

/// A Secret that ends in a newline, and a ConfigMap with an authority that Docket can use and one that it can't.
fn odd_values_yaml() -> String {
    let usable = include_str!("../../../crds/src/compile/authority/prime256v1.pem");
    let unusable = include_str!("../../../crds/src/compile/authority/secp521r1.pem");
    let bundle: String = usable.lines().chain(unusable.lines()).map(|line| format!("    {line}\n")).collect();
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: odd-signing}}\nstringData: {{secret: \"a-secret-of-one-line\\n\"}}\n\
         ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: half-ca}}\ndata:\n  ca.crt: |\n{bundle}"
    )
}

/// The tenants `acme` and `globex`, with the built-in receiver.
async fn start() -> (Home, Server, String) {
    let port = free_port();
    let receiver = format!("https://127.0.0.1:{port}/given");
    let given = webhook_yaml("acme", "given", "C-1", &receiver);
    let home = Home::with(&format!("{}---\n{}{given}", tenant_yaml("acme", 'a'), tenant_yaml("globex", 'b')));
    for code in ["ACME", "GLOBEX"] {
        add_people(&home, code);
    }
    let server = Server::start(&home, Options { receiver: Some(port), ..Options::default() }).await;
    (home, server, format!("https://127.0.0.1:{port}/portal"))
}

/// Sends a form of the page of a webhook, and sees that the page then says what was done.
async fn does(browser: &Browser<'_>, page: &str, action: &str, fields: &[(&str, &str)], said: &str) {
    let reply = send(browser, page, &format!("{page}{action}"), fields).await;
    assert_eq!(reply.status, 303, "{action}: {reply:?}");
    let shown = browser.get(&reply.headers["location"]).await;
    let (_, after) = shown.text().split_once("<div class=\"done\" role=\"status\">").expect("feedback");
    assert!(after.split("</div>").next().is_some_and(|text| text.contains(said)), "{action}: {shown:?}");
}

/// How many deliveries of new orders the built-in receiver has verified. It gets those of the given webhook, too.
fn verified(home: &Home) -> usize {
    let printed = std::fs::read_to_string(home.log("out")).unwrap_or_default();
    printed
        .lines()
        .filter(|line| line.contains("order.created") && line.contains("signature verified"))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_adds_changes_and_removes_a_webhook_in_the_browser() {
    let (home, server, url) = start().await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let client = server.sign_in(&api_key('a'), ADA).await;
    let save = async || client.post("/Orders/Save", &json!({"orderType": "Court"})).await;

    let wrong = [("displayName", "New"), ("customerCode", "C-1"), ("targetUrl", "http://plain.example/")];
    let refused = send(&browser, "/portal/webhooks/new", "/portal/webhooks/new", &wrong).await;
    is_protected(&refused);
    assert_eq!(refused.status, 400);
    for part in [
        "<title>Error: Add a webhook",
        "<a href=\"#field-targetUrl\">URL: Enter the whole URL of the receiver",
        "<p class=\"error\" id=\"error-events\">Choose at least one event.</p>",
        "value=\"http://plain.example/\"",
        "<option value=\"C-1\" selected>One (C-1)</option>",
    ] {
        assert!(refused.text().contains(part), "{part}: {refused:?}");
    }
    let stranger = [
        ("displayName", "New"),
        ("customerCode", "C-99"),
        ("targetUrl", url.as_str()),
        ("order.created", "yes"),
    ];
    let refused = send(&browser, "/portal/webhooks/new", "/portal/webhooks/new", &stranger).await;
    assert!(refused.text().contains("There is no customer with this code."), "{refused:?}");
    assert!(!home.config().join("portal").exists(), "nothing was written");

    // The portal recognises the webhook that is served, even if its URL and events are written in another way.
    let fields = [
        ("displayName", "Orders <b>"),
        ("customerCode", "C-1"),
        ("targetUrl", url.strip_suffix("/portal").expect("the path")),
        ("note.created", "yes"),
        ("order.created", "yes"),
        ("active", "yes"),
    ];
    let made = send(&browser, "/portal/webhooks/new", "/portal/webhooks/new", &fields).await;
    is_protected(&made);
    assert_eq!(made.status, 200, "{made:?}");
    assert!(made.text().contains("<h1>Webhook added</h1>"), "{made:?}");
    assert!(!made.text().contains("not in effect yet"), "{made:?}");
    let first = shown(&made);
    assert_eq!(first.len(), 64);
    let page = page_of(&made);
    let detail = browser.get(&page).await;
    assert!(detail.text().contains("Orders &lt;b&gt;") && !detail.text().contains(&first), "{detail:?}");
    assert_eq!(save().await.status, 200);
    eventually("its delivery is verified", SOON, async || verified(&home) == 2).await;

    // The webhook gets another secret, without a gap.
    let next = shown(&send(&browser, &page, &format!("{page}/rotate"), &[]).await);
    assert_ne!(next, first);
    let stale = browser.get(&page).await;
    assert!(stale.text().contains("with the current and the new secret"), "{stale:?}");
    assert_eq!(save().await.status, 200);
    eventually("the current one signs", SOON, async || verified(&home) == 4).await;
    does(&browser, &page, "/promote", &[], "Docket signs with the new secret alone now").await;
    assert_eq!(save().await.status, 200);
    eventually("the next one signs", SOON, async || verified(&home) == 6).await;

    // A form from before the change changes nothing.
    let (csrf, version) = (hidden(&stale, "csrf"), hidden(&stale, "version"));
    let again = [("csrf", csrf.as_str()), ("version", version.as_str())];
    assert_eq!(browser.post(&format!("{page}/remove"), &again).await.status, 409);

    does(&browser, &page, "/deactivate", &[], "The webhook is inactive").await;
    let name = page.rsplit('/').next().expect("a name");
    let file = home.config().join("portal").join(format!("default.{name}.yaml"));
    let config = std::fs::read_to_string(file).expect("a file");
    assert!(
        config.contains("\"active\": false") && !config.contains(&next) && !config.contains(&first),
        "{config}"
    );
    let without_events = [("displayName", "Orders"), ("targetUrl", url.as_str())];
    let refused = send(&browser, &page, &page, &without_events).await;
    assert!(refused.status == 400 && refused.text().contains("Choose at least one event."), "{refused:?}");
    let renamed = [("displayName", "Renamed"), ("targetUrl", url.as_str()), ("order.updated", "yes")];
    does(&browser, &page, "", &renamed, "The settings are saved and in effect.").await;
    let list = browser.get("/portal/webhooks").await;
    assert!(list.text().contains("Renamed") && list.text().contains("given"), "{list:?}");
    let inactive = browser.get("/portal/webhooks?state=inactive&q=RENAMED").await;
    assert!(
        inactive.text().contains("1 of 2 webhooks") && !inactive.text().contains(">default/given<"),
        "{inactive:?}"
    );
    let unknown = browser.get("/portal/webhooks?state=strange").await;
    assert!(
        unknown.status == 400 && unknown.text().contains("must be one of attention, lost"),
        "{unknown:?}"
    );
    does(&browser, &page, "/activate", &[], "The webhook is active").await;

    let removed = send(&browser, &page, &format!("{page}/remove"), &[]).await;
    assert_eq!((removed.status, &*removed.headers["location"]), (303, "/portal/webhooks?done=removed"));
    assert!(browser.get("/portal/webhooks?done=removed").await.text().contains("The webhook is removed."));
    assert_eq!(browser.get(&page).await.status, 404);
    let activity = || home.command(&["audit", "list", "--tenant", "ACME"], "").1;
    eventually("what was done is recorded", SOON, async || {
        let activity = activity();
        let added = ["WebhookAdded", "SecretShown", "NextSecretMade", "NextSecretPromoted"];
        let changed = ["WebhookDeactivated", "WebhookChanged", "WebhookRemoved"];
        added.iter().chain(&changed).all(|event| activity.contains(event))
    })
    .await;
    let activity = activity();
    for text in [&activity, &std::fs::read_to_string(home.log("out")).expect("its output")] {
        assert!(!text.contains(&first) && !text.contains(&next), "a secret: {text}");
    }

    // A webhook is found after its end, by its last name and by the user who removed it.
    let full_name = page.strip_prefix("/portal/webhooks/").expect("its page");
    let of = async |filters: &str| browser.get(&format!("/portal/activity?{filters}")).await;
    let found = of(&format!("webhook={full_name}&person={ALEX}")).await;
    for part in [
        "<div class=\"small quiet\">displayName, events (-order.created +order.updated -note.created), targetURL</div>",
        "Renamed (removed)</span>",
        "selected>Renamed (removed)</option>",
    ] {
        assert!(found.text().contains(part), "{part}: {found:?}");
    }
    assert!(
        !found.text().contains("title=\"SignedIn\"") && !found.text().contains("Orders &lt;b&gt;"),
        "{found:?}"
    );
    let has = |page: &Reply, event: &str| page.text().contains(&format!("title=\"{event}\""));
    for (period, is_in_it) in [
        ("from=2020-01-01", true),
        ("to=2020-01-01", false),
        ("from=2999-01-01", false),
        ("to=2999-01-01", true),
    ] {
        let page = of(&format!("webhook={full_name}&{period}")).await;
        assert_eq!(has(&page, "WebhookRemoved"), is_in_it, "{period}: {page:?}");
    }
    let newest = of(&format!("webhook={full_name}&pageSize=1")).await;
    let older = newest.text().split("href=\"").find(|part| part.contains("rel=\"next\"")).expect("a link");
    let older = browser.get(&older.split('"').next().expect("a link").replace("&amp;", "&")).await;
    for (page, events) in [(&newest, [true, false]), (&older, [false, true])] {
        let found = ["WebhookRemoved", "WebhookActivated"].map(|event| has(page, event));
        assert_eq!(found, events, "{page:?}");
    }
    let of_another = of(&format!("webhook={full_name}&person={MO}")).await;
    assert!(of_another.status == 200 && of_another.text().contains("No entry matches"), "{of_another:?}");
    let of_contact = of(&format!("person={ADA}")).await;
    assert!(of_contact.text().contains("title=\"SignedIn\""), "{of_contact:?}");
    assert!(!of_contact.text().contains("title=\"WebhookChanged\""), "{of_contact:?}");
    let unknown = of("person=no-one").await;
    assert!(
        unknown.status == 400 && unknown.text().contains("href=\"#field-person\">Person: no user has"),
        "{unknown:?}"
    );
    let logs = browser.get(&format!("/portal/logs?webhook={full_name}")).await;
    assert!(logs.text().contains("selected>Renamed (removed)</option>"), "{logs:?}");
    assert!(
        logs.text().contains(&format!("<span title=\"{full_name}\">Renamed (removed)</span>")),
        "{logs:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secret_may_be_chosen_and_rotated() {
    let (home, server, url) = start().await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let new = "/portal/webhooks/new";
    let of = |secret: &'static str| {
        [
            ("displayName", "Chosen"),
            ("customerCode", "C-1"),
            ("targetUrl", url.as_str()),
            ("order.created", "yes"),
            ("active", "yes"),
            ("secret", secret),
        ]
    };
    let short = send(&browser, new, new, &of("fifteen letters")).await;
    assert!(short.status == 400 && short.text().contains("at least 16 characters"), "{short:?}");
    assert!(!short.text().contains("fifteen letters") && !home.config().join("portal").exists());
    // As short as it may be.
    let chosen = "a secret of mine";
    let made = send(&browser, new, new, &of(chosen)).await;
    let (page, done) = made.headers["location"].split_once('?').expect("what was done");
    assert!(made.status == 303 && page.starts_with("/portal/webhooks/default/portal-"), "{made:?}");
    assert_eq!(done, "done=added");
    let detail = browser.get(page).await;
    assert!(detail.text().contains("Make a new secret") && !detail.text().contains(chosen), "{detail:?}");
    let client = server.sign_in(&api_key('a'), ADA).await;
    let save = async || client.post("/Orders/Save", &json!({"orderType": "Court"})).await;
    assert_eq!(save().await.status, 200);
    eventually("the chosen one signs", SOON, async || verified(&home) == 2).await;
    let next = shown(&send(&browser, page, &format!("{page}/rotate"), &[]).await);
    assert_eq!(send(&browser, page, &format!("{page}/promote"), &[]).await.status, 303);
    let name = page.rsplit('/').next().expect("a name");
    let file = home.config().join("portal").join(format!("default.{name}.yaml"));
    let file = std::fs::read_to_string(file).expect("a file");
    assert!(file.contains(&next) && !file.contains(chosen), "{file}");
    let renamed = [("displayName", "Renamed"), ("targetUrl", url.as_str()), ("order.created", "yes")];
    assert_eq!(send(&browser, page, page, &renamed).await.status, 303);
    assert_eq!(save().await.status, 200);
    eventually("the next one signs", SOON, async || verified(&home) == 4).await;
    assert_eq!(send(&browser, page, &format!("{page}/remove"), &[]).await.status, 303);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_of_webhooks_holds_for_forms_that_are_sent_at_once() {
    let given = webhook_yaml("acme", "given", "C-1", "https://hooks.example/given");
    let tenant = tenant_yaml("acme", 'a').replace("spec:\n", "spec:\n  limits: {webhooks: 3}\n");
    let home = Home::with(&format!("{tenant}{given}"));
    add_people(&home, "ACME");
    let server = Server::start(&home, Options::default()).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let new = "/portal/webhooks/new";
    let csrf = hidden(&browser.get(new).await, "csrf");
    let fields = [
        ("csrf", csrf.as_str()),
        ("displayName", "New"),
        ("customerCode", "C-1"),
        ("targetUrl", "https://hooks.example/new"),
        ("order.created", "yes"),
        ("active", "yes"),
    ];
    let count = || {
        std::fs::read_dir(home.config().join("portal"))
            .map_or(0, |files| files.flatten().filter(|file| file.path().extension().is_some()).count())
    };
    let all = futures_util::future::join_all((0..6).map(|_| browser.post(new, &fields)));
    let replies = server.meeting(6, all).await;
    let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 400, 400, 400, 400], "each waits for its turn");
    for full in replies.iter().filter(|reply| reply.status == 400) {
        assert!(full.text().contains("the tenant has 3 webhooks, and may have 3"), "{full:?}");
    }
    assert_eq!(count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn form_that_is_sent_again_adds_no_second_webhook() {
    let (home, server, url) = start().await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let new = "/portal/webhooks/new";
    let page = browser.get(new).await;
    let (csrf, form) = (hidden(&page, "csrf"), hidden(&page, "form"));
    let named = |form, name| {
        let fixed = [("csrf", &*csrf), ("form", form), ("displayName", name), ("customerCode", "C-1")];
        [&fixed[..], &[("targetUrl", url.as_str()), ("order.created", "yes"), ("active", "yes")]].concat()
    };
    let fields = |form| named(form, "Orders");
    let files = || {
        let files = std::fs::read_dir(home.config().join("portal")).expect("the portal's folder").flatten();
        files.filter(|file| file.path().extension().is_some_and(|is| is == "yaml")).count()
    };
    // A double click sends the form twice.
    let first = fields(&form);
    let all = futures_util::future::join_all((0..3).map(|_| browser.post(new, &first)));
    let replies = server.meeting(3, all).await;
    let is_shown = |reply: &&Reply| reply.text().contains("It is shown this once.");
    assert_eq!(replies.iter().filter(is_shown).count(), 1, "{replies:?}");
    let again = browser.post(new, &fields(&form)).await;
    assert!(again.status == 200 && again.text().contains("was shown before"), "{again:?}");
    assert_eq!(files(), 1);

    // An old form shows no secret, whether anything has shown it or not.
    let old = format!("1.{form}");
    let made = browser.post(new, &fields(&old)).await;
    assert!(is_shown(&&made) && files() == 2, "{made:?}");
    let again = browser.post(new, &fields(&old)).await;
    assert!(
        again.status == 303 && again.headers["location"].starts_with("/portal/webhooks/default/portal-"),
        "{again:?}"
    );
    // The id of one from the future does not count: it would show its secret again tomorrow, when the mark is gone.
    let ahead = format!("4000000000000.{form}");
    for count in [3, 4] {
        let made = browser.post(new, &fields(&ahead)).await;
        assert!(is_shown(&&made) && files() == count, "{made:?}");
    }
    // The name that a form leads to is the user's own.
    let refused = browser.post(new, &named(&form, "Another")).await;
    assert!(refused.status == 409 && files() == 4, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_that_is_not_served_is_corrected_and_removed_in_the_browser() {
    let (home, server, url) = start().await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let new = "/portal/webhooks/new";
    let fields = [
        ("displayName", "Orders"),
        ("customerCode", "C-1"),
        ("targetUrl", url.as_str()),
        ("order.created", "yes"),
    ];
    let own = page_of(&send(&browser, new, new, &fields).await);
    let pages = ["first", "second"].map(|name| unserved_copy(&home, &own, name));
    let notice = "2 webhooks are declared and not served.";
    eventually("the list says so", SOON, async || {
        browser.get("/portal/webhooks").await.text().contains(notice)
    })
    .await;
    let other = Browser::signed_in(&server, "globex", ALEX).await;
    for page in ["/portal", "/portal/webhooks"] {
        let text = other.get(page).await.text().to_owned();
        assert!(!text.contains("default/first") && !text.contains("not served"), "another tenant's: {text}");
    }
    let contact = Browser::signed_in(&server, "acme", ADA).await;
    let page = browser.get(&pages[0]).await;
    is_protected(&page);
    assert!(page.status == 200 && page.text().contains("This webhook is not served yet"), "{page:?}");
    assert!(page.text().contains(UNSERVED), "{page:?}");
    let list = browser.get("/portal/webhooks").await;
    let row = "<a href=\"/portal/webhooks/default/first\">default/first</a></th>";
    assert!(list.text().contains(row) && list.text().contains(&format!("<div>{UNSERVED}")), "{list:?}");
    let unserved = browser.get("/portal/webhooks?state=unserved").await;
    assert!(unserved.text().contains("2 of 4 webhooks"), "{unserved:?}");
    assert!(!page.text().contains("new secret") && !page.text().contains("/test\""), "{page:?}");
    assert_eq!((other.get(&pages[0]).await.status, contact.get(&pages[0]).await.status), (404, 403));
    for none in ["default/none", "elsewhere/first", "default/..%2Fall"] {
        assert_eq!(browser.get(&format!("/portal/webhooks/{none}")).await.status, 404, "{none}");
    }
    assert_eq!(send(&browser, &pages[0], &format!("{}/rotate", pages[0]), &[]).await.status, 409);
    let wrong = [("displayName", "First"), ("targetUrl", "http://plain.example/"), ("order.created", "yes")];
    let refused = send(&browser, &pages[0], &pages[0], &wrong).await;
    assert!(refused.status == 400 && refused.text().contains("href=\"#field-targetUrl\""), "{refused:?}");
    let right = [("displayName", "First"), ("targetUrl", url.as_str()), ("order.created", "yes")];
    assert_eq!(send(&browser, &pages[0], &pages[0], &right).await.status, 303);
    eventually("it is served", SOON, async || {
        browser.get(&pages[0]).await.text().contains("Make a new secret")
    })
    .await;
    assert_eq!(send(&browser, &pages[1], &format!("{}/remove", pages[1]), &[]).await.status, 303);
    eventually("its page is gone", SOON, async || browser.get(&pages[1]).await.status == 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declarations_that_cannot_work_are_named_with_the_reason() {
    let far = "https://10.11.12.13/";
    let lost = webhook_yaml("acme", "lost", "C-77", "https://r.example/");
    let held = webhook_yaml("acme", "held", "C-1", "http://plain.example/");
    let far = webhook_yaml("acme", "far", "C-1", far);
    let odd = webhook_yaml("acme", "odd", "C-1", "https://r.example/").replace("acme-signing", "odd-signing");
    let half = webhook_yaml("acme", "half", "C-1", "https://r.example/")
        + "  caBundleRef: {kind: ConfigMap, name: half-ca}\n";
    let home =
        Home::with(&[tenant_yaml("acme", 'a'), far, lost, held, odd, half, odd_values_yaml()].concat());
    add_people(&home, "ACME");
    let server = Server::start(&home, Options::default()).await;
    let far = "spec.targetURL: 10.11.12.13:443 is not an allowed address";
    let lost = "Docket knows no customer C-77, so no event is sent.";
    let held = "spec.targetURL: targetURL must be an absolute https:// URL";
    let odd = "spec.secretRef: the secret ends in a newline; every byte of it is part of the key";
    let half = "spec.caBundleRef: certificate 2 of 2 can't be used as an authority: its key is P-521";
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    // What may be meant is no reason to call the overview.
    for (page, count) in [("/portal", 2), ("/portal/webhooks", 4)] {
        let page = browser.get(page).await;
        is_protected(&page);
        let text = page.text();
        for said in [
            "1 webhook is declared and not served.",
            &format!("The settings of {count} webhooks have a problem."),
            ">default/held</",
            held,
            &format!(" title=\"default/far\">default/far</a></strong>: {far}"),
            &format!(" title=\"default/lost\">default/lost</a></strong>: {lost}"),
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        for (name, said) in [("odd", odd), ("half", half)] {
            let said = format!(" title=\"default/{name}\">default/{name}</a></strong>: {said}");
            assert_eq!(text.contains(&said), count == 4, "{said}: {text}");
        }
        assert!(!text.contains("Nothing is wrong.") && !text.contains("No webhook"), "{text}");
    }
    for (name, said) in [("far", far), ("lost", lost), ("odd", odd), ("half", half)] {
        let page = browser.get(&format!("/portal/webhooks/default/{name}")).await;
        assert!(page.text().contains(&format!("<li>{said}")), "{page:?}");
        // The log has the field of the object.
        let said = if name == "lost" { "spec.customerCode: the tenant has no customer" } else { said };
        let said = format!("Webhook default/{name}: {said}");
        eventually("the log says it", SOON, async || {
            std::fs::read_to_string(home.log("err")).unwrap_or_default().contains(&said)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_of_the_folder_is_shown_and_changed_there_alone() {
    let (_home, server, _) = start().await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let page = browser.get("/portal/webhooks/default/given").await;
    is_protected(&page);
    let text = page.text();
    assert!(text.contains("of the configuration folder") && text.contains("customerCode: &quot;C-1&quot;"));
    let sign_out = text.matches("action=\"/portal/sign-out\"").count();
    assert_eq!(
        text.matches("<form").count(),
        sign_out + 2,
        "to ask, to sign out, and to send a test event: {text}"
    );
    let csrf = hidden(&page, "csrf");
    let mut fields = vec![("csrf", csrf.as_str()), ("version", "0")];
    for action in ["/remove", "/rotate", "/deactivate", ""] {
        if action.is_empty() {
            fields.extend([("targetUrl", "https://h.example/"), ("order.created", "yes")]);
        }
        let reply = browser.post(&format!("/portal/webhooks/default/given{action}"), &fields).await;
        assert_eq!(reply.status, 409, "{action}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_for_administrators_of_their_tenant() {
    let (home, server, url) = start().await;
    let pages = ["/portal/webhooks", "/portal/webhooks/new", "/portal/webhooks/default/given"];
    for (user, status) in [(None, 303), (Some(ADA), 403), (Some(MO), 403)] {
        let browser = match user {
            Some(user) => Browser::signed_in(&server, "acme", user).await,
            None => Browser::new(&server, "acme"),
        };
        for page in pages {
            assert_eq!(browser.get(page).await.status, status, "{user:?} {page}");
        }
        let fields =
            [("csrf", "00"), ("customerCode", "C-1"), ("targetUrl", url.as_str()), ("order.created", "yes")];
        for action in ["/portal/webhooks/new", "/portal/webhooks/default/given/remove"] {
            assert_eq!(browser.post(action, &fields).await.status, status, "{user:?} {action}");
        }
    }
    let other = Browser::signed_in(&server, "globex", ALEX).await;
    for page in ["/portal", "/portal/webhooks"] {
        let text = other.get(page).await.text().to_owned();
        assert!(!text.contains("default/first") && !text.contains("not served"), "another tenant's: {text}");
    }
    assert!(!other.get("/portal/webhooks").await.text().contains("given"));
    assert_eq!(other.get("/portal/webhooks/default/given").await.status, 404);
    let own = Browser::signed_in(&server, "acme", ALEX).await;
    let csrf = hidden(&own.get("/portal/webhooks/new").await, "csrf");
    let fields = [
        ("csrf", csrf.as_str()),
        ("customerCode", "C-1"),
        ("targetUrl", url.as_str()),
        ("order.created", "yes"),
    ];
    let foreign =
        own.post_from(&[("origin", "http://globex.localhost")], "/portal/webhooks/new", &fields).await;
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let forged =
        [("csrf", "00"), ("customerCode", "C-1"), ("targetUrl", url.as_str()), ("order.created", "yes")];
    assert_eq!(own.post("/portal/webhooks/new", &forged).await.status, 403);
    assert!(!home.config().join("portal").exists());
}
