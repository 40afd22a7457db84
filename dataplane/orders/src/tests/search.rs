//! The search terms of an order.

use super::*;

#[test]
fn search_terms_are_case_matter_and_names() {
    let terms = order(OrderType::Process, &[]).search_terms();
    assert_eq!(terms.case_number.as_deref(), Some("26STCV99901"));
    assert_eq!(terms.caption.as_deref(), Some("Larkspur Tile Co. v. Brindle"));
    assert_eq!(terms.client_matter_number.as_deref(), Some("4410-0012"));
    let expected = "26stcv99901 larkspur tile co. v. brindle 4410-0012 brindle brindle millworks, inc. larkspur tile co.";
    assert_eq!(terms.text, expected);
    let recording = order(OrderType::CountyRecording, &[]).search_terms();
    assert_eq!(recording.text, "4522-0003 wrenfield okonjo-hale sample harbor credit union");
    assert_eq!(recording.case_number, None);
}

#[test]
fn missing_caption_is_built_from_the_two_sides() {
    let changes =
        [("/case/caption", Value::Null), ("/case/plaintiff", json!("A")), ("/case/defendant", json!("B"))];
    assert_eq!(order(OrderType::Court, &changes).search_terms().caption.as_deref(), Some("A v. B"));
}

#[test]
fn restricted_values_first_names_and_instructions_are_not_searchable() {
    for (kind, _) in examples() {
        let changed = if kind == OrderType::Court { vec![("/instructions", json!("zebra"))] } else { vec![] };
        let text = order(kind, &changed).search_terms().text;
        for secret in
            ["zebra", "1974", "1988", "0000", "gate code", "orrin", "silas", "sample valley", "f00213", "dr."]
        {
            assert!(!text.contains(secret), "{kind}: {secret} in {text}");
        }
    }
}

#[test]
fn search_text_is_bounded() {
    let party = |n: usize| json!({"kind": "Organization", "organizationName": format!("{n}{}", "ß".repeat(190)), "role": "Other"});
    let parties: Vec<_> = (0..50).map(party).collect();
    let servees: Vec<_> = (100..150).map(|n| json!({"party": party(n)})).collect();
    let changes = [("/case/parties", json!(parties)), ("/servees", json!(servees))];
    let text = order(OrderType::Process, &changes).search_terms().text;
    assert_eq!(text.chars().count(), crate::search::MAX_TEXT);
}

#[test]
fn every_name_of_a_long_list_is_found() {
    let name = |n: usize| format!("{n} {}", "x".repeat(190));
    let party = |n| json!({"kind": "Organization", "organizationName": name(n), "role": "Other"});
    let parties: Vec<_> = (0..50).map(party).collect();
    let servees: Vec<_> = (50..100).map(|n| json!({"party": party(n)})).collect();
    let changes = [("/case/parties", json!(parties)), ("/servees", json!(servees))];
    let text = order(OrderType::Process, &changes).search_terms().text;
    assert!((0..100).all(|n| text.contains(&name(n))));
}

#[test]
fn servee_is_found_by_its_fictitious_name() {
    let named = json!({"kind": "Individual", "lastName": "Brindle", "role": "Defendant"});
    for party in [Value::Null, json!({"kind": "Individual", "role": "Defendant"}), named] {
        let changes = [("/servees/0/party", party), ("/servees/0/fictitiousName", json!("Doe 17"))];
        for kind in [OrderType::Process, OrderType::FileAndServe] {
            assert!(order(kind, &changes).search_terms().text.contains("doe 17"), "{kind}");
        }
    }
}
