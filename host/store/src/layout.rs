//! Names of the objects: every key of the store is built here and parsed here.
//!
//! Prefixes end at a segment border, so that node 1 never sees the objects of node 10.

use headwater_metadata::{Epoch, NodeId, ObjectKey, Session, WalSeq};
use object_store::path::Path;

/// The object that holds the id of the cluster.
pub fn cluster() -> Path {
    Path::from("cluster")
}

/// The peer addresses of one node.
pub fn peer(node: NodeId) -> Path {
    Path::from(format!("peers/{node}"))
}

/// Where the peer addresses are.
pub fn peers() -> Path {
    Path::from("peers")
}

/// Where the probes are.
pub fn probes() -> Path {
    Path::from("probe")
}

/// An object made and deleted at start, to prove the store.
pub fn probe(nonce: u128) -> Path {
    Path::from(format!("probe/{nonce:032x}"))
}

/// An object of the write-ahead log of a session.
pub fn wal(session: Session, seq: WalSeq) -> Path {
    Path::from(format!("wal/{}/{}/{seq:020}", session.node, session.epoch))
}

/// The folder of the write-ahead log of a session.
pub fn wal_of(session: Session) -> Path {
    Path::from(format!("wal/{}/{}", session.node, session.epoch))
}

/// The folder of a log of append files. No object's key begins so: nothing can make it again.
pub fn log_folder(session: Session) -> Path {
    Path::from(format!("files/{}/{}", session.node, session.epoch))
}

/// The same folder once it is sealed.
pub fn sealed_folder(session: Session) -> Path {
    Path::from(format!("files/{}/{}.sealed", session.node, session.epoch))
}

/// A data object.
pub fn data(key: ObjectKey) -> Path {
    Path::from(format!("data/{}/{}/{:020}", key.session.node, key.session.epoch, key.number))
}

/// The folder of the data objects of a session.
pub fn data_of(session: Session) -> Path {
    Path::from(format!("data/{}/{}", session.node, session.epoch))
}

/// The key of a data object, if this is the exact name of one.
pub fn parse_data(path: &Path) -> Option<ObjectKey> {
    let (session, number) = parse("data", path)?;
    Some(ObjectKey { session, number })
}

/// The session and number of an object of a write-ahead log, if this is the exact name of one.
pub fn parse_wal(path: &Path) -> Option<(Session, WalSeq)> {
    let (session, number) = parse("wal", path)?;
    Some((session, WalSeq(number)))
}

/// The node whose peer addresses these are.
pub fn parse_peer(path: &Path) -> Option<NodeId> {
    let node = NodeId(path.as_ref().strip_prefix("peers/")?.parse().ok()?);
    (peer(node) == *path).then_some(node)
}

fn parse(kind: &str, path: &Path) -> Option<(Session, u64)> {
    let mut parts = path.as_ref().split('/');
    if parts.next()? != kind {
        return None;
    }
    let node = NodeId(parts.next()?.parse().ok()?);
    let epoch = Epoch(parts.next()?.parse().ok()?);
    let number: u64 = parts.next()?.parse().ok()?;
    let exact = format!("{kind}/{node}/{epoch}/{number:020}");
    (exact == path.as_ref()).then_some((Session { node, epoch }, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_exactly() {
        let session = Session { node: NodeId(1), epoch: Epoch(7) };
        let key = ObjectKey { session, number: 3 };
        assert_eq!(parse_data(&data(key)), Some(key));
        assert_eq!(parse_wal(&wal(session, WalSeq(u64::MAX))), Some((session, WalSeq(u64::MAX))));
        assert_eq!(parse_data(&wal(session, WalSeq(3))), None);
        for foreign in
            ["data/1/7/3", "data/01/7/00000000000000000003", "data/1/7/00000000000000000003/x", "data/1/7"]
        {
            assert_eq!(parse_data(&Path::from(foreign)), None, "{foreign}");
        }
        assert_eq!(parse_peer(&peer(NodeId(12))), Some(NodeId(12)));
        assert_eq!(parse_peer(&Path::from("peers/012")), None);
    }

    #[test]
    fn prefixes_end_at_a_segment() {
        let one = Session { node: NodeId(1), epoch: Epoch(1) };
        let ten = Session { node: NodeId(10), epoch: Epoch(1) };
        assert!(data(ObjectKey { session: one, number: 0 }).prefix_matches(&data_of(one)));
        assert!(!data(ObjectKey { session: ten, number: 0 }).prefix_matches(&data_of(one)));
        assert!(!wal(ten, WalSeq(0)).prefix_matches(&wal_of(one)));
        let later = Session { node: NodeId(1), epoch: Epoch(10) };
        assert!(!wal(later, WalSeq(0)).prefix_matches(&wal_of(one)));
    }
}
