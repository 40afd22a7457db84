//! Requests of the routes around resends.

use docket_domain::resend::{DEFAULT_PER_SECOND, MAX_COUNT, MAX_PER_SECOND};
use utoipa::ToSchema;

use crate::actions::choice::Choice;
use crate::actions::resend::Many;
use crate::api::webhook_logs::answers::EventWord;
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::kinds::{DeliveryIdText, ResendIdText, WebhookName, Whole};
use crate::http::paging::{Cursor, DEFAULT_PAGE_SIZE, PageSize};
use crate::http::request::{FromBody, FromFields, request};
use crate::http::times::DateOrTime;

/// The body of POST /WebhookLogs/Resend.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ResendRequest {
    /// One delivery that has ended.
    One(ResendOne),
    /// The dead letters of a webhook.
    Many(ResendMany),
}

impl FromBody for ResendRequest {
    fn from_body(body: &[u8]) -> Result<Self, ApiError> {
        let fields = RequestFields::of_body(body)?;
        match fields.has("deliveryId") {
            true => ResendOne::read(fields).map(Self::One),
            false => ResendMany::read(fields).map(Self::Many),
        }
    }
}

request! {
    /// One delivery to resend.
    body ResendOne {
        /// The id of the delivery, which must have ended.
        req delivery_id: DeliveryIdText, example "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
    }
}

request! {
    /// The dead letters of a webhook to resend.
    body ResendMany {
        /// The webhook's namespace/name or its uid.
        req webhook: WebhookName, example "default/acme-orders";
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
        /// Deliveries due per second. The default is 10.
        def per_second: Whole<1, MAX_PER_SECOND> = DEFAULT_PER_SECOND;
        /// Only reports what would be resent. Nothing is written.
        def preview: bool = false;
    }
}

impl From<ResendMany> for Many {
    fn from(request: ResendMany) -> Self {
        let ResendMany { webhook, event, from, to, ended_before, limit, per_second, preview: _ } = request;
        Self { choice: Choice::new(webhook, event, [from, to, ended_before], limit), per_second }
    }
}

request! {
    /// The body of POST /WebhookLogs/StopResend.
    body StopResendRequest {
        /// The id of the bulk resend.
        req resend_id: ResendIdText, example "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a";
    }
}

request! {
    /// The parameters of GET /WebhookLogs/Resends.
    query ResendSearch {
        /// Only this bulk resend.
        opt resend_id: ResendIdText;
        /// Bulk resends per page.
        def page_size: PageSize = DEFAULT_PAGE_SIZE;
        /// The nextCursor of the previous page.
        opt cursor: Cursor;
    }
}
