//! What the platform's staff may see of tenants: metadata of orders and deliveries, never a payload, a header's value, the text of
//! a note or a receiver's response. The staff may also resend dead letters, and set them aside.
//!
//! `kubectl docket` sends its requests to the management port, with a token of the Kubernetes cluster. Each request needs a verb on
//! a subresource of a Tenant or Webhook. On `deliveries`: `list` for searches and previews, `get` for one delivery or order with its
//! attempts, `resend` to resend, to stop a resend and to set aside, `test` for test events. On `audit` and `people` of a Tenant:
//! `list`. The right is checked before the object is looked up, so that no user learns which objects exist.

pub mod answers;
pub mod audit;
pub mod people;
pub mod reviews;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use docket_crds::{is_object_name, webhook_key};
use docket_domain::audit::Actor;
use docket_domain::reading::event_id;
use docket_domain::resend::{Aside, DEFAULT_PER_SECOND, MAX_COUNT, MAX_PER_SECOND};
use docket_listener::client::Proxies;
use http::request::Parts;
use serde::Serialize;

use self::answers::Trace;
use self::reviews::{Reviews, Right};
use crate::actions::choice::Choice;
use crate::actions::resend::{Many, Progress, progress};
use crate::actions::trace::{self, Declared, Sight, TraceOf};
use crate::api::caller::{Principal, bearer};
use crate::api::middleware::{self, Responses};
use crate::api::state::ApiState;
use crate::api::webhook_logs::answers::{DeliveryPage, EventWord};
use crate::api::webhook_logs::named::check_webhook;
use crate::api::webhook_logs::resends::answers::ResendState;
use crate::api::webhook_logs::test_events::send_test;
use crate::api::webhook_logs::{DeliverySearch, listed, resends, set_aside, waits};
use crate::api::writes::Write;
use crate::http::body::{JsonResponse, OfTenant, json_bytes};
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::kinds::{DeliveryIdText, LineText, ResendIdText, Whole};
use crate::http::origin::origin;
use crate::http::request::{FromBody, FromFields, Query, request};
use crate::http::times::DateOrTime;
use crate::tenancy::ServedTenant;

/// The most bytes of a request's body.
const LIMIT: usize = 4 * 1024;

/// The state that the routes share.
struct Platform {
    api: Arc<ApiState>,
    reviews: Reviews,
}

/// The routes. They respond like /WebhookLogs, but without payloads and receivers' responses.
pub fn router(state: &Arc<ApiState>, reviews: Reviews) -> Router {
    let platform = Arc::new(Platform { api: Arc::clone(state), reviews });
    let responses = Responses { state: Arc::clone(state), pages: None };
    Router::new()
        .route("/platform/namespaces/{namespace}/tenants/{name}/deliveries", get(of_tenant))
        .route("/platform/namespaces/{namespace}/tenants/{name}/trace", get(trace_of_tenant))
        .route("/platform/namespaces/{namespace}/tenants/{name}/audit", get(audit::list))
        .route("/platform/namespaces/{namespace}/tenants/{name}/contacts", get(people::contacts))
        .route("/platform/namespaces/{namespace}/tenants/{name}/employees", get(people::employees))
        .route("/platform/namespaces/{namespace}/webhooks/{name}/deliveries", get(of_webhook))
        .route("/platform/namespaces/{namespace}/webhooks/{name}/trace", get(trace_of_webhook))
        .route("/platform/namespaces/{namespace}/webhooks/{name}/test", post(test))
        .route("/platform/namespaces/{namespace}/webhooks/{name}/preview", post(preview))
        .route("/platform/namespaces/{namespace}/webhooks/{name}/resend", post(resend))
        .route("/platform/namespaces/{namespace}/webhooks/{name}/resend", get(resend_progress))
        .route("/platform/namespaces/{namespace}/webhooks/{name}/stop", post(stop))
        .route(
            "/platform/namespaces/{namespace}/webhooks/{name}/set-aside",
            post(|state, object, request| set_or_undo(state, object, request, Aside::Set)),
        )
        .route(
            "/platform/namespaces/{namespace}/webhooks/{name}/set-aside/preview",
            post(|state, object, request| preview_aside(state, object, request, Aside::Set)),
        )
        .route(
            "/platform/namespaces/{namespace}/webhooks/{name}/undo-set-aside",
            post(|state, object, request| set_or_undo(state, object, request, Aside::Undo)),
        )
        .route(
            "/platform/namespaces/{namespace}/webhooks/{name}/undo-set-aside/preview",
            post(|state, object, request| preview_aside(state, object, request, Aside::Undo)),
        )
        .layer(axum::middleware::from_fn_with_state(responses, middleware::answer))
        .with_state(platform)
}

