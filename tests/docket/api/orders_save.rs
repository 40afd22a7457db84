//! POST /Orders/Save.

use docket_orders::OrderType;
use docket_tests::server::webhook_yaml;
use serde_json::{Value, json};

use super::rig::{Rig, captioned, example, problem, refused, save, with, wrong_fields};

/// ACME with a webhook that gets each event of C-1 (and is never reached: loopback is forbidden).
async fn rig_with_webhook() -> Rig {
    Rig::with(&webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"), "").await
}

#[tokio::test]
async fn a_draft_needs_nothing_but_its_type() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (number, kind) in OrderType::ALL.iter().enumerate() {
        let reply = ada.post("/Orders/Save", &json!({"orderType": kind})).await;
        let id = format!("W{:08}", number + 1);
        let expected = json!({"orderType": kind, "webOrderId": id, "status": "Draft", "version": 1, "created": true, "changed": true});
        assert_eq!((reply.status, reply.json()), (200, expected));
        assert_eq!(reply.headers["content-type"], "application/json");
    }
}

#[tokio::test]
async fn every_example_is_saved_and_saved_again() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for kind in OrderType::ALL {
        let id = save(&ada, &example(kind)).await;
        let again = ada.post("/Orders/Save", &with(example(kind), json!({"webOrderId": id}))).await;
        let status = if kind == OrderType::PhotoCopy { "Finalized" } else { "Draft" };
        let expected = json!({"orderType": kind, "webOrderId": id, "status": status, "version": 1, "created": false, "changed": false});
        assert_eq!((again.status, again.json()), (200, expected));
    }
}

#[tokio::test]
async fn an_update_is_published_only_if_something_changed() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("first")).await;
    let mut changed = Vec::new();
    for caption in ["first", "second", "second", "first"] {
        let order = with(captioned(caption), json!({"webOrderId": id}));
        changed.push(ada.post("/Orders/Save", &order).await.json()["changed"].clone());
    }
    assert_eq!(changed, [false, true, false, true]);
    assert_eq!(rig.events(), ["order.created", "order.updated", "order.updated"]);
}

#[tokio::test]
async fn fields_in_another_order_and_explicit_nulls_are_no_change() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    save(&ada, &json!({"orderType": "Process", "notarizeProof": true, "fileProof": false, "feeLimit": 5}))
        .await;
    let body = r#"{"fileProof":false, "dueBy":null, "webOrderId":"W00000001", "feeLimit":5.00,
                   "notarizeProof" : true,"orderType":"Process"}"#;
    let reply = ada.try_post("/Orders/Save", body, &[]).await.expect("an answer");
    assert_eq!((reply.status, &reply.json()["changed"]), (200, &json!(false)), "{reply:?}");
}

#[tokio::test]
async fn events_say_what_was_saved() {
    let rig = rig_with_webhook().await;
    let id = save(&rig.ada().await, &example(OrderType::PhotoCopy)).await;
    let body: Vec<u8> = rig.database("ACME").get("SELECT body FROM event");
    let mut envelope: Value = serde_json::from_slice(&body).expect("JSON");
    let fields = envelope.as_object_mut().expect("an object");
    let event_id = fields.remove("id").expect("an id");
    assert!(event_id.as_str().expect("text").starts_with("evt_"));
    assert!(fields.remove("occurredAt").expect("a time").as_str().expect("text").ends_with('Z'));
    let data = json!({"orderType": "PhotoCopy", "webOrderId": id, "finalize": true});
    assert_eq!(envelope, json!({"event": "order.created", "customerCode": "C-1", "data": data}));
}

#[tokio::test]
async fn the_type_of_an_order_never_changes() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("court")).await;
    let reply = ada.post("/Orders/Save", &json!({"orderType": "Delivery", "webOrderId": id})).await;
    assert_eq!(wrong_fields(&reply), ["orderType"]);
    let got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    assert_eq!(got["order"], captioned("court"));
    assert_eq!(rig.events(), ["order.created"]);
}

