//! Dead letters that are set aside and back, as HTML.

use docket_tests::people::ALEX;

use super::rig::{Browser, hidden, is_protected};
use crate::api::rig::{captioned, save};
use crate::api::webhook_logs::{all_dead, dying};

const SET_ASIDE: &str = "SELECT count(*) FROM delivery WHERE set_aside_by IS NOT NULL";

#[tokio::test]
async fn dead_letters_are_set_aside_one_by_one_or_all_and_back() {
    let rig = dying().await;
    let ada = rig.ada().await;
    for caption in ["a", "b", "c"] {
        save(&ada, &captioned(caption)).await;
    }
    all_dead(&rig, 3).await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let text = async |path: &str| browser.get(path).await.text().to_owned();
    let list = text("/portal/logs?status=DeadLetter").await;
    let id =
        list.split("href=\"/portal/logs/").nth(1).and_then(|part| part.split('"').next()).expect("a link");
    let page = browser.get(&format!("/portal/logs/{id}")).await;
    let csrf = hidden(&page, "csrf");

    let one = [("deliveryId", id), ("csrf", csrf.as_str())];
    assert_eq!(browser.post("/portal/logs/set-aside", &one[..1]).await.status, 403, "without the token");
    let reply = browser.post("/portal/logs/set-aside", &one).await;
    let back = reply.headers["location"].clone();
    assert_eq!((reply.status, &*back), (303, &*format!("/portal/logs/{id}?done=set-aside")), "{reply:?}");
    let page = browser.get(&back).await;
    is_protected(&page);
    for part in [
        "The lost delivery is set aside",
        "Set aside by <span title=\"employee 52\">",
        ">Set aside</span></span>",
        "Undo set aside</button>",
    ] {
        assert!(page.text().contains(part), "{part}: {page:?}");
    }
    assert!(!page.text().contains("Then resend it"), "{page:?}");
    assert!(text("/portal/logs").await.contains("<span class=\"badge mute\"><span>Set aside</span></span>"));
    let overview = text("/portal").await;
    let link = "/portal/logs?webhook=default%2Forders&amp;deadLetter=open";
    assert!(overview.contains(&format!("{link}\">2</a>")), "it counts no longer: {overview}");
    assert!(text("/portal/webhooks").await.contains(link));
    for (which, count) in [("open", 2), ("setAside", 1), ("resent", 0)] {
        let list = text(&format!("/portal/logs?deadLetter={which}")).await;
        assert_eq!(list.matches("href=\"/portal/logs/").count(), count, "{which}: {list}");
    }

    // The choice has all dead letters, except those that are set aside already.
    let choice = "/portal/resends?webhook=default%2Forders&event=order.created";
    // A choice with a limit that is reached has as many in both cards.
    for (limit, number) in [("", 2), ("&limit=2", 2), ("&limit=1", 1)] {
        let shown = text(&format!("{choice}{limit}")).await;
        let (sent, set) = (format!("{number} of 2 lost deliveries"), format!("Set aside {number}</button>"));
        for part in [sent.as_str(), &set, "Undo set aside of 1</button>"] {
            assert!(shown.contains(part), "{limit}, {part}: {shown}");
        }
    }
    let form = [("webhook", "default/orders"), ("event", "order.created"), ("csrf", &csrf)];
    assert_eq!(browser.post("/portal/resends/set-aside", &form[..2]).await.status, 403);
    let seen = hidden(&browser.get(choice).await, "endedBefore");
    let before = [&form[..], &[("endedBefore", "1970-01-02")]].concat();
    let none = browser.post("/portal/resends/set-aside", &before).await;
    assert!(none.status == 303 && none.headers["location"].contains("count=0"), "{none:?}");
    let form = [&form[..], &[("endedBefore", &seen)]].concat();
    let reply = browser.post("/portal/resends/set-aside", &form).await;
    let back = reply.headers["location"].clone();
    assert!(reply.status == 303 && back.contains("&event=order.created&"), "{reply:?}");
    let shown = text(&back).await;
    for part in [
        "role=\"status\"><p>2 lost deliveries are set aside.</p>",
        "Undo set aside of 3</button>",
        "Nothing to send again",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(rig.count(SET_ASIDE), 3);
    assert!(text("/portal").await.contains("Settings have a problem"));
    assert!(!text("/portal/webhooks").await.contains(link));

    let reply = browser.post("/portal/logs/undo-set-aside", &one).await;
    let back = text(&reply.headers["location"]).await;
    assert!(back.contains("it counts again") && back.contains("Then resend it, or set it aside."), "{back}");
    let reply = browser.post("/portal/resends/undo-set-aside", &form).await;
    assert!(text(&reply.headers["location"]).await.contains("2 lost deliveries are not set aside any more."));
    assert_eq!(rig.count(SET_ASIDE), 0);
    assert!(text("/portal").await.contains(">3</a>"));
    let audit = "SELECT count(*) FROM audit WHERE actor = 'employee 52' AND ((event, subject, count) IN (VALUES \
                 ('DeadLettersSetAside', 'webhook default/orders', 2), ('SetAsideUndone', 'webhook default/orders', 2)) \
                 OR event IN ('DeadLettersSetAside', 'SetAsideUndone') AND subject LIKE 'delivery %' AND count = 1)";
    assert_eq!(rig.count(audit), 4);
    // Other words are not shown.
    let other = text("/portal/resends?webhook=default%2Forders&done=%3Cb%3E&count=%3Cb%3E").await;
    assert!(other.contains("3 of 3 lost deliveries") && !other.contains("not set aside any more"), "{other}");
}
