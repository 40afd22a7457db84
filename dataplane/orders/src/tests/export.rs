//! What an export requires: every R, by removing each field of the examples in turn, and every R*, by its condition.

use OrderType::{CountyRecording, Court, Delivery, FileAndServe, Investigation, PhotoCopy, Process};

use super::read::{path, pointers};
use super::*;

const COURT: [&str; 4] = ["court.name", "court.courtType", "court.county", "court.state"];
const ATTORNEY: [&str; 3] = ["attorney", "attorney.name", "attorney.represents"];
const DOCUMENT: [&str; 3] = ["documents", "documents[].title", "documents[].source"];
const ADDRESS: [&str; 4] = ["street1", "city", "state", "postalCode"];
const INDIVIDUAL: [&str; 2] = ["kind", "role"];
const ORGANIZATION: [&str; 3] = ["kind", "organizationName", "role"];

/// The fields whose absence an export of the example reports, without indexes.
fn required(kind: OrderType) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |names: &[&str]| all.extend(names.iter().map(|name| (*name).to_owned()));
    match kind {
        Court => {
            add(&ATTORNEY);
            add(&COURT);
            add(&DOCUMENT);
            add(&["courtTask", "court", "case", "case.caseNumber", "case.caption", "filingMethod"]);
            add(&["orderedBy.name", "advanceFees[].feeType"]);
        }
        Process => {
            add(&ATTORNEY);
            add(&COURT);
            add(&DOCUMENT);
            add(&[
                "court",
                "case",
                "case.caseNumber",
                "case.caption",
                "servees",
                "servees[].party",
                "servees[].addresses",
            ]);
        }
        Delivery => add(&[
            "orderedBy.name",
            "legs",
            "legs[].pickup",
            "legs[].pickup.address",
            "legs[].pickup.contact.name",
            "legs[].delivery",
            "legs[].delivery.address",
            "legs[].delivery.contact.name",
            "itemDescription",
        ]),
        Investigation => {
            add(&COURT);
            add(&["court", "case", "case.caseNumber", "case.caption"]);
            add(&[
                "investigationType",
                "subject",
                "subject.party",
                "permissiblePurpose",
                "certifiedBy",
                "certifiedAt",
            ]);
        }
        FileAndServe => {
            add(&ATTORNEY);
            add(&COURT);
            add(&DOCUMENT);
            add(&["documents[].purpose", "court", "case", "case.caption", "case.caseType", "case.parties"]);
            add(&["filingMethod", "servees", "servees[].party", "servees[].addresses"]);
            add(&["eServiceContacts[].name", "eServiceContacts[].email", "advanceFees[].feeType"]);
        }
        CountyRecording => add(&[
            "county",
            "state",
            "countyFips",
            "recordingMethod",
            "instruments",
            "instruments[].documentType",
            "instruments[].pages",
            "instruments[].grantors",
            "instruments[].grantees",
            "instruments[].apns",
            "requestedBy",
            "returnTo",
            "pcorIncluded",
            "advanceFees[].feeType",
        ]),
        PhotoCopy => {
            add(&ATTORNEY);
            add(&COURT);
            add(&[
                "billTo[].name",
                "billTo[].contact.name",
                "opposingCounsel[].name",
                "opposingCounsel[].represents",
            ]);
            add(&[
                "requestMethod",
                "court",
                "case",
                "case.caseNumber",
                "case.caption",
                "subject",
                "subject.party",
            ]);
            add(&[
                "subject.dob",
                "facilities",
                "facilities[].name",
                "facilities[].address",
                "facilities[].recordTypes",
            ]);
            add(&[
                "facilities[].noticeToConsumer",
                "productionDate",
                "deliverTo[].contact",
                "deliverTo[].contact.name",
            ]);
            add(&["deliverTo[].method"]);
        }
    }
    all
}

/// Whether every address or every party requires the field, wherever the part stands.
fn required_of_part(body: &Value, pointer: &str) -> bool {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = body.pointer(parent).expect("exists");
    if parent.get("street1").is_some() {
        return ADDRESS.contains(&name);
    }
    match parent.get("kind").and_then(Value::as_str) {
        Some("Individual") => INDIVIDUAL.contains(&name),
        Some("Organization") => ORGANIZATION.contains(&name),
        _ => false,
    }
}

fn without_indexes(path: &str) -> String {
    path.split('[')
        .map(|step| step.trim_start_matches(|c: char| c.is_ascii_digit()))
        .collect::<Vec<_>>()
        .join("[")
}

