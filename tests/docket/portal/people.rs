//! People: an administrator gives and takes rights, and ends sessions.

use std::time::Duration;

use docket_tests::people::{ADA, ALEX, BEA, MO};
use docket_tests::server::{PASSWORD, Reply, api_key, eventually};

use super::rig::{Browser, hidden, is_protected};
use crate::api::rig::Rig;

const PEOPLE: &str = "/portal/people";

/// Sends a form of the page, about the contact or employee with this code.
async fn change(browser: &Browser<'_>, kind: &str, code: &str, what: &str) -> Reply {
    let csrf = hidden(&browser.get(PEOPLE).await, "csrf");
    let fields = [("csrf", &*csrf), ("kind", kind), ("code", code), ("change", what), ("q", "o")];
    browser.post(PEOPLE, &fields).await
}

/// Makes a change that is allowed, and returns the sentence that the page says about it.
async fn changed(browser: &Browser<'_>, kind: &str, code: &str, what: &str) -> String {
    let reply = change(browser, kind, code, what).await;
    assert_eq!(reply.status, 303, "{what}: {reply:?}");
    let to = &reply.headers["location"];
    assert!(to.starts_with("/portal/people?q=o&"), "it leads back to the search: {to}");
    let page = browser.get(to).await;
    is_protected(&page);
    let (_, said) = page.text().split_once("<div class=\"done\" role=\"status\"><p>").expect("it says so");
    said.split('<').next().expect("a sentence").to_owned()
}

/// The number of entries of the audit that say that ALEX has done this.
fn recorded(rig: &Rig, event: &str, subject: &str) -> i64 {
    rig.count(&format!(
        "SELECT count(*) FROM audit WHERE event = '{event}' AND actor = 'employee 52' AND subject = '{subject}' \
         AND request_id IS NOT NULL"
    ))
}

#[tokio::test]
async fn contact_has_the_right_from_the_moment_that_it_is_given_until_it_is_taken() {
    let rig = Rig::start().await;
    let alex = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let ada = Browser::signed_in(&rig.server, "acme", ADA).await;
    let refused = ada.get("/portal").await;
    assert!(refused.status == 403 && refused.text().contains("What you can do:"), "{refused:?}");
    let said = changed(&alex, "contact", "11", "grant").await;
    assert_eq!(said, "Ada One may manage the webhooks of One now.");
    assert_eq!(ada.get("/portal").await.status, 200);
    assert_eq!(ada.get(PEOPLE).await.status, 403, "the page is for administrators");
    let said = changed(&alex, "contact", "11", "revoke").await;
    assert_eq!(said, "Ada One may not manage webhooks any more.");
    assert_eq!(ada.get("/portal").await.status, 403);
    // The page shows no message that is not true, even if a link asks for it.
    for (done, is_so) in
        [("grant", false), ("revoke", true), ("deactivate", false), ("activate", true), ("sign-out", false)]
    {
        let page = alex.get(&format!("{PEOPLE}?done={done}&kind=contact&code=11")).await;
        assert_eq!(page.text().contains("<div class=\"done\""), is_so, "{done}: {page:?}");
    }
    for event in ["RightGranted", "RightRevoked"] {
        assert_eq!(recorded(&rig, event, "contact 11"), 1, "{event}");
    }
}

#[tokio::test]
async fn deactivated_or_signed_out_user_loses_its_sessions_and_tokens_within_five_seconds() {
    let rig = Rig::start().await;
    rig.change("UPDATE contact SET manages_webhooks = TRUE");
    let alex = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let (ada, bea) = (
        Browser::signed_in(&rig.server, "acme", ADA).await,
        Browser::signed_in(&rig.server, "acme", BEA).await,
    );
    let api = rig.server.sign_in(&api_key('a'), ADA).await;
    let said = changed(&alex, "contact", "11", "deactivate").await;
    assert_eq!(said, "Ada One is deactivated; all sessions and tokens end within 5 seconds.");
    let said = changed(&alex, "contact", "12", "sign-out").await;
    assert_eq!(said, "Bea Two is signed out everywhere; all sessions and tokens end within 5 seconds.");
    eventually("the sessions end", Duration::from_secs(8), async || {
        let ended = |reply: &Reply| reply.status == 303;
        ended(&ada.get("/portal").await)
            && ended(&bea.get("/portal").await)
            && api.get("/Orders/Search").await.status == 401
    })
    .await;
    assert_eq!(ada.sign_in(ADA, PASSWORD, "").await.status, 401);
    assert_eq!(bea.sign_in(BEA, PASSWORD, "").await.status, 303);
    let page = alex.get(PEOPLE).await;
    assert!(page.text().contains("Deactivated") && page.text().contains("value=\"activate\""), "{page:?}");
    assert_eq!(changed(&alex, "contact", "11", "activate").await, "Ada One can sign in again.");
    assert_eq!(ada.sign_in(ADA, PASSWORD, "").await.status, 303);
    assert_eq!(ada.get("/portal").await.status, 303, "the old session stays ended");
    for (event, subject) in
        [("UserDeactivated", "contact 11"), ("UserActivated", "contact 11"), ("SignedOut", "contact 12")]
    {
        assert_eq!(recorded(&rig, event, subject), 1, "{event}");
    }
}

