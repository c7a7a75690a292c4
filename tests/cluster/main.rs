//! Tests of whole clusters of real processes.

#[test]
fn t() {}