#[test]
fn export_check_names_each_missing_required_field_and_no_other() {
    for (kind, _) in examples() {
        let (body, mut unseen) = (example(kind), required(kind));
        for pointer in pointers(&body, "") {
            let is_item = pointer.ends_with(|c: char| c.is_ascii_digit())
                && body.pointer(&pointer).is_some_and(|_| {
                    pointer.rsplit('/').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()))
                });
            if is_item || pointer == "/orderType" {
                continue;
            }
            let name = without_indexes(&path(&pointer));
            let expected = required(kind).contains(&name) || required_of_part(&body, &pointer);
            unseen.retain(|other| *other != name);
            let expected = if name == "case.newCase" {
                vec!["case.caseNumber".to_owned()]
            } else if expected {
                vec![path(&pointer)]
            } else {
                vec![]
            };
            assert_eq!(asked(kind, &[(&pointer, Value::Null)]), expected, "{kind} without {pointer}");
        }
        assert!(unseen.is_empty(), "{kind}: the example does not show {unseen:?}");
    }
}

#[test]
fn empty_draft_lists_everything_it_lacks() {
    let order = read(&json!({"orderType": "Process"})).unwrap().order;
    assert_eq!(fields(&order.check_export()), ["attorney", "documents", "servees", "court", "case"]);
    let order = read(&json!({"orderType": "Delivery"})).unwrap().order;
    assert_eq!(fields(&order.check_export()), ["legs", "itemDescription"]);
}

#[test]
fn list_below_its_smallest_size_is_reported_at_export() {
    for (kind, pointer) in [
        (Process, "/documents"),
        (Process, "/servees"),
        (Process, "/servees/0/addresses"),
        (FileAndServe, "/documents"),
        (FileAndServe, "/servees"),
        (Court, "/documents"),
        (Delivery, "/legs"),
        (CountyRecording, "/instruments"),
        (CountyRecording, "/instruments/1/grantors"),
        (CountyRecording, "/instruments/0/grantees"),
        (CountyRecording, "/instruments/1/apns"),
        (PhotoCopy, "/facilities"),
        (PhotoCopy, "/facilities/1/recordTypes"),
        (FileAndServe, "/case/parties"),
    ] {
        assert_eq!(asked(kind, &[(pointer, json!([]))]), [path(pointer)], "{kind} {pointer}");
    }
}

#[test]
fn fields_with_defaults_are_never_missing() {
    for (kind, pointer) in [
        (Court, "/serviceLevel"),
        (Process, "/minimumAttempts"),
        (Process, "/sundayService"),
        (Process, "/servees/0/serviceMethod"),
        (Process, "/documents/0/purpose"),
        (Delivery, "/proofOfDelivery"),
        (FileAndServe, "/serveAfter"),
    ] {
        assert!(asked(kind, &[(pointer, Value::Null)]).is_empty(), "{kind} {pointer}");
    }
}

#[test]
fn court_tasks_require_their_own_fields() {
    for task in ["File", "Issue", "Lodge"] {
        let changes =
            [("/courtTask", json!(task)), ("/filingMethod", Value::Null), ("/documents", Value::Null)];
        assert_eq!(asked(Court, &changes), ["filingMethod", "documents"], "{task}");
    }
    for task in ["Research", "CopyRequest", "PickUp"] {
        let changes =
            [("/courtTask", json!(task)), ("/filingMethod", Value::Null), ("/documents", Value::Null)];
        assert_eq!(asked(Court, &changes), ["request"], "{task}");
    }
    for task in ["CourtesyCopy", "Other"] {
        let changes =
            [("/courtTask", json!(task)), ("/filingMethod", Value::Null), ("/documents", Value::Null)];
        assert!(asked(Court, &changes).is_empty(), "{task}");
    }
}

#[test]
fn case_requires_number_and_caption_or_their_alternatives() {
    let pair =
        [("/case/caption", Value::Null), ("/case/plaintiff", json!("A")), ("/case/defendant", json!("B"))];
    assert!(asked(Court, &pair).is_empty());
    assert_eq!(asked(Court, &pair[..2]), ["case.caption"]);
    let new = [("/case/caseNumber", Value::Null), ("/case/newCase", json!(true))];
    assert_eq!(asked(Court, &new), ["case.caseType", "case.parties"]);
    assert_eq!(
        asked(Court, &[("/case/caseNumber", Value::Null), ("/case/newCase", json!(false))]),
        ["case.caseNumber"]
    );
}

