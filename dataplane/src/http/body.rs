//! Reads the bytes of request bodies, within their limits, and makes responses of JSON text. In both directions, a large body has a
//! share of the memory while it waits for its client.

use std::io::{ErrorKind, Write};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes, BytesMut};
use docket_domain::audit::Actor;
use docket_listener::fair_share::{FairShare, Share};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use super::error::ApiError;
use crate::tenancy::ServedTenant;

/// The most bytes of a sign-in's body: an e-mail address, a password and a short code.
pub const SIGN_IN_LIMIT: usize = 4 * 1024;
/// The most bytes of the form of the portal's sign-in page, which may keep another form.
pub const SIGN_IN_FORM_LIMIT: usize = SMALL;
/// The most bytes of a form that the sign-in page keeps.
pub const KEPT_FORM_LIMIT: usize = SIGN_IN_FORM_LIMIT - SIGN_IN_LIMIT;
/// The most bytes of an order. An order with hundreds of documents and parties is far below it.
pub const ORDER_LIMIT: usize = 1024 * 1024;
/// The most bytes of other bodies: a note has at most 4,000 characters.
pub const LIMIT: usize = 64 * 1024;
/// Shorter bodies need no share: the bound of connections covers them.
const SMALL: usize = 16 * 1024;
/// How many times its own length a body takes: as JSON, as an order, as it is stored, and as it is sent to the database.
const COPIES: usize = 8;
/// The bytes that the largest tree of JSON takes beside its texts.
const TREE: usize = 6 * 1024 * 1024;
const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
/// The time in which a body must arrive.
pub const TIME: Duration = Duration::from_secs(20);

/// The most bytes of a response with a tenant's data: somewhat more than a page of a hundred long notes.
pub const LONGEST_RESPONSE: usize = 2 * 1024 * 1024;
/// The error instead of a longer response.
const TOO_LONG: ApiError = ApiError::BadRequest(
    "The response would be longer than 2 MiB; ask for less, for lists with a smaller pageSize",
);

/// Shares the memory for bodies that are longer than 16 KiB. A tenant gets at most half of what is free or its own already, and in
/// responses one user gets at most half of the tenant's part.
#[derive(Debug)]
pub struct Bodies {
    /// KiB of bodies that move at the pace of their clients: requests that arrive, and responses that are read.
    on_the_way: FairShare<String>,
    /// KiB of bodies that have arrived, until their requests end.
    processed: FairShare<String>,
}

/// A body that has arrived, with its share of the memory until its request ends.
pub struct Arrived {
    /// The body.
    pub bytes: Bytes,
    /// The share; `None` for a short body.
    pub share: Option<Share>,
}

impl Bodies {
    /// Creates the memory for bodies, of `bytes` bytes, which requests share.
    pub fn new(bytes: u64) -> Self {
        let half = u32::try_from(bytes / 2 / 1024).unwrap_or(u32::MAX / 2);
        Self {
            on_the_way: FairShare::new(half, kib(LONGEST_RESPONSE)),
            processed: FairShare::new(half, kib(ORDER_LIMIT * COPIES + TREE)),
        }
    }

