//! Query strings that are wrong: each parameter is named, none is dropped silently.

use serde_json::json;

use super::rig::{Rig, problem, refused, wrong_fields};

#[tokio::test]
async fn every_wrong_parameter_of_a_search_is_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let long = format!("text={}", "x".repeat(101));
    let long_cursor = format!("cursor={}", "00".repeat(129));
    for (query, fields) in [
        ("pageSize=0", vec!["pageSize"]),
        ("pageSize=101", vec!["pageSize"]),
        ("pageSize=-1", vec!["pageSize"]),
        ("pageSize=99999999999999999999", vec!["pageSize"]),
        ("pageSize=1.5", vec!["pageSize"]),
        ("pageSize=1e1", vec!["pageSize"]),
        ("pageSize=", vec!["pageSize"]),
        ("pageSize=ten", vec!["pageSize"]),
        ("cursor=x", vec!["cursor"]),
        ("cursor=", vec!["cursor"]),
        ("cursor=ffff", vec!["cursor"]),
        ("cursor=312e00", vec!["cursor"]),
        ("cursor=2e5731", vec!["cursor"]),
        ("cursor=39393939393939393939393939393939393939392e57", vec!["cursor"]),
        (&long_cursor, vec!["cursor"]),
        ("from=yesterday", vec!["from"]),
        ("from=2026-02-30", vec!["from"]),
        ("from=2026-11-21T09:30:00", vec!["from"]),
        ("from=-009999-01-02T00:00:00Z", vec!["from"]),
        ("from=2026-11-21T09Z", vec!["from"]),
        ("from=2026-11-21%2009:30:00Z", vec!["from"]),
        ("from=2026-11-21T09:30:00,5Z", vec!["from"]),
        ("from=2026-11-21T09:30:60Z", vec!["from"]),
        ("from=2026-11-21T09:30:00%2B0000", vec!["from"]),
        ("from=2026-11-21T09:30:00%2B24:00", vec!["from"]),
        ("from=2026-11-21T09:30:00-08:00%5BAmerica/Los_Angeles%5D", vec!["from"]),
        ("from=2026-11-22&to=2026-11-21", vec!["from"]),
        ("from=2026-11-22&to=soon", vec!["to"]),
        ("to=99999-01-01", vec!["to"]),
        ("to=%2B999999-12-31T23:59:59Z", vec!["to"]),
        ("orderType=court", vec!["orderType"]),
        ("orderType=", vec!["orderType"]),
        ("status=Open", vec!["status"]),
        ("text=", vec!["text"]),
        (&long, vec!["text"]),
        ("text=%00", vec!["text"]),
        ("text=a%0Ab", vec!["text"]),
        ("text=%ff", vec!["text"]),
        ("text=%c3%28", vec!["text"]),
        ("text=%ed%a0%80", vec!["text"]),
        ("text=a&text=a", vec!["text"]),
        ("text=a&text=b", vec!["text"]),
        ("q=x", vec!["q"]),
        ("Text=x", vec!["Text"]),
        ("customerCode=C-2", vec!["customerCode"]),
        ("pageSize=0&from=x&status=y&zzz=1", vec!["status", "from", "pageSize", "zzz"]),
    ] {
        let reply = ada.get(&format!("/Orders/Search?{query}")).await;
        assert_eq!(reply.status, 400, "{query}: {reply:?}");
        assert_eq!(wrong_fields(&reply), fields, "{query}");
    }
}

#[tokio::test]
async fn a_span_that_ends_before_it_begins_is_refused_by_every_search() {
    let rig = Rig::start().await;
    let (ada, alex) = (rig.ada().await, rig.alex().await);
    let span = "from=2026-11-22&to=2026-11-21T23:59:59.999Z";
    let message = "The request is not valid: from: must not be after to";
    for path in ["/Orders/Search", "/Notes/Search", "/ProcessStatus/Search", "/Invoices/Search"] {
        assert_eq!(problem(&ada.get(&format!("{path}?{span}")).await, 400)["detail"], message, "{path}");
    }
    let logs = alex.get(&format!("/WebhookLogs/Search?{span}")).await;
    assert_eq!(problem(&logs, 400)["detail"], message);
    let span = json!({"webhook": "a/b", "from": "2026-11-22", "to": "2026-11-21", "preview": true});
    for path in ["/WebhookLogs/Resend", "/WebhookLogs/SetAside", "/WebhookLogs/UndoSetAside"] {
        assert_eq!(problem(&alex.post(path, &span).await, 400)["detail"], message, "{path}");
    }
}

