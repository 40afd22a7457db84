//! A page against the accessibility contract: axe-core finds nothing in either theme, nothing is wider than the window, and
//! texts half as long again overlap nothing.

use std::sync::LazyLock;

use docket_tests::browser::Browser;
use docket_tests::languages::{cache, without};
use serde_json::{Value, json};

/// Widths in pixels: the narrowest that a page must fit in, and a usual one.
const WIDTHS: [u32; 2] = [320, 1280];

/// The script from npm, as tests/verifiers/package.json pins it.
static AXE: LazyLock<String> = LazyLock::new(|| {
    let path = cache().join("verifiers/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("axe-core can't be read ({error}); tests/verifiers/get fetches it"))
});

/// Every rule of axe-core, also the one that is off by default: targets of 24 × 24 pixels.
const RUN: &str = r#"
axe.run(document, { resultTypes: ["violations"], preload: false, rules: { "target-size": { enabled: true } } })
  .then(({ violations }) => violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html}: ${failureSummary}`)))"#;

/// What is wider than its place: the page, and each element that hides or spills its text.
pub(super) const TOO_WIDE: &str = r#"(() => {
  const page = document.documentElement;
  const wide = page.scrollWidth > innerWidth ? [`the page is ${page.scrollWidth} pixels wide`] : [];
  const scrolls = (one) => ["auto", "scroll"].includes(getComputedStyle(one).overflowX);
  for (const one of document.body.querySelectorAll("*")) {
    if (!one.checkVisibility() || scrolls(one) || getComputedStyle(one).display === "inline") continue;
    if (["INPUT", "SELECT"].includes(one.tagName)) continue;
    // A long text in a table is on one line, and whole while it has the focus.
    if (one.matches(".long[tabindex], tbody :is(th, td) > a")) continue;
    // What is within a picture has boxes in the picture's own units, which Chromium rounds now and then.
    if (one.ownerSVGElement) continue;
    if (one.scrollWidth > one.clientWidth + 1) wide.push("too wide: " + one.outerHTML.slice(0, 200));
    else if (getComputedStyle(one).overflowY !== "visible" && one.scrollHeight > one.clientHeight + 1)
      wide.push("cut off: " + one.outerHTML.slice(0, 200));
  }
  return wide;
})()"#;

/// Makes each word half as long again.
const LENGTHEN: &str = r#"(() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  window.shortened = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!text.data.trim()) continue;
    shortened.push([text, text.data]);
    text.data = text.data.replace(/\S+/g, (word) => word + "m".repeat(Math.ceil(word.length / 2)));
  }
})()"#;

/// Undoes [`LENGTHEN`].
const SHORTEN: &str = "for (const [text, before] of shortened) text.data = before";

/// Texts and controls that lie upon others.
const OVERLAPS: &str = r#"(() => {
  const boxes = [];
  // A user does not see the content beyond the edge of a region that scrolls.
  const seen = ({ left, right, top, bottom }, node) => {
    for (let one = node; one; one = one.parentElement) {
      if (!["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX)) continue;
      const edge = one.getBoundingClientRect();
      [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
    }
    return { left, right, top, bottom };
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!text.data.trim() || !text.parentElement.checkVisibility() || text.parentElement.closest("select, datalist, textarea, .long[tabindex], tbody :is(th, td) > a")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const box of range.getClientRects()) boxes.push({ box: seen(box, text.parentElement), node: text.parentElement });
  }
  for (const node of document.querySelectorAll("input:not([type=hidden]), select, textarea, button"))
    if (node.checkVisibility()) boxes.push({ box: node.getBoundingClientRect(), node });
  const over = [];
  for (const [at, one] of boxes.entries()) for (const other of boxes.slice(at + 1)) {
    const across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
    const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
    // Lines of one text may touch; a button holds its own text.
    if (across > 2 && down > 4 && !one.node.contains(other.node) && !other.node.contains(one.node))
      over.push(`${one.node.outerHTML.slice(0, 120)} upon ${other.node.outerHTML.slice(0, 120)}`);
  }
  return over;
})()"#;

/// Makes the window so wide.
pub(super) async fn resize(browser: &Browser, width: u32) {
    let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
    browser.devtools("Emulation.setDeviceMetricsOverride", size).await.expect("a size");
}

/// Asks for the light or the dark theme.
pub(super) async fn theme(browser: &Browser, scheme: &str) {
    let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
    browser.devtools("Emulation.setEmulatedMedia", media).await.expect("a theme");
}

/// What the console says since the last look, such as of the content security policy; not which pages had an error's status.
pub(crate) async fn complaints(browser: &Browser) -> Vec<Value> {
    let said = browser.log("browser").await;
    said.into_iter().filter(|entry| entry["source"] != "network").collect()
}

/// What is wrong with the page that a browser shows, a line each.
pub(crate) async fn wrong(browser: &Browser) -> Vec<String> {
    let has_axe = !without("npm");
    if has_axe {
        browser.run(&AXE).await;
    }
    let mut wrong = Vec::new();
    let mut add = |when: String, found: Option<Value>| {
        let found = found.expect("a page");
        let lines = found.as_array().unwrap_or_else(|| panic!("{when}: {found}"));
        wrong.extend(lines.iter().map(|line| format!("{when}: {}", line.as_str().unwrap_or_default())));
    };
    for width in WIDTHS {
        resize(browser, width).await;
        for scheme in ["light", "dark"].into_iter().filter(|_| has_axe) {
            theme(browser, scheme).await;
            add(format!("{width} px, {scheme}"), Some(browser.resolve(RUN).await));
        }
        add(format!("{width} px"), browser.look(TOO_WIDE).await);
        add(format!("{width} px"), browser.look(OVERLAPS).await);
    }
    browser.look(LENGTHEN).await;
    for width in WIDTHS {
        resize(browser, width).await;
        add(format!("longer texts, {width} px"), browser.look(TOO_WIDE).await);
        add(format!("longer texts, {width} px"), browser.look(OVERLAPS).await);
    }
    browser.look(SHORTEN).await;
    theme(browser, "light").await;
    wrong
}

/// What is wrong with one of many pages of one form: what axe finds in either theme, and what is too wide for a narrow window.
pub(crate) async fn wrong_in_short(browser: &Browser) -> Vec<String> {
    let [narrow, usual] = WIDTHS;
    resize(browser, narrow).await;
    let mut found = vec![browser.look(TOO_WIDE).await.expect("a page")];
    resize(browser, usual).await;
    if !without("npm") {
        browser.run(&AXE).await;
        for scheme in ["dark", "light"] {
            theme(browser, scheme).await;
            found.push(browser.resolve(RUN).await);
        }
    }
    let lines = found.iter().flat_map(|found| found.as_array().unwrap_or_else(|| panic!("{found}")));
    lines.map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
}

/// Holds the page that a browser shows against the contract.
pub(super) async fn inspect(browser: &Browser, what: &str) {
    let wrong = wrong(browser).await;
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}
