//! The programs under test and what they talk to over HTTP: servers, receivers, the operator, a Kubernetes API, a
//! browser. Throw-away stores are in `docket-rig`.

pub mod apiserver;
pub mod browser;
pub mod languages;
pub mod mail;
pub mod openapi;
pub mod operator;
pub mod pages;
pub mod people;
pub mod receiver;
pub mod server;
pub mod stores;