#[tokio::test]
async fn a_name_that_differs_in_case_only_gets_the_right_one() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for name in ["PageSize", "pagesize", "page_size", "page-size"] {
        let reply = ada.get(&format!("/Orders/Search?{name}=5")).await;
        let message = problem(&reply, 400)["errors"][0]["message"].clone();
        let message = message.as_str().expect("text");
        assert!(
            message.starts_with("unknown parameter; did you mean pageSize? This route takes: "),
            "{message}"
        );
    }
}

#[tokio::test]
async fn every_wrong_parameter_of_get_is_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (query, fields) in [
        ("webOrderId=W1&webOrderId=W1", vec!["webOrderId"]),
        ("webOrderId=%00", vec!["webOrderId"]),
        ("webOrderId=W1&x=1", vec!["x"]),
        ("weborderid=W1", vec!["webOrderId", "weborderid"]),
    ] {
        let reply = ada.get(&format!("/Orders/Get?{query}")).await;
        let named = wrong_fields(&reply);
        assert!(fields.iter().all(|field| named.contains(&(*field).to_owned())), "{query}: {named:?}");
    }
}

#[tokio::test]
async fn odd_but_harmless_queries_are_answered() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for query in [
        "",
        "?",
        "?&&",
        "?text=%F0%9F%98%80",
        "?text=a%2",
        "?text=%zz",
        "?text=%25",
        "?text=a=b",
        "?pageSize=007",
        "?from=0001-01-01",
        "?to=9999-12-30",
        "?from=2026-11-21&to=2026-11-21",
        "?from=2026-11-21T09:30Z",
        "?from=2026-11-21T09:30:00.5-00:00",
        "?cursor=302e57",
    ] {
        let reply = ada.get(&format!("/Orders/Search{query}")).await;
        assert_eq!(reply.status, 200, "{query}: {reply:?}");
    }
}

#[tokio::test]
async fn a_very_long_query_is_refused_or_answered_but_not_with_an_error_of_ours() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (length, statuses) in [(10_000, [400]), (60_000, [431])] {
        let reply = ada.get(&format!("/Orders/Search?text={}", "x".repeat(length))).await;
        assert!(statuses.contains(&reply.status), "{length}: {reply:?}");
        assert!(reply.body.len() < 1000);
    }
    let many: String = (0..2_000).map(|n| format!("p{n}=1&")).collect();
    assert!(wrong_fields(&ada.get(&format!("/Orders/Search?{many}")).await).len() <= 100);
}

#[tokio::test]
async fn an_unknown_parameter_on_a_post_changes_nothing() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let reply =
        ada.try_post("/Orders/Export?webOrderId=W1", r#"{"webOrderId":"W2"}"#, &[]).await.expect("an answer");
    refused(&reply, 404, "There is no such web order");
}

#[tokio::test]
async fn each_search_is_logged_with_its_caller_and_without_its_words() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (target, logged) in [
        ("/Orders/Search?text=zqword", "orders searched"),
        ("/Notes/Search?workOrder=ZQWORD", "notes searched"),
        ("/ProcessStatus/Search?servee=zqword", "process work orders searched"),
        ("/Invoices/Search?invoiceNumber=zqword", "invoices searched"),
    ] {
        assert_eq!(ada.get(target).await.status, 200, "{target}");
        let line = rig.logged(logged).await;
        assert!(line.contains("ACME") && line.contains("contact 11"), "{line}");
    }
    assert!(!rig.log().to_lowercase().contains("zqword"));
}
