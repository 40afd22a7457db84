//! The pieces that pages are made of: headings, badges, cards, tables, copy buttons, messages about what was done, and
//! texts in place of missing content.

use maud::{Markup, html};

/// The colour of a badge, by what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Something works.
    Good,
    /// Something is tried again, or needs attention.
    Wait,
    /// Something is lost.
    Bad,
    /// Neither good nor bad.
    Mute,
}

impl Tone {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Wait => "wait",
            Self::Bad => "bad",
            Self::Mute => "mute",
        }
    }

    /// The shape beside the words, so that no state depends on its colour alone.
    const fn shape(self) -> &'static str {
        match self {
            Self::Good => "✓ ",
            Self::Wait => "↻ ",
            Self::Bad => "✕ ",
            Self::Mute => "",
        }
    }
}

/// A state in one or two words.
pub(crate) fn badge(tone: Tone, words: impl AsRef<str>) -> Markup {
    html! { span.badge.(tone.class()) { @if tone != Tone::Mute { span aria-hidden="true" { (tone.shape()) } } span { (words.as_ref()) } } }
}

/// The beginning of a page: the page above it (its link and name), the heading, a sentence, and what can be done.
#[derive(Debug, Default)]
pub(crate) struct Head<'a> {
    pub(crate) above: Option<(&'a str, &'a str)>,
    pub(crate) title: Markup,
    pub(crate) below: Option<Markup>,
    pub(crate) actions: Option<Markup>,
}

pub(crate) fn head(head: &Head<'_>) -> Markup {
    let Head { above, title, below, actions } = head;
    html! {
        div.head {
            div {
                @if let Some((path, name)) = above { p.crumb { a href=(path) { (name) } } }
                h1 { (title) }
                @if let Some(below) = below { p.quiet { (below) } }
            }
            @if let Some(actions) = actions { div.actions { (actions) } }
        }
    }
}

/// A card with a heading; `beside` stands at the right of the heading. `body` is as wide as the card: see [`inside`].
pub(crate) fn card(id: &str, title: &str, beside: &Markup, body: &Markup) -> Markup {
    html! {
        section.card aria-labelledby=(id) {
            header { h2 id=(id) { (title) } (beside) }
            (body)
        }
    }
}

/// The body of a card that keeps a distance from its edges.
pub(crate) fn inside(body: &Markup) -> Markup {
    html! { div.in { (body) } }
}

/// A table that scrolls sideways within its place. `heads`: the texts of its columns, with the class of each.
pub(crate) fn table(label: &str, heads: &[(&str, &str)], rows: &Markup) -> Markup {
    html! {
        div.wide role="region" aria-label={ (label) ": table" } tabindex="0" {
            table.fold {
                thead { tr { @for (head, class) in heads { th scope="col" class=[(!class.is_empty()).then_some(class)] { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A button that copies the text of the element before it; only the script shows the button. `what` names the text for
/// a screen reader.
pub(crate) fn copy(what: &str) -> Markup {
    html! { button.tiny type="button" data-copy="" aria-label={ "Copy " (what) } hidden { "Copy" } }
}

/// What the user has just done, as a sentence, if anything.
pub(crate) fn done(sentence: Option<&str>) -> Markup {
    html! { @if let Some(sentence) = sentence { div.done role="status" { p { (sentence) } } } }
}

/// What is there instead of content: what is so, why, and where to go.
pub(crate) fn nothing(what: &str, why: &Markup) -> Markup {
    html! { div.nothing role="status" { p { strong { (what) } } (why) } }
}

/// A customer: its name, with its code below; only the code if the customer has no other name.
pub(crate) fn customer(name: &str, code: &str) -> Markup {
    html! { (name) @if name != code { small { (code) } } }
}
