//! One node: HTTP front end, streams, admin API, command line.

pub mod stream;
