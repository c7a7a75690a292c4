//! A policy that misbehaves is pushed: the cluster goes on.
