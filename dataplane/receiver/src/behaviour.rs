//! Simulated failures and delays of the receiver, to show retries, dead letters and the 30 s limit on purpose.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, ensure};

/// How the receiver differs from a receiver that responds 200 without delay. The default does not differ.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    /// Responds with this status instead of 200 or 401, whatever the signature; `None`: never.
    pub fail: Option<Fail>,
    /// Waits this long before each response. A sender gives up after 30 s.
    pub delay: Duration,
}

/// A simulated failure. On the command line, `503` fails every request and `503:3` the first three of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fail {
    /// The status of the response, 200 to 599; the command line takes 300 to 599, which all fail an attempt.
    pub status: u16,
    /// How many requests fail, counted from the start over all deliveries; `None`: all.
    pub times: Option<u64>,
}

impl FromStr for Fail {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (status, times) =
            text.split_once(':').map_or((text, None), |(status, times)| (status, Some(times)));
        let Ok(status @ 300..=599) = status.parse() else {
            bail!("`{status}` is not a failing status: give one from 300 to 599, for example 500 or 503:3");
        };
        let Some(times) = times else { return Ok(Self { status, times: None }) };
        let Ok(times @ 1..) = times.parse() else {
            bail!(
                "`{times}` is not a number of requests: give 1 or more, for example {status}:3, or {status} for always"
            );
        };
        Ok(Self { status, times: Some(times) })
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            Some(times) => write!(f, "{}:{times}", self.status),
            None => write!(f, "{}", self.status),
        }
    }
}

impl Fail {
    /// The status for request number `nth` since the start, counted from 0; `None`: this request does not fail.
    pub(crate) fn status_of(self, nth: u64) -> Option<u16> {
        self.times.is_none_or(|times| nth < times).then_some(self.status)
    }

    /// Checks that the status can be a final response. Any other status would end the connection instead.
    pub(crate) fn check(self) -> anyhow::Result<()> {
        ensure!(
            (200..=599).contains(&self.status),
            "{} is not a status to answer with: give 200 to 599",
            self.status
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fail_parses_as_always_or_the_first_few() {
        let always: Fail = "500".parse().expect("a status");
        assert_eq!(always, Fail { status: 500, times: None });
        assert_eq!(always.status_of(u64::MAX), Some(500));
        let three: Fail = "503:3".parse().expect("a status and a number");
        assert_eq!(three.to_string(), "503:3");
        assert_eq!((three.status_of(2), three.status_of(3)), (Some(503), None));
        assert_eq!(["300", "599:1"].map(|text| text.parse::<Fail>().is_ok()), [true, true]);
    }

    #[test]
    fn status_that_is_no_final_response_is_refused() {
        let check = |status| Fail { status, times: None }.check().is_ok();
        assert_eq!([101, 199, 200, 599, 600].map(check), [false, false, true, true, false]);
    }

    #[test]
    fn invalid_fail_is_refused_with_a_hint() {
        for (text, hint) in [
            ("", "300 to 599"),
            ("abc", "300 to 599"),
            ("200", "300 to 599"),
            ("299", "300 to 599"),
            ("600", "300 to 599"),
            ("70000", "300 to 599"),
            ("500:", "500:3"),
            ("500:0", "500 for always"),
            ("500:-1", "1 or more"),
            ("500:1:2", "1 or more"),
        ] {
            let error = text.parse::<Fail>().expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn failing_status_is_from_300_to_599_and_an_answer_from_200() {
        for status in [300, 599] {
            assert_eq!(status.to_string().parse::<Fail>().expect("it fails an attempt").status, status);
        }
        assert!("299".parse::<Fail>().is_err());
        let check = |status| Fail { status, times: None }.check().is_ok();
        assert_eq!([199, 200, 599, 600].map(check), [false, true, true, false]);
        assert_eq!("500:1".parse::<Fail>().expect("once").times, Some(1));
    }
}
