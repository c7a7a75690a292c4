//! Data objects, their cache, compaction and collection, against a store that fails.

use super::*;
use crate::cache::BlockCache;
use crate::testing::{Fault, Faults, Op};
use crate::{Kind, Store, collect, compact, layout};
use bytes::Bytes;
use futures_util::TryStreamExt;
use headwater_env::Env;
use headwater_metadata::{Epoch, NodeId, Position, Run, Session, StreamEpoch, StreamId};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use std::sync::Arc;

const N1: Session = Session { node: NodeId(1), epoch: Epoch(100) };

fn stores() -> (Store, Store, Faults) {
    let faults = Faults::default();
    let sound = Store::from_object_store(Arc::new(InMemory::new()), Kind::Memory, Env::real());
    (sound.wrapped(|objects| faults.wrap(objects)), sound, faults)
}

fn text(len: usize, seed: usize) -> Bytes {
    (0..len).map(|n| ((n * 31 + seed) % 251) as u8).collect::<Vec<_>>().into()
}

/// An object with a large, a small and an empty stream.
fn object(keys: &Keys) -> (Object, Vec<Bytes>) {
    let mut writer = Writer::new();
    let bytes = vec![text(3_000_000, 1), text(10, 2), Bytes::new()];
    for (n, bytes) in bytes.iter().enumerate() {
        let pieces: Vec<_> = bytes.chunks(70_001).map(Bytes::copy_from_slice).collect();
        let checkpoint = Some(text(100 * n, n));
        writer.add(StreamId(n as u64), StreamEpoch(1), Position(1000), pieces, checkpoint, n == 2);
    }
    assert_eq!(writer.len(), 3_000_310);
    (writer.finish(keys), bytes)
}

