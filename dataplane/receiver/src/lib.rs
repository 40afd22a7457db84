//! A webhook receiver over HTTPS, as a customer would write one. It verifies the signature over the raw body, rejects
//! requests that fail the check, and recognises repeated events. `docket dev` delivers to it, `docket listen` runs it,
//! and the black-box tests read from it.
//!
//! - `certificate`: a throw-away authority and a certificate for this machine
//! - `server`: the socket; one POST becomes one [`Received`] and one response
//! - `verdict`: whether a request is accepted; `docket_domain::diagnosis` names the cause of a mismatch (pure)
//! - `behaviour`: simulated failures and delays
//! - `forward`: forwards deliveries to the receiver that the user is writing
//! - `seen`: counts the ids received before, in bounded memory
//! - `line`: prints one [`Received`] as one line for people or programs (pure)
//!
//! Absent on purpose: it reads no wall clock, writes nothing to disk but its certificate, and prints nothing.
//!
//! # Example
//!
//! ```
//! use docket_domain::diagnosis::{Mismatch, SecretFault, StandardHeaders};
//! use docket_domain::signature::sign;
//! use docket_receiver::Verdict;
//!
//! let secrets = [b"secret".to_vec()];
//! let (headers, body) = (StandardHeaders::default(), br#"{"id":"evt_1"}"#);
//! assert_eq!(Verdict::of(&secrets, Some(&sign(b"secret", body)), &headers, body), Verdict::Verified);
//!
//! // A secret file that was written by `echo` ends in a newline.
//! let verdict = Verdict::of(&secrets, Some(&sign(b"secret\n", body)), &headers, body);
//! let newline = Mismatch::Known { spelling: None, secret: Some(SecretFault::Newline), body: None };
//! assert_eq!(verdict, Verdict::Wrong(newline));
//! assert!(verdict.rejects());
//! ```

mod behaviour;
mod certificate;
mod forward;
mod line;
mod seen;
mod server;
mod verdict;

pub use behaviour::{Behaviour, Fail};
pub use certificate::Certificate;
pub use forward::{Forward, Forwarded, NoAnswer};
pub use line::{json, line};
pub use server::{MAX_BODY_BYTES, Received, Receiver, ReceiverSettings, SecretsByPath};
pub use verdict::Verdict;
