//! A histogram of times: 64 buckets for each doubling, so that every value is known to within 1.6 %.

use std::time::Duration;

const SUB: u64 = 64;
const SUB_BITS: u32 = 6;

/// Counts times from 1 µs on.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

fn bucket(micros: u64) -> usize {
    let bucket = if micros < SUB {
        micros
    } else {
        let shift = micros.ilog2() - SUB_BITS;
        SUB * u64::from(shift + 1) + (micros >> shift) - SUB
    };
    usize::try_from(bucket).unwrap_or(usize::MAX)
}

/// The greatest value that falls into the bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let shift = bucket / SUB - 1;
    ((bucket % SUB + SUB + 1) << shift) - 1
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 1);
        let bucket = bucket(micros);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.max = self.max.max(micros);
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Histogram) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += count;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time that `per_mille` of a thousand did not exceed.
    pub fn at(&self, per_mille: u64) -> Duration {
        let rank = (self.count * per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_micros(upper(bucket).min(self.max));
            }
        }
        Duration::ZERO
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        let mut last = 0;
        for micros in 0..100_000 {
            let bucket = bucket(micros);
            assert!(bucket == last || bucket == last + 1, "{micros} falls into {bucket} after {last}");
            assert!(upper(bucket) >= micros && upper(bucket) - micros <= micros / 64, "{micros}");
            last = bucket;
        }
    }

    #[test]
    fn percentiles_of_a_known_row() {
        let (mut odd, mut even) = (Histogram::default(), Histogram::default());
        for micros in (1..=1_000).map(Duration::from_micros) {
            if micros.as_micros() % 2 == 1 { odd.add(micros) } else { even.add(micros) }
        }
        odd.merge(&even);
        assert_eq!(odd.count(), 1_000);
        let near = |per_mille: u64, micros: u64| {
            let got = odd.at(per_mille).as_micros() as u64;
            assert!(got >= micros && got <= micros + micros / 50, "{per_mille}: {got}");
        };
        near(500, 500);
        near(990, 990);
        assert_eq!(odd.at(1_000), Duration::from_micros(1_000));
        assert_eq!(odd.max(), Duration::from_micros(1_000));
        assert_eq!(Histogram::default().at(500), Duration::ZERO);
    }
}
