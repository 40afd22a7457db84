//! Bulk resends: preview, start, progress and stop, as HTML.

use std::time::Duration;

use docket_tests::people::ALEX;
use docket_tests::server::eventually;

use super::rig::{Browser, hidden, is_protected};
use crate::api::rig::{captioned, save};
use crate::api::webhook_logs::{all_dead, dying};

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
    assert!(reply.status == 200 && reply.text().contains("No bulk resend was started yet"), "{reply:?}");
    is_protected(&reply);

    // A form sends its empty fields as well.
    let choice = "webhook=default%2Forders&from=&to=&limit=2&perSecond=1";
    let preview = browser.get(&format!("/portal/resends?{choice}")).await;
    let text = preview.text();
    assert!(
        text.contains("2 of 3 dead letters of default/orders") && text.contains("Resend 2</button>"),
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
        text.text().contains("and nothing else was sent") && text.text().contains("of 2 dead letters")
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
    assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal/resends"), "{reply:?}");
    let shown = browser.get("/portal/resends").await;
    let id = hidden(&shown, "resendId");
    assert!(
        shown.text().contains("<td>1 per second</td>") && shown.text().contains("employee 52"),
        "{shown:?}"
    );

    let form = [("resendId", id.as_str()), ("csrf", &csrf)];
    assert_eq!(browser.post("/portal/resends/stop", &form).await.status, 303);
    let shown = browser.get("/portal/resends").await;
    assert!(shown.text().contains("Stopped by employee 52"), "{shown:?}");
    assert!(rig.count("SELECT count(*) FROM delivery") < 6, "the second one was withdrawn");
    let (_, row) = shown.text().split_once("<td>default/orders</td><td>employee 52</td>").expect("its row");
    let cells = row.split("<td>").skip(1).take(6).map(|cell| cell.split('<').next()?.parse::<i64>().ok());
    let cells: Vec<i64> = cells.collect::<Option<_>>().expect("numbers");
    assert!(cells[5] >= 1 && cells[0] == cells[1..].iter().sum::<i64>(), "it adds up: {cells:?}");
    let events = "SELECT count(*) FROM audit WHERE event IN ('ResendStarted', 'ResendStopped')";
    assert_eq!(rig.count(events), 3);

    let wrong = browser.get("/portal/resends?webhook=default%2Forders&limit=0&perSecond=1000").await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.text().contains("<strong>limit</strong>: ")
            && wrong.text().contains("<strong>perSecond</strong>: ")
    );
    assert!(
        wrong.text().contains("value=\"1000\"") && wrong.text().contains("Stopped by employee 52"),
        "{wrong:?}"
    );
    let without = browser.get("/portal/resends?from=2026-11-01&to=soon").await;
    assert_eq!(without.status, 400);
    for part in ["<strong>webhook</strong>: ", "<strong>to</strong>: ", "value=\"2026-11-01\""] {
        assert!(without.text().contains(part), "{part}: {without:?}");
    }
    assert!(shown.text().contains("id=\"live\"") && !without.text().contains("id=\"live\""), "{without:?}");
    let unknown = browser.get("/portal/resends?webhook=default%2Funknown").await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.text().contains("<strong>webhook</strong>: The webhook is not declared"), "{unknown:?}");
}
