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
const VIEWS: usize = 50;
const VIEWING: Duration = Duration::from_secs(2);
/// The p99 of a page that is not exceeded, in ms.
const GOAL: f64 = 60.0;
const PROCESS: Role = Role { roles: "api,portal,worker,detector", connections: 32, per_tenant: 8 };
/// The saves before the history, and the webhooks that each goes to. The history is of the first webhook.
const SAVES: usize = 10;
const WEBHOOKS: usize = 2;

/// The pages that an administrator and a contact open: each page, and each of its filters with values that match much, little and nothing.
/// The form of a new webhook is missing, because `docket serve` on a folder refuses it.
const PAGES: &[&str] = &[
    "/portal",
    "/portal?range=hour",
    "/portal?range=week",
    "/portal?range=month",
    "/portal/webhooks",
    "/portal/webhooks?q=t0&state=lost&customer=C-1",
    "/portal/webhooks/default/t0-w0",
    "/portal/webhooks/default/t0-w0?range=hour",
    "/portal/webhooks/default/t0-w0?range=week",
    "/portal/webhooks/default/t0-w0?range=month",
    "/portal/webhooks/default/t0-w0?show=lost",
    "/portal/webhooks/default/t0-w0?show=retrying",
    "/portal/webhooks/default/t0-w0?show=delivered",
    "/portal/webhooks/default/t0-w1?range=month",
    "/portal/logs",
    "/portal/logs?result=Delivered",
    "/portal/logs?result=Waiting",
    "/portal/logs?result=Failed%20(all)",
    "/portal/logs?result=Tried%20again",
    "/portal/logs?result=Lost",
    "/portal/logs?result=Resent",
    "/portal/logs?result=Set%20aside",
    "/portal/logs?result=Lost,%20resent%20or%20set%20aside",
    "/portal/logs?webhook=default/t0-w0",
    "/portal/logs?webhook=default/t0-w0&deadLetter=open",
    "/portal/logs?webhook=default/t0-w1",
    "/portal/logs?customerCode=C-1",
    "/portal/logs?customerCode=B-7",
    "/portal/logs?kind=first",
    "/portal/logs?kind=resend",
    "/portal/logs?kind=test",
    "/portal/logs?event=order.created",
    "/portal/logs?event=invoice.created",
    "/portal/logs?failureClass=ServerError",
    "/portal/logs?failureClass=TimeoutFirstByte",
    "/portal/logs?httpStatus=500",
    "/portal/logs?httpStatus=503",
    "/portal/logs?httpStatus=504",
    "/portal/logs?httpStatus=404",
    "/portal/logs?httpStatus=204",
    "/portal/logs?webhook=default/t0-w0&httpStatus=503",
    "/portal/logs?httpStatus=5xx",
    "/portal/logs?deliveryId={delivery}",
    "/portal/logs?eventId={event}",
    "/portal/logs?resendId={resend}",
    "/portal/logs?find=h00000500",
    "/portal/logs?find={event}",
    "/portal/logs?find=none",
    "/portal/logs?last=hour",
    "/portal/logs?last=today",
    "/portal/logs?last=week&result=Lost",
    "/portal/logs?from={week}",
    "/portal/logs?to={week}&webhook=default/t0-w0",
    "/portal/logs?webOrderId=H00000500",
    "/portal/logs?workOrder=CT1000001",
    "/portal/logs?invoiceNumber=4711",
    "/portal/logs/{delivered}",
    "/portal/logs/{delivery}",
    "/portal/resends",
    "/portal/resends?resendId={resend}",
    "/portal/resends?webhook=default/t0-w0",
    "/portal/resends?webhook=default/t0-w0&event=invoice.created",
    "/portal/resends?webhook=default/t0-w0&from={week}",
    "/portal/resends?webhook=default/t0-w1",
    "/portal/trace",
    "/portal/trace?q=H00000500",
    "/portal/trace?q=4711",
    "/portal/trace?q={event}",
    "/portal/trace?q={delivery}",
    "/portal/trace?q=C-1",
    "/portal/trace?q=a%20customer",
    "/portal/trace?q=unheard",
    "/portal/notifications",
    "/portal/events",
    "/portal/verify",
    "/portal/sign-in",
    "/portal/mail/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
];

