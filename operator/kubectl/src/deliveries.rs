//! The commands that `docket` has too: `deliveries`, `trace`, `resend`, `set-aside` and `test`. The data plane answers them.

use std::time::Duration;

use docket_commands::answers::{Answers, Found, Page};
use docket_commands::arguments::{
    DeadLetters, FilterArguments, ResendArguments, SetAsideArguments, TestArguments, TraceArguments, Traced,
};
use docket_commands::terminal::Style;
use docket_commands::{list, resend, set_aside, test_event, trace};
use docket_crds::EventCode;
use docket_domain::delivery::{DeadLetter, DeliveryKind, FailureClass, Status};
use docket_domain::moment;
use docket_domain::resend::Aside;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::args::{DeliveriesArguments, Kind, Object, OfTenant, ReachArguments, ToWebhook};
use crate::cluster::Cluster;
use crate::dataplane::DataPlane;
use crate::problem::Problem;

/// The pause before another call to the data plane.
const PAUSE: Duration = Duration::from_millis(500);
/// How long calls to the data plane may fail before the command gives up.
const WITHOUT_ANSWER: Duration = Duration::from_secs(60);

pub(crate) async fn list(cluster: &Cluster, asked: &DeliveriesArguments) -> Result<(), Problem> {
    let object = match (&asked.webhook, &asked.tenant) {
        (Some(name), _) => Object { kind: Kind::Webhook, name: name.clone() },
        (None, Some(name)) => Object { kind: Kind::Tenant, name: name.clone() },
        (None, None) => return Err(Problem::Found("name a Webhook, or a Tenant with -t".into())),
    };
    let mut remote = Remote::connect(cluster, &asked.reach, object).await?;
    list::run(&mut remote, &asked.list, Style::of_stdout(now())).await
}

pub(crate) async fn trace(cluster: &Cluster, asked: &OfTenant<TraceArguments>) -> Result<(), Problem> {
    let object = Object { kind: Kind::Tenant, name: asked.tenant.clone() };
    let mut remote = Remote::connect(cluster, &asked.reach, object).await?;
    trace::run(&mut remote, &asked.asked, Style::of_stdout(now())).await
}

pub(crate) async fn resend(cluster: &Cluster, asked: &ToWebhook<ResendArguments>) -> Result<(), Problem> {
    let mut remote = Remote::to_webhook(cluster, &asked.reach, &asked.webhook).await?;
    resend::run(&mut remote, &asked.asked, now()).await
}

pub(crate) async fn set_aside(
    cluster: &Cluster,
    asked: &ToWebhook<SetAsideArguments>,
) -> Result<(), Problem> {
    let mut remote = Remote::to_webhook(cluster, &asked.reach, &asked.webhook).await?;
    set_aside::run(&mut remote, &asked.asked, now()).await
}

pub(crate) async fn test(cluster: &Cluster, asked: &ToWebhook<TestArguments>) -> Result<(), Problem> {
    let mut remote = Remote::to_webhook(cluster, &asked.reach, &asked.webhook).await?;
    test_event::run(&mut remote, &asked.asked).await
}

#[expect(clippy::disallowed_methods, reason = "the user's own now")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

impl From<Found> for Problem {
    fn from(found: Found) -> Self {
        Self::Found(found.0)
    }
}

/// A Webhook or a Tenant, at the data plane.
struct Remote<'a> {
    cluster: &'a Cluster,
    reach: &'a ReachArguments,
    object: Object,
    dataplane: DataPlane,
}

impl<'a> Remote<'a> {
    async fn connect(
        cluster: &'a Cluster,
        reach: &'a ReachArguments,
        object: Object,
    ) -> Result<Self, Problem> {
        Ok(Self { cluster, reach, object, dataplane: DataPlane::connect(cluster, reach).await? })
    }

    async fn to_webhook(
        cluster: &'a Cluster,
        reach: &'a ReachArguments,
        name: &str,
    ) -> Result<Self, Problem> {
        Self::connect(cluster, reach, Object { kind: Kind::Webhook, name: name.to_owned() }).await
    }

    async fn post(&self, route: &str, body: &Value) -> Result<Value, Problem> {
        self.dataplane.post(self.cluster, &self.object, route, body).await
    }
}

