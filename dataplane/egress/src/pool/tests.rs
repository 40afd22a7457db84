use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::*;
use crate::connection::tests::{connection, exchange};

/// Openings of connections; a test decides when each ends and how.
struct Openings {
    begun: mpsc::UnboundedReceiver<oneshot::Sender<OpenResult>>,
    begin: mpsc::UnboundedSender<oneshot::Sender<OpenResult>>,
}

impl Openings {
    fn new() -> Self {
        let (begin, begun) = mpsc::unbounded_channel();
        Self { begun, begin }
    }

    fn open(&self) -> Open {
        let begin = self.begin.clone();
        Arc::new(move || {
            let begin = begin.clone();
            Box::pin(async move {
                let (end, ended) = oneshot::channel();
                begin.send(end).expect("the test runs");
                ended.await.expect("the test ends it")
            })
        })
    }

    /// The next opening that begins.
    async fn next(&mut self) -> oneshot::Sender<OpenResult> {
        self.begun.recv().await.expect("an opening")
    }

    /// Checks that no further opening has begun.
    async fn none(&mut self) {
        settle().await;
        assert!(self.begun.try_recv().is_err(), "another opening");
    }
}

/// Lets the tasks of the pool run.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// Advances the clock in steps of [`LONGEST_WAIT`], so that the pool's tasks run after each step.
async fn advance_by_steps(time: Duration) {
    for _ in 0..time.as_millis() / LONGEST_WAIT.as_millis() {
        tokio::time::advance(LONGEST_WAIT).await;
        settle().await;
    }
}

fn at(url: &str) -> Arc<Target> {
    Arc::new(Target::of(&url.parse().expect("a url"), &crate::Trust::public()).expect("a target"))
}

fn target() -> Arc<Target> {
    at("https://a.example/")
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A connection that has answered a request, and the receiver's side of it.
async fn answered() -> (ReceiverConnection, TcpStream) {
    let (mut ours, mut theirs) = connection().await;
    exchange(&mut ours, &mut theirs).await;
    (ours, theirs)
}

fn end(opening: oneshot::Sender<OpenResult>, connection: ReceiverConnection) {
    let ended = opening.send(Ok((connection, Report::default())));
    assert!(ended.is_ok(), "the opening was given up");
}

fn fail(opening: oneshot::Sender<OpenResult>, class: FailureClass) {
    assert!(opening.send(Err((class, Report::default()))).is_ok(), "the opening was given up");
}

/// An attempt that waits for a connection.
type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Borrowed, Unopened>> + 'a>>;

fn attempt<'a>(pool: &'a ReceiverPool, target: &'a Arc<Target>, openings: &Openings) -> Attempt<'a> {
    Box::pin(pool.take(target, false, later(), openings.open()))
}

/// Lets attempts begin. Each must wait for a connection.
async fn wait(attempts: &mut [Attempt<'_>]) {
    for attempt in attempts {
        let begun = poll_fn(|context| Poll::Ready(attempt.as_mut().poll(context)));
        assert!(begun.await.is_pending());
    }
}

fn connected(end: Result<Borrowed, Unopened>) -> Borrowed {
    end.unwrap_or_else(|(class, _)| panic!("{class}"))
}

/// An attempt that has the first connection of its target.
async fn first(pool: &ReceiverPool, target: &Arc<Target>, openings: &mut Openings) -> (Borrowed, TcpStream) {
    let mut attempt = [attempt(pool, target, openings)];
    wait(&mut attempt).await;
    let (ours, theirs) = answered().await;
    end(openings.next().await, ours);
    let [attempt] = attempt;
    (connected(attempt.await), theirs)
}

/// An attempt that the connection of an earlier one serves while its own is being opened; and that opening.
async fn served_by_the_first(
    pool: &ReceiverPool,
    target: &Arc<Target>,
    openings: &mut Openings,
) -> (Borrowed, oneshot::Sender<OpenResult>, TcpStream) {
    let (borrowed, theirs) = first(pool, target, openings).await;
    let mut second = [attempt(pool, target, openings)];
    wait(&mut second).await;
    let opening = openings.next().await;
    borrowed.give_back(true);
    let [second] = second;
    (connected(second.await), opening, theirs)
}

#[tokio::test]
async fn four_connections_to_a_target_are_opened_at_a_time() {
    let (pool, target, other) = (ReceiverPool::default(), target(), at("https://a.example/other"));
    let mut openings = Openings::new();
    let mut six: Vec<_> = (0..6).map(|_| attempt(&pool, &target, &openings)).collect();
    wait(&mut six).await;
    let mut four = Vec::new();
    for _ in 0..OPENINGS {
        four.push(openings.next().await);
    }
    openings.none().await;
    let mut elsewhere = [attempt(&pool, &other, &openings)];
    wait(&mut elsewhere).await;
    let _elsewhere = openings.next().await;
    fail(four.remove(0), FailureClass::Refused);
    assert_eq!(six.remove(0).await.err().map(|(class, _)| class), Some(FailureClass::Refused));
    let _fifth = openings.next().await;
    openings.none().await;
}

#[tokio::test]
async fn connection_that_comes_back_goes_to_the_first_attempt_although_its_own_is_being_opened() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (borrowed, _theirs) = first(&pool, &target, &mut openings).await;
    let mut gives_up = [attempt(&pool, &target, &openings)];
    wait(&mut gives_up).await;
    let mut two = vec![attempt(&pool, &target, &openings), attempt(&pool, &target, &openings)];
    wait(&mut two).await;
    drop(gives_up);
    borrowed.give_back(true);
    let first = connected(two.remove(0).await);
    assert!(first.opened.is_none());
    wait(&mut two).await;
    let (ours, _theirs) = answered().await;
    end(openings.next().await, ours);
    let second = connected(two.remove(0).await);
    assert!(second.opened.is_some());
}

#[tokio::test(start_paused = true)]
async fn line_without_a_connection_opens_one_for_each_attempt_after_100_ms() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let mut six: Vec<_> = (0..6).map(|_| attempt(&pool, &target, &openings)).collect();
    wait(&mut six).await;
    let mut hanging = Vec::new();
    for _ in 0..OPENINGS {
        hanging.push(openings.next().await);
    }
    openings.none().await;
    tokio::time::advance(LONGEST_WAIT).await;
    wait(&mut six).await;
    hanging.extend([openings.next().await, openings.next().await]);
    openings.none().await;
}

