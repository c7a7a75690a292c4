//! The name of a stream: the path of its URL, byte for byte as it was sent.
//!
//! Nothing is decoded, normalised or folded: `a%2Fb` and `a/b`, `%e2` and `%E2`, `a//b` and `a/./b` are
//! names of their own. A name is a key of the metadata and nothing else; keys in the store are made
//! of numbers, so no name reaches another stream's objects. Next: `query.rs`.

/// Longest name, in bytes.
pub const MAX_NAME: usize = 4096;

/// Segment of a path that is kept for the protocol's own APIs.
pub const RESERVED_SEGMENT: &str = "__ds";

/// Why a path is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Nothing after the slash.
    #[error("a stream needs a name: the path of the URL")]
    Empty,
    /// Not a path.
    #[error("the request target is not a path")]
    NotAPath,
    /// A percent sign without two hex digits.
    #[error("the path has a percent sign that is not followed by two hex digits")]
    Escape,
    /// A NUL character, encoded.
    #[error("the path contains an encoded NUL character")]
    Nul,
    /// Over the limit.
    #[error("the name is longer than {MAX_NAME} bytes")]
    TooLong,
    /// Kept for the protocol's own APIs.
    #[error("paths with a segment `{RESERVED_SEGMENT}` are reserved")]
    Reserved,
}

/// Says whether a path can be the name of a stream.
pub fn check(path: &str) -> Result<(), BadName> {
    if !path.starts_with('/') {
        return Err(BadName::NotAPath);
    }
    if path.len() == 1 {
        return Err(BadName::Empty);
    }
    if path.len() > MAX_NAME {
        return Err(BadName::TooLong);
    }
    check_escapes(path.as_bytes())?;
    if path.split('/').any(|segment| segment == RESERVED_SEGMENT) {
        return Err(BadName::Reserved);
    }
    Ok(())
}

fn check_escapes(path: &[u8]) -> Result<(), BadName> {
    let mut rest = path;
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        let digits = rest.get(at + 1..at + 3).ok_or(BadName::Escape)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(BadName::Escape);
        }
        if digits == b"00" {
            return Err(BadName::Nul);
        }
        rest = &rest[at + 3..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rte_05_odd_names_are_names() {
        let long = format!("/{}", "n".repeat(1024));
        for name in [
            "/a%20b",
            "/a%2Fb",
            "/a/b",
            "/100%25",
            "/%e2%82%ac",
            "/%E2%82%AC",
            "/日本",
            "/%E6%97%A5",
            "/a+b",
            "/a;b=c",
            "/..%2fx",
            "/a//b",
            "/a/./b",
            "/a/../b",
            "/a/",
            "/%3F",
            "/%23",
            "//",
            long.as_str(),
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn rte_05_bad_escapes_and_nul_are_refused() {
        for (name, why) in [
            ("/%zz", BadName::Escape),
            ("/%", BadName::Escape),
            ("/%2", BadName::Escape),
            ("/a%2gb", BadName::Escape),
            ("/a%00b", BadName::Nul),
            ("/", BadName::Empty),
            ("*", BadName::NotAPath),
            ("", BadName::NotAPath),
            ("/x/__ds/jwks.json", BadName::Reserved),
        ] {
            assert_eq!(check(name), Err(why), "{name}");
        }
        assert_eq!(check(&format!("/{}", "n".repeat(MAX_NAME))), Err(BadName::TooLong));
    }

    proptest! {
        #[test]
        fn accepted_names_decode(path in "/[a%0-9F/]{0,12}") {
            if check(&path).is_ok() {
                let decoded: Vec<u8> = percent_encoding::percent_decode_str(&path).collect();
                prop_assert!(!decoded.contains(&0));
            }
        }
    }
}