#[tokio::test]
async fn orders_that_are_read_at_the_same_time_are_each_what_was_asked_for() {
    let rig = Rig::start().await;
    let (ada, mo) = (rig.ada().await, rig.mo().await);
    // The last order has 60 KB, too much to be read in a group.
    let mut saved = Vec::new();
    for count in [1, 2, 10, 40, 100] {
        let documents = vec![json!({"title": "字".repeat(200)}); count];
        let order = with(captioned(&format!("order of {count}")), json!({"documents": documents}));
        saved.push((save(&ada, &order).await, order));
    }
    let others = save(&mo, &with(captioned("of another customer"), json!({"customerCode": "C-2"}))).await;
    let mut asked: Vec<(String, Option<&Value>)> =
        saved.iter().map(|(id, order)| (id.clone(), Some(order))).cycle().take(25).collect();
    asked.extend([(others, None), ("W99999999".to_owned(), None)]);
    let get = async |(id, order): (String, Option<&Value>)| {
        let reply = ada.get(&format!("/Orders/Get?webOrderId={id}")).await;
        match order {
            Some(order) => {
                assert_eq!((&reply.json()["webOrderId"], &reply.json()["order"]), (&json!(id), order))
            }
            None => assert_eq!(reply.status, 404, "{id}"),
        }
    };
    futures_util::future::join_all(asked.into_iter().map(get)).await;
}

#[tokio::test]
async fn a_contact_never_names_the_customer() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("mine")).await;
    for code in ["C-1", "C-2", "unknown"] {
        let create = with(captioned("x"), json!({"customerCode": code}));
        assert_eq!(wrong_fields(&ada.post("/Orders/Save", &create).await), ["customerCode"], "{code}");
        let update = with(create, json!({"webOrderId": id}));
        assert_eq!(wrong_fields(&ada.post("/Orders/Save", &update).await), ["customerCode"], "{code}");
    }
    assert_eq!(rig.orders(), 1);
}

#[tokio::test]
async fn an_employee_names_a_customer_of_the_tenant_when_creating() {
    let rig = Rig::start().await;
    let mo = rig.mo().await;
    assert_eq!(wrong_fields(&mo.post("/Orders/Save", &captioned("x")).await), ["customerCode"]);
    for code in ["C-3", "c-1", "C-1 "] {
        let reply = mo.post("/Orders/Save", &with(captioned("x"), json!({"customerCode": code}))).await;
        assert_eq!(wrong_fields(&reply), ["customerCode"], "{code:?}");
    }
    assert_eq!(rig.orders(), 0);
    let id = save(&mo, &with(captioned("x"), json!({"customerCode": "C-2"}))).await;
    assert_eq!(mo.get(&format!("/Orders/Get?webOrderId={id}")).await.json()["customerCode"], "C-2");
}

#[tokio::test]
async fn an_employee_may_repeat_the_customer_of_an_order_but_not_change_it() {
    let rig = Rig::start().await;
    let (ada, mo) = (rig.ada().await, rig.mo().await);
    let id = save(&ada, &captioned("x")).await;
    for (more, status) in [
        (json!({"webOrderId": id}), 200),
        (json!({"webOrderId": id, "customerCode": "C-1"}), 200),
        (json!({"webOrderId": id, "customerCode": "C-2"}), 400),
    ] {
        let reply = mo.post("/Orders/Save", &with(captioned("y"), more)).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
}

#[tokio::test]
async fn an_exported_order_is_not_changed_any_more() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let order = example(OrderType::Delivery);
    let id = save(&ada, &with(order.clone(), json!({"export": true}))).await;
    for more in [json!({}), json!({"export": true}), json!({"itemDescription": "other"})] {
        let reply =
            ada.post("/Orders/Save", &with(with(order.clone(), json!({"webOrderId": id})), more)).await;
        refused(&reply, 409, "the order is exported and can no longer be changed");
    }
    assert_eq!(rig.events(), ["order.created", "order.exported"]);
}