impl Answers for Remote<'_> {
    type Error = Problem;
    type Cursor = String;

    async fn deliveries(
        &mut self,
        filter: &FilterArguments,
        size: usize,
        cursor: Option<String>,
    ) -> Result<Page<String>, Problem> {
        let query = [
            ("status", filter.status().map(Status::as_str).map(str::to_owned)),
            ("deadLetter", filter.dead_letter.map(DeadLetter::as_str).map(str::to_owned)),
            ("kind", filter.kind.map(DeliveryKind::as_str).map(str::to_owned)),
            ("customerCode", filter.customer.clone()),
            ("event", filter.event.map(EventCode::as_str).map(str::to_owned)),
            ("failureClass", filter.class.map(FailureClass::as_str).map(str::to_owned)),
            ("httpStatus", filter.http_status.map(|status| status.to_string())),
            ("find", filter.find.clone()),
            ("deliveryId", filter.delivery_id.map(|id| id.to_string())),
            ("eventId", filter.event_id.clone()),
            ("resendId", filter.resend_id.clone()),
            ("from", filter.created.from(now()).map(moment::written)),
            ("to", filter.created.to.map(moment::written)),
            ("webOrderId", filter.order.clone()),
            ("workOrder", filter.work_order.clone()),
            ("invoiceNumber", filter.invoice.clone()),
            ("pageSize", Some(size.to_string())),
            ("cursor", cursor),
        ];
        let mut page = self.dataplane.get(self.cluster, &self.object, "deliveries", &query).await?;
        let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(Page { items, next: page["nextCursor"].as_str().map(str::to_owned) })
    }

    async fn trace(&mut self, what: Traced, id: &str) -> Result<Value, Problem> {
        let parameter = match what {
            Traced::Order => "number",
            Traced::Event => "eventId",
            Traced::Delivery => "deliveryId",
        };
        let query = [(parameter, Some(id.to_owned()))];
        self.dataplane.get(self.cluster, &self.object, "trace", &query).await
    }

    async fn preview(&mut self, letters: &DeadLetters, per_second: i64) -> Result<Value, Problem> {
        self.post("preview", &paced(letters, per_second)).await
    }

    async fn resend(&mut self, letters: &DeadLetters, per_second: i64) -> Result<Value, Problem> {
        self.post("resend", &paced(letters, per_second)).await
    }

    /// A pod may be replaced and a token may expire meanwhile: then it calls another pod, with a new token.
    async fn progress(&mut self, resend_id: &str) -> Result<Value, Problem> {
        let (begun, query) = (Instant::now(), [("resendId", Some(resend_id.to_owned()))]);
        loop {
            let progress = self.dataplane.get(self.cluster, &self.object, "resend", &query).await;
            match progress {
                Ok(progress) => return Ok(progress),
                Err(problem) if begun.elapsed() > WITHOUT_ANSWER => {
                    let what = format!("resend {resend_id} continues, and this command no longer sees it");
                    return Err(problem.about(&what));
                }
                Err(_) => {
                    sleep(PAUSE).await;
                    if let Ok(another) = DataPlane::connect(self.cluster, self.reach).await {
                        self.dataplane = another;
                    }
                }
            }
        }
    }

    async fn stop(&mut self, resend_id: &str) -> Result<Value, Problem> {
        self.post("stop", &json!({"resendId": resend_id})).await
    }

    async fn preview_aside(&mut self, letters: &DeadLetters, aside: Aside) -> Result<Value, Problem> {
        self.post(&format!("{}/preview", aside.as_str()), &chosen(letters)).await
    }

    async fn set_aside(&mut self, letters: &DeadLetters, aside: Aside) -> Result<Value, Problem> {
        self.post(aside.as_str(), &chosen(letters)).await
    }

    async fn test(&mut self, event: Option<EventCode>) -> Result<Value, Problem> {
        self.post("test", &json!({"event": event.map(EventCode::as_str)})).await
    }

    fn webhook(&self) -> String {
        self.object.name.clone()
    }

    fn command(&self, words: &str) -> String {
        format!("kubectl docket {words} {} -n {}", self.object.name, self.cluster.own_namespace())
    }
}

/// The fields that choose dead letters of a webhook.
fn chosen(letters: &DeadLetters) -> Value {
    let time = |at: Option<Timestamp>| at.map(moment::written).map(Value::from);
    let fields = [
        ("event", letters.event.map(EventCode::as_str).map(Value::from)),
        ("from", time(letters.from)),
        ("to", time(letters.to)),
        ("endedBefore", time(letters.ended_before)),
        ("limit", letters.limit.map(Value::from)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn paced(letters: &DeadLetters, per_second: i64) -> Value {
    let mut request = chosen(letters);
    request["perSecond"] = per_second.into();
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_only_the_fields_that_are_given() {
        let all = DeadLetters { event: None, from: None, to: None, ended_before: None, limit: None };
        assert_eq!(paced(&all, 10), json!({"perSecond": 10}));
        let some = DeadLetters {
            event: Some(EventCode::OrderCreated),
            from: Timestamp::from_second(0).ok(),
            limit: Some(5),
            ..all
        };
        assert_eq!(
            chosen(&some),
            json!({"event": "order.created", "from": "1970-01-01T00:00:00.000Z", "limit": 5})
        );
        let at = |second| Timestamp::from_second(second).ok();
        let until = DeadLetters { to: at(60), ended_before: at(90), ..all };
        assert_eq!(
            chosen(&until),
            json!({"to": "1970-01-01T00:01:00.000Z", "endedBefore": "1970-01-01T00:01:30.000Z"})
        );
    }
}
