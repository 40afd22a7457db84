//! What reading refuses, and how it says so.

use super::*;

#[test]
fn unknown_order_type_is_the_only_problem_reported() {
    let seven = "orderType: must be one of Court, Process, Delivery, Investigation, FileAndServe, CountyRecording, PhotoCopy";
    for body in [
        json!({}),
        json!({"orderType": "court", "x": 1}),
        json!({"orderType": 7}),
        json!({"orderType": null}),
    ] {
        assert_eq!(read(&body).unwrap_err().to_string(), seven);
    }
    assert_eq!(read(&json!([])).unwrap_err().to_string(), "body: must be an object");
}

#[test]
fn draft_may_lack_everything_but_its_type() {
    for kind in OrderType::ALL {
        let request = read(&json!({"orderType": kind.as_str()})).unwrap();
        assert!(!request.export && request.web_order_id.is_none() && request.finalize.is_none());
        assert!(request.order.check_draft().is_empty());
        assert!(!request.order.check_export().is_empty());
        assert_eq!(Order::from_stored(&request.order.to_stored()).unwrap(), request.order);
    }
}

#[test]
fn fields_around_the_order_are_read() {
    let body = with(
        OrderType::Court,
        &[("/webOrderId", json!("W1")), ("/customerCode", json!("ACME")), ("/export", json!(true))],
    );
    let request = read(&body).unwrap();
    assert_eq!(request.web_order_id.as_deref(), Some("W1"));
    assert_eq!(request.customer_code.as_deref(), Some("ACME"));
    assert!(request.export);
    assert_eq!(refused(OrderType::Court, &[("/export", json!("yes"))]), "export: must be true or false");
    assert!(refused(OrderType::Court, &[("/webOrderId", json!("W-1"))]).starts_with("webOrderId: must be"));
}

#[test]
fn finalize_is_refused_outside_photo_copy() {
    assert_eq!(
        refused(OrderType::Court, &[("/finalize", json!(true))]),
        "finalize: unknown field: only on PhotoCopy orders"
    );
    assert_eq!(
        refused(OrderType::Court, &[("/finalize", json!(null))]),
        "finalize: unknown field: only on PhotoCopy orders"
    );
    assert_eq!(read(&with(OrderType::PhotoCopy, &[("/finalize", json!(null))])).unwrap().finalize, None);
}

#[test]
fn unknown_field_is_refused_at_any_depth() {
    let top = refused(OrderType::Court, &[("/prioritty", json!(1))]);
    assert!(top.starts_with(
        "prioritty: unknown field; this object takes: orderType, webOrderId, version, customerCode, export, "
    ));
    assert!(top.ends_with(", returnMethod, returnTo"));
    for name in ["CaseNumber", "webOrderID", "courttask", "court_task", "return-method"] {
        let almost = refused(OrderType::Court, &[(&format!("/{name}"), json!(1))]);
        assert_eq!(almost.contains("did you mean"), name != "CaseNumber", "{almost}");
    }
    let almost = refused(OrderType::Process, &[("/servees/1/Addresses", json!(1))]);
    assert!(almost.contains("unknown field; did you mean addresses? This object takes: "), "{almost}");
    let nested = refused(OrderType::Process, &[("/servees/1/addresses/0/zip", json!("1"))]);
    assert!(
        nested.starts_with(
            "servees[1].addresses[0].zip: unknown field; this object takes: label, businessName, "
        )
    );
    assert!(refused(OrderType::Court, &[("/servees", json!([]))]).starts_with("servees: unknown field"));
    assert!(refused(OrderType::Court, &[("/078-05-1120", json!(1))]).starts_with("?: unknown field"));
}

#[test]
fn facility_line_item_from_a_client_is_refused() {
    let problem = refused(OrderType::PhotoCopy, &[("/facilities/0/facilityLineItem", json!(1))]);
    assert_eq!(problem, "facilities[0].facilityLineItem: set by the system; omit it");
}

#[test]
fn every_problem_is_reported_at_once() {
    let problems = refused(
        OrderType::Process,
        &[
            ("/servees/0/addresses/1/postalCode", json!("9150")),
            ("/servees/1/party/kind", json!("Person")),
            ("/dueBy", json!("tomorrow")),
            ("/minimumAttempts", json!(11)),
        ],
    );
    for field in
        ["dueBy: ", "servees[0].addresses[1].postalCode: ", "servees[1].party.kind: ", "minimumAttempts: "]
    {
        assert!(problems.contains(field), "{field} in {problems}");
    }
    for value in ["9150:", "Person,", "tomorrow"] {
        assert!(!problems.contains(value));
    }
}

