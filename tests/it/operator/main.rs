//! What the cluster path is held to: against a real kube-apiserver.

mod board;
mod crds;
mod deletion;
mod faults;
mod keys;
mod leadership;
mod refused;
mod rig;
mod tenants;
mod webhooks;
mod writes;
