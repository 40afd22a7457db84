//! The commands `audit` and `people`. The data plane answers them.

use docket_commands::audit::AuditArguments;
use docket_commands::people::People;
use docket_commands::terminal::Style;
use docket_commands::{audit, people};
use docket_domain::moment;
use jiff::Timestamp;
use serde_json::Value;

use crate::args::{Kind, Object, OfTenant, ReachArguments, WhichPeople};
use crate::cluster::Cluster;
use crate::dataplane::{DataPlane, Query};
use crate::problem::Problem;

/// Prints the newest entries of a Tenant's audit. `now`: for times on a terminal.
pub(crate) async fn audit(
    cluster: &Cluster,
    OfTenant { asked, tenant, reach }: &OfTenant<AuditArguments>,
    now: Timestamp,
) -> Result<(), Problem> {
    let AuditArguments { event, webhook, person, from, to, limit, printed } = asked;
    let query = [
        ("event", event.map(|event| event.as_str().to_owned())),
        ("webhook", webhook.clone()),
        ("person", person.clone()),
        ("from", from.map(moment::written)),
        ("to", to.map(moment::written)),
        ("limit", Some(limit.to_string())),
    ];
    let answer = answered(cluster, reach, tenant, "audit", &query).await?;
    audit::print(&answer, printed.output, Style::of_stdout(now));
    Ok(())
}

/// Prints contacts or employees of a Tenant.
pub(crate) async fn people(
    cluster: &Cluster,
    OfTenant { asked, tenant, reach }: &OfTenant<WhichPeople>,
) -> Result<(), Problem> {
    let WhichPeople { who, customer, list } = asked;
    let mut query = vec![("limit", Some(list.limit.to_string()))];
    if *who == People::Contacts {
        query.push(("customerCode", customer.clone()));
    }
    let answer = answered(cluster, reach, tenant, who.as_str(), &query).await?;
    people::print(*who, &answer, list.printed.output);
    Ok(())
}

async fn answered(
    cluster: &Cluster,
    reach: &ReachArguments,
    tenant: &str,
    route: &str,
    query: Query<'_>,
) -> Result<Value, Problem> {
    let object = Object { kind: Kind::Tenant, name: tenant.to_owned() };
    DataPlane::connect(cluster, reach).await?.get(cluster, &object, route, query).await
}