#[tokio::test(start_paused = true)]
async fn line_opens_no_more_connections_than_are_in_use_after_100_ms() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let mut in_use = vec![first(&pool, &target, &mut openings).await];
    let mut many: Vec<_> = (0..20).map(|_| attempt(&pool, &target, &openings)).collect();
    wait(&mut many).await;
    let mut hanging = Vec::new();
    for _ in 0..OPENINGS {
        hanging.push(openings.next().await);
    }
    tokio::time::advance(LONGEST_WAIT).await;
    wait(&mut many).await;
    openings.none().await;
    // With six connections in use, six openings may run: two more than before.
    for _ in 0..5 {
        let (ours, theirs) = answered().await;
        end(hanging.remove(0), ours);
        in_use.push((connected(many.remove(0).await), theirs));
        hanging.push(openings.next().await);
    }
    tokio::time::advance(LONGEST_WAIT).await;
    wait(&mut many).await;
    hanging.extend([openings.next().await, openings.next().await]);
    openings.none().await;
}

#[tokio::test(start_paused = true)]
async fn opening_that_no_attempt_waits_for_is_given_up_after_100_ms() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (second, opening, _theirs) = served_by_the_first(&pool, &target, &mut openings).await;
    settle().await;
    assert!(!opening.is_closed(), "it may be quick");
    tokio::time::advance(LONGEST_WAIT).await;
    settle().await;
    assert!(opening.is_closed());
    drop(second);
    assert!(pool.lock().is_quiet());
}

/// Another process may wait for the receiver's workers, because an opening of this process found no free worker.
#[tokio::test(start_paused = true)]
async fn connections_are_not_kept_after_an_opening_was_given_up() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (second, opening, _theirs) = served_by_the_first(&pool, &target, &mut openings).await;
    let (idle, _theirs) = answered().await;
    tokio::time::advance(LONGEST_WAIT / 2).await;
    pool.keep_idle(&target, idle);
    tokio::time::advance(LONGEST_WAIT / 2).await;
    settle().await;
    assert!(opening.is_closed());
    assert!(pool.lock().idle.pop(&target).is_none(), "another process may wait for its worker");
    second.give_back(true);
    assert!(pool.lock().idle.pop(&target).is_none(), "this one too");
    // This opening succeeds in time, so the receiver has a free worker again.
    first(&pool, &target, &mut openings).await.0.give_back(true);
    assert!(pool.lock().idle.pop(&target).is_some());
}

