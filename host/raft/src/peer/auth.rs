//! How members prove to each other that they belong together. Every request carries the protocol's
//! version, the cluster and a token that only who knows the cluster's secret can make; a request for
//! another member (an address that changed hands) is refused too. Nothing is encrypted: the peer
//! network is the operator's.

use crate::options::ClusterId;
use crate::wire::PROTOCOL;
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const VERSION: &str = "headwater-protocol";
const CLUSTER: &str = "headwater-cluster";
const TOKEN: &str = "headwater-token";
const TO: &str = "headwater-member";

/// A cluster's credentials.
pub(crate) struct Auth {
    cluster: ClusterId,
    token: String,
    me: u64,
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub text: String,
}

impl Auth {
    pub(crate) fn new(cluster: ClusterId, secret: &[u8], me: u64) -> Auth {
        let mut hash = Sha256::new();
        hash.update(b"headwater peer token 1");
        hash.update((secret.len() as u64).to_le_bytes());
        hash.update(secret);
        hash.update(cluster.0.to_le_bytes());
        let token = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Auth { cluster, token, me }
    }

    /// Adds the proof to a request. `to`: the member that it is meant for, when known.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, to: Option<u64>) {
        let mut put = |name: &'static str, text: String| {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        };
        put(VERSION, PROTOCOL.to_string());
        put(CLUSTER, self.cluster.to_string());
        put(TOKEN, self.token.clone());
        if let Some(to) = to {
            put(TO, to.to_string());
        }
    }

    /// Checks the proof, and takes it off the request.
    pub(crate) fn check(&self, headers: &mut HeaderMap) -> Result<(), Refusal> {
        let mut take = |name| {
            let value = headers.remove(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let refuse = |status, text| Err(Refusal { status, text });
        let (version, cluster, token, to) = (take(VERSION), take(CLUSTER), take(TOKEN), take(TO));
        match version {
            Some(version) if version == PROTOCOL.to_string() => {}
            Some(version) => {
                let text = format!("peer protocol {version}, this node speaks {PROTOCOL}");
                return refuse(StatusCode::UPGRADE_REQUIRED, text);
            }
            None => return refuse(StatusCode::BAD_REQUEST, "this is a peer listener".to_owned()),
        }
        match cluster {
            Some(cluster) if cluster == self.cluster.to_string() => {}
            other => {
                let other = other.unwrap_or_default();
                let text = format!("this node is in cluster {}, not in {other}", self.cluster);
                return refuse(StatusCode::FORBIDDEN, text);
            }
        }
        let token = token.unwrap_or_default();
        if !bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            return refuse(StatusCode::UNAUTHORIZED, "the cluster secret is another one".to_owned());
        }
        match to {
            Some(to) if to != self.me.to_string() => {
                let text = format!("this is member {}, not {to}", self.me);
                refuse(StatusCode::MISDIRECTED_REQUEST, text)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &Auth, to: Option<u64>, at: &Auth) -> Result<(), StatusCode> {
        let mut headers = HeaderMap::new();
        from.sign(&mut headers, to);
        at.check(&mut headers).map_err(|refusal| refusal.status)
    }

    #[test]
    fn only_who_knows_cluster_and_secret_gets_in() {
        let here = Auth::new(ClusterId(1), b"secret", 7);
        assert_eq!(check(&Auth::new(ClusterId(1), b"secret", 8), Some(7), &here), Ok(()));
        assert_eq!(check(&Auth::new(ClusterId(1), b"secret", 8), None, &here), Ok(()));
        let other_secret = Auth::new(ClusterId(1), b"secre", 8);
        assert_eq!(check(&other_secret, Some(7), &here), Err(StatusCode::UNAUTHORIZED));
        let other_cluster = Auth::new(ClusterId(2), b"secret", 8);
        assert_eq!(check(&other_cluster, Some(7), &here), Err(StatusCode::FORBIDDEN));
        assert_eq!(check(&here, Some(9), &here), Err(StatusCode::MISDIRECTED_REQUEST));
        assert_eq!(here.check(&mut HeaderMap::new()).map_err(|r| r.status), Err(StatusCode::BAD_REQUEST));
        let mut headers = HeaderMap::new();
        here.sign(&mut headers, None);
        headers.insert(VERSION, HeaderValue::from_static("99"));
        assert_eq!(here.check(&mut headers).map_err(|r| r.status), Err(StatusCode::UPGRADE_REQUIRED));
    }
}
