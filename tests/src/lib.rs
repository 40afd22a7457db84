//! What the suites need: servers to test against, and places for their files.

pub mod apiserver;
pub mod docket;
pub mod operator;
pub mod postgres;
pub mod receiver;
pub mod redis;
pub mod scratch;
