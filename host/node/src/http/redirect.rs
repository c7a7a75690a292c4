//! The 307, made in this one place: where the stream is, and nothing about the body.
//!
//! `Location` is the owner's advertised address and the request target as it came, byte for byte. Next:
//! `forward.rs`.

use crate::http::answer;
use crate::http::body::Body;
use crate::http::headers::names;
use headwater_metadata::{Digest, NodeId};
use http::{HeaderValue, Response, StatusCode, header};

/// The redirect to `owner`, reached at `address`; `None` when the two do not make a header value.
pub fn redirect(
    owner: NodeId,
    address: &str,
    target: &str,
    policy: Option<Digest>,
) -> Option<Response<Body>> {
    let location = [address.trim_end_matches('/').as_bytes(), target.as_bytes()].concat();
    let mut answer = answer::empty(StatusCode::TEMPORARY_REDIRECT);
    let headers = answer.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_maybe_shared(bytes::Bytes::from(location)).ok()?);
    headers.insert(header::CACHE_CONTROL, answer::NO_STORE);
    headers.insert(names::OWNER, owner.0.into());
    headers.insert(names::POLICY, short(policy));
    Some(answer)
}

/// A policy's digest, short enough to read.
fn short(policy: Option<Digest>) -> HeaderValue {
    let Some(Digest(bytes)) = policy else { return HeaderValue::from_static("native-rule") };
    let hex: String = bytes[..6].iter().map(|b| format!("{b:02x}")).collect();
    HeaderValue::try_from(hex).expect("hex digits are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_comes_back_byte_for_byte() {
        for target in
            ["/a%20b?x=%26%3D&offset=-1", "/a%2Fb", "/%e2%82%ac?", "/日本?offset=now&live=sse", "/a/../b"]
        {
            let answer = redirect(NodeId(2), "http://n2:4437", target, Some(Digest([0xab; 32]))).unwrap();
            let headers = answer.headers();
            assert_eq!(answer.status(), 307);
            assert_eq!(headers[header::LOCATION].as_bytes(), format!("http://n2:4437{target}").as_bytes());
            assert_eq!(headers[header::CACHE_CONTROL], "no-store");
            assert_eq!(headers["headwater-owner"], "2");
            assert_eq!(headers["headwater-policy"], "abababababab");
        }
        let answer = redirect(NodeId(2), "http://n2:4437/", "/x", None).unwrap();
        assert_eq!(answer.headers()[header::LOCATION], "http://n2:4437/x");
        assert_eq!(answer.headers()["headwater-policy"], "native-rule");
    }
}
