//! Converts Markdown to HTML: headings get the anchors of GitHub, links lead to pages of the site, and a link to a
//! file that is only in the repository becomes its text. Comments are left out, but `<!-- sample -->` marks an item as
//! a step that only readers of the sample on their own machine need.

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::code;
use crate::samples::STEP;
use crate::sources::{FILES, is_page, name, place, resolved, to_root};

/// The rendered content of a page, without its frame.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// The text of its first heading.
    pub(crate) title: String,
    /// The HTML.
    pub(crate) html: String,
    /// The text below each heading, the page's first one included.
    pub(crate) sections: Vec<PageSection>,
    /// The files of the repository that its links lead to, with anchors.
    pub(crate) links: Vec<String>,
}

impl Rendered {
    /// Begins a section at its heading. The first heading is the title of the page.
    fn begin_section(&mut self, path: &str, heading: String, level: u8, anchor: String) {
        if self.title.is_empty() {
            self.title.clone_from(&heading);
        }
        let (page, name) = (self.title.clone(), name(path));
        self.sections.push(PageSection { page, name, heading, level, anchor, text: String::new() });
    }
}

/// A heading with the text below it, up to the next heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageSection {
    /// The title of the page.
    pub(crate) page: String,
    /// The name of the page.
    pub(crate) name: String,
    pub(crate) heading: String,
    /// The level of the heading: 1 for the page's title.
    pub(crate) level: u8,
    pub(crate) anchor: String,
    pub(crate) text: String,
}

impl PageSection {
    /// Its address, from the root of the site.
    pub(crate) fn href(&self) -> String {
        format!("{}#{}", self.name, self.anchor)
    }
}

/// Renders a page: the text of the file of the repository at `path`.
pub(crate) fn render(path: &str, text: &str) -> Rendered {
    let options = Options::ENABLE_TABLES | Options::ENABLE_GFM | Options::ENABLE_STRIKETHROUGH;
    let events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
    let mut rendered = Rendered::default();
    let (mut out, mut anchors, mut kept) = (Vec::with_capacity(events.len()), HashMap::new(), Vec::new());
    let (mut steps, mut is_in_block, mut is_in_heading) = (Vec::new(), false, false);
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let heading = text_of(&events[at..]);
                let anchor = unique(&mut anchors, slug(&heading));
                rendered.begin_section(path, heading, *level as u8, anchor.clone());
                let id = Some(CowStr::from(anchor));
                out.push(Event::Start(Tag::Heading { level: *level, id, classes: vec![], attrs: vec![] }));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let target = target(path, dest_url, &mut rendered.links);
                kept.push(target.is_some());
                if let Some(target) = target {
                    let (title, id) = (title.clone(), id.clone());
                    out.push(Event::Start(Tag::Link {
                        link_type: *link_type,
                        dest_url: target.into(),
                        title,
                        id,
                    }));
                }
            }
            Event::End(TagEnd::Link) => {
                if kept.pop() == Some(true) {
                    out.push(event.clone());
                }
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let target = target(path, dest_url, &mut rendered.links).unwrap_or_default();
                let (title, id) = (title.clone(), id.clone());
                out.push(Event::Start(Tag::Image {
                    link_type: *link_type,
                    dest_url: target.into(),
                    title,
                    id,
                }));
            }
            // An alignment would be an inline style. A wide table can scroll, also by keyboard.
            Event::Start(Tag::Table(columns)) => {
                out.push(Event::Html(
                    "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">".into(),
                ));
                out.push(Event::Start(Tag::Table(vec![pulldown_cmark::Alignment::None; columns.len()])));
            }
            Event::End(TagEnd::Table) => out.extend([event.clone(), Event::Html("</div>".into())]),
            // An empty corner cell, in a table whose first column names the rows, is no heading.
            Event::Start(Tag::TableCell) if is_empty_heading(&events, at) => {
                out.push(Event::Html("<td>".into()))
            }
            Event::End(TagEnd::TableCell) if is_empty_heading(&events, at - 1) => {
                out.push(Event::Html("</td>".into()))
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => &**info,
                    CodeBlockKind::Indented => "",
                };
                out.push(Event::Html(code::block(info, &text_of_block(&events[at..])).into()));
                is_in_block = true;
            }
            Event::End(TagEnd::CodeBlock) => is_in_block = false,
            Event::Text(_) if is_in_block => {}
            Event::Code(text) => out.push(Event::InlineHtml(code::inline(text).into())),
            Event::Start(Tag::Item) => {
                steps.push(is_sample_step(&events[at..]));
                if steps.last() == Some(&true) {
                    out.push(Event::Html(STEP.0.into()));
                }
                out.push(event.clone());
            }
            Event::End(TagEnd::Item) => {
                out.push(event.clone());
                if steps.pop() == Some(true) {
                    out.push(Event::Html(STEP.1.into()));
                }
            }
            Event::Html(text) | Event::InlineHtml(text) if is_comment(text) => {}
            Event::Html(text) | Event::InlineHtml(text) => out.push(Event::Text(text.clone())),
            other => out.push(other.clone()),
        }
        match (event, rendered.sections.last_mut()) {
            (Event::Start(Tag::Heading { .. }), _) => is_in_heading = true,
            (Event::End(TagEnd::Heading(_)), _) => is_in_heading = false,
            (Event::Text(text) | Event::Code(text), Some(section)) if !is_in_heading => {
                section.text.push_str(text)
            }
            (Event::SoftBreak | Event::End(_), Some(section)) if !is_in_heading => section.text.push(' '),
            _ => {}
        }
    }
    html::push_html(&mut rendered.html, out.into_iter());
    rendered
}

