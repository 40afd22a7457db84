//! What a new user does, what the documents show, and what must never leak.
//!
//! [`example`] starts the program as a new user does. Beside the binary this needs `bash`, `curl`, `openssl` and, for
//! [`swagger`], `chromium` and `chromedriver`; tests/run installs them.

mod contract;
mod docs;
mod documents;
pub(crate) mod example;
mod figures;
mod first_run;
mod frameworks;
mod listen;
pub(crate) mod openapi;
mod privacy;
mod reference;
mod snippets;
mod swagger;
mod verify;
