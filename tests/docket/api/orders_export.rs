//! POST /Orders/Export.

use docket_orders::OrderType;
use docket_tests::server::webhook_yaml;
use serde_json::json;

use super::rig::{Rig, example, problem, refused, save, with, wrong_fields};

#[tokio::test]
async fn each_example_is_exported_to_the_work_orders_of_its_type() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (kind, primary, court, process) in [
        (OrderType::Court, "CT1000001", json!(null), json!(null)),
        (OrderType::Process, "PR1000001", json!(null), json!(["PR1000001", "PR1000002"])),
        (OrderType::Delivery, "DL1000001", json!(null), json!(null)),
        (OrderType::Investigation, "IN1000001", json!(null), json!(null)),
        (OrderType::FileAndServe, "CT1000002", json!("CT1000002"), json!(["PR1000003"])),
        (OrderType::CountyRecording, "CT1000003", json!(null), json!(null)),
        (OrderType::PhotoCopy, "PC1000001", json!(null), json!(null)),
    ] {
        let id = save(&ada, &example(kind)).await;
        let reply = ada.post("/Orders/Export", &json!({"webOrderId": id})).await;
        let expected = json!({"orderType": kind, "webOrderId": id, "workOrderId": primary,
            "courtWorkOrder": court, "processWorkOrders": process, "version": 2});
        assert_eq!((reply.status, reply.json()), (200, expected));
    }
    assert_eq!(rig.count("SELECT count(*) FROM work_order WHERE status = 'Open'"), 9);
}

#[tokio::test]
async fn the_order_type_may_be_passed_and_must_be_the_orders() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &example(OrderType::Court)).await;
    let export =
        async |kind: &str| ada.post("/Orders/Export", &json!({"webOrderId": id, "orderType": kind})).await;
    for _ in 0..2 {
        let reply = export("Process").await;
        assert_eq!(wrong_fields(&reply), ["orderType"]);
        assert!(reply.text().contains("the order is of type Court"), "{reply:?}");
        assert_eq!(wrong_fields(&export("court").await), ["orderType"]);
        assert_eq!(export("Court").await.status, 200);
    }
}

#[tokio::test]
async fn an_export_names_every_field_that_is_missing() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let mut missing = Vec::new();
    for kind in OrderType::ALL {
        let id = save(&ada, &json!({"orderType": kind})).await;
        missing.push(wrong_fields(&ada.post("/Orders/Export", &json!({"webOrderId": id})).await).join(" "));
    }
    let expected = [
        "attorney courtTask court case",
        "attorney documents servees court case",
        "legs itemDescription",
        "investigationType subject permissiblePurpose certifiedBy certifiedAt",
        "attorney documents court case filingMethod servees",
        "county state countyFips recordingMethod instruments requestedBy returnTo",
        "attorney requestMethod subject facilities",
    ];
    assert_eq!(missing, expected);
    assert_eq!(rig.count("SELECT count(*) FROM work_order"), 0);
}

#[tokio::test]
async fn what_is_missing_is_said_in_full() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id =
        save(&ada, &json!({"orderType": "Process", "servees": [{"party": {"kind": "Individual"}}]})).await;
    let reply = ada.post("/Orders/Export", &json!({"webOrderId": id})).await;
    let fields = wrong_fields(&reply);
    let expected = [
        "attorney",
        "documents",
        "servees[0].addresses",
        "servees[0].party.role",
        "servees[0].party.lastName",
        "court",
        "case",
    ];
    assert_eq!(fields, expected);
    let detail = problem(&reply, 400)["detail"].as_str().expect("text").to_owned();
    assert!(detail.starts_with("The request is not valid: attorney: "), "{detail}");
    assert!(detail.ends_with("; and 2 more"), "{detail}");
}