/// A receiver far away is not one without workers.
#[tokio::test(start_paused = true)]
async fn opening_at_a_receiver_far_away_is_not_given_up() {
    let far = Duration::from_millis(560);
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    // The connections are made before the test looks at the clock, which jumps to the next timer while a real connection is made.
    let ((one, _theirs), (other, _others)) = (answered().await, answered().await);
    let mut attempts = [attempt(&pool, &target, &openings)];
    wait(&mut attempts).await;
    let opening = openings.next().await;
    tokio::time::advance(far).await;
    end(opening, one);
    let [first] = attempts;
    let first = connected(first.await);
    // The connection of the first attempt serves the second one, while another one is being opened.
    let mut second = [attempt(&pool, &target, &openings)];
    wait(&mut second).await;
    let opening = openings.next().await;
    advance_by_steps(LONGEST_WAIT).await;
    first.give_back(true);
    let [second] = second;
    let second = connected(second.await);
    advance_by_steps(far - LONGEST_WAIT).await;
    assert_eq!((pool.connections().opening, pool.connections().starving), (1, 0));
    end(opening, other);
    settle().await;
    second.give_back(true);
    assert_eq!(pool.connections().idle, 2);
    // The pool knows the distance to the receiver from the connection, although it knows nothing else of the receiver any more.
    let _third = connected(attempt(&pool, &target, &openings).await);
    assert_eq!(pool.lock().change(&target, |busy, _| busy.long(STARVING)), far * FAR);
}

/// Some servers limit their connections, or have a full queue of connections.
#[tokio::test(start_paused = true)]
async fn opening_that_is_refused_fails_no_attempt_while_the_receiver_is_busy() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (busy, _theirs) = first(&pool, &target, &mut openings).await;
    let mut waits = [attempt(&pool, &target, &openings)];
    wait(&mut waits).await;
    fail(openings.next().await, FailureClass::Refused);
    openings.none().await;
    tokio::time::advance(LONGEST_WAIT).await;
    let explanation = Explanation { cause: Some(Cause::HandshakeClosed), detail: None };
    let closed = (FailureClass::TlsOther, Report { explanation, ..Report::default() });
    assert!(openings.next().await.send(Err(closed)).is_ok());
    settle().await;
    wait(&mut waits).await;
    tokio::time::advance(LONGEST_WAIT).await;
    let last = openings.next().await;
    drop(busy);
    tokio::time::advance(Duration::from_millis(1)).await;
    fail(last, FailureClass::Refused);
    let [waits] = waits;
    let failed = waits.await.err().map(|(class, _)| class);
    assert_eq!(failed, Some(FailureClass::Refused), "the receiver is busy no more");
}

#[tokio::test]
async fn connection_that_is_opened_after_its_attempt_has_another_is_kept() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (second, opening, _theirs) = served_by_the_first(&pool, &target, &mut openings).await;
    let (ours, _theirs) = answered().await;
    end(opening, ours);
    settle().await;
    let third = attempt(&pool, &target, &openings).await;
    assert!(third.is_ok());
    drop(second);
    openings.none().await;
}

#[tokio::test]
async fn connections_and_attempts_that_wait_are_counted() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let mut waits = [attempt(&pool, &target, &openings)];
    wait(&mut waits).await;
    let opening = openings.next().await;
    let none = Connections::default();
    assert_eq!(pool.connections(), Connections { opening: 1, waiting: 1, ..none });
    let (ours, _theirs) = answered().await;
    end(opening, ours);
    let [waits] = waits;
    let borrowed = connected(waits.await);
    assert_eq!(pool.connections(), Connections { in_use: 1, opened: 1, ..none });
    borrowed.give_back(true);
    assert_eq!(pool.connections(), Connections { idle: 1, opened: 1, ..none });
    let reused = connected(attempt(&pool, &target, &openings).await);
    assert_eq!(pool.connections(), Connections { in_use: 1, opened: 1, reused: 1, ..none });
    drop(reused);
    assert_eq!(pool.connections(), Connections { opened: 1, reused: 1, ..none });
}