#[test]
fn one_name_is_enough() {
    let party = |party: Value| asked(Process, &[("/servees/0/party", party)]);
    for name in ["firstName", "lastName"] {
        assert!(
            party(json!({"kind": "Individual", "role": "Defendant", name: "Suharto"})).is_empty(),
            "{name}"
        );
    }
    let nameless = json!({"kind": "Individual", "role": "Defendant", "middleName": "Q."});
    assert_eq!(party(nameless.clone()), ["servees[0].party.lastName"]);
    assert_eq!(party(Value::Null), ["servees[0].party"]);
    let doe = |party: Value| {
        asked(Process, &[("/servees/0/party", party), ("/servees/0/fictitiousName", json!("Doe 1"))])
    };
    for named in [Value::Null, nameless, json!({"kind": "Organization", "role": "Defendant"})] {
        assert!(doe(named.clone()).is_empty(), "{named}");
    }
    assert_eq!(doe(json!({"kind": "Individual"})), ["servees[0].party.role"]);
}

/// Moves every address of every example to another country.
#[test]
fn address_abroad_needs_neither_state_nor_postal_code() {
    for (kind, _) in examples() {
        let body = example(kind);
        for pointer in pointers(&body, "")
            .iter()
            .filter(|at| body.pointer(at).is_some_and(|at| at.get("street1").is_some()))
        {
            for abroad in [
                json!({"street1": "1 King Street West", "city": "Toronto", "state": "ON", "postalCode": "M5V 2T6", "country": "CA"}),
                json!({"street1": "10 Downing Street", "city": "London", "postalCode": "SW1A 2AA", "country": "GB"}),
                json!({"street1": "霞が関1-1-1", "city": "千代田区", "state": "東京都", "postalCode": "100-0013", "country": "JP"}),
                json!({"street1": "Central", "city": "Hong Kong", "country": "HK"}),
            ] {
                let order = order(kind, &[(pointer.as_str(), abroad.clone())]);
                assert_eq!(order.check_export(), Problems::default(), "{kind} {pointer}");
                assert!(order.to_stored().contains(&format!("\"country\":{}", abroad["country"])));
            }
            let here = json!({"street1": "1 Main Street", "city": "Reno", "country": "US"});
            let missing = [format!("{}.state", path(pointer)), format!("{}.postalCode", path(pointer))];
            assert_eq!(asked(kind, &[(pointer.as_str(), here)]), missing, "{kind} {pointer}");
        }
    }
}

#[test]
fn court_abroad_needs_neither_county_nor_state() {
    let court =
        json!({"name": "Superior Court of Justice", "courtType": "Other", "country": "CA", "state": "ON"});
    assert!(asked(Process, &[("/court", court)]).is_empty());
    let court = json!({"name": "High Court", "courtType": "Other"});
    assert_eq!(asked(Process, &[("/court", court)]), ["court.county", "court.state"]);
}

#[test]
fn notice_before_litigation_requires_no_case() {
    let changes = [("/court", Value::Null), ("/case", Value::Null), ("/preLitigation", json!(true))];
    assert!(asked(Process, &changes).is_empty());
    assert_eq!(asked(Process, &changes[..2]), ["court", "case"]);
}

#[test]
fn investigation_requires_a_case_only_for_litigation_and_service() {
    let without = |purpose: &str| {
        asked(
            Investigation,
            &[("/permissiblePurpose", json!(purpose)), ("/court", Value::Null), ("/case", Value::Null)],
        )
    };
    assert_eq!(without("ServiceOfProcess"), ["court", "case"]);
    assert_eq!(without("Litigation"), ["court", "case"]);
    assert!(without("FraudInvestigation").is_empty());
}

#[test]
fn surveillance_requires_hours_and_a_window() {
    for kind in ["Surveillance", "Stakeout"] {
        let missing = asked(Investigation, &[("/investigationType", json!(kind))]);
        assert_eq!(missing, ["hoursAuthorized", "windowFrom", "windowTo"]);
    }
}

#[test]
fn subject_requires_an_address_or_number_and_birth_date() {
    let address = ("/subject/lastKnownAddress", Value::Null);
    let missing = ["subject.lastKnownAddress"];
    assert!(asked(Investigation, std::slice::from_ref(&address)).is_empty());
    assert_eq!(asked(Investigation, &[address.clone(), ("/subject/dob", Value::Null)]), missing);
    assert_eq!(asked(Investigation, &[address, ("/subject/ssnLast4", Value::Null)]), missing);
}

