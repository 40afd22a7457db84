//! A webhook receiver over HTTPS, as a customer would write one: it verifies the signature over the raw body, rejects
//! what does not verify, and recognises what it has seen before. `docket dev` delivers to it, `docket listen` is it,
//! and the black-box tests read from it.
//!
//! - `certificate`: a throw-away authority and a certificate for this machine
//! - `verdict`: signature header, secrets and body -> what is to be said about them, and the likely cause (pure)
//! - `behaviour`: what to rehearse: failing, answering late
//! - `seen`: which ids came before, in bounded memory
//! - `server`: the socket; one POST -> one [`Received`] and one answer
//! - `line`: one [`Received`] as one line for people (pure)
//!
//! Absent on purpose: it reads no wall clock, keeps nothing on disk but its certificate, and prints nothing.

mod behaviour;
mod certificate;
mod line;
mod seen;
mod server;
mod verdict;

pub use behaviour::{Behaviour, Fail};
pub use certificate::Certificate;
pub use line::line;
pub use server::{MAX_BODY_BYTES, Received, Receiver, Secrets, Settings};
pub use verdict::{Hint, Verdict};
