//! Faults on the way to the API server: watches that end or do not begin, lists from the past, writes that arrive late, and calls that
//! fail.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::sync::watch;

use super::{Body, Gate, is_watch, is_write};

/// What becomes of watches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watches {
    /// Watches pass.
    #[default]
    Open,
    /// None begins: each gets the status 503.
    Refused,
    /// Each begins with the API server's error for a version that it no longer has: 410 Gone.
    Expired,
}

/// What becomes of lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Lists {
    #[default]
    Pass,
    Recorded,
    Replayed,
}

#[derive(Debug, Clone, Copy, Default)]
struct Settings {
    watches: Watches,
    lists: Lists,
    /// A tenth of the calls fails, as drawn from this seed; `None`: no call does.
    seed: Option<u64>,
}

/// The faults of a gate.
#[derive(Debug, Default)]
pub(super) struct Faults {
    settings: Mutex<Settings>,
    /// Each change ends the connections with a watch.
    cuts: watch::Sender<u64>,
    /// The number of writes that pass before the others wait; `None`: none waits.
    held_after: watch::Sender<Option<usize>>,
    writes: AtomicUsize,
    lists: Mutex<HashMap<String, Bytes>>,
    calls: AtomicU64,
    failed: AtomicUsize,
    pending: Mutex<BTreeMap<u64, String>>,
}

/// One request, until its response is sent or its client has hung up.
pub(super) struct Call {
    uri: String,
    is_write: bool,
    is_list: bool,
    is_watch: bool,
    fault: Option<Fault>,
    number: u64,
    faults: Arc<Faults>,
}

#[derive(Clone, Copy)]
struct Fault {
    status: StatusCode,
    /// Whether the API server does the write before the call fails.
    is_late: bool,
}

impl Gate {
    /// The writes that have no response yet: method and path of each.
    pub fn pending_writes(&self) -> Vec<String> {
        locked(&self.faults.pending).values().cloned().collect()
    }

    /// Ends the open watches in the middle, and says what becomes of watches from now on.
    pub fn set_watches(&self, watches: Watches) {
        locked(&self.faults.settings).watches = watches;
        self.faults.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Lets lists pass, and keeps the newest response to each.
    pub fn record_lists(&self) {
        locked(&self.faults.settings).lists = Lists::Recorded;
    }

    /// Sends the recorded response to each list that was recorded, as an API server does that has seen nothing since.
    pub fn replay_lists(&self) {
        locked(&self.faults.settings).lists = Lists::Replayed;
    }

    /// Lets lists pass.
    pub fn pass_lists(&self) {
        locked(&self.faults.settings).lists = Lists::Pass;
    }

    /// A tenth of the calls fails from now on, as drawn from the seed: with 409 (writes only), with 429 and `Retry-After`, or with 500. Half of
    /// the writes that get 500 have reached the API server. `None`: no call fails.
    pub fn fail_a_tenth(&self, seed: Option<u64>) {
        locked(&self.faults.settings).seed = seed;
    }

    /// The number of calls, and how many of them failed because of a fault.
    pub fn failed(&self) -> (u64, usize) {
        (self.faults.calls.load(Ordering::SeqCst), self.faults.failed.load(Ordering::SeqCst))
    }

    /// Lets this many writes pass; the other writes wait until the next call. `None`: all writes pass, also the waiting ones.
    pub fn hold_writes_after(&self, writes: Option<usize>) {
        self.faults.writes.store(0, Ordering::SeqCst);
        self.faults.held_after.send_replace(writes);
    }
}

impl Faults {
    /// Notices when watches are cut.
    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    /// Begins a call.
    pub(super) fn call(self: &Arc<Self>, request: &Request<Incoming>) -> Call {
        let asks = |pair: &str| request.uri().query().is_some_and(|query| query.contains(pair));
        let (is_write, is_watch) = (is_write(request), is_watch(request));
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let seed = locked(&self.settings).seed;
        if is_write {
            let what = format!("{} {}", request.method(), request.uri().path());
            locked(&self.pending).insert(number, what);
        }
        Call {
            uri: request.uri().to_string(),
            is_write,
            is_list: request.method() == Method::GET && asks("limit=") && !is_watch,
            is_watch,
            fault: seed.and_then(|seed| fault(seed, number, request.method() != Method::GET)),
            number,
            faults: Arc::clone(self),
        }
    }
}

impl Call {
    /// The response in place of the API server's; `None`: the request passes.
    pub(super) async fn instead(&self) -> Option<Response<Body>> {
        let settings = *locked(&self.faults.settings);
        if let Some(fault) = self.fault.filter(|fault| !fault.is_late) {
            return Some(self.failed(fault.status));
        }
        if self.is_watch {
            match settings.watches {
                Watches::Open => {}
                Watches::Refused => return Some(failure(StatusCode::SERVICE_UNAVAILABLE)),
                Watches::Expired => {
                    let event = json!({"type": "ERROR", "object": status(StatusCode::GONE)});
                    return Some(response(StatusCode::OK, format!("{event}\n").into()));
                }
            }
        }
        if self.is_list && settings.lists == Lists::Replayed {
            let recorded = locked(&self.faults.lists).get(&self.uri).cloned();
            return recorded.map(|list| response(StatusCode::OK, list));
        }
        if self.is_write {
            let mut held_after = self.faults.held_after.subscribe();
            let number = self.faults.writes.fetch_add(1, Ordering::SeqCst);
            if held_after.borrow().is_some_and(|limit| number >= limit) {
                // The sender lives as long as `self`.
                let _ = held_after.wait_for(Option::is_none).await;
            }
        }
        None
    }

    /// The response that the client gets, given the API server's.
    pub(super) async fn after(&self, passed: Response<Body>) -> Response<Body> {
        if let Some(fault) = self.fault {
            return self.failed(fault.status);
        }
        let records = locked(&self.faults.settings).lists == Lists::Recorded;
        if !self.is_list || !records || passed.status() != StatusCode::OK {
            return passed;
        }
        match passed.into_body().collect().await {
            Ok(list) => {
                let list = list.to_bytes();
                locked(&self.faults.lists).insert(self.uri.clone(), list.clone());
                response(StatusCode::OK, list)
            }
            Err(_) => failure(StatusCode::BAD_GATEWAY),
        }
    }

    fn failed(&self, status: StatusCode) -> Response<Body> {
        self.faults.failed.fetch_add(1, Ordering::SeqCst);
        failure(status)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        locked(&self.faults.pending).remove(&self.number);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with it")
}

/// The fault of the call with this number; `None` for nine tenths of them.
fn fault(seed: u64, number: u64, changes: bool) -> Option<Fault> {
    let draw = mixed(seed.wrapping_add(number));
    if !draw.is_multiple_of(10) {
        return None;
    }
    let (kinds, draw) = (if changes { 3 } else { 2 }, draw / 10);
    let status = match draw % kinds {
        0 => StatusCode::TOO_MANY_REQUESTS,
        1 => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::CONFLICT,
    };
    let is_late = changes && status == StatusCode::INTERNAL_SERVER_ERROR && (draw / kinds).is_multiple_of(2);
    Some(Fault { status, is_late })
}

/// The finalizer of SplitMix64, which spreads numbers in a row over all 64 bits.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What the API server sends with an error.
fn status(code: StatusCode) -> serde_json::Value {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::GONE => "Expired",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": "by the gate", "code": code.as_u16(),
    })
}

fn failure(code: StatusCode) -> Response<Body> {
    let mut failure = response(code, status(code).to_string().into());
    if code == StatusCode::TOO_MANY_REQUESTS {
        failure.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    failure
}

fn response(code: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
