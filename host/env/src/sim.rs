//! Fakes: a clock that a test moves, an in-memory network and disk.
