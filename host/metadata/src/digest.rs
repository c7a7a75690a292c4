//! Digests of the state that cost what changed, not what is there.
//!
//! A digest is the sum modulo 2^256 of one SHA-256 per entry: an entry that changes has its old hash taken
//! away and its new one added. There are two, over what fencing rests on and over what depends on
//! placement. `Table` is a persistent map that keeps both; nothing changes an entry around it.

use crate::model::Digest;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The two digests of a state: equal on nodes that applied the same log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Over sessions, epochs, open and closed, ranges, transfers, ids and all else that no policy decides.
    pub fencing: Digest,
    /// Over where streams are placed, what placing them answered, and which policy is active.
    pub placement: Digest,
}

/// A sum of hashes modulo 2^256, in four words, least significant first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum([u64; 4]);

impl Sum {
    pub(crate) fn add(&mut self, other: Sum) {
        let mut carry = false;
        for (word, more) in self.0.iter_mut().zip(other.0) {
            let (sum, one) = word.overflowing_add(more);
            let (sum, two) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, one | two);
        }
    }

    pub(crate) fn sub(&mut self, other: Sum) {
        let mut borrow = false;
        for (word, less) in self.0.iter_mut().zip(other.0) {
            let (difference, one) = word.overflowing_sub(less);
            let (difference, two) = difference.overflowing_sub(u64::from(borrow));
            (*word, borrow) = (difference, one | two);
        }
    }

    fn digest(&self) -> Digest {
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Digest(bytes)
    }
}

/// Both sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) fencing: Sum,
    pub(crate) placement: Sum,
}

impl Sums {
    pub(crate) fn fencing(fencing: Sum) -> Sums {
        Sums { fencing, placement: Sum::default() }
    }

    pub(crate) fn add(&mut self, other: Sums) {
        self.fencing.add(other.fencing);
        self.placement.add(other.placement);
    }

    pub(crate) fn sub(&mut self, other: Sums) {
        self.fencing.sub(other.fencing);
        self.placement.sub(other.placement);
    }

    pub(crate) fn digests(&self) -> Digests {
        Digests { fencing: self.fencing.digest(), placement: self.placement.digest() }
    }
}

/// SHA-256 of a value's stored form behind a tag that tells kinds of entries apart.
pub(crate) fn hash(tag: &'static str, value: &impl Serialize) -> Sum {
    let bytes = sha(tag, value);
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
    }
    Sum(words)
}

/// SHA-256 of a value's stored form, to name it.
pub(crate) fn name_of(tag: &'static str, value: &impl Serialize) -> Digest {
    Digest(sha(tag, value))
}

/// SHA-256 of plain bytes, as any tool computes it.
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

fn sha(tag: &'static str, value: &impl Serialize) -> [u8; 32] {
    let mut sha = Sha256::new_with_prefix(tag);
    sha.update([0]);
    let mut buffer = [0; 768];
    match postcard::to_slice(value, &mut buffer) {
        Ok(bytes) => sha.update(bytes),
        Err(_) => sha.update(postcard::to_stdvec(value).expect("plain data has a stored form")),
    }
    sha.finalize().into()
}

/// What an entry of a `Table` adds to the digests.
pub(crate) trait Weigh<K> {
    /// The entry itself, without its parts.
    fn weigh(&self, key: &K) -> Sums;

    /// Parts too many to hash again at every change; whoever changes them calls `Table::adjust`.
    fn weigh_parts(&self, _key: &K) -> Sums {
        Sums::default()
    }
}

/// A persistent map with the sums of its entries.
#[derive(Clone, Debug)]
pub(crate) struct Table<K: Ord, V> {
    map: OrdMap<K, V>,
    sums: Sums,
}

impl<K: Ord + Clone, V: Clone + Weigh<K>> Table<K, V> {
    pub(crate) fn new() -> Self {
        Table { map: OrdMap::new(), sums: Sums::default() }
    }

    pub(crate) fn map(&self) -> &OrdMap<K, V> {
        &self.map
    }

    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// Adds an entry, or puts it in the place of another.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        self.sums.add(value.weigh(&key));
        self.sums.add(value.weigh_parts(&key));
        self.map.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.map.remove(key)?;
        self.sums.sub(value.weigh(key));
        self.sums.sub(value.weigh_parts(key));
        Some(value)
    }

    /// Changes an entry, parts excepted.
    pub(crate) fn modify<R>(&mut self, key: &K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let value = self.map.get_mut(key)?;
        self.sums.sub(value.weigh(key));
        let result = change(value);
        self.sums.add(value.weigh(key));
        Some(result)
    }

    /// Counts parts that were taken away and added in `modify`.
    pub(crate) fn adjust(&mut self, less: Sums, more: Sums) {
        self.sums.sub(less);
        self.sums.add(more);
    }

    /// The sums, computed from scratch.
    #[cfg(test)]
    pub(crate) fn recomputed(&self) -> Sums {
        let mut sums = Sums::default();
        for (key, value) in &self.map {
            sums.add(value.weigh(key));
            sums.add(value.weigh_parts(key));
        }
        sums
    }
}

impl<K: Ord + Clone, V: Clone + Weigh<K>> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut table = Table::new();
        for (key, value) in entries {
            table.insert(key, value);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_carry_and_borrow_across_words() {
        let most = Sum([u64::MAX; 4]);
        let one = Sum([1, 0, 0, 0]);
        let mut sum = most;
        sum.add(one);
        assert_eq!(sum, Sum::default());
        sum.sub(one);
        assert_eq!(sum, most);
    }

    #[test]
    fn the_order_of_additions_does_not_matter() {
        let (a, b, c) = (hash("t", &1u8), hash("t", &2u8), hash("u", &1u8));
        assert_ne!(a, c, "the tag counts");
        let mut one = Sum::default();
        [a, b, c].into_iter().for_each(|h| one.add(h));
        let mut two = Sum::default();
        [c, a, b].into_iter().for_each(|h| two.add(h));
        assert_eq!(one, two);
        two.sub(b);
        one.sub(b);
        assert_eq!(one, two);
    }
}
