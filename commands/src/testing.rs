//! For tests: arguments from a line, and answers that a test has written down.

use std::collections::VecDeque;

use clap::{Args, Parser};
use docket_crds::EventCode;
use docket_domain::resend::Aside;
use serde_json::Value;

use crate::answers::{Answers, Found, Page};
use crate::arguments::{DeadLetters, FilterArguments, Traced};

#[derive(Parser)]
struct Line<A: Args> {
    #[command(flatten)]
    arguments: A,
}

/// The arguments of a line.
pub(crate) fn parsed<A: Args>(line: &str) -> A {
    let words = std::iter::once("x").chain(line.split_whitespace());
    Line::<A>::try_parse_from(words).expect("the arguments of the command").arguments
}

/// Gives the answers in their order, and remembers what was asked.
pub(crate) struct Script {
    answers: VecDeque<Value>,
    pub(crate) asked: Vec<String>,
}

impl Script {
    pub(crate) fn of(answers: impl IntoIterator<Item = Value>) -> Self {
        Self { answers: answers.into_iter().collect(), asked: Vec::new() }
    }

    fn next(&mut self, asked: String) -> Result<Value, Found> {
        let answer = self.answers.pop_front().ok_or_else(|| Found(format!("no answer to {asked}")));
        self.asked.push(asked);
        answer
    }
}

impl Answers for Script {
    type Error = Found;
    type Cursor = u64;

    async fn deliveries(
        &mut self,
        _: &FilterArguments,
        size: usize,
        cursor: Option<u64>,
    ) -> Result<Page<u64>, Found> {
        let mut page = self.next(format!("{size} from {cursor:?}"))?;
        let next = page["next"].as_u64();
        let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(Page { items, next })
    }

    async fn trace(&mut self, what: Traced, id: &str) -> Result<Value, Found> {
        self.next(format!("trace {what:?} {id}"))
    }

    async fn preview(&mut self, letters: &DeadLetters, per_second: i64) -> Result<Value, Found> {
        self.next(format!("preview {:?} at {per_second}", letters.limit))
    }

    async fn resend(&mut self, letters: &DeadLetters, per_second: i64) -> Result<Value, Found> {
        self.next(format!("resend {:?} at {per_second}", letters.limit))
    }

    async fn progress(&mut self, resend_id: &str) -> Result<Value, Found> {
        self.next(format!("progress {resend_id}"))
    }

    async fn stop(&mut self, resend_id: &str) -> Result<Value, Found> {
        self.next(format!("stop {resend_id}"))
    }

    async fn preview_aside(&mut self, letters: &DeadLetters, aside: Aside) -> Result<Value, Found> {
        self.next(format!("preview {aside:?} {:?}", letters.limit))
    }

    async fn set_aside(&mut self, letters: &DeadLetters, aside: Aside) -> Result<Value, Found> {
        let before = letters.ended_before.map(|before| before.as_second());
        self.next(format!("{aside:?} {:?} before {before:?}", letters.limit))
    }

    async fn test(&mut self, event: Option<EventCode>) -> Result<Value, Found> {
        self.next(format!("test {:?}", event.map(EventCode::as_str)))
    }

    fn webhook(&self) -> String {
        "orders".to_owned()
    }

    fn command(&self, words: &str) -> String {
        format!("docket {words}")
    }
}
