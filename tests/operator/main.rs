//! The operator against a real kube-apiserver, its databases on a real PostgreSQL, and the chart.

mod away;
mod board;
mod chart;
mod crds;
mod database;
mod deletion;
mod faults;
mod foreign;
mod gitops;
mod keys;
mod kubectl;
mod leadership;
mod management;
mod migrations;
mod odd;
mod refused;
mod silent;
mod tenants;
mod webhooks;
mod writes;
