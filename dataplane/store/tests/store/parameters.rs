//! How a statement may use its parameters.

use docket_rig::on_both_databases;
use docket_rig::tenant_database::TenantDatabase;
use docket_store::StoreError;
use docket_store::sql::Param;

on_both_databases!(
    parameters_may_appear_in_any_order_and_more_than_once,
    statement_with_too_few_or_too_many_values_is_refused,
);

async fn parameters_may_appear_in_any_order_and_more_than_once(rig: TenantDatabase) {
    let sql = "SELECT name || CAST($2 AS TEXT), CAST($1 AS TEXT) FROM customer WHERE code = $3 OR name = $1 OR code = $1";
    for params in [["Smith & Partners", "!", "none"], ["none", "!", "SMITH"], ["SMITH", "!", "none"]] {
        let first = params[0];
        let row = rig.reader().await.query_opt(sql, params.map(Param::from).into()).await;
        let row = row.expect("a statement").expect("the customer");
        let columns = (row.get::<String>(0).expect("a text"), row.get::<String>(1).expect("a text"));
        assert_eq!(columns, ("Smith & Partners!".to_owned(), first.to_owned()));
    }
}

async fn statement_with_too_few_or_too_many_values_is_refused(rig: TenantDatabase) {
    let sql = "SELECT name FROM customer WHERE code = $1 AND name = $2";
    for count in [0, 1, 3] {
        let params = vec![Param::from("SMITH"); count];
        let refused = rig.reader().await.query(sql, params).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{count}");
    }
}
