//! The receiver of all webhooks of a run. It remembers everything that comes, and responds as a manner says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use docket_tests::receiver::{self, Receiver};
use serde_json::Value;

use crate::checker::{Post, Response};
use crate::random::Random;

/// How the receiver responds: percentages of POSTs, and otherwise with 200.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// The receiver responds with 500.
    pub(crate) failing: u64,
    /// The receiver does not respond; the connection stays open.
    pub(crate) hanging: u64,
    /// The receiver closes the connection.
    pub(crate) closing: u64,
    /// The receiver responds late, by up to `takes_ms`.
    pub(crate) slow: u64,
    pub(crate) takes_ms: u64,
}

/// The receiver; clones are the same one.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) receiver: Receiver,
    posts: Arc<Mutex<Vec<Post>>>,
    manner: Arc<Mutex<Manner>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hook {
    /// Starts the receiver. A webhook's path is `/` and its name.
    pub(crate) async fn start(manner: Manner, mut random: Random) -> Self {
        let (posts, manner) = (Arc::<Mutex<Vec<Post>>>::default(), Arc::new(Mutex::new(manner)));
        let (memory, current, started) = (Arc::clone(&posts), Arc::clone(&manner), Instant::now());
        let script = move |post: &receiver::Post| {
            let (response, status, delay) = decide(*lock(&current), &mut random);
            let response_at = started.elapsed() + delay;
            let response_at = status.map(|status| Response { status, at_ms: millis(response_at) });
            lock(&memory).push(remembered(post, started, response_at));
            response
        };
        let receiver = Receiver::scripted(script).await;
        Self { receiver, posts, manner }
    }

    /// Responds in this manner from now on.
    pub(crate) fn turn(&self, manner: Manner) {
        *lock(&self.manner) = manner;
    }

    /// The number of POSTs so far.
    pub(crate) fn count(&self) -> usize {
        lock(&self.posts).len()
    }

    /// Whether a POST after the first `from` POSTs satisfies the condition.
    pub(crate) fn any_since(&self, from: usize, is_so: impl Fn(&Post) -> bool) -> bool {
        lock(&self.posts).iter().skip(from).any(is_so)
    }

    /// The POSTs that came so far.
    pub(crate) fn posts(&self) -> Vec<Post> {
        lock(&self.posts).clone()
    }
}

/// A response to one POST: what the receiver does, the status that it sends, and how much later.
fn decide(manner: Manner, random: &mut Random) -> (receiver::Response, Option<u16>, Duration) {
    use receiver::Response::{Hang, Last, Status};
    let Manner { failing, hanging, closing, slow, takes_ms } = manner;
    let delay_ms = if random.below(100) < slow { random.below(takes_ms.max(1)) } else { 0 };
    let delay = Duration::from_millis(delay_ms);
    let (inner, status) = match random.below(100) {
        luck if luck < hanging => return (Hang, None, Duration::ZERO),
        luck if luck < hanging + closing => (Last(Vec::new()), None),
        luck if luck < hanging + closing + failing => (Status(500), Some(500)),
        _ => (Status(200), Some(200)),
    };
    (receiver::Response::after(delay, inner), status, delay)
}

fn remembered(post: &receiver::Post, started: Instant, response: Option<Response>) -> Post {
    let header = |name| post.header(name).unwrap_or_default().to_owned();
    let envelope: Value = serde_json::from_slice(&post.body).unwrap_or_default();
    Post {
        at_ms: millis(post.at.duration_since(started)),
        webhook: post.path.trim_start_matches('/').to_owned(),
        delivery: header("x-service-delivery-id"),
        event: envelope["id"].as_str().unwrap_or_default().to_owned(),
        body: post.body.clone(),
        signature: post.header("x-service-signature").map(str::to_owned),
        response,
    }
}

pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manner_is_kept_in_the_long_run() {
        let manner = Manner { failing: 40, hanging: 10, closing: 10, slow: 50, takes_ms: 100 };
        let mut random = Random::new(1);
        let (mut failed, mut silent, mut late) = (0, 0, 0);
        for _ in 0..10_000 {
            let (_, status, delay) = decide(manner, &mut random);
            failed += u32::from(status == Some(500));
            silent += u32::from(status.is_none());
            late += u32::from(!delay.is_zero());
        }
        assert!((3_800..4_200).contains(&failed), "{failed}");
        assert!((1_800..2_200).contains(&silent), "{silent}");
        assert!((4_000..5_000).contains(&late), "{late}: none of those that hang");
    }

    #[test]
    fn by_default_each_post_succeeds_at_once() {
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            let (_, status, delay) = decide(Manner::default(), &mut random);
            assert_eq!((status, delay), (Some(200), Duration::ZERO));
        }
    }
}