#[test]
fn vehicle_search_requires_dppa() {
    let searches = ("/searches", json!(["Vehicles"]));
    assert_eq!(asked(Investigation, std::slice::from_ref(&searches)), ["regulatedData"]);
    assert!(asked(Investigation, &[searches, ("/regulatedData", json!(["Dppa"]))]).is_empty());
}

#[test]
fn file_and_serve_requires_a_document_to_file_and_one_to_serve() {
    let all = |purpose: &str| {
        let changes: Vec<(String, Value)> =
            (0..3).map(|i| (format!("/documents/{i}/purpose"), json!(purpose))).collect();
        let changes: Vec<(&str, Value)> = changes.iter().map(|(p, v)| (p.as_str(), v.clone())).collect();
        order(FileAndServe, &changes).check_export().to_string()
    };
    assert_eq!(all("File"), "documents: required at export for FileAndServe: at least one document to serve");
    assert_eq!(all("Serve"), "documents: required at export for FileAndServe: at least one document to file");
    assert_eq!(all("FileAndServe"), "");
}

#[test]
fn instruments_require_parcels_and_references_by_their_type() {
    let of = |kind: &str| {
        asked(
            CountyRecording,
            &[("/instruments/1/documentType", json!(kind)), ("/instruments/1/apns", Value::Null)],
        )
    };
    for kind in [
        "GrantDeed",
        "QuitclaimDeed",
        "TrustTransferDeed",
        "TrusteesDeed",
        "DeedOfTrust",
        "NoticeOfDefault",
        "NoticeOfTrusteesSale",
    ] {
        assert_eq!(of(kind), ["instruments[1].apns"], "{kind}");
    }
    for kind in ["ReleaseOfLien", "Reconveyance", "AssignmentOfDeedOfTrust", "SubstitutionOfTrustee"] {
        assert_eq!(of(kind), ["instruments[1].relatedInstrumentNumber"], "{kind}");
    }
    for kind in ["MechanicsLien", "Easement", "Other"] {
        assert!(of(kind).is_empty(), "{kind}");
    }
}

#[test]
fn only_a_change_of_ownership_requires_the_report() {
    let lien = [("/instruments/0/documentType", json!("MechanicsLien")), ("/pcorIncluded", Value::Null)];
    assert!(asked(CountyRecording, &lien).is_empty());
    for kind in ["GrantDeed", "QuitclaimDeed", "TrustTransferDeed", "TrusteesDeed", "AffidavitOfDeath"] {
        let deed = [("/instruments/0/documentType", json!(kind)), ("/pcorIncluded", Value::Null)];
        assert_eq!(asked(CountyRecording, &deed), ["pcorIncluded"], "{kind}");
    }
}

#[test]
fn subpoenas_and_authorizations_require_different_fields() {
    let bare = |method: &str| {
        let gone = ["/court", "/case", "/productionDate", "/facilities/0/noticeToConsumer"];
        let mut changes: Vec<(&str, Value)> = gone.iter().map(|pointer| (*pointer, Value::Null)).collect();
        changes.push(("/requestMethod", json!(method)));
        asked(PhotoCopy, &changes)
    };
    for method in ["DepositionSubpoena", "TrialSubpoena", "WcabSubpoena"] {
        assert_eq!(
            bare(method),
            ["court", "case", "productionDate", "facilities[0].noticeToConsumer"],
            "{method}"
        );
    }
    assert_eq!(bare("Authorization"), ["authorizationSignedOn", "authorizationExpiresOn"]);
    assert!(bare("OpposingCopy").is_empty());
    assert!(bare("PublicRecordsRequest").is_empty());
}

#[test]
fn medical_records_require_a_birth_date() {
    let of = |kind: &str| {
        let kinds = json!([kind]);
        asked(PhotoCopy, &[("/facilities/0/recordTypes", kinds), ("/subject/dob", Value::Null)])
    };
    for kind in ["Medical", "Films", "Pharmacy", "Psychiatric"] {
        assert_eq!(of(kind), ["subject.dob"], "{kind}");
    }
    assert!(of("Payroll").is_empty());
}

