//! When a stream ends by itself: pure arithmetic over the last touch.
//!
//! Only its owner touches a stream. Somebody else judges one that is not open by the last touch that
//! the metadata knows, and asks for its deletion by id and epoch, so that a late request hits nobody.

use headwater_metadata::{Expiry, Stream};

/// The moment at which a stream ends, milliseconds since 1970.
pub fn expires_ms(expiry: Expiry, touched_ms: u64) -> Option<u64> {
    match expiry {
        Expiry::Never => None,
        Expiry::Ttl(seconds) => Some(touched_ms.saturating_add(seconds.saturating_mul(1000))),
        Expiry::At(at) => Some(at),
    }
}

/// Whether that moment has come.
pub fn is_over(expiry: Expiry, touched_ms: u64, now_ms: u64) -> bool {
    expires_ms(expiry, touched_ms).is_some_and(|at| now_ms >= at)
}

/// Whether a read renews the stream's life, so that only its owner may serve it.
pub fn is_renewed_by_reads(expiry: Expiry) -> bool {
    matches!(expiry, Expiry::Ttl(_))
}

/// The last touch that the metadata knows.
pub fn known_touch(stream: &Stream) -> u64 {
    stream.touched_ms.max(stream.created_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_end_at_their_moment() {
        assert!(!is_over(Expiry::Never, 0, u64::MAX));
        for (expiry, last_good) in [(Expiry::Ttl(5), 5_999), (Expiry::At(70), 69), (Expiry::Ttl(0), 999)] {
            assert!(!is_over(expiry, 1_000, last_good), "{expiry:?}");
            assert!(is_over(expiry, 1_000, last_good + 1), "{expiry:?}");
        }
        assert!(!is_over(Expiry::Ttl(u64::MAX), 1_000, u64::MAX - 1), "no overflow");
    }
}
