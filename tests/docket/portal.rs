//! The administration portal from the outside: its sessions, and its pages as a browser without JavaScript uses them.

mod logs;
mod resends;
mod rig;
mod sessions;
mod webhooks;
