//! Notifications as HTML, and the messages that they send to a real SMTP server.

use std::net::SocketAddr;

use docket_tests::mail::MailServer;
use docket_tests::people::{ADA, ALEX};
use docket_tests::server::{Options, Server, eventually};
use docket_tests::stores;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::rig::{Browser, FORM, hidden, is_protected, send};
use crate::api::rig::Rig;
use crate::delivery::stage::{SOON, Webhook, home};
use crate::notices::{arrived, lose};

const PAGE: &str = "/portal/notifications";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_subscribes_confirms_gets_a_message_chooses_other_states_and_ends_it() {
    let home = home(&[Webhook::new("one", "https://127.0.0.1:9/")]);
    let mail = MailServer::start();
    let server = Server::start(&home, Options::flags(&mail.flags(&home))).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let page = browser.get(PAGE).await;
    is_protected(&page);
    assert!(page.text().contains("You have no notification"), "{page:?}");

    // A message is beside the field that is wrong, and the text that the user typed stays.
    let wrong = send(&browser, PAGE, PAGE, &[("webhook", "default/one"), ("email", "alex <b>")]).await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    for part in [
        "<title>Error: Notifications",
        "href=\"#field-states\"",
        "id=\"error-states\"",
        "value=\"alex &lt;b&gt;\"",
        "value=\"default/one\" selected",
    ] {
        assert!(wrong.text().contains(part), "{part}: {wrong:?}");
    }
    let new = [("webhook", "default/one"), ("Lost", "yes"), ("email", "alex@acme.example")];
    let wrong = send(&browser, PAGE, PAGE, &[&new[..2], &[("email", "alex <b>")]].concat()).await;
    assert!(wrong.status == 400 && wrong.text().contains("href=\"#field-email\""), "{wrong:?}");

    let added = send(&browser, PAGE, PAGE, &new).await;
    assert_eq!(
        (added.status, &*added.headers["location"]),
        (303, "/portal/notifications?done=email-waiting")
    );
    let page = browser.get(&added.headers["location"]).await;
    for part in ["open it within 7 days", "Not confirmed yet", "href=\"/portal/webhooks/default/one\""] {
        assert!(page.text().contains(part), "{part}: {page:?}");
    }
    let again = send(&browser, PAGE, PAGE, &new).await;
    assert!(again.status == 400 && again.text().contains("You have a subscription"), "{again:?}");

    // The link of the message confirms the address, and the next loss is a message.
    let asked = arrived(&mail, 1).await;
    assert_eq!(asked.to(), "alex@acme.example");
    let scheme = if stores::are_servers() { "https" } else { "http" };
    let link = asked.line(&format!("{scheme}://acme.localhost"));
    let path = &link[link.find("/portal/mail/").expect("a path")..];
    let page = browser.get(path).await;
    for part in ["Get messages about webhooks</button>", "<dd>alex@acme.example</dd>", "<dd>default/one</dd>"]
    {
        assert!(page.status == 200 && page.text().contains(part), "{part}: {page:?}");
    }
    let confirmed = browser.post(path, &[("action", "confirm")]).await;
    is_protected(&confirmed);
    assert!(confirmed.text().contains("Your address is confirmed"), "{confirmed:?}");
    let page = browser.get(PAGE).await;
    assert!(
        page.text().contains("<span>Active</span>") && !page.text().contains("Not confirmed"),
        "{page:?}"
    );
    lose(&home, 1);
    let lost = arrived(&mail, 2).await;
    assert_eq!(lost.header("Subject"), "[ACME] Webhook \"default/one\": 1 delivery is lost");

    // The card of the webhook's page.
    let (card, of_webhook) = ("/portal/notifications/webhook", "/portal/webhooks/default/one");
    let page = browser.get(of_webhook).await;
    assert!(page.text().contains("To alex@acme.example. "), "{page:?}");
    assert!(page.text().contains("name=\"Lost\" value=\"yes\" checked"), "{page:?}");
    let id = hidden(&page, "id");
    let chosen = [("webhook", "default/one"), ("id", id.as_str()), ("Works", "yes")];
    let reply = send(&browser, of_webhook, card, &chosen).await;
    assert_eq!(&*reply.headers["location"], "/portal/webhooks/default/one?done=email-changed", "{reply:?}");
    let page = browser.get(&reply.headers["location"]).await;
    is_protected(&page);
    for part in
        ["role=\"status\"><p>Your choice of messages is saved.</p>", "name=\"Works\" value=\"yes\" checked"]
    {
        assert!(page.text().contains(part), "{part}: {page:?}");
    }
    let database = home.open("ACME");
    let works = "SELECT count(*) FROM subscription WHERE on_works AND NOT on_lost AND NOT on_failing";
    assert_eq!(database.get::<i64>(works), 1);
    let unknown = [("webhook", "default/none"), ("id", id.as_str()), ("Works", "yes")];
    assert_eq!(send(&browser, PAGE, card, &unknown).await.status, 404);
    let reply = send(&browser, of_webhook, card, &chosen[..2]).await;
    assert_eq!(&*reply.headers["location"], "/portal/webhooks/default/one?done=email-ended", "{reply:?}");
    let page = browser.get(&reply.headers["location"]).await;
    assert!(page.text().contains("Ended. It sends no more messages."), "{page:?}");
    assert!(page.text().contains("id=\"field-email\"") && !page.text().contains("name=\"id\""), "{page:?}");
    assert_eq!(database.get::<i64>("SELECT count(*) FROM subscription"), 0);
    let added = send(&browser, PAGE, card, &new).await;
    assert_eq!(&*added.headers["location"], "/portal/webhooks/default/one?done=email-waiting", "{added:?}");
    let wrong = send(&browser, PAGE, card, &[("webhook", "default/one"), ("email", "alex")]).await;
    assert!(wrong.status == 400 && wrong.text().contains("id=\"error-states\""), "{wrong:?}");

    let count = |event: &str| {
        let sql = format!(
            "SELECT count(*) FROM audit WHERE event = '{event}' AND actor = 'employee 52' AND subject LIKE 'subscription %'"
        );
        database.get::<i64>(&sql)
    };
    assert_eq!((count("SubscriptionAdded"), count("SubscriptionEnded")), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contact_subscribes_with_its_own_address_and_ends_no_other_users_subscription() {
    let home = home(&[Webhook::new("one", "https://127.0.0.1:9/")]);
    home.open("ACME").change("UPDATE contact SET manages_webhooks = TRUE WHERE code = '11'");
    let mail = MailServer::start();
    let server = Server::start(&home, Options::flags(&mail.flags(&home))).await;
    let administrator = Browser::signed_in(&server, "acme", ALEX).await;
    let theirs = [("Lost", "yes"), ("email", "alex@acme.example")];
    assert_eq!(send(&administrator, PAGE, PAGE, &theirs).await.status, 303);
    let theirs = hidden(&administrator.get(PAGE).await, "id");

    let browser = Browser::signed_in(&server, "acme", ADA).await;
    let page = browser.get(PAGE).await;
    assert!(page.text().contains(&format!("value=\"{ADA}\"")), "{page:?}");
    assert!(!page.text().contains("alex@acme.example"), "{page:?}");
    // The address of the back office counts in every spelling.
    let own = [("Lost", "yes"), ("Failing", "yes"), ("email", " Ada@One.example")];
    let added = send(&browser, PAGE, PAGE, &own).await;
    assert_eq!(&*added.headers["location"], "/portal/notifications?done=email-added", "{added:?}");
    let shown = browser.get(PAGE).await;
    assert!(shown.text().contains("All webhooks</th>") && shown.text().contains("<span>Active</span>"));
    let unknown = [("Lost", "yes"), ("webhook", "default/none"), ("email", ADA)];
    let refused = send(&browser, PAGE, PAGE, &unknown).await;
    assert!(refused.status == 400 && refused.text().contains("href=\"#field-webhook\""), "{refused:?}");
    lose(&home, 1);
    let sent = || mail.messages().iter().filter(|message| message.to() == ADA).count();
    eventually("the contact hears of it", SOON, async || sent() == 1).await;

    let end = format!("{PAGE}/end");
    assert_eq!(send(&browser, PAGE, &end, &[("id", &theirs)]).await.status, 404);
    let own = hidden(&browser.get(PAGE).await, "id");
    let ended = send(&browser, PAGE, &end, &[("id", &own)]).await;
    assert_eq!(&*ended.headers["location"], "/portal/notifications?done=email-ended", "{ended:?}");
    let page = browser.get(&ended.headers["location"]).await;
    assert!(page.text().contains("Ended. It sends no more messages."), "{page:?}");
    assert_eq!(home.open("ACME").get::<i64>("SELECT count(*) FROM subscription"), 1);
}

#[tokio::test]
async fn without_a_mail_server_the_page_says_whom_to_ask() {
    let rig = Rig::start().await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let page = browser.get(PAGE).await;
    for part in ["E-mail is not set up here", "Ask the people who run Docket", "/docs/kubernetes/mail.html"] {
        assert!(page.text().contains(part), "{part}: {page:?}");
    }
    let refused = send(&browser, PAGE, PAGE, &[("Lost", "yes"), ("email", "alex@acme.example")]).await;
    assert!(refused.status == 409 && refused.text().contains("E-mail is not set up here"), "{refused:?}");
}

/// Sends the head of a form from another address of this machine, and not its body.
async fn form_without_its_body(source: u8, server: SocketAddr, path: &str) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, source], 0).into())?;
    let mut client = socket.connect(server).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: acme.localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 14\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forms_that_never_end_keep_no_link_waiting() {
    let rig = Rig::start().await;
    let browser = Browser::new(&rig.server, "acme");
    let path = format!("/portal/mail/{}", "0f".repeat(32));
    let mut slow = Vec::new();
    for source in 2..=13 {
        slow.push(form_without_its_body(source, rig.server.api, &path).await.expect("it listens"));
    }
    for (method, body) in [("GET", ""), ("POST", "action=confirm")] {
        let reply = browser.send(method, &path, &[FORM], body).await;
        assert!(reply.status == 200 && reply.text().contains("Nothing to do"), "{reply:?}");
    }
    drop(slow);
}
