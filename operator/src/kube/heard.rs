//! A client for one watch that records each sign of the API server.

use std::sync::Arc;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::state::sight::Heard;

/// A client that sends requests with `client`. Each response and each part of its body is recorded in `heard`. The library
/// reports no bookmarks and no ends of watches, so they can be seen only here.
pub(super) fn client_of_watch(client: &Client, heard: Arc<Heard>, metrics: Arc<Metrics>) -> Client {
    let (sender, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (sender, heard, metrics) = (sender.clone(), heard.clone(), metrics.clone());
        async move {
            let response: Response<Body> = sender.send(request).await?;
            note(&heard, &metrics);
            Ok::<_, kube::Error>(response.map(move |body| {
                body.map_frame(move |frame| {
                    note(&heard, &metrics);
                    frame
                })
            }))
        }
    });
    Client::new(service, namespace)
}

fn note(heard: &Heard, metrics: &Metrics) {
    if let Some(silence) = heard.again(Instant::now()) {
        metrics.watch_was_silent();
        tracing::warn!(
            kind = heard.kind(),
            "a watch of the API server was silent for {} s; it is open again",
            silence.as_secs()
        );
    }
}