#[tokio::test(start_paused = true)]
async fn opening_that_starves_closes_the_connections_to_its_receiver() {
    let (pool, one, two) =
        (ReceiverPool::default(), at("https://a.example/one"), at("https://a.example/two"));
    let (elsewhere, mut openings) = (at("https://b.example/"), Openings::new());
    let (old, _theirs) = first(&pool, &one, &mut openings).await;
    let mut waits = [attempt(&pool, &two, &openings)];
    wait(&mut waits).await;
    let opening = openings.next().await;
    for target in [&one, &elsewhere] {
        pool.keep_idle(target, answered().await.0);
    }
    advance_by_steps(LONGEST_WAIT).await;
    assert!(pool.lock().idle.pop(&one).is_none(), "it was closed");
    assert!(pool.lock().idle.pop(&elsewhere).is_some(), "another receiver");
    advance_by_steps(STARVING - LONGEST_WAIT).await;
    assert_eq!((pool.connections().opening, pool.connections().starving), (1, 1));
    let mut more = [attempt(&pool, &one, &openings)];
    wait(&mut more).await;
    let _another = openings.next().await;
    old.give_back(true);
    settle().await;
    wait(&mut more).await; // it waits although the closed connection was to its URL
    let (ours, _theirs) = answered().await;
    end(opening, ours);
    let [waits] = waits;
    connected(waits.await).give_back(true);
    assert!(pool.lock().idle.pop(&two).is_none(), "another process may starve as it did");
}

#[tokio::test(start_paused = true)]
async fn old_connection_is_closed_after_its_answer() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (young, _theirs) = first(&pool, &target, &mut openings).await;
    tokio::time::advance(OLDEST - Duration::from_millis(1)).await;
    young.give_back(true);
    let old = connected(attempt(&pool, &target, &openings).await);
    assert!(old.opened.is_none(), "it was kept");
    tokio::time::advance(Duration::from_millis(1)).await;
    old.give_back(true);
    assert!(pool.lock().idle.pop(&target).is_none(), "another process may wait for its worker");
}

#[tokio::test(start_paused = true)]
async fn connection_is_handed_on_while_it_is_young() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let other = at("https://a.example/two");
    let mut waits = [attempt(&pool, &other, &openings)];
    wait(&mut waits).await;
    let _starves = openings.next().await;
    advance_by_steps(STARVING).await;
    let (young, _theirs) = first(&pool, &target, &mut openings).await;
    let mut second = [attempt(&pool, &target, &openings)];
    wait(&mut second).await;
    young.give_back(true);
    let [second] = second;
    assert!(connected(second.await).opened.is_none());
}

#[tokio::test(start_paused = true)]
async fn receiver_without_keep_alive_gets_as_many_openings_as_it_needs() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (hangs, _theirs) = first(&pool, &target, &mut openings).await;
    let mut many: Vec<_> = (0..40).map(|_| attempt(&pool, &target, &openings)).collect();
    wait(&mut many).await;
    let mut under_way = Vec::new();
    let mut most = 0;
    // Each opening succeeds, but the receiver closes the connection after its response.
    for _ in 0..20 {
        settle().await;
        while let Ok(opening) = openings.begun.try_recv() {
            under_way.push(opening);
        }
        most = most.max(under_way.len());
        let (ours, _theirs) = answered().await;
        end(under_way.remove(0), ours);
        connected(many.remove(0).await).give_back(false);
        tokio::time::advance(LONGEST_WAIT).await;
        wait(&mut many).await;
    }
    assert!(most > 2 * OPENINGS, "{most}");
    drop(hangs);
}

#[tokio::test(start_paused = true)]
async fn opening_that_times_out_fails_no_attempt_while_the_receiver_is_busy() {
    let (pool, target, other) = (ReceiverPool::default(), target(), at("https://a.example/other"));
    let mut openings = Openings::new();
    let (busy, _theirs) = first(&pool, &other, &mut openings).await;
    let mut waits = attempt(&pool, &target, &openings);
    wait(std::slice::from_mut(&mut waits)).await;
    // The receiver's worker is busy with a request to another URL.
    fail(openings.next().await, FailureClass::TimeoutTls);
    let next = openings.next().await;
    wait(std::slice::from_mut(&mut waits)).await;
    // The receiver has responded after the opening began.
    tokio::time::advance(Duration::from_millis(1)).await;
    busy.give_back(false);
    fail(next, FailureClass::TimeoutConnect);
    let last = openings.next().await;
    wait(std::slice::from_mut(&mut waits)).await;
    tokio::time::advance(Duration::from_millis(1)).await;
    fail(last, FailureClass::TimeoutTls);
    let failed = waits.await.err().map(|(class, _)| class);
    assert_eq!(failed, Some(FailureClass::TimeoutTls), "nothing since");
    settle().await;
    assert!(pool.lock().is_quiet());
}