/// Whether a cell in a table's first row begins here and is empty.
fn is_empty_heading(events: &[Event<'_>], at: usize) -> bool {
    let row =
        events[..at].iter().rev().find(|event| matches!(event, Event::Start(Tag::TableHead | Tag::TableRow)));
    matches!(row, Some(Event::Start(Tag::TableHead)))
        && matches!(events.get(at), Some(Event::Start(Tag::TableCell)))
        && matches!(events.get(at + 1), Some(Event::End(TagEnd::TableCell)))
}

/// The text of the block of code that begins here.
fn text_of_block(events: &[Event<'_>]) -> String {
    let inner = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::CodeBlock)));
    inner.filter_map(|event| if let Event::Text(text) = event { Some(&**text) } else { None }).collect()
}

/// Whether the item that begins here is marked as a step of the sample.
fn is_sample_step(events: &[Event<'_>]) -> bool {
    let mut inner = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Item)));
    inner.any(
        |event| matches!(event, Event::InlineHtml(text) if is_comment(text) && text.contains(" sample ")),
    )
}

fn is_comment(html: &str) -> bool {
    let html = html.trim();
    html.starts_with("<!--") && html.ends_with("-->")
}

/// The text of the heading that begins here.
fn text_of(events: &[Event<'_>]) -> String {
    let inner = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let texts = inner.filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(&**text),
        Event::SoftBreak => Some(" "),
        _ => None,
    });
    texts.collect()
}