#[test]
fn full_numbers_are_refused_and_never_quoted() {
    for (kind, pointer, field) in [
        (OrderType::Investigation, "/subject/ssnLast4", "subject.ssnLast4"),
        (OrderType::PhotoCopy, "/subject/ssnLast4", "subject.ssnLast4"),
        (OrderType::Investigation, "/subject/driverLicenseLast4", "subject.driverLicenseLast4"),
    ] {
        for full in [json!("078051120"), json!("078-05-1120"), json!(78051120)] {
            let problem = refused(kind, &[(pointer, full)]);
            assert!(problem.starts_with(field) && !problem.contains("1120"), "{problem}");
        }
    }
    assert!(
        refused(OrderType::Investigation, &[("/subject/ssn", json!("078051120"))])
            .starts_with("subject.ssn: unknown field")
    );
}

#[test]
fn parcel_and_instrument_numbers_are_no_social_security_numbers() {
    let changes = [
        ("/instruments/0/apns", json!(["116-05-0790", "112-47-1234"])),
        ("/instruments/0/relatedInstrumentNumber", json!("116-05-0790")),
    ];
    assert!(read(&with(OrderType::CountyRecording, &changes)).is_ok());
    for (kind, pointer) in [
        (OrderType::Court, "/courtTransactionNumber"),
        (OrderType::Court, "/attorney/barNumber"),
        (OrderType::Court, "/advanceFees/0/checkNumber"),
        (OrderType::Investigation, "/linkedWorkOrder"),
        (OrderType::PhotoCopy, "/facilities/0/facilityId"),
    ] {
        assert!(read(&with(kind, &[(pointer, json!("116-05-0790"))])).is_ok(), "{pointer}");
    }
    for (kind, pointer) in [
        (OrderType::Court, "/clientMatterNumber"),
        (OrderType::Court, "/externalReference"),
        (OrderType::Court, "/case/caseNumber"),
        (OrderType::PhotoCopy, "/facilities/0/accountNumber"),
        (OrderType::PhotoCopy, "/facilities/0/claimNumber"),
        (OrderType::Court, "/documents/0/fileName"),
    ] {
        let problem = refused(kind, &[(pointer, json!("１１６-05-0790"))]);
        assert!(problem.contains("must not contain a full social security number"), "{pointer}");
    }
    let caption = json!("Dept. of Social Services v. Doe, No. 202412345");
    assert!(read(&with(OrderType::Court, &[("/case/caption", caption)])).is_ok());
    let caption = json!("In re 078-05-1120");
    assert!(
        refused(OrderType::Court, &[("/case/caption", caption)])
            .starts_with("case.caption: must not contain")
    );
}

