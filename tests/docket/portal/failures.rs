//! What API, command line, portal and log say about a failure: its cause, and what to do about this one.

use docket_tests::people;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{api_key, eventually};

use super::rig::Browser;
use crate::delivery::stage::{ONCE, SOON, Webhook, deliveries, delivery_to, save, stage, together};

/// The path of the receiver, the class, the cause, the detail, and words of the remedy.
type Case = (&'static str, &'static str, Option<&'static str>, Option<&'static str>, &'static str);
const CASES: [Case; 10] = [
    ("401", "ClientError", None, None, "let the route check the delivery's signature"),
    ("413", "ClientError", None, None, "raise its limit for bodies to 64 KiB"),
    ("429", "ClientError", None, None, "resend at a lower pace"),
    ("304", "ClientError", None, None, "is for copies of a page"),
    ("502", "ServerError", None, None, "The proxy in front of the receiver"),
    ("308", "Redirect", None, Some("https://new.example/a?…"), "set targetURL to this address"),
    ("302", "Redirect", Some("RedirectToHttp"), Some("http://new.example/a"), "deliveries need https"),
    ("fold", "NotHttp", Some("FoldedHeader"), Some("X-A on line 3"), "write each header in one line"),
    ("many", "NotHttp", Some("TooManyHeaders"), None, "more than 100 headers"),
    ("clear", "TlsOther", Some("PlainHttp"), None, "use the port that speaks TLS"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_cause_is_named_with_its_own_remedy_everywhere() {
    let _turn = together().await;
    let hook = Receiver::scripted(|post| match post.path.trim_start_matches('/') {
        "308" => Response::whole(308, "Location: https://u:pw@new.example/a?token=secret-7#b\r\n", b""),
        "302" => Response::whole(302, "Location: http://new.example/a\r\n", b""),
        "fold" => Response::Last(b"HTTP/1.1 200 OK\r\nX-A: 1\r\n more\r\nContent-Length: 0\r\n\r\n".to_vec()),
        "many" => Response::Last(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-a: b\r\n".repeat(101)).into_bytes()),
        status => Response::Status(status.parse().expect("a status")),
    })
    .await;
    let url = |path: &str| match path {
        "clear" => format!("https://127.0.0.1:{}/", hook.plain),
        _ => hook.url(&format!("/{path}")),
    };
    let webhooks: Vec<Webhook> =
        CASES.iter().map(|(path, ..)| Webhook::new(&format!("w-{path}"), url(path))).collect();
    let (home, server, client) = stage(&webhooks, ONCE).await;
    save(&client).await;
    let ended = || deliveries(&home).iter().filter(|row| row.attempts == 1 && !row.leased).count();
    eventually("each was tried once", SOON, async || ended() == CASES.len()).await;

    let alex = server.sign_in_employee(&api_key('a'), people::ALEX).await;
    let browser = Browser::signed_in(&server, "acme", people::ALEX).await;
    for (path, class, cause, detail, words) in CASES {
        let id = delivery_to(&home, &format!("w-{path}")).id;
        let read = alex.get(&format!("/WebhookLogs/Get?deliveryId={id}")).await.json();
        for of in [&read, &read["attempts"][0]] {
            let said = ["failureClass", "failureCause", "failureDetail"].map(|name| of[name].as_str());
            assert_eq!(said, [Some(class), cause, detail], "{path}: {of}");
            assert!(of["remedy"].as_str().is_some_and(|remedy| remedy.contains(words)), "{path}: {of}");
        }
        let (_, shown) = home.command(&["deliveries", "show", "--tenant", "ACME", &id], "");
        assert!(shown.contains(words) && shown.contains(cause.unwrap_or(class)), "{path}: {shown}");
        let page = browser.get(&format!("/portal/logs/{id}")).await;
        let words = words.replace('\'', "&#39;");
        let page = page.text().replace("&#x27;", "&#39;");
        assert!(page.contains(&words) || page.contains(&words.replace("&#39;", "'")), "{path}: {page}");
        let more =
            format!("#{0}\">More about {1}<", cause.unwrap_or(class).to_lowercase(), cause.unwrap_or(class));
        assert!(page.contains(&more) && !page.contains("secret-7"), "{path}: {page}");
    }
    let log = std::fs::read_to_string(home.log("out")).expect("a log")
        + &std::fs::read_to_string(home.log("err")).unwrap_or_default();
    assert!(log.contains("FoldedHeader") && log.contains("PlainHttp"), "{log}");
    assert!(!log.contains("new.example") && !log.contains("secret-7"), "the receiver's words are not logged");
}
