//! Resends: preview, start, progress and stop, as HTML.

use std::time::Duration;

use docket_tests::people::ALEX;
use docket_tests::server::eventually;

use super::rig::{Browser, hidden, is_protected};
use crate::api::rig::{captioned, save};
use crate::api::webhook_logs::{all_dead, dying};

const STOPPED: &str = "<span>Stopped</span></span> by <span title=\"employee 52\">Alex Admin</span>";

#[tokio::test]
async fn dead_letters_are_counted_resent_at_a_pace_and_withdrawn() {
    let rig = dying().await;
    let ada = rig.ada().await;
    for caption in ["a", "b", "c"] {
        save(&ada, &captioned(caption)).await;
    }
    all_dead(&rig, 3).await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let reply = browser.get("/portal/resends").await;
    assert!(reply.status == 200 && reply.text().contains("No resend was started yet"), "{reply:?}");
    is_protected(&reply);

    // A form sends its empty fields as well.
    let choice = "webhook=default%2Forders&from=&to=&limit=2&perSecond=1";
    let preview = browser.get(&format!("/portal/resends?{choice}")).await;
    let text = preview.text();
    assert!(
        text.contains("<strong>2 of 3 lost deliveries</strong>") && text.contains("Resend 2</button>"),
        "{text}"
    );
    assert_eq!(rig.count("SELECT count(*) FROM delivery"), 3, "a preview writes nothing");

    let csrf = hidden(&preview, "csrf");
    let probe = [("webhook", "default/orders"), ("limit", "2"), ("perSecond", "1"), ("csrf", &csrf)];
    let reply = browser.post("/portal/resends/probe", &probe).await;
    let back = reply.headers["location"].clone();
    assert!(reply.status == 303 && back.contains("limit=2&perSecond=1&probe=0"), "{reply:?}");
    assert_eq!(rig.count("SELECT count(*) FROM delivery"), 4, "one, whatever the choice");
    eventually("it failed", Duration::from_secs(15), async || {
        let text = browser.get(&back).await;
        text.text().contains("Nothing else was sent") && text.text().contains("of 2 lost deliveries")
    })
    .await;
    all_dead(&rig, 4).await;
    let (foreign, unknown) = ("probe=0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f", "probe=%3Cb%3E");
    for other in [foreign, unknown] {
        let shown = browser.get(&format!("/portal/resends?{choice}&{other}")).await;
        assert!(shown.status == 200 && !shown.text().contains("Sent first"), "{shown:?}");
    }

    let mut form = vec![("webhook", "default/orders"), ("limit", "2"), ("perSecond", "1")];
    assert_eq!(browser.post("/portal/resends", &form).await.status, 403, "without the token");
    form.push(("csrf", &csrf));
    let reply = browser.post("/portal/resends", &form).await;
    let done = "/portal/resends?done=started&count=2";
    assert_eq!((reply.status, &*reply.headers["location"]), (303, done), "{reply:?}");
    let shown = browser.get(done).await;
    let id = hidden(&shown, "resendId");
    for part in [
        "role=\"status\"><p>2 lost deliveries are queued to be sent again.</p>",
        " per second",
        "by <span title=\"employee 52\">Alex Admin</span>",
        "<progress max=\"2\"",
        "id=\"live\"",
    ] {
        assert!(shown.text().contains(part), "{part}: {shown:?}");
    }

    let form = [("resendId", id.as_str()), ("csrf", &csrf)];
    let reply = browser.post("/portal/resends/stop", &form).await;
    let done = reply.headers["location"].clone();
    assert!(reply.status == 303 && done.starts_with("/portal/resends?done=stopped&count="), "{reply:?}");
    let shown = browser.get(&done).await;
    for part in ["The resend is stopped. ", STOPPED] {
        assert!(shown.text().contains(part), "{part}: {shown:?}");
    }
    assert!(rig.count("SELECT count(*) FROM delivery") < 6, "the second one was withdrawn");
    let (_, row) = shown.text().split_once("Alex Admin</span></td>").expect("its row");
    let cells = row.split("<td class=\"num").skip(1).take(5).map(|cell| {
        let text: String = cell.split_once('>')?.1.split("</td>").next()?.replace("</a>", "");
        text.rsplit('>').next()?.parse::<i64>().ok()
    });
    let cells: Vec<i64> = cells.collect::<Option<_>>().expect("numbers");
    let [queued, sent, arrived, dead, withdrawn] = cells[..] else { panic!("{cells:?}") };
    assert!(withdrawn >= 1 && queued >= sent + withdrawn && sent >= arrived + dead, "it adds up: {cells:?}");
    let unknown = [("resendId", "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a"), ("csrf", csrf.as_str())];
    let refused = browser.post("/portal/resends/stop", &unknown).await;
    assert_eq!(refused.status, 404, "{refused:?}");
    assert!(refused.text().contains("class=\"count\""), "the page of a form counts too: {refused:?}");
    let again = browser.post("/portal/resends/stop", &form).await;
    assert_eq!(&*again.headers["location"], "/portal/resends?done=stopped&count=0");
    let log = browser.get(&format!("/portal/logs?resendId={id}")).await;
    assert_eq!(
        log.text().matches("href=\"/portal/logs/0").count() as i64,
        queued - withdrawn,
        "only its deliveries: {log:?}"
    );
    let events = "SELECT count(*) FROM audit WHERE event IN ('ResendStarted', 'ResendStopped')";
    assert_eq!(rig.count(events), 4, "each stop has an entry");

    let wrong = browser.get("/portal/resends?webhook=default%2Forders&limit=0&perSecond=1000").await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.text().contains("href=\"#field-limit\">At most: must be")
            && wrong.text().contains("href=\"#field-perSecond\">Per second: must be")
    );
    assert!(wrong.text().contains("value=\"1000\"") && wrong.text().contains(STOPPED), "{wrong:?}");
    let without = browser.get("/portal/resends?from=2026-11-01&to=soon").await;
    assert_eq!(without.status, 400);
    for part in [
        "<title>Error: Resends",
        "Webhook: Choose a webhook</a>",
        "href=\"#field-to\">Before: ",
        "type=\"date\" name=\"from\" value=\"2026-11-01\"",
    ] {
        assert!(without.text().contains(part), "{part}: {without:?}");
    }
    assert!(!shown.text().contains("id=\"live\""), "nothing changes any more: {shown:?}");
    let unknown = browser.get("/portal/resends?webhook=default%2Forder").await;
    assert_eq!(unknown.status, 400);
    let text = "Webhook: There is no webhook “default/order”; did you mean “default/orders”?</a>";
    assert!(unknown.text().contains(text), "{unknown:?}");
}