#[tokio::test]
async fn only_photocopy_orders_are_finalized() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for kind in OrderType::ALL.iter().filter(|kind| **kind != OrderType::PhotoCopy) {
        for finalize in [true, false] {
            let reply = ada.post("/Orders/Save", &with(example(*kind), json!({"finalize": finalize}))).await;
            assert_eq!(wrong_fields(&reply), ["finalize"], "{kind}");
        }
    }
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn finalizing_needs_a_complete_order() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let id = save(&ada, &json!({"orderType": "PhotoCopy"})).await;
    let draft = json!({"orderType": "PhotoCopy", "webOrderId": id, "finalize": true});
    let missing = wrong_fields(&ada.post("/Orders/Save", &draft).await);
    assert_eq!(missing, ["attorney", "requestMethod", "subject", "facilities"]);
    let complete = with(example(OrderType::PhotoCopy), json!({"webOrderId": id}));
    let saved = ada.post("/Orders/Save", &complete).await.json();
    assert_eq!((&saved["status"], &saved["changed"]), (&json!("Finalized"), &json!(true)));
    let got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    assert_eq!((&got["status"], &got["finalized"]), (&json!("Finalized"), &json!(true)));
    assert_eq!(rig.events(), ["order.created", "order.updated"]);
}

#[tokio::test]
async fn a_finalized_order_stays_complete_until_it_is_a_draft_again() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &example(OrderType::PhotoCopy)).await;
    let incomplete = json!({"orderType": "PhotoCopy", "webOrderId": id});
    let missing = wrong_fields(&ada.post("/Orders/Save", &incomplete).await);
    assert_eq!(missing, ["attorney", "requestMethod", "subject", "facilities"]);
    let draft = with(incomplete.clone(), json!({"finalize": false}));
    let saved = ada.post("/Orders/Save", &draft).await.json();
    assert_eq!((&saved["status"], &saved["changed"]), (&json!("Draft"), &json!(true)));
    assert_eq!(ada.post("/Orders/Save", &incomplete).await.status, 200);
}

#[tokio::test]
async fn a_cancelled_order_is_neither_changed_nor_exported() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let order = example(OrderType::Delivery);
    let id = save(&ada, &order).await;
    rig.change("UPDATE web_order SET status = 'Cancelled'");
    let change = with(order, json!({"webOrderId": id, "itemDescription": "other"}));
    for more in [json!({}), json!({"export": true})] {
        let reply = ada.post("/Orders/Save", &with(change.clone(), more)).await;
        refused(&reply, 409, "the order is cancelled and can no longer be changed");
    }
    refused(&ada.post("/Orders/Export", &json!({"webOrderId": id})).await, 409, "the order is cancelled");
    assert_eq!(rig.count("SELECT count(*) FROM work_order"), 0);
}

#[tokio::test]
async fn finalizing_alone_is_a_change() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let draft = with(example(OrderType::PhotoCopy), json!({"finalize": false}));
    let id = save(&ada, &draft).await;
    let saved =
        ada.post("/Orders/Save", &with(example(OrderType::PhotoCopy), json!({"webOrderId": id}))).await;
    assert_eq!((&saved.json()["status"], &saved.json()["changed"]), (&json!("Finalized"), &json!(true)));
    assert_eq!(rig.events(), ["order.created", "order.updated"]);
}

#[tokio::test]
async fn create_with_export_answers_both_and_publishes_both() {
    let rig = rig_with_webhook().await;
    let reply = rig
        .ada()
        .await
        .post("/Orders/Save", &with(example(OrderType::Process), json!({"export": true})))
        .await;
    let expected = json!({"orderType": "Process", "webOrderId": "W00000001", "status": "Exported", "version": 2, "created": true,
        "changed": true, "workOrderId": "PR1000001", "courtWorkOrder": null,
        "processWorkOrders": ["PR1000001", "PR1000002"]});
    assert_eq!((reply.status, reply.json()), (200, expected));
    assert_eq!(rig.events(), ["order.created", "order.exported"]);
}

