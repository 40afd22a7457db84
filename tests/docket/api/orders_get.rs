//! GET /Orders/Get.

use docket_orders::OrderType;
use serde_json::json;

use super::rig::{Rig, example, refused, save, with, wrong_fields};

#[tokio::test]
async fn what_was_saved_comes_back() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for kind in OrderType::ALL {
        let id = save(&ada, &example(kind)).await;
        let got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await;
        let mut expected = example(kind);
        // `finalize` says what to do with an order, and is no part of it.
        expected.as_object_mut().expect("an object").remove("finalize");
        assert_eq!((got.status, &got.json()["order"]), (200, &expected), "{kind}");
    }
}

#[tokio::test]
async fn an_exported_order_is_shown_with_its_work_orders() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &with(example(OrderType::FileAndServe), json!({"export": true}))).await;
    let mut got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    let fields = got.as_object_mut().expect("an object");
    let times: Vec<_> =
        ["createdAt", "updatedAt", "exportedAt"].into_iter().filter_map(|name| fields.remove(name)).collect();
    assert_eq!(times.len(), 3);
    assert!(
        times.iter().all(|time| *time == times[0] && time.as_str().is_some_and(|t| t.ends_with('Z'))),
        "{times:?}"
    );
    fields.remove("order").expect("the order");
    let expected = json!({"orderType": "FileAndServe", "webOrderId": id, "status": "Exported", "version": 2, "customerCode": "C-1",
        "caseNumber": null, "caption": "Larkspur Tile Co. v. Ferncliff Builders LLC",
        "clientMatterNumber": "4522-0001", "workOrderId": "CT1000001", "courtWorkOrder": "CT1000001",
        "processWorkOrders": ["PR1000001"]});
    assert_eq!(got, expected);
}

#[tokio::test]
async fn a_draft_is_shown_without_work_orders() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &json!({"orderType": "PhotoCopy"})).await;
    let mut got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    let fields = got.as_object_mut().expect("an object");
    assert_eq!(fields.remove("createdAt"), fields.remove("updatedAt"));
    let expected = json!({"orderType": "PhotoCopy", "webOrderId": id, "status": "Draft", "version": 1, "customerCode": "C-1",
        "caseNumber": null, "caption": null, "clientMatterNumber": null, "exportedAt": null, "finalized": false,
        "order": {"orderType": "PhotoCopy"}, "workOrderId": null, "courtWorkOrder": null, "processWorkOrders": null});
    assert_eq!(got, expected);
}

#[tokio::test]
async fn an_unknown_order_is_not_found_and_a_missing_id_is_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for id in ["W00000001", "w%27", "%25", "%F0%9F%98%80", "W0000000_"] {
        refused(&ada.get(&format!("/Orders/Get?webOrderId={id}")).await, 404, "There is no such web order");
    }
    for query in ["", "?", "?webOrderId=", "?webOrderId", &format!("?webOrderId={}", "W".repeat(33))] {
        assert_eq!(wrong_fields(&ada.get(&format!("/Orders/Get{query}")).await), ["webOrderId"], "{query}");
    }
}

#[tokio::test]
async fn an_order_of_another_customer_is_as_absent_also_while_its_owner_and_an_employee_read_it() {
    let rig = Rig::start().await;
    let (ada, bea, alex) = (rig.ada().await, rig.bea().await, rig.alex().await);
    let id = save(&ada, &super::rig::captioned(&"x".repeat(200))).await;
    let target = format!("/Orders/Get?webOrderId={id}");
    for _ in 0..20 {
        let (own, others, any) = tokio::join!(ada.get(&target), bea.get(&target), alex.get(&target));
        assert_eq!((own.status, any.status), (200, 200), "{own:?} {any:?}");
        assert_eq!(own.json()["order"], any.json()["order"]);
        refused(&others, 404, "There is no such web order");
    }
    let export = bea.post("/Orders/Export", &json!({"webOrderId": id})).await;
    refused(&export, 404, "There is no such web order");
}

#[tokio::test]
async fn text_of_any_script_comes_back_unchanged() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let caption = "Ünïcödé 😀 \u{202e}rtl \u{200d} 漢字 e\u{301} \"quoted\" \\ / <b>&amp;";
    let id = save(&ada, &super::rig::captioned(caption)).await;
    let got = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    assert_eq!((&got["caption"], &got["order"]["case"]["caption"]), (&json!(caption), &json!(caption)));
}

#[tokio::test]
async fn money_and_whole_numbers_keep_their_value() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let order = json!({"orderType": "Process", "feeLimit": 123456.07, "minimumAttempts": 10});
    let id = save(&ada, &order).await;
    let reply = ada.get(&format!("/Orders/Get?webOrderId={id}")).await;
    assert_eq!(reply.json()["order"], order, "{}", reply.text());
}