request! {
    /// What to trace: one of the three.
    query TraceQuery {
        /// A web order, a work order or an invoice.
        opt number: LineText<80>;
        /// An event.
        opt event_id: LineText<64>;
        /// A delivery.
        opt delivery_id: DeliveryIdText;
    }
}

request! {
    /// Which dead letters of the webhook to resend.
    body DeadLetters {
        /// Only deliveries of this event.
        opt event: EventWord;
        /// Only deliveries created at or after this time.
        opt from: DateOrTime;
        /// Only deliveries created before this time.
        opt to: DateOrTime;
        /// At most this many, the oldest first. The default is 10,000.
        def limit: Whole<1, MAX_COUNT> = MAX_COUNT;
        /// Deliveries due per second. The default is 10.
        def per_second: Whole<1, MAX_PER_SECOND> = DEFAULT_PER_SECOND;
    }
}

request! {
    /// Which dead letters of the webhook to set aside, or no longer.
    body AsideLetters {
        /// Only deliveries of this event.
        opt event: EventWord;
        /// Only deliveries created at or after this time.
        opt from: DateOrTime;
        /// Only deliveries created before this time.
        opt to: DateOrTime;
        /// Only dead letters that ended before this time.
        opt ended_before: DateOrTime;
        /// At most this many, the oldest first. The default is 10,000.
        def limit: Whole<1, MAX_COUNT> = MAX_COUNT;
    }
}

request! {
    /// A test event.
    body TestOfWebhook {
        /// Its code. The default is the first that the webhook takes.
        opt event: EventWord;
    }
}

/// A test event is queued.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TestAnswer {
    delivery_id: String,
}

request! {
    /// A bulk resend.
    query ResendQuery {
        /// Its id.
        req resend_id: ResendIdText;
    }
}

request! {
    /// A bulk resend to stop.
    body ResendToStop {
        /// Its id.
        req resend_id: ResendIdText;
    }
}

/// The name of an object of the cluster, with the resource of its kind, and what of it a request is about.
#[derive(Debug, Clone)]
struct ObjectName {
    resource: &'static str,
    subresource: &'static str,
    namespace: String,
    name: String,
}