    /// Reads the JSON body of a request of this tenant with these headers, of at most `limit` bytes.
    pub async fn read(
        &self,
        tenant: &str,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Result<Arrived, ApiError> {
        check_head(headers, &body, limit, JSON)?;
        self.arrived(tenant, body, limit).await
    }

    /// Like [`read`](Self::read), for a form.
    pub async fn read_form(
        &self,
        tenant: &str,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Result<Arrived, ApiError> {
        check_form(headers, &body, limit)?;
        self.arrived(tenant, body, limit).await
    }

    async fn arrived(&self, tenant: &str, body: Body, limit: usize) -> Result<Arrived, ApiError> {
        // A client that does not announce a length may send up to the limit.
        let announced =
            body.size_hint().upper().and_then(|length| usize::try_from(length).ok()).unwrap_or(limit);
        if announced.min(limit) <= SMALL {
            return Ok(Arrived { bytes: bytes(body, limit).await?, share: None });
        }
        let arriving = self.on_the_way.take(tenant.to_owned(), kib(announced.min(limit))).await?;
        let bytes = bytes(body, limit).await?;
        let share = self.processed.take(tenant.to_owned(), kib(bytes.len() * COPIES + TREE)).await?;
        drop(arriving);
        Ok(Arrived { bytes, share: Some(share) })
    }

    /// Gives a response of this tenant to this user its share of the memory, until its client has read it.
    ///
    /// # Errors
    ///
    /// The response is too long, or the tenant's clients or this user leave too much unread. A response does not wait for its
    /// share, because it would take the memory meanwhile.
    pub fn send(&self, tenant: &str, user: Option<&Actor>, response: Response) -> Result<Response, ApiError> {
        let length = response.body().size_hint().lower();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length <= SMALL {
            return Ok(response);
        }
        if length > LONGEST_RESPONSE {
            return Err(TOO_LONG);
        }
        let share = self.on_the_way.try_take(tenant.to_owned(), user, kib(length))?;
        Ok(response.map(|body| Body::new(SentResponse { body, rest: Bytes::new(), _share: share })))
    }
}

/// The tenant of a request, by uid, and the user that sent it, once they are known.
#[derive(Debug, Clone, Default)]
pub struct OfTenant(Arc<(OnceLock<Arc<str>>, OnceLock<Actor>)>);

impl OfTenant {
    /// Records that the request with these parts is for this tenant.
    pub fn record(parts: &Parts, tenant: &ServedTenant) {
        if let Some(Self(of)) = parts.extensions.get() {
            let _ = of.0.set(Arc::clone(&tenant.uid));
        }
    }

    /// Records that this user sent the request with these parts.
    pub fn record_user(parts: &Parts, user: &Actor) {
        if let Some(Self(of)) = parts.extensions.get() {
            let _ = of.1.set(user.clone());
        }
    }

    /// The tenant's uid; `None` if it is not known, or the request has no tenant.
    pub fn get(&self) -> Option<&Arc<str>> {
        self.0.0.get()
    }

    /// The user; `None` if it is not known, or the request needs none.
    pub fn user(&self) -> Option<&Actor> {
        self.0.1.get()
    }
}

/// A response with its share. It is sent in copied pieces, so that the memory of the whole is free when the share ends, whatever
/// the connection still has to write.
struct SentResponse {
    body: Body,
    /// The unsent rest of the present frame.
    rest: Bytes,
    _share: Share,
}

impl HttpBody for SentResponse {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = self.rest.len().min(SMALL);
        let piece = self.rest.copy_to_bytes(length);
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}

impl Arrived {
    /// Keeps the part of the share that is needed once the body's tree of JSON is gone.
    pub fn without_tree(self) -> Option<Share> {
        self.share.map(|share| share.without(kib(TREE)))
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Reads the JSON body of a request with these headers, of at most `limit` bytes.
pub async fn json_bytes(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    check_head(headers, &body, limit, JSON)?;
    bytes(body, limit).await
}

/// Reads the body of a form with these headers, of at most `limit` bytes.
pub async fn form_bytes(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    check_form(headers, &body, limit)?;
    bytes(body, limit).await
}

fn check_form(headers: &HeaderMap, body: &Body, limit: usize) -> Result<(), ApiError> {
    check_head(headers, body, limit, FORM).map_err(|error| match error {
        ApiError::UnsupportedMediaType => {
            ApiError::BadRequest("Send the form as application/x-www-form-urlencoded, as browsers do")
        }
        error => error,
    })
}

fn check_head(headers: &HeaderMap, body: &Body, limit: usize, kind: &str) -> Result<(), ApiError> {
    check_content_type(headers, kind)?;
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::TooLarge(limit));
    }
    Ok(())
}

async fn bytes(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match tokio::time::timeout(TIME, copied(body, limit)).await {
        Err(_) => Err(ApiError::RequestTimeout),
        Ok(copied) => copied,
    }
}

/// Copies each frame and drops it: a frame of a few bytes would hold on to a buffer of kilobytes.
async fn copied(mut body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::BadRequest("The body is incomplete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(ApiError::TooLarge(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

fn check_content_type(headers: &HeaderMap, kind: &str) -> Result<(), ApiError> {
    // Compressed bodies are refused: a small one can decompress to gigabytes.
    if headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(ApiError::UnsupportedMediaType);
    }
    let mut sent = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return Err(ApiError::UnsupportedMediaType) };
    let text = value.to_str().map_err(|_| ApiError::UnsupportedMediaType)?.to_ascii_lowercase();
    let mut parts = parts_of(&text);
    let is_kind = parts.next() == Some(kind);
    let mut charsets =
        parts.filter_map(|part| part.strip_prefix("charset=")).map(|set| set.trim_matches(['"', '\'']));
    // .NET and other clients leave the hyphen out.
    let is_utf8 = charsets.all(|set| matches!(set, "utf-8" | "utf8"));
    if is_kind && is_utf8 { Ok(()) } else { Err(ApiError::UnsupportedMediaType) }
}

/// Splits a media type from its parameters at each semicolon that is not in quotation marks (RFC 9110, section 5.6.4).
fn parts_of(text: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let is_end = move |c: char| {
        quoted ^= c == '"' && !escaped;
        escaped = quoted && !escaped && c == '\\';
        c == ';' && !quoted
    };
    text.split(is_end).map(str::trim)
}

/// A value as a JSON response. Stored text may be up to six times longer as JSON.
#[derive(Debug)]
pub struct JsonResponse<T>(pub T);

impl<T: Serialize> IntoResponse for JsonResponse<T> {
    fn into_response(self) -> Response {
        let mut text = ResponseText(Vec::new());
        match serde_json::to_writer(&mut text, &self.0) {
            Ok(()) => json_response(text.0),
            Err(_) => TOO_LONG.into_response(),
        }
    }
}

/// The text of a response, of at most [`LONGEST_RESPONSE`] bytes.
struct ResponseText(Vec<u8>);

impl Write for ResponseText {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        match self.0.len() + more.len() > LONGEST_RESPONSE {
            true => Err(ErrorKind::FileTooLarge.into()),
            false => self.0.write(more),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A response with this JSON text.
pub fn json_response(body: impl Into<Body>) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, kind)], body.into()).into_response()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    const OK: StatusCode = StatusCode::OK;
    const BAD_REQUEST: StatusCode = StatusCode::BAD_REQUEST;