#[tokio::test]
async fn a_second_export_answers_the_first_ones_numbers_and_publishes_nothing() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await;
    let (ada, mo) = (rig.ada().await, rig.mo().await);
    let id = save(&ada, &example(OrderType::FileAndServe)).await;
    let first = ada.post("/Orders/Export", &json!({"webOrderId": id})).await;
    for client in [&ada, &mo] {
        let again = client.post("/Orders/Export", &json!({"webOrderId": id})).await;
        assert_eq!((again.status, again.json()), (200, first.json()));
    }
    assert_eq!(rig.events(), ["order.created", "order.exported"]);
    assert_eq!(rig.count("SELECT count(*) FROM delivery"), 2);
    assert_eq!(rig.count("SELECT count(*) FROM work_order"), 2);
}

#[tokio::test]
async fn sixteen_exports_at_once_make_one_set_of_work_orders() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await;
    let ada = rig.ada().await;
    let id = save(&ada, &example(OrderType::Process)).await;
    let exports: Vec<_> = (0..16)
        .map(|_| {
            let (ada, body) = (ada.clone(), json!({"webOrderId": id}));
            tokio::spawn(async move {
                ada.post("/Orders/Export", &body).await.json()["processWorkOrders"].clone()
            })
        })
        .collect();
    for export in exports {
        assert_eq!(export.await.expect("an answer"), json!(["PR1000001", "PR1000002"]));
    }
    assert_eq!(rig.events(), ["order.created", "order.exported"]);
}

#[tokio::test]
async fn an_order_that_does_not_exist_is_not_exported() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for id in ["W00000001", "w00000001", "W1", "'; DROP TABLE web_order; --", "%", "😀"] {
        refused(
            &ada.post("/Orders/Export", &json!({"webOrderId": id})).await,
            404,
            "There is no such web order",
        );
    }
}

#[tokio::test]
async fn work_orders_carry_servee_customer_and_case() {
    let rig = Rig::start().await;
    save(&rig.ada().await, &with(example(OrderType::Process), json!({"export": true}))).await;
    let sql = "SELECT string_agg(number || '|' || work_order_type || '|' || customer_code || '|' || servee || '|' \
               || case_number, ' + ') FROM (SELECT * FROM work_order ORDER BY position) ordered";
    let rows: String = rig.database("ACME").get(sql);
    assert_eq!(
        rows,
        "PR1000001|Process|C-1|Orrin Brindle|26STCV99901 + PR1000002|Process|C-1|Brindle Millworks, Inc.|26STCV99901"
    );
}

#[tokio::test]
async fn the_event_carries_what_the_answer_says() {
    let rig = Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await;
    let ada = rig.ada().await;
    let mut answers = Vec::new();
    for kind in OrderType::ALL {
        let id = save(&ada, &example(kind)).await;
        let mut answer = ada.post("/Orders/Export", &json!({"webOrderId": id})).await.json();
        answer.as_object_mut().expect("an object").remove("version").expect("only in the response");
        answers.push(answer);
    }
    let found = rig.published("order.exported").into_iter().map(|mut envelope| envelope["data"].take());
    assert_eq!(found.collect::<Vec<_>>(), answers);
}

#[tokio::test]
async fn numbers_that_the_back_office_has_given_are_passed_over() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    rig.change(
        "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) VALUES
           ('PR1000001', 'Process', 'C-2', 0), ('PR1000003', 'Process', 'C-2', 0), ('CT1000001', 'Court', 'C-2', 0)",
    );
    for (kind, expected) in [(OrderType::Process, "PR1000002"), (OrderType::Court, "CT1000002")] {
        let saved = ada.post("/Orders/Save", &with(example(kind), json!({"export": true}))).await;
        assert_eq!((saved.status, &saved.json()["workOrderId"]), (200, &json!(expected)), "{saved:?}");
    }
    assert_eq!(
        rig.count("SELECT count(*) FROM work_order WHERE number = 'PR1000004'"),
        1,
        "the second servee's"
    );
}
