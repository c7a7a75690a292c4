//! Builds the policies of the workspace into components, and proves that the built ones are what they say.
//!
//! A tool for building and testing: it may use the file system and start processes, and no part of it is in
//! the shipped binary. `workspace.rs` finds what goes into a policy, `build.rs` compiles and wraps it,
//! `outside.rs` does so with a crate of somebody else, `manifest.rs` writes down and compares, `hostile.rs` makes bad policies for tests.

// The file system and processes are this tool's work; the ban on them is for the product.
#![allow(clippy::disallowed_methods)]

mod build;
pub mod hostile;
mod manifest;
mod outside;
mod workspace;

pub use build::{Toolchain, build, encode};
pub use manifest::{Built, Manifest, differences};
pub use outside::{Outside, build_outside};
pub use workspace::{Workspace, sha256};
