//! A user at a browser, with a mouse or with a keyboard alone.

use docket_tests::browser::{Browser, PATIENCE, keys};
use docket_tests::server::{PASSWORD, eventually};
use serde_json::Value;

/// More elements than any page has.
const MOST_TABS: usize = 200;

/// The element that has a name for users, or that a CSS selector after `css:` finds; as a function in the page.
const FIND: &str = r#"
const found = ((wanted) => {
  const own = (label) => [...label.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join("");
  // A number beside a name, such as of the webhooks that need attention, is not a part of it.
  const words = (one) => [...one.childNodes].filter((node) => !node.classList?.contains("count")).map((node) => node.textContent);
  const name = (one) => (one.labels?.length ? own(one.labels[0]) : words(one).join("")).replace(/\s+/g, " ").trim();
  const all = [...document.querySelectorAll("a[href], button, summary, input:not([type=hidden]), select, textarea")];
  return all.filter((one) => one.checkVisibility())
    .find((one) => wanted.startsWith("css:") ? one.matches(wanted.slice(4)) : name(one) === wanted);
})"#;

/// The middle of an element, once it is in the window and nothing covers it.
const PLACE: &str = r#"
if (!found) return null;
found.scrollIntoView({ block: "center" });
const box = found.getClientRects()[0];
const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
const top = document.elementFromPoint(x, y);
return top && (found.contains(top) || top.contains(found) && top.tagName === "LABEL") ? [x, y] : null;"#;

/// Why a user would not see where the focus is; empty if it is seen.
const UNSEEN_FOCUS: &str = r#"(() => {
  const one = document.activeElement;
  if (!one || one === document.body) return "";
  const { outlineStyle, outlineWidth } = getComputedStyle(one);
  const box = one.getClientRects()[0];
  const [x, y] = [box.left + Math.min(box.width, 20) / 2, box.top + Math.min(box.height, 20) / 2];
  const top = document.elementFromPoint(x, y);
  const wrong = outlineStyle === "none" || parseFloat(outlineWidth) < 2 ? "has no outline"
    : !top ? "is outside of the window" : !one.contains(top) && !top.contains(one) ? "is covered" : "";
  return wrong && one.outerHTML.slice(0, 200) + " " + wrong;
})()"#;

/// What the user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hands {
    Mouse,
    Keyboard,
}

/// A user at a browser.
pub(super) struct User<'a> {
    pub(super) browser: &'a Browser,
    pub(super) hands: Hands,
}

fn in_page(target: &str, then: &str) -> String {
    format!("(() => {{ {FIND}({}); {then} }})()", Value::from(target))
}

impl User<'_> {
    /// Waits until a text is on the page.
    pub(super) async fn sees(&self, text: &str) {
        let shows = format!("document.body.innerText.includes({})", Value::from(text));
        eventually(&format!("{text:?} is seen"), PATIENCE, async || {
            self.browser.look(&shows).await == Some(Value::Bool(true))
        })
        .await;
    }

    /// Waits until the address has a part, and its page is there.
    pub(super) async fn is_at(&self, part: &str) {
        let is_there =
            format!("document.readyState === 'complete' && location.href.includes({})", Value::from(part));
        eventually(&format!("the address has {part}"), PATIENCE, async || {
            self.browser.look(&is_there).await == Some(Value::Bool(true))
        })
        .await;
    }

    /// Waits until an element is there, and goes to it; presses a mouse button or nothing.
    async fn reach(&self, target: &str) {
        let mut place = None;
        eventually(&format!("{target} can be used"), PATIENCE, async || {
            let found = self.browser.look(&in_page(target, PLACE)).await;
            place = found.filter(Value::is_array);
            place.is_some()
        })
        .await;
        match self.hands {
            Hands::Mouse => {
                let place = place.expect("just found");
                let at = |axis: usize| place[axis].as_f64().expect("pixels");
                self.browser.click_at(at(0), at(1)).await;
            }
            Hands::Keyboard => self.tab_to(target).await,
        }
    }

    /// Presses Tab until an element has the focus, which must be seen all the way.
    async fn tab_to(&self, target: &str) {
        let is_there = in_page(target, "return found === document.activeElement;");
        for _ in 0..MOST_TABS {
            if self.browser.look(&is_there).await == Some(Value::Bool(true)) {
                return;
            }
            self.browser.press(keys::TAB).await;
            let unseen = self.browser.look(UNSEEN_FOCUS).await.expect("a page");
            assert_eq!(unseen, "", "on the way to {target}");
        }
        panic!("{target} is not reached by Tab");
    }

    /// Follows a link, presses a button, or opens what is folded.
    pub(super) async fn press(&self, target: &str) {
        self.press_by(target, keys::ENTER).await;
    }

    /// Turns a checkbox.
    pub(super) async fn tick(&self, target: &str) {
        self.press_by(target, " ").await;
    }

    async fn press_by(&self, target: &str, key: &str) {
        self.reach(target).await;
        if self.hands == Hands::Keyboard {
            self.browser.press(key).await;
        }
    }

    /// Replaces the text of a field.
    pub(super) async fn fill(&self, target: &str, text: &str) {
        self.reach(target).await;
        self.browser.press_together(&format!("{}a", keys::CONTROL)).await;
        self.browser.press(text).await;
        let value = self.browser.look(&in_page(target, "return found.value;")).await;
        assert_eq!(value, Some(text.into()), "{target}");
    }

    /// Chooses an option of a list by typing its first letters.
    pub(super) async fn choose(&self, target: &str, option: &str) {
        self.choose_by(target, option, option).await;
    }

    /// Chooses the option with this value of a list by typing the first letters of its text.
    pub(super) async fn choose_by(&self, target: &str, letters: &str, value: &str) {
        let keyboard = User { hands: Hands::Keyboard, ..*self };
        keyboard.reach(target).await;
        self.browser.press(letters).await;
        let chosen = self.browser.look(&in_page(target, "return found.value;")).await;
        assert_eq!(chosen, Some(value.into()), "{target}");
    }

    /// Signs an employee in, on the page that asks for it.
    pub(super) async fn sign_in(&self, user: &str) {
        self.fill("User id", user).await;
        self.fill("Password", PASSWORD).await;
        self.press("Sign in").await;
        let left = "document.readyState === 'complete' && !location.pathname.endsWith('/sign-in')";
        eventually("the sign-in leads on", PATIENCE, async || {
            self.browser.look(left).await == Some(Value::Bool(true))
        })
        .await;
    }
}
