//! What a page of another site can do with the session of its visitor.

use docket_tests::browser::{Browser, PATIENCE};
use docket_tests::people::{ALEX, add_tenant};
use docket_tests::server::{Home, Options, Server, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::hands::{Hands, User};

/// The port of a site of an attacker: an empty page, at any path and host.
async fn site() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((mut visitor, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = visitor.read(&mut request).await;
                let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<body></body>";
                let _ = visitor.write_all(page.as_bytes()).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_sites_neither_frame_a_page_nor_send_a_form_of_the_session() {
    let home = Home::new();
    add_tenant(&home, "acme", 'a');
    let server = Server::start(&home, Options::flags("")).await;
    let portal = |path: &str| format!("http://acme.localhost:{}{path}", server.api.port());
    let browser = Browser::open().await;
    let user = User { browser: &browser, hands: Hands::Mouse };
    browser.go(&portal("/portal")).await;
    user.sign_in(ALEX).await;
    user.sees("Overview").await;

    let port = site().await;
    // To a browser, the second address is the same site as the tenant's, so the browser sends the cookie along.
    for site in [format!("http://127.0.0.1:{port}/"), format!("http://evil.acme.localhost:{port}/")] {
        let page_with = async |html: &str| {
            browser.go(&site).await;
            browser
                .look(&format!("document.body.innerHTML = {}; document.forms[0]?.submit()", json!(html)))
                .await;
        };
        // The other site can frame a page of its own.
        let pages = ["/portal/webhooks", "/portal/sign-in"].map(portal);
        for (url, is_shown) in [(&site, true), (&pages[0], false), (&pages[1], false)] {
            page_with(&format!("<iframe src='{url}'></iframe>")).await;
            browser.enter_frame().await;
            let shown = if is_shown { url } else { "chrome-error://chromewebdata/" };
            eventually(&format!("{site} frames {url}"), PATIENCE, async || {
                browser.run("return location.href").await == *shown
            })
            .await;
        }
        for path in ["/portal/sign-out", "/portal/sign-out-everywhere", "/portal/webhooks/new"] {
            page_with(&format!(
                "<form method=post action='{}'><input name=csrf value=00></form>",
                portal(path)
            ))
            .await;
            user.is_at(path).await;
            user.sees("The form was not sent by a page of this session").await;
        }
    }
    browser.go(&portal("/portal/webhooks")).await;
    user.sees("Alex Admin").await;
}