/// The address on the site to which a link leads; `None`: it leads to a file that is only in the repository.
fn target(path: &str, link: &str, links: &mut Vec<String>) -> Option<String> {
    if link.contains("://") {
        return Some(link.to_owned());
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let file = if file.is_empty() { path.to_owned() } else { resolved(path, file) };
    let with_anchor = |target: &str| match anchor {
        Some(anchor) => format!("{target}#{anchor}"),
        None => target.to_owned(),
    };
    let here = |target: &str| to_root(path) + target;
    links.push(with_anchor(&file));
    if is_page(&file) {
        return Some(with_anchor(&here(&name(&file))));
    }
    FILES.iter().any(|(other, _)| *other == file).then(|| here(place(&file)))
}

/// The anchor of the first heading of a page with this text, as GitHub makes it.
pub fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Makes an anchor unique: a second heading with the same text gets `-1`, and so on.
fn unique(anchors: &mut HashMap<String, u32>, slug: String) -> String {
    let count = anchors.entry(slug.clone()).or_default();
    *count += 1;
    if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_get_anchors_and_links_lead_to_pages() {
        let text = "# The `API`, in short\n\nSee [webhooks](../webhooks/verify.md#headers), [here](#errors), [code](../../operator/rbac.yaml) \
                    and [elsewhere](https://h.example/).\n\n## Errors\n\nOne.\n\n## Errors\n\nTwo.\n";
        let rendered = render("docs/api/orders.md", text);
        assert_eq!(rendered.title, "The API, in short");
        for part in [
            "<h1 id=\"the-api-in-short\">The <code>API</code>, in short</h1>",
            "<a href=\"../webhooks/verify.html#headers\">webhooks</a>",
            "<a href=\"../api/orders.html#errors\">here</a>, code",
            "<a href=\"https://h.example/\">",
            "<h2 id=\"errors-1\">",
        ] {
            assert!(rendered.html.contains(part), "{part}: {}", rendered.html);
        }
        assert_eq!(
            rendered.links,
            ["docs/webhooks/verify.md#headers", "docs/api/orders.md#errors", "operator/rbac.yaml"]
        );
        let sections: Vec<_> = rendered.sections.iter().map(|one| (&*one.anchor, one.level)).collect();
        assert_eq!(sections, [("the-api-in-short", 1), ("errors", 2), ("errors-1", 2)]);
        assert_eq!(rendered.sections[2].text.trim(), "Two.", "without its heading");
    }

    #[test]
    fn anchor_of_a_heading_is_the_one_of_github() {
        for (heading, anchor) in [
            ("The API, in short", "the-api-in-short"),
            ("Invariants of ARCHITECTURE.md", "invariants-of-architecturemd"),
            ("docket_leases – since 0.1", "docket_leases--since-01"),
            ("Größe", "größe"),
        ] {
            assert_eq!(slug(heading), anchor);
        }
    }

    #[test]
    fn html_of_a_page_is_text_and_tables_have_no_style() {
        let rendered = render(
            "docs/api/orders.md",
            "# A\n\n<script>x</script> <b>y</b>\n\n| | b |\n|---|--:|\n| 1 | 2 |\n",
        );
        assert!(!rendered.html.contains("<script") && !rendered.html.contains("<b>"), "{}", rendered.html);
        assert!(rendered.html.contains("<table>") && rendered.html.contains("<tr><td></td><th>b</th></tr>"));
        assert!(!rendered.html.contains("style="), "{}", rendered.html);
    }

    #[test]
    fn comments_are_left_out_and_steps_of_the_sample_marked() {
        let text =
            "# A\n\n<!-- Generated: `x`. -->\n\n- Run it. <!-- sample -->\n- Other\n\nEnd <!-- b -->.\n";
        let html = render("docs/api/orders.md", text).html;
        assert!(!html.contains("Generated") && !html.contains("-- b"), "{html}");
        let (_, step) = html.split_once(STEP.0).expect("a step");
        let (step, rest) = step.split_once(STEP.1).expect("its end");
        assert!(step.contains("<li>Run it.") && rest.contains("<li>Other</li>"), "{html}");
    }

    #[test]
    fn code_is_searched_as_it_is_written() {
        let rendered = render(
            "docs/api/orders.md",
            "# A\n\n```sh\ncurl -s \"a<b\"\n```\n\nSee `DOCKET_CONFIG_DIRECTORY`.\n",
        );
        assert!(rendered.html.contains("<span class=\"s\">&quot;a&lt;b&quot;</span>"), "{}", rendered.html);
        assert!(rendered.html.contains("DOCKET_<wbr>CONFIG_<wbr>DIRECTORY"), "{}", rendered.html);
        for words in ["curl -s \"a<b\"", "DOCKET_CONFIG_DIRECTORY"] {
            assert!(rendered.sections[0].text.contains(words), "{:?}", rendered.sections);
        }
    }
}