#[tokio::test]
async fn saving_a_draft_with_export_exports_what_it_now_is() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let id = save(&ada, &json!({"orderType": "Delivery"})).await;
    let complete = with(example(OrderType::Delivery), json!({"webOrderId": id, "export": true}));
    let saved = ada.post("/Orders/Save", &complete).await.json();
    assert_eq!((&saved["status"], &saved["workOrderId"]), (&json!("Exported"), &json!("DL1000001")));
    assert_eq!(rig.events(), ["order.created", "order.updated", "order.exported"]);
}

#[tokio::test]
async fn a_create_with_export_that_is_incomplete_saves_nothing() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let reply = ada.post("/Orders/Save", &with(captioned("x"), json!({"export": true}))).await;
    assert_eq!(wrong_fields(&reply), ["attorney", "courtTask", "court", "case.caseNumber"]);
    assert_eq!((rig.orders(), rig.events().len()), (0, 0));
    assert_eq!(save(&ada, &captioned("x")).await, "W00000001", "no number was used up");
}

#[tokio::test]
async fn an_unknown_web_order_is_not_created() {
    let rig = Rig::start().await;
    let reply =
        rig.ada().await.post("/Orders/Save", &with(captioned("x"), json!({"webOrderId": "W00000001"}))).await;
    refused(&reply, 404, "There is no such web order");
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn an_inactive_webhook_and_another_customers_webhook_get_nothing() {
    let inactive = webhook_yaml("acme", "off", "C-1", "https://127.0.0.1:9/") + "  active: false\n";
    let other = webhook_yaml("acme", "other", "C-2", "https://127.0.0.1:9/");
    let rig = Rig::with(&(inactive + &other), "").await;
    save(&rig.ada().await, &captioned("x")).await;
    assert_eq!((rig.events().len(), rig.count("SELECT count(*) FROM delivery")), (0, 0));
    save(&rig.bea().await, &captioned("x")).await;
    assert_eq!((rig.events().len(), rig.count("SELECT count(*) FROM delivery")), (1, 1));
}

#[tokio::test]
async fn sixteen_saves_at_once_get_sixteen_numbers() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let saves: Vec<_> = (0..16)
        .map(|n| {
            let ada = ada.clone();
            tokio::spawn(async move { save(&ada, &captioned(&format!("{n}"))).await })
        })
        .collect();
    let mut ids = Vec::new();
    for save in saves {
        ids.push(save.await.expect("an id"));
    }
    ids.sort();
    assert_eq!(ids, (1..=16).map(|n| format!("W{n:08}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn contradictions_are_for_drafts_to_have_and_for_exports_to_refuse() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let order = with(example(OrderType::Process), json!({"dueBy": "2027-06-01T00:00:00Z"}));
    save(&ada, &order).await;
    let reply = ada.post("/Orders/Save", &with(order, json!({"export": true}))).await;
    assert_eq!(wrong_fields(&reply), ["dueBy"]);
    assert_eq!(problem(&reply, 400)["errors"][0]["message"], "must not be after lastDayToServe");
}

#[tokio::test]
async fn the_event_of_each_type_names_it_and_only_photocopy_has_finalize() {
    let rig = rig_with_webhook().await;
    let ada = rig.ada().await;
    let mut expected = Vec::new();
    for kind in OrderType::ALL {
        let id = save(&ada, &json!({"orderType": kind})).await;
        let update = json!({"orderType": kind, "webOrderId": id, "clientMatterNumber": "4410"});
        assert_eq!(ada.post("/Orders/Save", &update).await.json()["changed"], true);
        let mut data = json!({"orderType": kind, "webOrderId": id});
        if kind == OrderType::PhotoCopy {
            data["finalize"] = json!(false);
        }
        expected.push(data);
    }
    for code in ["order.created", "order.updated"] {
        let found = rig.published(code).into_iter().map(|mut envelope| envelope["data"].take());
        assert_eq!(found.collect::<Vec<_>>(), expected, "{code}");
    }
}

#[tokio::test]
async fn an_order_that_an_employee_makes_is_its_customers_event() {
    let rig = rig_with_webhook().await;
    let mo = rig.mo().await;
    save(&mo, &json!({"orderType": "Court", "customerCode": "C-1"})).await;
    assert_eq!(rig.published("order.created")[0]["customerCode"], "C-1");
}