#[tokio::test]
async fn administrator_keeps_the_own_right_until_another_one_takes_it() {
    let rig = Rig::start().await;
    let alex = Browser::signed_in(&rig.server, "acme", ALEX).await;
    for (what, why) in
        [("revoke", "You can't take your own right"), ("deactivate", "You can't deactivate yourself")]
    {
        let refused = change(&alex, "employee", "52", what).await;
        assert_eq!(refused.status, 409, "{refused:?}");
        assert!(refused.text().contains(why), "{refused:?}");
    }
    let own = alex.get("/portal/people?q=alex").await;
    assert!(own.text().contains(">You<") && !own.text().contains("name=\"change\""), "{own:?}");
    assert_eq!(rig.count("SELECT count(*) FROM employee WHERE administrator AND active"), 1);
    assert_eq!(rig.count("SELECT count(*) FROM audit WHERE event IN ('RightRevoked', 'UserDeactivated')"), 0);
    let said = changed(&alex, "employee", "51", "grant").await;
    assert_eq!(said, "Mo Ito is an administrator from the next sign-in on.");
    let mo = Browser::signed_in(&rig.server, "acme", MO).await;
    let csrf = hidden(&alex.get(PEOPLE).await, "csrf");
    assert_eq!(
        changed(&mo, "employee", "52", "revoke").await,
        "Alex Admin is not an administrator any more."
    );
    // The form from before the change is refused, because the user's right is gone.
    let form = [("csrf", &*csrf), ("kind", "employee"), ("code", "51"), ("change", "revoke")];
    assert_eq!(alex.post(PEOPLE, &form).await.status, 403);
    assert_eq!(alex.get(PEOPLE).await.status, 403);
}

#[tokio::test]
async fn people_are_searched_and_listed_fifty_at_a_time() {
    let rig = Rig::start().await;
    rig.change(
        "WITH RECURSIVE row (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM row WHERE n < 219) \
         INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms) \
         SELECT CAST(n AS TEXT), 'C-2', 'user-' || n || '@two.example', 'user-' || n || '@two.example', \
         CASE n WHEN 219 THEN 'Zoë <b>O''Brien' ELSE 'Contact ' || n END, TRUE, 0 FROM row",
    );
    let alex = Browser::signed_in(&rig.server, "acme", ALEX).await;
    // ADA and BEA come first.
    let (mut path, mut sizes, mut names) = (PEOPLE.to_owned(), Vec::new(), Vec::new());
    loop {
        let page = alex.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        let rows = page.text().split("title=\"contact ").skip(1);
        let codes: Vec<String> = rows.map(|row| row.split('"').next().expect("a code").to_owned()).collect();
        sizes.push(codes.len());
        names.extend(codes);
        assert!(page.text().contains("alex.admin"), "the list of employees stays where it is");
        let Some((before, _)) = page.text().split_once("\" rel=\"next\">More contacts") else { break };
        path = before.rsplit("href=\"").next().expect("a link").replace("&amp;", "&");
    }
    assert_eq!(sizes, [50, 50, 22]);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 122, "each contact once");
    let page = alex.get("/portal/people?q=OBRIEN+zoe").await;
    assert!(page.text().contains("No contact matches") && page.text().contains("No employee matches"));
    let page = alex.get("/portal/people?q=zoe+o%27brien+TWO").await;
    assert_eq!(page.text().matches("title=\"contact ").count(), 1, "{page:?}");
    assert!(page.text().contains("Zoë &lt;b&gt;O'Brien") && !page.text().contains("<b>O"), "{page:?}");
    assert!(page.text().contains("title=\"C-2\">Two<"), "the customer is named: {page:?}");
    let refused = alex.get("/portal/people?sort=name").await;
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[tokio::test]
async fn change_that_is_unknown_changes_nothing() {
    let rig = Rig::start().await;
    let alex = Browser::signed_in(&rig.server, "acme", ALEX).await;
    for (kind, code, what, status) in [
        ("contact", "none", "grant", 404),
        ("employee", "11", "deactivate", 404),
        ("customer", "C-1", "grant", 400),
        ("contact", "11", "remove", 400),
    ] {
        let reply = change(&alex, kind, code, what).await;
        assert_eq!(reply.status, status, "{kind} {code} {what}: {reply:?}");
    }
    assert_eq!(rig.count("SELECT count(*) FROM audit WHERE subject IS NOT NULL"), 0);
}