#[test]
fn contradictions_are_refused_in_a_draft_too() {
    assert_eq!(contradictory(Process, &[("/lastDayToServe", json!("2026-12-17"))]), ["dueBy"]);
    assert!(contradictory(Process, &[("/lastDayToServe", json!("2026-12-18"))]).is_empty());
    for (due, late) in [
        ("2026-12-19T01:00:00.000Z", false),
        ("2026-12-19T01:00:00+00:00", false),
        ("2026-12-19T06:30:00+05:30", false),
        ("2026-12-19T11:00:00Z", true),
        ("2026-12-19T00:00:00-08:00", true),
    ] {
        let changes = [("/dueBy", json!(due)), ("/lastDayToServe", json!("2026-12-18"))];
        let fields: &[&str] = if late { &["dueBy"] } else { &[] };
        assert_eq!(contradictory(Process, &changes), fields, "{due}");
        assert_eq!(contradictory(FileAndServe, &changes), fields, "{due}");
    }
    assert_eq!(contradictory(FileAndServe, &[("/lastDayToServe", json!("2026-12-29"))]), ["dueBy"]);
    assert_eq!(contradictory(CountyRecording, &[("/state", json!("NV"))]), ["countyFips"]);
    assert_eq!(contradictory(CountyRecording, &[("/state", json!("AP"))]), ["countyFips"]);
    assert!(contradictory(CountyRecording, &[("/state", Value::Null)]).is_empty());
    assert_eq!(
        contradictory(PhotoCopy, &[("/facilities/0/recordsTo", json!("2020-12-31"))]),
        ["facilities[0].recordsFrom"]
    );
    assert_eq!(
        contradictory(PhotoCopy, &[("/subject/injuryTo", json!("2026-03-01"))]),
        ["subject.injuryFrom"]
    );
    let dates =
        [("/authorizationSignedOn", json!("2026-01-02")), ("/authorizationExpiresOn", json!("2026-01-01"))];
    assert_eq!(contradictory(PhotoCopy, &dates), ["authorizationSignedOn"]);
    let mixed = [("/servees/1/party/firstName", json!("A")), ("/servees/1/party/suffix", json!("III"))];
    let fields = ["servees[1].party.firstName", "servees[1].party.suffix"];
    assert_eq!(contradictory(Process, &mixed), fields);
    let mixed = [("/servees/0/party/organizationName", json!("A"))];
    assert_eq!(contradictory(Process, &mixed), ["servees[0].party.organizationName"]);
    let window =
        [("/windowFrom", json!("2026-01-01T08:00:00Z")), ("/windowTo", json!("2026-01-01T08:00:00+01:00"))];
    assert_eq!(contradictory(Investigation, &window), ["windowFrom"]);
    let signed = [("/recordOn", json!("2026-11-29"))];
    let fields = ["instruments[0].executedOn", "instruments[1].executedOn"];
    assert_eq!(contradictory(CountyRecording, &signed), fields);
    assert!(contradictory(CountyRecording, &[("/recordOn", json!("2026-11-30"))]).is_empty());
    let late = [("/lastDayToFile", json!("2026-12-03"))];
    assert_eq!(contradictory(Court, &late), ["dueBy"]);
    assert!(contradictory(Court, &[late[0].clone(), ("/courtTask", json!("CopyRequest"))]).is_empty());
    // The last day to file may be long after the papers are to be served, and a hearing may be before the filing.
    assert!(contradictory(FileAndServe, &[("/lastDayToFile", json!("2027-02-13"))]).is_empty());
    for (dob, is_wrong) in [("2027-03-02", false), ("2027-03-03", true), ("2030-01-01", true)] {
        let fields: &[&str] = if is_wrong { &["subject.dob"] } else { &[] };
        assert_eq!(contradictory(PhotoCopy, &[("/subject/dob", json!(dob))]), fields, "{dob}");
        let to = [("/subject/dob", json!(dob)), ("/subject/injuryTo", json!("2026-03-02"))];
        assert_eq!(contradictory(PhotoCopy, &to), fields, "{dob}");
    }
    let heard = [("/case/filedOn", json!("2026-12-02")), ("/case/hearingDate", json!("2026-12-01"))];
    assert!(contradictory(Court, &heard).is_empty());
    let by = [
        ("/legs/0/delivery/by", json!("2026-12-07T01:00:00-08:00")),
        ("/legs/0/delivery/readyAt", Value::Null),
    ];
    assert_eq!(contradictory(Delivery, &by), ["legs[0].pickup.readyAt"]);
    let by = [("/legs/0/pickup/by", json!("2026-12-07T09:29:59-08:00"))];
    assert_eq!(contradictory(Delivery, &by), ["legs[0].pickup.readyAt"]);
}
