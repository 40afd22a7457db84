//! The administration portal from the outside: its sessions, its pages as a browser without JavaScript uses them, and the
//! pages in Chromium.

mod brand;
pub(crate) mod browser;
mod cluster;
mod contacts;
mod failures;
mod logs;
mod matrix;
mod notifications;
mod overview;
mod people;
mod resends;
mod rig;
mod sessions;
mod set_aside;
mod trace;
mod try_it;
mod waits;
mod webhooks;
mod yaml;