async fn whole(store: &Store, run: &Run, from: u64, to: u64) -> Result<Vec<u8>, ReadError> {
    let pieces: Vec<Bytes> = read_range(store, run, Position(from), Position(to)).try_collect().await?;
    Ok(pieces.concat())
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_read_in_any_range() {
    let (store, _, _) = stores();
    let keys = Keys::new(N1, 7);
    let (object, bytes) = object(&keys);
    put(&store, &object).await.expect("stored");
    put(&store, &object).await.expect("once more is harmless");
    assert_eq!(object.runs.iter().map(|run| run.eof).collect::<Vec<_>>(), [false, false, true]);
    assert!(object.runs[2].run.is_none());
    let index = read_index(&store, object.key).await.expect("index");
    assert_eq!(index.entries.len(), 3);
    let cache = BlockCache::new(&store, 1 << 20, 200_000);
    for (n, run) in object.runs.iter().enumerate() {
        let checkpoint = read_checkpoint(&store, &run.checkpoint.expect("one")).await.expect("checkpoint");
        assert_eq!(checkpoint, text(100 * n, n));
        assert_eq!(index.entries[n].run, run.run);
        let Some(run) = run.run else { continue };
        let len = bytes[n].len() as u64;
        for (from, to) in
            [(0, len), (1, 2), (5, len - 1), (65_535, 65_537), (len - 1, len + 9), (len, len + 9)]
        {
            let expected = &bytes[n][from.min(len) as usize..to.min(len).max(from.min(len)) as usize];
            assert_eq!(whole(&store, &run, 1000 + from, 1000 + to).await.expect("read"), expected);
            let cached: Vec<Bytes> = cache
                .read(&run, Position(1000 + from), Position(1000 + to))
                .try_collect()
                .await
                .expect("read");
            assert_eq!(cached.concat(), expected);
        }
    }
    assert!(cache.bytes() <= 1 << 20);
    let counters = cache.counters();
    assert!(counters.hits > 0 && counters.evicted > 0, "{counters:?}");
}

#[tokio::test(start_paused = true)]
async fn a_block_is_fetched_once_for_all_who_ask() {
    let (store, _, faults) = stores();
    let keys = Keys::new(N1, 7);
    let (object, bytes) = object(&keys);
    put(&store, &object).await.expect("stored");
    let cache = BlockCache::new(&store, 1 << 30, 1 << 20);
    let run = object.runs[1].run.expect("run");
    let reads = (0..50).map(|_| cache.read(&run, run.start, run.end).try_collect::<Vec<Bytes>>());
    for read in futures_util::future::join_all(reads).await {
        assert_eq!(read.expect("read").concat(), bytes[1]);
    }
    assert_eq!(faults.asked(Op::Get), 2, "the index and the block");
    assert_eq!(cache.counters().misses, 1);
}

#[tokio::test(start_paused = true)]
async fn obj_03_lost_answers_of_data_objects() {
    for fault in [Fault::AnswerLost, Fault::DoneThenConflict, Fault::DoneThenHang, Fault::Conflict] {
        let (store, _, faults) = stores();
        let (object, _) = object(&Keys::new(N1, 7));
        faults.add(Op::Put, "data/", fault.clone(), 1);
        put(&store, &object).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(faults.failed(), 1);
    }
    // Another process with the same session's numbers.
    let (store, _, _) = stores();
    put(&store, &object(&Keys::new(N1, 7)).0).await.expect("stored");
    let rival = put(&store, &object(&Keys::new(N1, 8)).0).await;
    assert!(matches!(rival, Err(PutError::Foreign { .. })), "{rival:?}");
}

#[tokio::test(start_paused = true)]
async fn obj_04_a_damaged_object_is_named_and_never_read_as_data() {
    let (store, sound, _) = stores();
    let (object, _) = object(&Keys::new(N1, 7));
    put(&store, &object).await.expect("stored");
    let path = layout::data(object.key);
    let run = object.runs[0].run.expect("run");
    let stored = sound.objects().get(&path).await.expect("there").bytes().await.expect("read");
    let mut hole = stored.to_vec();
    hole[1_000_000..1_000_100].fill(0);
    let zeros = vec![0; stored.len()];
    let cut = stored[..stored.len() - 1000].to_vec();
    for damaged in [hole.clone(), zeros, cut, Vec::new()] {
        sound.objects().put(&path, damaged.into()).await.expect("damaged by hand");
        let error = whole(&store, &run, 1000, 2_000_000).await.expect_err("damaged");
        let ReadError::Damaged { object, .. } = error else { panic!("{error}") };
        assert_eq!(object, path.to_string());
    }
    // What is beside the damage reads on.
    sound.objects().put(&path, hole.into()).await.expect("damaged by hand");
    assert_eq!(whole(&store, &run, 1000, 1100).await.expect("read"), text(100, 1));
    sound.objects().delete(&path).await.expect("deleted");
    let gone = ReadError::Gone { object: path.to_string(), key: object.key };
    assert_eq!(whole(&store, &run, 1000, 1100).await, Err(gone));
}

#[tokio::test(start_paused = true)]
async fn obj_01_reads_wait_for_a_while_and_then_say_so() {
    let (store, _, faults) = stores();
    let (object, bytes) = object(&Keys::new(N1, 7));
    put(&store, &object).await.expect("stored");
    let run = object.runs[1].run.expect("run");
    faults.add(Op::Get, "data/", Fault::Unavailable, 4);
    assert_eq!(whole(&store, &run, run.start.0, run.end.0).await.expect("read"), bytes[1]);
    faults.add(Op::Get, "data/", Fault::Unavailable, 100);
    let error = whole(&store, &run, run.start.0, run.end.0).await.expect_err("overloaded");
    assert!(matches!(error, ReadError::Unavailable { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn small_runs_become_one() {
    let (store, sound, _) = stores();
    let keys = Keys::new(N1, 7);
    let all = text(100_000, 3);
    let mut runs = Vec::new();
    for (n, piece) in all.chunks(9_001).enumerate() {
        let mut writer = Writer::new();
        let start = Position(50 + n as u64 * 9_001);
        writer.add(StreamId(9), StreamEpoch(1), Position(0), [text(500, n)], None, false);
        writer.add(StreamId(1), StreamEpoch(1), start, [Bytes::copy_from_slice(piece)], None, false);
        let object = writer.finish(&keys);
        put(&store, &object).await.expect("stored");
        runs.push(object.runs[1].run.expect("run"));
    }
    let one = compact::concatenate(&store, &keys, StreamId(1), StreamEpoch(1), &runs).await.expect("read");
    put(&store, &one).await.expect("stored");
    let run = one.runs[0].run.expect("run");
    assert_eq!((run.start, run.end), (Position(50), Position(100_050)));
    assert_eq!(whole(&store, &run, 50, 100_050).await.expect("read"), all);

    runs.swap(0, 1);
    assert!(compact::concatenate(&store, &keys, StreamId(1), StreamEpoch(1), &runs).await.is_err());
    // Nothing refers to the old ones any more.
    let orphans = collect::orphans(&sound, N1, |key| key == one.key).await.expect("listed");
    assert_eq!(orphans.len(), 12);
    assert_eq!(collect::delete(&store, &orphans).await, orphans);
    assert!(collect::orphans(&sound, N1, |key| key == one.key).await.expect("listed").is_empty());
    assert_eq!(whole(&store, &run, 50, 60).await.expect("read"), all[..10]);
}

#[tokio::test(start_paused = true)]
async fn collecting_keeps_to_the_session_and_stops_when_the_store_does() {
    let (store, sound, faults) = stores();
    let ten = Session { node: NodeId(10), epoch: Epoch(100) };
    let later = Session { node: NodeId(1), epoch: Epoch(1001) };
    for session in [N1, ten, later] {
        put(&store, &object(&Keys::new(session, 7)).0).await.expect("stored");
    }
    let orphans = collect::orphans(&sound, N1, |_| false).await.expect("listed");
    assert_eq!(orphans.iter().map(|key| key.session).collect::<Vec<_>>(), [N1]);
    faults.add(Op::Delete, "data/", Fault::Unavailable, 1);
    assert!(collect::delete(&store, &orphans).await.is_empty());
    assert_eq!(collect::delete(&store, &orphans).await, orphans);
    faults.add(Op::List, "data/", Fault::Unavailable, 100);
    assert!(collect::orphans(&store, ten, |_| false).await.is_err(), "a failing listing is not an empty one");
}
