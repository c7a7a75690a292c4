//! Bad policies, for tests.