#[tokio::test]
async fn retry_takes_no_connection_that_was_used_and_closes_one() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (busy, _theirs) = first(&pool, &target, &mut openings).await;
    let (idle, _theirs) = answered().await;
    pool.keep_idle(&target, idle);
    let mut retry = [Box::pin(pool.take(&target, true, later(), openings.open())) as Attempt<'_>];
    wait(&mut retry).await;
    assert!(pool.lock().idle.pop(&target).is_none());
    let opening = openings.next().await;
    let mut newcomer = [attempt(&pool, &target, &openings)];
    wait(&mut newcomer).await;
    busy.give_back(true);
    let [newcomer] = newcomer;
    let busy = connected(newcomer.await);
    wait(&mut retry).await;
    busy.give_back(true);
    wait(&mut retry).await;
    assert!(pool.lock().idle.pop(&target).is_none(), "its place is the retry's");
    let (ours, _theirs) = answered().await;
    end(opening, ours);
    let [retry] = retry;
    assert!(connected(retry.await).opened.is_some());
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed_once_it_expires() {
    let (pool, target) = (ReceiverPool::default(), target());
    for _ in 0..2 {
        pool.keep_idle(&target, answered().await.0);
        tokio::time::advance(crate::IDLE_LIMIT / 2).await;
        settle().await;
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    settle().await;
    assert!(pool.lock().idle.pop(&target).is_some() && pool.lock().idle.pop(&target).is_none());
    tokio::time::advance(crate::IDLE_LIMIT).await;
    settle().await;
    assert!(!pool.lock().has_closer, "the task has ended");
}

#[tokio::test]
async fn connection_that_closes_before_the_attempt_wakes_is_not_used() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (borrowed, theirs) = first(&pool, &target, &mut openings).await;
    let mut second = attempt(&pool, &target, &openings);
    wait(std::slice::from_mut(&mut second)).await;
    let opening = openings.next().await;
    let socket = borrowed.connection.socket.try_clone().expect("a descriptor");
    borrowed.give_back(true);
    drop(theirs);
    while socket.peek(&mut [0]).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    wait(std::slice::from_mut(&mut second)).await;
    let (ours, _theirs) = answered().await;
    end(opening, ours);
    assert!(second.await.is_ok_and(|borrowed| borrowed.opened.is_some()));
}

#[tokio::test(start_paused = true)]
async fn attempt_waits_no_longer_than_its_own_time() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let (begun, short) = (Instant::now(), Duration::from_millis(250));
    let end = pool.take(&target, false, begun + short, openings.open()).await;
    let end = end.err().map(|(class, report)| (class, report.explanation.cause));
    assert_eq!(end, Some((FailureClass::TimeoutConnect, None)));
    assert_eq!(begun.elapsed(), short);
    drop(openings.next().await);
}

#[tokio::test]
async fn attempt_that_gets_no_connection_says_whether_the_receiver_served_others_meanwhile() {
    for answers in [true, false] {
        let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
        let (other, _theirs) = first(&pool, &at("https://a.example/other"), &mut openings).await;
        let until = Instant::now() + Duration::from_millis(100);
        let (waiting, line) = (pool.clone(), Arc::clone(&target));
        let open = openings.open();
        let waits = tokio::spawn(async move { waiting.take(&line, false, until, open).await });
        // The handshake hangs, as if the receiver's process were stopped.
        fail(openings.next().await, FailureClass::TimeoutTls);
        let next = openings.next().await;
        match answers {
            true => other.give_back(false),
            false => drop(other),
        }
        let end =
            waits.await.expect("no panic").err().map(|(class, report)| (class, report.explanation.cause));
        let busy = (FailureClass::TimeoutConnect, Some(Cause::ReceiverBusy));
        let hangs = (FailureClass::TimeoutTls, None);
        assert_eq!(end, Some(if answers { busy } else { hangs }));
        drop(next);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_that_end_leave_nothing_in_line() {
    let (pool, target, mut openings) = (ReceiverPool::default(), target(), Openings::new());
    let mut many: Vec<_> = (0..100).map(|_| attempt(&pool, &target, &openings)).collect();
    wait(&mut many).await;
    let mut four = Vec::new();
    for _ in 0..OPENINGS {
        four.push(openings.next().await);
    }
    drop(many);
    assert!(pool.lock().change(&target, |_, line| line.waiting.is_empty()));
    tokio::time::advance(LONGEST_WAIT).await;
    settle().await;
    assert!(pool.lock().is_quiet() && four.iter().all(oneshot::Sender::is_closed));
}
