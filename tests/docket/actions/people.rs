//! Changes that two administrators make at once.

use docket::actions::people::{Change, change};
use docket::refusal::Refusal;
use docket_domain::token::UserKind;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::TenantDatabase;
use docket_store::people::Person;

on_both_databases!(of_two_administrators_who_take_the_right_from_each_other_one_stays);

async fn of_two_administrators_who_take_the_right_from_each_other_one_stays(rig: TenantDatabase) {
    for code in ["51", "52"] {
        rig.run(&format!(
            "INSERT INTO employee (code, user_name, user_key, name, administrator, active, created_at_ms) \
             VALUES ('{code}', 'user-{code}', 'user-{code}', 'A name', TRUE, TRUE, 0)"
        ))
        .await;
    }
    let employee = |code: &'static str| Person { kind: UserKind::Employee, code };
    let mut first = rig.database.begin(&Clock::System).await.expect("a transaction");
    let taken = change(&mut first, employee("52"), Change::Right(false), Some("51")).await;
    assert!(taken.is_ok(), "51 is an administrator");
    let other = rig.opened_again();
    let waiting = tokio::spawn(async move {
        let mut second = other.begin(&Clock::System).await?;
        change(&mut second, employee("51"), Change::Right(false), Some("52")).await?;
        second.commit().await?;
        Ok::<_, Refusal>(())
    });
    rig.another_waits().await;
    first.commit().await.expect("a commit");
    let refused = waiting.await.expect("no panic");
    assert!(matches!(refused, Err(Refusal::Conflict(_))), "52 has no right any more");
    assert_eq!(rig.number("SELECT count(*) FROM employee WHERE administrator").await, 1);
}
