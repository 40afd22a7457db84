//! `docket verify`: says whether a received delivery is signed by a secret, and why not. It prints no digest and no
//! secret.

use std::io::{self, Read};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use docket_commands::text;
use docket_domain::diagnosis::{self, StandardHeaders};
use docket_domain::signature::{
    SIGNATURE_HEADER, WEBHOOK_ID_HEADER, WEBHOOK_SIGNATURE_HEADER, WEBHOOK_TIMESTAMP_HEADER,
};
use docket_program::clock::Clock;
use docket_program::screen::clean_lines;
use docket_receiver::MAX_BODY_BYTES;
use serde_json::{Value, json};

use super::secret_file;
use crate::args::VerifyArguments;

/// The name of the first header, as pages write it.
const SERVICE: &str = "X-Service-Signature";
const MISSING: &str = "is missing, and so is webhook-signature: the webhook has no secret, or something between Docket and the \
    receiver removed the headers";

/// Prints one line for each of the two kinds of signatures that are given. The exit code is 0 if each matches, 1 if one
/// does not, and 2 if something could not be read, which is printed as an error.
pub fn run(arguments: &VerifyArguments) -> ExitCode {
    match lines(arguments) {
        Ok(lines) => {
            let object = json!({"signatures": lines.iter().map(VerifyLine::json).collect::<Vec<_>>()});
            let text: Vec<String> = lines.iter().map(VerifyLine::text).collect();
            text::result(arguments.printed.output, &object, &text.join("\n"));
            ExitCode::from(u8::from(!lines.iter().all(|line| line.problem.is_none())))
        }
        Err(error) => {
            eprintln!("error: {}", clean_lines(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}

struct VerifyLine {
    header: &'static str,
    /// What is wrong with the signature, as words behind the name of its header; `None`: it matches.
    problem: Option<String>,
}

impl VerifyLine {
    fn new(header: &'static str, result: Result<(), impl std::fmt::Display>) -> Self {
        Self { header, problem: result.err().map(|fault| format!("does not match: {fault}")) }
    }

    fn text(&self) -> String {
        let Self { header, problem } = self;
        match problem {
            None => format!("✓ {header} matches"),
            Some(problem) => format!("✕ {header} {problem}"),
        }
    }

    fn json(&self) -> Value {
        json!({"header": self.header, "matches": self.problem.is_none(), "problem": self.problem})
    }
}

fn lines(arguments: &VerifyArguments) -> Result<Vec<VerifyLine>> {
    let service = header(arguments, SIGNATURE_HEADER)?;
    if service.is_some() && arguments.signature.is_some() {
        bail!("X-Service-Signature is given twice; give --signature or the --header");
    }
    let service = service.or(arguments.signature.as_deref());
    let standard = StandardHeaders {
        id: header(arguments, WEBHOOK_ID_HEADER)?,
        timestamp: header(arguments, WEBHOOK_TIMESTAMP_HEADER)?,
        signature: header(arguments, WEBHOOK_SIGNATURE_HEADER)?,
    };
    let secrets =
        arguments.secret_file.iter().map(|path| secret_file::read(path)).collect::<Result<Vec<_>>>()?;
    let body = body()?;
    let now = arguments.at.unwrap_or_else(|| Clock::System.now());
    let service = service
        .map(|signature| VerifyLine::new(SERVICE, diagnosis::service(&secrets, signature, &standard, &body)));
    // webhook-id and webhook-timestamp come with unsigned deliveries too.
    let standard = standard
        .signature
        .map(|_| VerifyLine::new("webhook-signature", diagnosis::standard(&secrets, &standard, &body, now)));
    let lines: Vec<VerifyLine> = service.into_iter().chain(standard).collect();
    let missing = || VerifyLine { header: SERVICE, problem: Some(MISSING.to_owned()) };
    Ok(if lines.is_empty() { vec![missing()] } else { lines })
}

/// The one value of the header of this name.
fn header<'a>(arguments: &'a VerifyArguments, name: &str) -> Result<Option<&'a str>> {
    let mut values =
        arguments.header.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let value = values.next();
    if values.next().is_some() {
        bail!("the header {name} is given twice; give it once, as it arrived");
    }
    Ok(value)
}

fn body() -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let limit = MAX_BODY_BYTES as u64 + 1;
    io::stdin().take(limit).read_to_end(&mut body).context("the body can't be read from standard input")?;
    if body.len() > MAX_BODY_BYTES {
        bail!("the body on standard input is over 1 MiB; Docket sends none of this size");
    }
    Ok(body)
}
