//! Builds the policies of the workspace into components.

fn main() {}
