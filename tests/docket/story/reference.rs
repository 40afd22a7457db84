//! Pages that are made from the program are those of this very program.

use std::path::Path;

use docket::api::problem_type::{self, ProblemType};
use docket_docs::{ROOT, Site};
use docket_domain::delivery::FailureClass;

fn failure_classes() -> String {
    let mut page = "# Failure classes\n\nAn attempt that failed has a class: in the webhook logs, in the portal, in `docket deliveries` and \
                    `kubectl docket deliveries`, and as\nthe label `class` of the metric `docket_delivery_attempts_total`. All but `WebhookGone` \
                    are tried again, five attempts in all.\n\nThis page is generated: `UPDATE_DOCS=1 cargo test -p docket-tests \
                    --test docket story::reference`.\n"
        .to_owned();
    for class in FailureClass::ALL {
        page += &format!("\n## {class}\n\n{}\n", class.remedy());
    }
    page
}

#[test]
fn generated_pages_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    for (name, text) in [("problems.md", problem_type::page()), ("failure-classes.md", failure_classes())] {
        let path = docs.join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text).expect("writable");
        }
        let kept = std::fs::read_to_string(&path).expect("a page");
        assert!(kept == text, "{name} is of another version; make it again with UPDATE_DOCS=1");
    }
}

#[test]
fn each_type_of_problem_leads_to_a_heading() {
    let site = Site::new(true);
    for kind in ProblemType::ALL {
        let reference = kind.reference();
        let (path, anchor) = reference.split_once('#').expect("an anchor");
        let page = site.get(path.strip_prefix(ROOT).expect("below the root")).expect("a page");
        let page = std::str::from_utf8(page.bytes).expect("UTF-8");
        assert!(page.contains(&format!("<h2 id=\"{anchor}\">")), "{reference}");
    }
}