impl ObjectName {
    /// The deliveries of an object.
    fn new(resource: &'static str, (namespace, name): (String, String)) -> Self {
        Self { resource, subresource: "deliveries", namespace, name }
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Platform {
    /// Returns the user, if it has this right to the object, at the object's tenant.
    async fn principal(
        &self,
        parts: &Parts,
        verb: &'static str,
        object: &ObjectName,
    ) -> Result<Principal, ApiError> {
        let ObjectName { resource, subresource, namespace, name } = object;
        let valid = is_object_name(namespace) && is_object_name(name);
        let token = bearer(parts).map_err(|_| ApiError::UnknownClusterUser)?;
        if !valid {
            return Err(ApiError::BadRequest("The namespace or the name is not a name of an object"));
        }
        let right = Right { verb, resource, subresource, namespace: namespace.clone(), name: name.clone() };
        // The proxies of the API's port are not in front of this port, where any pod could send a proxy's headers.
        let (source, origin) = origin(parts, &Proxies::default())?;
        let user = self.reviews.user(source, token, &right).await?;
        let tenants = self.api.tenants.all();
        let tenant = match *resource {
            TENANTS => tenants
                .into_iter()
                .find(|tenant| tenant.config.namespace == *namespace && tenant.config.name == *name),
            _ => of_webhook_named(tenants, &object.full_name()),
        };
        let missing = match *resource {
            TENANTS => "The Tenant is not served; `kubectl docket status` says why",
            _ => {
                "The Webhook is not served; `kubectl docket status` says why, and -t TENANT lists its deliveries"
            }
        };
        let tenant = tenant.ok_or(ApiError::NotFound(missing))?;
        OfTenant::record(parts, &tenant);
        let actor = Actor::ClusterUser(user);
        // The request counts against the tenant's limit, like every request that reads its database.
        self.api
            .rates
            .request(&tenant.uid, &actor, &tenant.config.limits, self.api.clock.elapsed())
            .inspect_err(|over| self.api.tenants.at_limit.reached(&tenant.uid, over.limit))?;
        OfTenant::record_user(parts, &actor);
        Ok(Principal { tenant, actor, origin, customer: None })
    }
}

/// The tenant that serves this webhook, or else the tenant that declares it.
fn of_webhook_named(tenants: Vec<Arc<ServedTenant>>, full_name: &str) -> Option<Arc<ServedTenant>> {
    let serves = |tenant: &Arc<ServedTenant>| {
        tenant.config.webhooks.iter().any(|webhook| webhook.full_name() == full_name)
    };
    let holds = |tenant: &Arc<ServedTenant>| {
        tenant.webhooks().held().any(|(_, key)| webhook_key::full_name(key).unwrap_or(key) == full_name)
    };
    let place = tenants.iter().position(serves).or_else(|| tenants.iter().position(holds))?;
    tenants.into_iter().nth(place)
}

const TENANTS: &str = "tenants";
const WEBHOOKS: &str = "webhooks";

type ObjectPath = Path<(String, String)>;

/// GET …/tenants/{name}/deliveries: a page of the tenant's deliveries, newest first, with the filters of /WebhookLogs/Search.
async fn of_tenant(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    parts: Parts,
) -> Result<JsonResponse<DeliveryPage>, ApiError> {
    let principal = platform.principal(&parts, "list", &ObjectName::new(TENANTS, object)).await?;
    let mut search = DeliverySearch::read(RequestFields::of_query(parts.uri.query()))?;
    check_webhook(&platform.api, &principal, &mut search).await?;
    listed(&platform.api, &principal, search).await
}

/// GET …/webhooks/{name}/deliveries: a page of one webhook's deliveries, newest first.
async fn of_webhook(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    parts: Parts,
) -> Result<JsonResponse<DeliveryPage>, ApiError> {
    let object = ObjectName::new(WEBHOOKS, object);
    let principal = platform.principal(&parts, "list", &object).await?;
    let fields = RequestFields::of_query(parts.uri.query());
    if fields.has("webhook") {
        return Err(ApiError::field("webhook", "the path names the webhook"));
    }
    let search = DeliverySearch { webhook: Some(object.full_name()), ..DeliverySearch::read(fields)? };
    listed(&platform.api, &principal, search).await
}

/// GET …/tenants/{name}/trace: an order with its events, its deliveries and their attempts, or one event or delivery with its order.
/// Of each event, it names the webhooks without a delivery, and why.
async fn trace_of_tenant(
    state: State<Arc<Platform>>,
    Path(object): ObjectPath,
    parts: Parts,
) -> Result<JsonResponse<Trace>, ApiError> {
    traced(state, ObjectName::new(TENANTS, object), parts).await
}

/// GET …/webhooks/{name}/trace: the same trace, with the deliveries to one webhook alone.
async fn trace_of_webhook(
    state: State<Arc<Platform>>,
    Path(object): ObjectPath,
    parts: Parts,
) -> Result<JsonResponse<Trace>, ApiError> {
    traced(state, ObjectName::new(WEBHOOKS, object), parts).await
}

async fn traced(
    State(platform): State<Arc<Platform>>,
    object: ObjectName,
    mut parts: Parts,
) -> Result<JsonResponse<Trace>, ApiError> {
    let principal = platform.principal(&parts, "get", &object).await?;
    let webhook = (object.resource == WEBHOOKS).then(|| object.full_name());
    let Query(query) = Query::<TraceQuery>::from_request_parts(&mut parts, &()).await?;
    let event = query.event_id.map(|id| event_id(&id).unwrap_or(id));
    let of = match (query.number.as_deref(), event.as_deref(), query.delivery_id) {
        (Some(number), None, None) => TraceOf::Number(number),
        (None, Some(id), None) => TraceOf::Event(id),
        (None, None, Some(id)) => TraceOf::Delivery(id),
        _ => return Err(ApiError::field("number", "give one of number, eventId and deliveryId")),
    };
    let mut reader = principal.reader(&platform.api).await?;
    let sight = Sight { webhook: webhook.as_deref(), customer: None };
    let declared = Declared::of(&principal.tenant, principal.webhooks());
    let traced = trace::read(&mut reader, &platform.api.clock, of, sight, Some(&declared)).await?;
    drop(reader);
    let waits = waits(&platform.api, &principal, &traced.all()).await?;
    Ok(JsonResponse(Trace::new(traced, waits)))
}

/// POST …/webhooks/{name}/test: sends a test event.
async fn test(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    request: Request,
) -> Result<JsonResponse<TestAnswer>, ApiError> {
    let object = ObjectName::new(WEBHOOKS, object);
    let (principal, body) = asked(&platform, "test", &object, request).await?;
    let TestOfWebhook { event } = TestOfWebhook::from_body(&body)?;
    let id = send_test(&platform.api, &principal, &object.full_name(), event).await?;
    Ok(JsonResponse(TestAnswer { delivery_id: id.to_string() }))
}

/// POST …/webhooks/{name}/preview: what a resend would queue.
async fn preview(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    request: Request,
) -> Result<Response, ApiError> {
    let (principal, many) =
        dead_letters(&platform, "list", ObjectName::new(WEBHOOKS, object), request).await?;
    resends::preview(&platform.api, &principal, many).await
}

/// POST …/webhooks/{name}/resend: resends the dead letters of a webhook.
async fn resend(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    request: Request,
) -> Result<Response, ApiError> {
    let (principal, many) =
        dead_letters(&platform, "resend", ObjectName::new(WEBHOOKS, object), request).await?;
    resends::many(&platform.api, &principal, many, Write::each_time()).await.map(|(response, _)| response)
}

/// Returns the user, if it has this right to the object, and the body of the request.
async fn asked(
    platform: &Platform,
    verb: &'static str,
    object: &ObjectName,
    request: Request,
) -> Result<(Principal, Bytes), ApiError> {
    let (parts, body) = request.into_parts();
    let principal = platform.principal(&parts, verb, object).await?;
    let body = json_bytes(&parts.headers, body, LIMIT).await?;
    Ok((principal, body))
}

async fn dead_letters(
    platform: &Platform,
    verb: &'static str,
    object: ObjectName,
    request: Request,
) -> Result<(Principal, Many), ApiError> {
    let (principal, body) = asked(platform, verb, &object, request).await?;
    let DeadLetters { event, from, to, limit, per_second } = DeadLetters::from_body(&body)?;
    let choice = Choice::new(object.full_name(), event, [from, to, None], limit);
    Ok((principal, Many { choice, per_second }))
}

/// POST …/webhooks/{name}/set-aside and …/undo-set-aside: sets dead letters of a webhook aside, or undoes that.
async fn set_or_undo(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    request: Request,
    aside: Aside,
) -> Result<Response, ApiError> {
    let object = ObjectName::new(WEBHOOKS, object);
    let (principal, choice) = choice(&platform, "resend", object, request).await?;
    let written = set_aside::many(&platform.api, &principal, choice, aside, Write::each_time()).await;
    written.map(|(response, _)| response)
}

/// POST …/set-aside/preview and …/undo-set-aside/preview: what the two routes would change.
async fn preview_aside(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    request: Request,
    aside: Aside,
) -> Result<Response, ApiError> {
    let object = ObjectName::new(WEBHOOKS, object);
    let (principal, choice) = choice(&platform, "list", object, request).await?;
    set_aside::preview(&platform.api, &principal, &choice, aside).await
}

async fn choice(
    platform: &Platform,
    verb: &'static str,
    object: ObjectName,
    request: Request,
) -> Result<(Principal, Choice), ApiError> {
    let (principal, body) = asked(platform, verb, &object, request).await?;
    let AsideLetters { event, from, to, ended_before, limit } = AsideLetters::from_body(&body)?;
    Ok((principal, Choice::new(object.full_name(), event, [from, to, ended_before], limit)))
}

/// GET …/webhooks/{name}/resend: the progress of a bulk resend.
async fn resend_progress(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    mut parts: Parts,
) -> Result<JsonResponse<ResendState>, ApiError> {
    let object = ObjectName::new(WEBHOOKS, object);
    let principal = platform.principal(&parts, "list", &object).await?;
    let Query(ResendQuery { resend_id }) = Query::from_request_parts(&mut parts, &()).await?;
    Ok(JsonResponse(resend_of(&platform, &principal, &object, &resend_id).await?.into()))
}

/// POST …/webhooks/{name}/stop: withdraws what a bulk resend has not sent yet.
async fn stop(
    State(platform): State<Arc<Platform>>,
    Path(object): ObjectPath,
    request: Request,
) -> Result<Response, ApiError> {
    let object = ObjectName::new(WEBHOOKS, object);
    let (principal, body) = asked(&platform, "resend", &object, request).await?;
    let ResendToStop { resend_id } = ResendToStop::from_body(&body)?;
    resend_of(&platform, &principal, &object, &resend_id).await?;
    let stopped = resends::stop_one(&platform.api, &principal, resend_id, Write::each_time()).await;
    stopped.map(|(response, _)| response)
}

/// Returns a bulk resend, if it is to this webhook.
async fn resend_of(
    platform: &Platform,
    principal: &Principal,
    object: &ObjectName,
    id: &str,
) -> Result<Progress, ApiError> {
    let mut reader = principal.reader(&platform.api).await?;
    let found = progress(&mut reader, None, Some(id), None, 1).await?.into_iter().next();
    let its = found.filter(|found| found.resend.webhook_name == object.full_name());
    its.ok_or(ApiError::NotFound("The webhook has no such resend"))
}
