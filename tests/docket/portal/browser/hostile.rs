//! Texts that others write stay texts on every page: of receivers, orders, notes, invoices, users, webhooks and addresses.

use docket_tests::browser::Browser;
use docket_tests::people::ALEX;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use super::hands::{Hands, User};
use super::inspect::{TOO_WIDE, complaints, resize};
use super::pages::each;
use super::world::World;

/// Where a page of ours sends nothing.
const ELSEWHERE: &str = "http://evil.localhost:1/";
/// Each would set `pwned`, send a request to [`ELSEWHERE`], or look like something else. At most 128 characters each.
const WORDS: [&str; 23] = [
    "<img src=x onerror=window.pwned=1>",
    "<script>window.pwned=1</script>",
    "</pre></code></dd></table><img src=x onerror=window.pwned=1>",
    "\"><svg onload=window.pwned=1>",
    "' autofocus onfocus='window.pwned=1' x='",
    "\" autofocus onfocus=\"window.pwned=1\" x=\"",
    "javascript:window.pwned=1//",
    "</title></head><body onload=window.pwned=1>",
    "</textarea></select><iframe srcdoc=\"<script>parent.pwned=1</script>\"></iframe>",
    "<style>*{background:url(http://evil.localhost:1/style)}</style>",
    "<link rel=stylesheet href=http://evil.localhost:1/link>",
    "<form action=http://evil.localhost:1/form><button>Sign in again</button></form>",
    "<meta http-equiv=refresh content='0;url=http://evil.localhost:1/meta'>",
    "<base href=http://evil.localhost:1/>",
    "<a href=http://evil.localhost:1/a>Your session has ended</a>",
    "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1} <%= 7*7 %> #{7*7}",
    "--><script>window.pwned=1</script><!--",
    "]]><math><mtext></p><style><img src=x onerror=window.pwned=1></style>",
    "&lt;script&gt;window.pwned=1&lt;/script&gt; &amp;amp;",
    "%3Cscript%3Ewindow.pwned=1%3C/script%3E \\u003cscript\\u003e",
    "\\\"-window.pwned=1-\\\" \\';window.pwned=1//",
    "\u{202e}gpj.exe\u{2066} \u{200b}\u{feff}Z\u{0300}\u{0301}\u{0302} 契約 📦",
    "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
];

/// The texts that a page shows, and the texts in its fields.
const TEXTS: &str = r#"
document.title + "\n" + document.body.textContent + "\n"
  + [...document.querySelectorAll("input, option, textarea")].map((one) => one.value).join("\n")"#;

/// What is not of our making: a set variable, an element or a target that no view of ours has.
const FOREIGN: &str = r#"(() => {
  const found = window.pwned ? ["a script ran"] : [];
  const strange = "img:not([src^='/portal/logo?']), svg:not([role=img]), iframe, style, base, math, textarea:not([name=body]), meta[http-equiv], script:not([src^='/portal/'])";
  for (const one of document.querySelectorAll(strange)) found.push(one.outerHTML.slice(0, 200));
  for (const one of document.querySelectorAll("*")) for (const { name, value } of one.attributes)
    if (name.startsWith("on") || name === "autofocus" && one.name !== "userId" || name === "style"
      || ["href", "action", "src"].includes(name) && !/^(\/portal|\/docs\/|#[\w.-]+$)/.test(value))
      found.push(one.outerHTML.slice(0, 200));
  return found;
})()"#;

/// Looks at the page that the browser shows; returns its texts.
async fn texts(browser: &Browser, name: &str) -> String {
    browser.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })").await;
    assert_eq!(browser.look(FOREIGN).await, Some(json!([])), "{name}");
    assert_eq!(browser.look(TOO_WIDE).await, Some(json!([])), "{name}");
    let texts = browser.look(TEXTS).await.expect("a page");
    texts.as_str().expect("text").to_owned()
}

#[track_caller]
fn has_each(place: &str, texts: &str, shown: impl Fn(&str) -> String) {
    for word in WORDS {
        assert!(texts.contains(&shown(word)), "{place}: {word}");
    }
}

/// The word as it is written in a JSON text.
fn in_json(word: &str) -> String {
    let quoted = Value::from(word).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_others_stay_texts_on_every_page() {
    let world = World::of(WORDS[0], &WORDS, &WORDS).await;
    let browser = Browser::open().await;
    resize(&browser, 320).await;
    let mut all = String::new();
    each(&world, &browser, async |name| all += &texts(&browser, name).await).await;
    has_each("names of webhooks", &all, str::to_owned);

    browser.devtools("Network.clearBrowserCookies", json!({})).await.expect("no cookies");
    browser.go(&world.url("/portal/sign-in")).await;
    let user = User { browser: &browser, hands: Hands::Mouse };
    user.fill("User id", WORDS[5]).await;
    user.fill("Password", WORDS[5]).await;
    user.press("Sign in").await;
    user.sees("No employee has this user id and password.").await;
    assert!(texts(&browser, "a refused sign-in").await.contains(WORDS[5]));
    user.sign_in(ALEX).await;

    let mut deliveries = String::new();
    for page in world.deliveries() {
        browser.go(&world.url(&page)).await;
        deliveries += &texts(&browser, &page).await;
    }
    has_each("responses", &deliveries, str::to_owned);
    has_each("reports of notes", &deliveries, |word| format!("\"report\":\"{}\"", in_json(word)));
    has_each("numbers of invoices", &deliveries, |word| {
        format!("invoice {}", word.chars().take(64).collect::<String>())
    });

    for word in WORDS {
        let word: String = byte_serialize(word.as_bytes()).collect();
        for page in [
            "logs?webOrderId",
            "logs?status",
            "logs?cursor",
            "resends?webhook",
            "activity?from",
            "trace?q",
            "sign-in?to",
        ] {
            let page = format!("/portal/{page}={word}");
            browser.go(&world.url(&page)).await;
            texts(&browser, &page).await;
        }
    }
    let said = complaints(&browser).await;
    assert!(said.is_empty(), "{said:#?}");
    let own = ["acme", "bolt"].map(|tenant| world.url_of(tenant, "/"));
    let strays: Vec<String> = browser
        .requests()
        .await
        .into_iter()
        .filter(|url| url.starts_with("http") && !own.iter().any(|own| url.starts_with(own)))
        .collect();
    assert!(strays.is_empty(), "{strays:?}");
    control(&browser).await;
}

/// The words do on a page without protection what the case looks for.
async fn control(browser: &Browser) {
    let mut ran = 0;
    for word in WORDS {
        let html: String = word.bytes().map(|byte| format!("%{byte:02x}")).collect();
        browser.go(&format!("data:text/html;charset=utf-8,{html}")).await;
        ran += usize::from(browser.look("window.pwned === 1").await == Some(true.into()));
    }
    let strays = browser.requests().await.iter().filter(|url| url.starts_with(ELSEWHERE)).count();
    assert!(ran >= 5 && strays >= 3, "{ran} scripts, {strays} requests");
}