    fn large(bytes: &Bytes) -> Response {
        Response::new(Body::from(bytes.clone()))
    }

    fn send(bodies: &Bodies, tenant: &str, user: &str, response: Response) -> Result<Response, ApiError> {
        bodies.send(tenant, Some(&Actor::Employee(user.into())), response)
    }

    #[test]
    fn content_type_is_json_in_utf_8_and_content_is_not_coded() {
        let check = |sent: &[(http::HeaderName, &'static str)]| {
            let headers = sent.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            check_content_type(&headers.collect(), JSON).is_ok()
        };
        for kind in [
            "application/json",
            "Application/JSON; Charset=UTF-8",
            "application/json;charset=utf8",
            "application/json; charset=\"utf-8\"",
            "application/json; charset='utf-8'",
            "application/json; profile=\"a;charset=latin1\"",
            "application/json; profile=\"a\\\";charset=latin1\"; charset=utf-8",
            "application/json;",
        ] {
            assert!(check(&[(CONTENT_TYPE, kind)]), "{kind}");
        }
        for kind in [
            "text/json",
            "application/problem+json",
            "application/jsonp",
            "application/json; charset=latin1",
            "application/json; profile=\"a\"; charset=latin1",
            "application/json; charset=utf-8; charset=utf-16",
            "\"application/json\"",
            "",
        ] {
            assert!(!check(&[(CONTENT_TYPE, kind)]), "{kind}");
        }
        for (coding, taken) in [
            ("identity", true),
            ("Identity", true),
            ("IDENTITY", true),
            ("gzip", false),
            ("GZip", false),
            ("", false),
        ] {
            assert_eq!(check(&[(CONTENT_TYPE, JSON), (CONTENT_ENCODING, coding)]), taken, "{coding}");
        }
    }

    #[tokio::test]
    async fn large_response_has_a_share_until_it_is_sent_and_is_sent_unchanged() {
        let bodies = Bodies::new(64 << 20);
        let free = bodies.on_the_way.left();
        let bytes: Bytes = (0..1_000_000u32).map(|byte| byte as u8).collect::<Vec<_>>().into();
        let mut response = send(&bodies, "a", "ada", large(&bytes)).expect("free").into_body();
        assert_eq!(response.size_hint().exact(), Some(1_000_000));
        assert_eq!(free - bodies.on_the_way.left(), 977);
        let mut sent = Vec::new();
        while let Some(piece) = response.frame().await {
            let piece = piece.expect("in memory").into_data().expect("no trailers");
            assert!(piece.len() <= SMALL);
            sent.extend_from_slice(&piece);
            assert_eq!(response.size_hint().exact(), Some((bytes.len() - sent.len()) as u64));
        }
        assert!(sent == bytes && response.is_end_stream());
        drop(response);
        assert_eq!(bodies.on_the_way.left(), free);
    }

    #[tokio::test]
    async fn tenant_whose_clients_leave_responses_unread_is_refused_more_and_others_are_not() {
        let bodies = Bodies::new(64 << 20);
        let bytes = Bytes::from(vec![b' '; 1 << 20]);
        let users = (0..).map(|user| user.to_string());
        let unread: Vec<_> = users.map_while(|user| send(&bodies, "a", &user, large(&bytes)).ok()).collect();
        assert_eq!(unread.len(), 16);
        assert!(send(&bodies, "b", "ada", large(&bytes)).is_ok());
        assert!(send(&bodies, "a", "ada", Response::new(Body::from("{}"))).is_ok());
        drop(unread);
        assert!(send(&bodies, "a", "ada", large(&bytes)).is_ok());
    }

    #[tokio::test]
    async fn user_who_leaves_responses_unread_has_half_of_its_tenants_share() {
        let bodies = Bodies::new(64 << 20);
        let bytes = Bytes::from(vec![b' '; 1 << 20]);
        let all = |user: &'static str| std::iter::from_fn(|| send(&bodies, "a", user, large(&bytes)).ok());
        let greedy: Vec<_> = all("greedy").collect();
        let others: Vec<_> = all("quiet").collect();
        assert_eq!((greedy.len(), others.len()), (8, 8));
        assert!(send(&bodies, "b", "greedy", large(&bytes)).is_ok(), "of another tenant");
        drop(greedy);
        assert!(send(&bodies, "a", "greedy", large(&bytes)).is_ok());
    }

    /// A control character takes six bytes as JSON.
    #[tokio::test]
    async fn response_that_is_too_long_is_refused_before_it_is_whole() {
        let bodies = Bodies::new(64 << 20);
        let status = |length| JsonResponse("\u{1}".repeat(length)).into_response().status();
        assert_eq!((status(LONGEST_RESPONSE / 6), status(LONGEST_RESPONSE / 6 + 1)), (OK, BAD_REQUEST));
        let page =
            |length| send(&bodies, "a", "ada", Response::new(Body::from("x".repeat(length)))).map(drop);
        assert!(page(LONGEST_RESPONSE).is_ok());
        assert!(matches!(page(LONGEST_RESPONSE + 1), Err(ApiError::BadRequest(_))));
    }

    #[tokio::test]
    async fn long_form_has_a_share_and_a_short_one_none() {
        let bodies = Bodies::new(64 << 20);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(FORM))]);
        let arrived = async |length| {
            bodies.read_form("a", &headers, Body::from("x".repeat(length)), LIMIT).await.expect("it arrives")
        };
        assert!(arrived(SMALL).await.share.is_none());
        let free = (bodies.on_the_way.left(), bodies.processed.left());
        let long = arrived(LIMIT).await;
        assert_eq!(free.0, bodies.on_the_way.left(), "it has arrived");
        // Eight copies of 64 KiB, and 6 MiB for a tree of JSON.
        assert_eq!(free.1 - bodies.processed.left(), 8 * 64 + 6 * 1024);
        let without_tree = long.without_tree();
        assert_eq!(free.1 - bodies.processed.left(), 8 * 64);
        drop(without_tree);
        assert_eq!(free.1, bodies.processed.left());
        let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"x"))]);
        let unannounced = bodies.read_form("a", &headers, Body::from_stream(chunks), LIMIT).await;
        assert!(unannounced.expect("it arrives").share.is_some(), "it may be as long as the limit");
        let json = bodies.read("a", &headers, Body::from("{}"), LIMIT).await.map(|arrived| arrived.bytes);
        assert!(matches!(json, Err(ApiError::UnsupportedMediaType)));
    }
}