#[test]
fn every_amount_may_be_as_high_as_a_price() {
    let changes = [
        ("/instruments/0/consideration", json!(25_000_000)),
        ("/instruments/0/transferTax", json!(999_999_999_999_999_999_u64)),
    ];
    let stored = order(OrderType::CountyRecording, &changes).to_stored();
    assert!(stored.contains("\"consideration\":25000000.00"), "{stored}");
    assert!(stored.contains("\"transferTax\":999999999999999999.00"), "{stored}");
    let exact = br#"{"orderType":"Delivery","declaredValue":9999999999999999.99}"#;
    let stored = SaveRequest::read(exact).unwrap().order.to_stored();
    assert_eq!(stored, r#"{"orderType":"Delivery","declaredValue":9999999999999999.99}"#);
    let tax = json!([{"feeType": "TransferTax", "amount": 11_000_000}]);
    let changes = [("/advanceFees", tax), ("/feeLimit", json!(11_000_400.5))];
    let stored = order(OrderType::CountyRecording, &changes).to_stored();
    assert!(
        stored.contains("\"amount\":11000000.00") && stored.contains("\"feeLimit\":11000400.50"),
        "{stored}"
    );
    assert!(refused(OrderType::Court, &[("/feeLimit", json!(1e18))]).starts_with("feeLimit: "));
}

#[test]
fn every_field_refuses_another_type_without_quoting_the_value() {
    for (kind, _) in examples() {
        for pointer in pointers(&example(kind), "") {
            let wrong = match example(kind).pointer(&pointer).expect("exists") {
                Value::String(_) => json!(987_654_321),
                _ => json!("wrong-987654321"),
            };
            if pointer == "/orderType" {
                continue;
            }
            let problems = read(&with(kind, &[(&pointer, wrong)])).expect_err(&pointer);
            assert_eq!(fields(&problems), [path(&pointer)], "{kind}");
            assert!(!problems.to_string().contains("987"));
        }
    }
}

#[test]
fn null_means_absent() {
    for (kind, _) in examples() {
        for pointer in pointers(&example(kind), "")
            .iter()
            .filter(|p| *p != "/orderType" && !p.ends_with(|c: char| c.is_ascii_digit()))
        {
            assert!(read(&with(kind, &[(pointer, Value::Null)])).is_ok(), "{kind} {pointer}");
        }
    }
}

#[test]
fn us_rules_hold_in_the_us_only() {
    let wrong = |changes: &[(&str, Value)]| {
        read(&with(OrderType::Process, changes))
            .map_or_else(|problems| fields(&problems).join(" "), |_| String::new())
    };
    let at = "/servees/0/addresses/0";
    let names = ["state", "postalCode", "country"].map(|name| format!("{at}/{name}"));
    let [state, code, country] = [0, 1, 2].map(|place: usize| names[place].as_str());
    let foreign = [(state, json!("ON")), (code, json!("M5V 2T6"))];
    let both = "servees[0].addresses[0].state servees[0].addresses[0].postalCode";
    assert_eq!(wrong(&foreign), both);
    for us in [json!("US"), Value::Null] {
        assert_eq!(wrong(&[&foreign[..], &[(country, us)]].concat()), both);
    }
    assert_eq!(wrong(&[&foreign[..], &[(country, json!("CA"))]].concat()), "");
    // If the country itself is wrong, the reader does not check the state.
    for unknown in [json!("Canada"), json!("ca"), json!("UK"), json!(1), json!("")] {
        assert_eq!(wrong(&[&foreign[..], &[(country, unknown)]].concat()), "servees[0].addresses[0].country");
    }
    let long = [(country, json!("CA")), (state, json!("x".repeat(61))), (code, json!("1".repeat(21)))];
    assert_eq!(wrong(&long), both);
    assert_eq!(wrong(&[("/court/state", json!("ON"))]), "court.state");
    assert_eq!(wrong(&[("/court/state", json!("ON")), ("/court/country", json!("CA"))]), "");
}

#[test]
fn long_captions_and_many_case_numbers_fit() {
    let of = |name: &str, length: usize| {
        read(&with(OrderType::Court, &[(name, json!("x".repeat(length)))])).is_ok()
    };
    for (name, most) in [
        ("/case/caption", 500),
        ("/case/plaintiff", 500),
        ("/case/defendant", 500),
        ("/case/caseNumber", 250),
        ("/documents/0/title", 500),
    ] {
        assert!(of(name, most) && !of(name, most + 1), "{name}");
    }
}

#[test]
fn duplicate_keys_are_refused() {
    let body =
        br#"{"orderType":"Process","servees":[{"party":{"kind":"Individual","kind":"Organization"}}]}"#;
    assert_eq!(
        SaveRequest::read(body).unwrap_err().to_string(),
        "servees[0].party.kind: given twice in one object"
    );
    let body = br#"{"orderType":"Process","orderType":"Court"}"#;
    assert_eq!(SaveRequest::read(body).unwrap_err().to_string(), "orderType: given twice in one object");
}

#[test]
fn long_texts_and_nul_are_refused_and_emoji_accepted() {
    let long = "x".repeat(1_000_000);
    assert_eq!(
        refused(OrderType::Court, &[("/instructions", json!(long))]),
        "instructions: must have at most 4000 characters"
    );
    assert_eq!(
        refused(OrderType::Court, &[("/instructions", json!("a\0"))]),
        "instructions: must not contain control characters"
    );
    let emoji = "⚖️".repeat(2000);
    let stored = order(OrderType::Court, &[("/instructions", json!(emoji))]).to_stored();
    assert!(stored.contains(&emoji));
}

#[test]
fn many_wrong_items_give_a_bounded_list_of_problems() {
    let items: Vec<Value> = vec![json!({"x": 1}); 100];
    let problems = read(&with(OrderType::PhotoCopy, &[("/facilities", json!(items)), ("/extra", json!(1))]))
        .unwrap_err();
    assert_eq!(problems.len(), crate::problem::MAX_PROBLEMS);
}

/// The JSON pointers of everything below the root: object fields and list items.
pub(super) fn pointers(value: &Value, at: &str) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(name, child)| (format!("{at}/{name}"), child)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(i, child)| (format!("{at}/{i}"), child)).collect()
        }
        _ => Vec::new(),
    };
    children
        .into_iter()
        .flat_map(|(at, child)| {
            let mut all = pointers(child, &at);
            all.push(at);
            all
        })
        .collect()
}

/// A JSON pointer in the form in which problems name a field.
pub(super) fn path(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        if step.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{step}]"));
        } else {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(step);
        }
    }
    path
}