/// The pages with figures and deliveries of a contact whose customer has few deliveries, while another customer has many.
const BESIDE: &[&str] = &[
    "/portal",
    "/portal?range=hour",
    "/portal?range=week",
    "/portal?range=month",
    "/portal/webhooks",
    "/portal/webhooks/default/t0-w0?range=month",
    "/portal/webhooks/default/t0-w1?range=month",
    "/portal/logs",
    "/portal/logs?result=Lost",
    "/portal/logs?webhook=default/t0-w0",
    "/portal/logs?httpStatus=500",
    "/portal/resends",
];

/// The pages that only an administrator may open.
const OF_ADMINISTRATOR: &[&str] = &[
    "/portal/activity",
    "/portal/activity?event=SignedIn",
    "/portal/activity?event=WebhookChanged",
    "/portal/activity?event=SecretShown",
    "/portal/activity?webhook=default/t0-w0",
    "/portal/activity?webhook=default/none",
    "/portal/activity?person=alex.admin",
    "/portal/activity?person=ada@quillfeather.example",
    "/portal/activity?person=employee%20none",
    "/portal/activity?person=contact%20B6",
    "/portal/activity?event=WebhookAdded",
    "/portal/activity?to={week}&webhook=default/t0-w0",
    "/portal/keys",
    "/portal/people",
    "/portal/people?q=firm%20b9999",
    "/portal/people?q=unheard",
];

pub(super) async fn run(bench: &Bench) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt; WEBHOOKS]]).await;
    let fleet = stage.serve_roles(&[PROCESS], &[]).await;
    let (apis, clients) = (fleet.apis.clone(), stage.home.clients(&fleet).await);
    Load { apis, clients, connections: 1, messages: SAVES, pace: None }.run().await;
    // The history copies the webhook of a delivery, so all must have succeeded before.
    let mut administrator = stage.home.administrator(&fleet).await;
    while administrator.deliveries("status=Succeeded", 100).await < SAVES * WEBHOOKS {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut contact = stage.home.contact(&fleet).await;
    let history = bench.sizes.history.unwrap_or(1_000_000);
    sql::add_people(&stage).await;
    sql::add_history(&stage, history as i64, 28 * DAY, DAY / 24).await;
    let resend = sql::add_resend(&stage).await;
    let week = sql::a_week_ago(&stage).await;
    let mut figures = vec![Figure::new("finished deliveries", history as f64, "")];
    for (lost, share) in [("1/1000 lost", 1000), ("1/5 lost", 5)] {
        sql::give_up(&stage, share).await;
        let [delivered, _] = sql::last_delivery(&stage, "Succeeded").await;
        let [delivery, event] = sql::last_delivery(&stage, "DeadLetter").await;
        let values = [
            ("{delivered}", &delivered),
            ("{delivery}", &delivery),
            ("{event}", &event),
            ("{resend}", &resend),
            ("{week}", &week),
        ];
        let path = |page: &str| {
            values.iter().fold(page.to_owned(), |path, (name, value)| path.replace(name, value.as_str()))
        };
        for page in PAGES.iter().chain(OF_ADMINISTRATOR) {
            let name = format!("{page}, administrator, {lost}");
            figures.extend(view(&mut administrator, &path(page), &name).await);
        }
        for page in PAGES {
            let name = format!("{page}, contact, {lost}");
            figures.extend(view(&mut contact, &path(page), &name).await);
        }
    }
    sql::give_away(&stage).await;
    for page in BESIDE {
        let name = format!("{page}, contact, beside another customer's history");
        figures.extend(view(&mut contact, page, &name).await);
    }
    figures
}

/// The p50 and the p99 of a page. `name` is the page in the figures.
async fn view(reader: &mut Reader, page: &str, name: &str) -> [Figure; 2] {
    // The first view does not count: it plans the page's statements and reads its rows from the disk.
    let (status, _) = reader.page(page).await;
    let mut failed = (status != 200).then_some(status);
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < VIEWS && (times.len() < 2 || begun.elapsed() < VIEWING) {
        let asked = Instant::now();
        let (status, _) = reader.page(page).await;
        times.push(asked.elapsed());
        failed = failed.or((status != 200).then_some(status));
    }
    times.sort_unstable();
    let refused = failed.map(|status| format!(" ({status})")).unwrap_or_default();
    // A page that had another status than 200 must not reach its goal.
    let of = |percent| if failed.is_some() { f64::NAN } else { percentile(&times, percent) };
    [
        Figure::new(format!("{name}{refused}, p50"), of(50.0), "ms"),
        Figure::new(format!("{name}{refused}, p99"), of(99.0), "ms").at_most(GOAL),
    ]
}
