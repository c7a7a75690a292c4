//! Weighted lots that are the same everywhere and at any time: the base of placements that hardly move.
//!
//! Each node draws a lot for a key, and the lowest lot wins. A lot depends on the key, the node's id and
//! its slots alone, so nodes that come and go do not change the lots of the others. Lots are distributed
//! exponentially with the slots as rate, so a node wins with the probability `slots / all slots`. Whole
//! numbers only: the logarithm is made of shifts and squares, so native code and a component agree to
//! the last bit.

use crate::{Candidate, NodeId};
use std::cmp::Ordering;

/// A stable hash of a text. Part of what stored placements follow from: it never changes.
pub fn hash(text: &str) -> u64 {
    let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(fnv)
}

/// The lot of a node for a key. Compares like a number: the lowest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lot {
    /// Exponential with rate 1, in units of 2^-32; divided by the slots it is the lot.
    draw: u64,
    slots: u32,
    /// Who drew it.
    pub node: NodeId,
}

impl Lot {
    /// The lot of a candidate for a key's [`hash`].
    pub fn draw(key: u64, candidate: &Candidate) -> Lot {
        let random = mix(key ^ mix(candidate.id.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        Lot { draw: exponential(random), slots: candidate.slots, node: candidate.id }
    }
}

impl Ord for Lot {
    fn cmp(&self, other: &Lot) -> Ordering {
        let left = u128::from(self.draw) * u128::from(other.slots);
        let right = u128::from(other.draw) * u128::from(self.slots);
        (self.slots == 0).cmp(&(other.slots == 0)).then(left.cmp(&right)).then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Lot {
    fn partial_cmp(&self, other: &Lot) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Spreads every bit over all (the last step of splitmix64).
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// `-log2(random / 2^64)` in units of 2^-32.
fn exponential(random: u64) -> u64 {
    let random = random.max(1);
    let whole = u64::from(random.leading_zeros()) + 1;
    // The number between 1 and 2 that is left, with 31 bits behind the point. Squaring doubles its
    // logarithm; what passes 2 is the next bit of it.
    let mut rest = (random << (whole - 1)) >> 32;
    let mut fraction = 0;
    for _ in 0..32 {
        let square = rest * rest;
        let bit = square >> 63;
        rest = square >> (31 + bit);
        fraction = fraction << 1 | bit;
    }
    (whole << 32) - fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: NodeId, slots: u32) -> Candidate {
        Candidate { id, slots, assigned: 0, labels: Vec::new() }
    }

    #[test]
    fn the_logarithm_is_one() {
        for random in [1, 2, 3, 1 << 31, (1 << 40) + 12345, 1 << 63, u64::MAX / 3, u64::MAX - 1, u64::MAX] {
            let float = 64.0 - (random as f64).log2();
            let ours = exponential(random) as f64 / f64::from(1u32 << 31) / 2.0;
            assert!((float - ours).abs() < 1e-8, "{random}: {float} {ours}");
        }
        assert_eq!(exponential(0), 64 << 32);
        assert_eq!(exponential(1 << 63), 1 << 32);
    }

    /// What is placed by these must stay where it is when the SDK is updated.
    #[test]
    fn the_numbers_never_change() {
        assert_eq!(hash(""), 0xf52a_15e9_a9b5_e89b);
        assert_eq!(hash("/tenant/stream"), 0x27a0_b51c_d39f_a89a);
        assert_eq!(Lot::draw(hash("/tenant/stream"), &node(7, 3)).draw, 6_240_307_796);
    }

    #[test]
    fn nodes_win_by_their_slots() {
        let nodes = [node(1, 1), node(2, 2), node(3, 5), node(4, 0)];
        let mut won = [0u32; 4];
        for key in 0..8000 {
            let lowest = nodes.iter().map(|node| Lot::draw(hash(&format!("/s/{key}")), node)).min();
            won[lowest.expect("there are nodes").node as usize - 1] += 1;
        }
        // 4.5 standard deviations and more.
        assert!(won[0].abs_diff(1000) < 140 && won[1].abs_diff(2000) < 180, "{won:?}");
        assert!(won[2].abs_diff(5000) < 200 && won[3] == 0, "{won:?}");
    }
}
