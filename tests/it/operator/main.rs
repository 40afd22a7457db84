//! What the cluster path is held to: against a real kube-apiserver.

mod crds;
mod rig;
