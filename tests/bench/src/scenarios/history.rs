//! A tenant with a long history: the burst, each documented search, and the statements of a process at rest.

use std::time::{Duration, Instant};

use super::{Bench, burst};
use crate::figures::Figure;
use crate::home::Reader;
use crate::load::Load;
use crate::measure::percentile;
use crate::receiver::Behaviour;
use crate::sql;
use crate::stage::{Shape, Stage};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The number of times that a search is made, and the time after which it is not repeated.
const SEARCHES: usize = 100;
const SEARCHING: Duration = Duration::from_secs(4);

/// Each filter of /WebhookLogs/Search, with values that match much, little and nothing.
const DELIVERIES: [&str; 18] = [
    "",
    "status=Succeeded",
    "status=DeadLetter",
    "status=Pending",
    "status=Failed",
    "webhook=default/t0-w0",
    "event=order.created",
    "event=invoice.created",
    "failureClass=ServerError",
    "failureClass=TimeoutFirstByte",
    "webOrderId=H00000500",
    "workOrder=CT1000001",
    "invoiceNumber=4711",
    "find=h00000500",
    "customerCode=C-1",
    "customerCode=C-2",
    "kind=resend",
    "kind=test",
];
/// Each filter of /Orders/Search.
const ORDERS: [&str; 9] = [
    "",
    "orderType=Court",
    "orderType=Process",
    "status=Draft",
    "status=Exported",
    "text=brindle",
    "text=26stcv99901%20larkspur",
    "text=unheard",
    "text=v",
];

/// Filters that match little together: such a search must return a short page in time.
const DELIVERIES_TOGETHER: [&str; 3] = [
    "status=DeadLetter&failureClass=ServerError&event=order.created",
    "status=DeadLetter&failureClass=TimeoutFirstByte",
    "status=Succeeded&event=invoice.created",
];
const ORDERS_TOGETHER: [&str; 3] = [
    "orderType=Court&status=Draft&text=brindle",
    "orderType=Court&text=unheard",
    "orderType=Process&status=Exported&text=v",
];

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::with_statements(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let empty = burst::burst(&stage, shape, bench.sizes.messages).await;
    let (begun, sizes) = (Instant::now(), sql::sizes(&stage).await);
    let history = bench.sizes.history.unwrap_or(5_000_000);
    sql::add_history(&stage, history as i64, 28 * DAY, DAY / 24).await;
    eprintln!("        {history} finished deliveries added in {:.0} s", begun.elapsed().as_secs_f64());
    let grown = sql::sizes(&stage).await;
    let each = |now: f64, before: f64| (now - before) / history as f64;
    let full = burst::burst(&stage, shape, bench.sizes.messages).await;
    let lost = empty.delivered.lost + full.delivered.lost;
    let mut figures = vec![
        Figure::new("finished deliveries", history as f64, ""),
        Figure::new("bytes of tables per order and delivery", each(grown.tables, sizes.tables), "B"),
        Figure::new("bytes of indexes per order and delivery", each(grown.indexes, sizes.indexes), "B"),
        Figure::new("burst, of the one without them", full.delivered.rate() / empty.delivered.rate(), "")
            .at_least(0.9),
        Figure::new("burst: deliveries per second", full.delivered.rate(), "/s"),
        Figure::new("burst without them: deliveries per second", empty.delivered.rate(), "/s"),
        Figure::new("burst: buffers read per message", full.buffers, ""),
        Figure::new("burst without them: buffers read per message", empty.buffers, ""),
        Figure::new("lost", lost as f64, "").at_most(0.0),
    ];
    let fleet = stage.serve(shape, &[]).await;
    let mut administrator = stage.home.administrator(&fleet).await;
    let mut contact = stage.home.contact(&fleet).await;
    let (from, to) = days_ago(&mut administrator).await;
    let time = format!("from={from}&to={to}");
    for filter in DELIVERIES.iter().chain(&[time.as_str()]) {
        figures.push(search(&mut administrator, "/WebhookLogs/Search", filter, "").await);
    }
    // The filter with a webhook is skipped, because `also` has a webhook.
    let also = format!("&webhook=default/t0-w0&{time}");
    for filter in DELIVERIES[1..].iter().filter(|filter| !filter.starts_with("webhook")) {
        figures.push(search(&mut administrator, "/WebhookLogs/Search", filter, &also).await);
    }
    for filter in DELIVERIES_TOGETHER {
        figures.push(search(&mut administrator, "/WebhookLogs/Search", filter, "").await.at_most(1_000.0));
    }
    for filter in ORDERS.iter().chain(&[time.as_str()]) {
        figures.push(search(&mut contact, "/Orders/Search", filter, "").await);
    }
    for filter in ORDERS_TOGETHER {
        figures.push(search(&mut contact, "/Orders/Search", filter, "").await.at_most(1_000.0));
    }
    let apis = fleet.apis.clone();
    let clients = stage.home.clients(&fleet).await;
    figures.push(at_rest(&stage, Load { apis, clients, connections: 1, messages: 4, pace: Some(0.2) }).await);
    figures
}

/// Measures the slowest statement at rest. Saves are so few that the statements of health, sweep and detector decide.
async fn at_rest(stage: &Stage, load: Load) -> Figure {
    let sql = stage.sql(0).await;
    let prepare = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()";
    sql.batch_execute(prepare).await.expect("PostgreSQL counts statements");
    load.run().await;
    let statement = "SELECT mean_exec_time, query FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid \
                     WHERE d.datname = current_database() AND query NOT LIKE '%pg_stat_statements%' \
                     ORDER BY mean_exec_time DESC LIMIT 1";
    let row = sql.query_one(statement, &[]).await.expect("there was one");
    let query: String = row.get(1);
    eprintln!("        the slowest statement at rest: {}", query.chars().take(200).collect::<String>());
    Figure::new("slowest statement at rest (health, sweep), mean", row.get(0), "ms").at_most(5.0)
}

/// The p99 of a search. `also`: further filters by webhook and time, or an empty text.
async fn search(reader: &mut Reader, path: &str, filter: &str, also: &str) -> Figure {
    let (begun, mut times, mut failed) = (Instant::now(), Vec::new(), None);
    while times.len() < SEARCHES && (times.len() < 2 || begun.elapsed() < SEARCHING) {
        let asked = Instant::now();
        let (status, _) = reader.get(&format!("{path}?{filter}{also}")).await;
        times.push(asked.elapsed());
        failed = failed.or((status != 200).then_some(status));
    }
    times.sort_unstable();
    let filter = match filter {
        "" => "all",
        filter if filter.starts_with("from=") => "of a day",
        filter => filter,
    };
    let also = if also.is_empty() { "" } else { ", of a webhook and a day" };
    let refused = failed.map(|status| format!(" ({status})")).unwrap_or_default();
    // A search that had another status than 200 must not reach its goal.
    let p99 = if failed.is_some() { f64::NAN } else { percentile(&times, 99.0) };
    Figure::new(format!("{path} {filter}{also}{refused}, p99"), p99, "ms").at_most(50.0)
}

/// The rest of a day of the history, as its first and last time.
async fn days_ago(reader: &mut Reader) -> (String, String) {
    let (_, body) = reader.get("/WebhookLogs/Search?webOrderId=H00000500&pageSize=1").await;
    let page: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    // The five hundredth order is from the first day of the history; any day of the history would do.
    let created = page["items"][0]["createdAt"].as_str().expect("a time").to_owned();
    let (date, _) = created.split_once('T').expect("a date and a time");
    (created.clone(), format!("{date}T23:59:59Z"))
}
