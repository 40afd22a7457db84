//! The pages of the portal beside a long history, in which first few and then many deliveries are dead letters.

use std::time::{Duration, Instant};

use super::Bench;
use crate::figures::Figure;
use crate::home::Reader;
use crate::load::Load;
use crate::measure::percentile;
use crate::receiver::Behaviour;
use crate::sql;
use crate::stage::{Role, Stage};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The number of times that a page is opened, and the time after which it is not opened again.
const VIEWS: usize = 100;
const VIEWING: Duration = Duration::from_secs(5);
const PROCESS: Role = Role { roles: "api,portal,worker,detector", connections: 32, per_tenant: 8 };
const LOGS: &str = "/portal/logs";

const PAGES: [&str; 29] = [
    "/portal",
    "/portal/webhooks",
    "/portal/webhooks/default/t0-w0",
    LOGS,
    "/portal/logs?status=Succeeded",
    "/portal/logs?status=DeadLetter",
    "/portal/logs?status=Pending",
    "/portal/logs?status=Failed",
    "/portal/logs?webhook=default%2Ft0-w0",
    "/portal/logs?event=order.created",
    "/portal/logs?event=invoice.created",
    "/portal/logs?failureClass=ServerError",
    "/portal/logs?failureClass=TimeoutFirstByte",
    "/portal/logs?webOrderId=H00000500",
    "/portal/logs?workOrder=CT1000001",
    "/portal/logs?invoiceNumber=4711",
    "/portal/logs?find=h00000500",
    "/portal/logs?find=none",
    "/portal/logs?customerCode=C-1",
    "/portal/logs?kind=resend",
    "/portal/logs?kind=test",
    "/portal/resends",
    "/portal/resends?webhook=default%2Ft0-w0",
    "/portal/trace?q=H00000500",
    "/portal/trace?q=4711",
    "/portal/activity",
    "/portal/events",
    "/portal/keys",
    "/portal/verify",
];

pub(super) async fn run(bench: &Bench) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt]]).await;
    let fleet = stage.serve_roles(&[PROCESS], &[]).await;
    let (apis, clients) = (fleet.apis.clone(), stage.home.clients(&fleet).await);
    Load { apis, clients, connections: 1, messages: 10, pace: None }.run().await;
    // The history copies the webhook of a delivery, so one must have succeeded before.
    let mut administrator = stage.home.administrator(&fleet).await;
    while administrator.deliveries("status=Succeeded", 100).await < 10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let history = bench.sizes.history.unwrap_or(1_000_000);
    sql::add_history(&stage, history as i64, 28 * DAY, DAY / 24).await;
    let mut figures = vec![Figure::new("finished deliveries", history as f64, "")];
    for (given_up, share) in [("a thousandth given up", 1000), ("a fifth given up", 5)] {
        sql::give_up(&stage, share).await;
        for page in PAGES {
            figures.push(view(&mut administrator, page, given_up).await);
        }
        let log = administrator.page(LOGS).await.1;
        let log = String::from_utf8(log).expect("a page");
        let delivery = log.split("href=\"/portal/logs/").nth(1).and_then(|rest| rest.split('"').next());
        let delivery = format!("{LOGS}/{}", delivery.expect("a delivery"));
        figures.push(view(&mut administrator, &delivery, given_up).await);
    }
    figures
}

/// The p99 of a page.
async fn view(reader: &mut Reader, page: &str, given_up: &str) -> Figure {
    let (begun, mut times, mut failed) = (Instant::now(), Vec::new(), None);
    while times.len() < VIEWS && (times.len() < 2 || begun.elapsed() < VIEWING) {
        let asked = Instant::now();
        let (status, _) = reader.page(page).await;
        times.push(asked.elapsed());
        failed = failed.or((status != 200).then_some(status));
    }
    times.sort_unstable();
    let page = if page.starts_with("/portal/logs/") { "a delivery" } else { page };
    let refused = failed.map(|status| format!(" ({status})")).unwrap_or_default();
    // A page that had another status than 200 must not reach its goal.
    let p99 = if failed.is_some() { f64::NAN } else { percentile(&times, 99.0) };
    Figure::new(format!("{page}, {given_up}{refused}, p99"), p99, "ms").at_most(100.0)
}
