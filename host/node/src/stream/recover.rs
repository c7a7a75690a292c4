//! Recovers a retired session: own earlier ones at a restart, and anybody's after an eviction.
//!
//! Its log is sealed first, at the first absent number from its trim point in a view that contains the
//! retirement: from then on it can acknowledge nothing. Then what its log has past the committed ends
//! of the streams that are still open in that very session, at that epoch, is put into data objects and
//! committed in parts, each stream judged alone. Only after the last part its log is deleted. A crash
//! anywhere, or a second recoverer, repeats work and changes nothing.

use super::Inner;
use super::api::StreamError;
use super::checkpoint::{RecordMeta, Writers};
use super::counters::{add, count};
use bytes::Bytes;
use futures_util::StreamExt;
use headwater_env::fail_point;
use headwater_metadata::{
    Command, Outcome, Ownership, Position, Recovered, Rejection, Session, Stream, StreamId, StreamRun, View,
};
use headwater_store::StoreError;
use headwater_store::object::{self, Writer};
use headwater_store::recover::{Replayed, delete_log, replay};
use headwater_store::wal::seal::{SealedLog, seal};
use headwater_store::wal::{Extent, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// At most so many streams are in one part.
const PART_STREAMS: usize = 1_000;
/// About so many bytes are in one part's data object.
const PART_BYTES: u64 = 32 << 20;

/// What a recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Streams let go.
    pub streams: u64,
    /// Bytes that were past committed ends.
    pub bytes: u64,
    /// Streams let go with a gap.
    pub damaged: u64,
    /// Parts proposed.
    pub parts: u64,
}

/// Why a session is not recovered (yet).
#[derive(Clone, Debug, thiserror::Error)]
pub enum RecoverError {
    /// The own view does not have it retired.
    #[error("session {0} is not retired")]
    NotRetired(Session),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recovering session, or the metadata log.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The metadata log refuses to let go of a stream.
    #[error("stream {stream} of session {session} cannot be let go: {why}")]
    Stuck {
        /// The session.
        session: Session,
        /// The first stream that stays.
        stream: StreamId,
        /// What was answered.
        why: String,
    },
}

/// What the log of a session has for one of its streams.
#[derive(Debug, Default)]
struct Found {
    start: Position,
    next: Position,
    bytes: Vec<Bytes>,
    metas: Vec<(RecordMeta, bool)>,
    was_eof: bool,
    eof: bool,
    damaged: bool,
    /// An object is lost that may have held something of this stream.
    suspect: bool,
}

/// What the log of a session has past the committed ends.
struct Replay<'a> {
    view: &'a View,
    session: Session,
    found: BTreeMap<StreamId, Found>,
}

impl Inner {
    pub(super) async fn recover(self: &Arc<Self>, retired: Session) -> Result<Recovery, RecoverError> {
        let view = self.log.view();
        let record = view.retired(retired).ok_or(RecoverError::NotRetired(retired))?;
        let mut recovery = Recovery::default();
        if record.recovered {
            return Ok(recovery);
        }
        let log = seal(&self.store, retired, record.wal, record.progress.trim, self.session).await?;
        fail_point!("recover.sealed");
        tracing::info!(session = %retired, from = %log.from, end = %log.end, "sealed the log of a retired session");
        let mut found = self.replay(&view, &log).await;
        while self.recover_part(retired, &mut found, &mut recovery).await? {
            fail_point!("recover.part");
        }
        delete_log(&self.store, &log).await;
        count(&self.counters.recoveries);
        tracing::info!(session = %retired, ?recovery, "recovered a session");
        Ok(recovery)
    }

    async fn replay(&self, view: &View, log: &SealedLog) -> BTreeMap<StreamId, Found> {
        let mut replay_ = Replay { view, session: log.session, found: BTreeMap::new() };
        let mut objects = replay(&self.store, log);
        while let Some(object) = objects.next().await {
            match object {
                Replayed::Records { records, .. } => records.iter().for_each(|record| replay_.take(record)),
                Replayed::Damaged { object, reason, held, .. } => {
                    tracing::error!(object, reason, "an object of a write-ahead log is lost");
                    replay_.lost(held.as_deref());
                }
            }
        }
        let mut found = replay_.found;
        found.values_mut().for_each(|found| found.damaged |= found.suspect);
        found
    }

    /// Lets go of some streams; false when the session is recovered.
    async fn recover_part(
        &self,
        retired: Session,
        found: &mut BTreeMap<StreamId, Found>,
        recovery: &mut Recovery,
    ) -> Result<bool, RecoverError> {
        self.check()?;
        let view = self.log.view();
        if view.retired(retired).is_none_or(|record| record.recovered) {
            return Ok(false);
        }
        let (ids, last) = choose(&view, retired, found);
        let first = ids.first().copied();
        let (streams, bytes) = self.write_part(&view, &ids, found).await?;
        let damaged = streams.iter().filter(|s| s.damaged).count() as u64;
        let command = Command::RecoverSession { session: retired, streams, last };
        let outcome = self.settle(command).await?;
        if let Outcome::Rejected(Rejection::NotRegistered { .. }) = outcome {
            return Err(StreamError::Fenced.into());
        }
        count(&self.counters.recovery_parts);
        add(&self.counters.recovered_streams, ids.len() as u64);
        add(&self.counters.recovered_bytes, bytes);
        add(&self.counters.damaged_streams, damaged);
        recovery.parts += 1;
        recovery.streams += ids.len() as u64;
        recovery.bytes += bytes;
        recovery.damaged += damaged;
        let view = self.log.view();
        if let Some(stream) = first.filter(|id| is_open_in(&view, *id, retired).is_some()) {
            return Err(RecoverError::Stuck { session: retired, stream, why: format!("{outcome:?}") });
        }
        Ok(true)
    }

    /// Puts what was found for these streams into a data object, and says what each one's fate is.
    async fn write_part(
        &self,
        view: &View,
        ids: &[StreamId],
        found: &mut BTreeMap<StreamId, Found>,
    ) -> Result<(Vec<Recovered>, u64), RecoverError> {
        let now_ms = self.env.clock.wall_ms();
        let mut writer = Writer::new();
        let (mut written, mut others) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for stream in ids.iter().filter_map(|id| view.stream(*id)) {
            let mut found = found.remove(&stream.id).unwrap_or_default();
            let checkpoint = self.checkpoint_after(stream, &mut found).await?;
            let nothing =
                StreamRun { stream: stream.id, epoch: stream.epoch, run: None, checkpoint: None, eof: false };
            let recovered = Recovered { run: nothing, damaged: found.damaged, now_ms };
            if found.metas.is_empty() {
                others.push(recovered);
                continue;
            }
            bytes += found.next.0 - found.start.0;
            writer.add(stream.id, stream.epoch, found.start, found.bytes, checkpoint, found.eof);
            written.push(recovered);
        }
        if !writer.is_empty() {
            let object = writer.finish(&self.keys);
            object::put(&self.store, &object).await.map_err(|e| StreamError::Store(e.to_string().into()))?;
            for (recovered, run) in written.iter_mut().zip(&object.runs) {
                debug_assert_eq!(recovered.run.stream, run.stream);
                recovered.run = run.clone();
            }
        }
        written.append(&mut others);
        Ok((written, bytes))
    }

    /// The writers as of the end of what was found, when they have changed.
    async fn checkpoint_after(
        &self,
        stream: &Stream,
        found: &mut Found,
    ) -> Result<Option<Bytes>, RecoverError> {
        if found.metas.iter().all(|(meta, _)| meta.producer.is_none() && meta.seq.is_none()) {
            return Ok(None);
        }
        let mut writers = match &stream.checkpoint {
            None => Writers::default(),
            Some(place) => match object::read_checkpoint(&self.store, place).await {
                Ok(bytes) => Writers::decode(&bytes).unwrap_or_else(|error| {
                    tracing::error!(stream = %stream.id, %error, "a checkpoint does not read");
                    found.damaged = true;
                    Writers::default()
                }),
                Err(error @ object::ReadError::Unavailable { .. }) => {
                    return Err(StreamError::Store(error.to_string().into()).into());
                }
                Err(error) => {
                    tracing::error!(stream = %stream.id, %error, "a checkpoint is lost");
                    found.damaged = true;
                    Writers::default()
                }
            },
        };
        found.metas.iter().for_each(|(meta, eof)| writers.apply(meta, *eof));
        Ok(Some(writers.encode().into()))
    }
}

/// The next streams to let go of, and whether they are the last.
fn choose(view: &View, retired: Session, found: &BTreeMap<StreamId, Found>) -> (Vec<StreamId>, bool) {
    let mut ids = Vec::new();
    let mut bytes = 0;
    for id in view.open_in(retired) {
        if ids.len() >= PART_STREAMS || bytes >= PART_BYTES {
            return (ids, false);
        }
        bytes += found.get(&id).map_or(0, |found| found.next.0 - found.start.0);
        ids.push(id);
    }
    (ids, true)
}

fn is_open_in(view: &View, id: StreamId, session: Session) -> Option<&Arc<Stream>> {
    view.stream(id).filter(|stream| stream.ownership == Ownership::Opened(session) && !stream.deleted)
}

impl Replay<'_> {
    fn found(&mut self, stream: StreamId, epoch: headwater_metadata::StreamEpoch) -> Option<&mut Found> {
        let there = is_open_in(self.view, stream, self.session).filter(|s| s.epoch == epoch)?;
        let (end, eof) = (there.end, there.eof);
        Some(self.found.entry(stream).or_insert_with(|| Found {
            start: end,
            next: end,
            was_eof: eof,
            ..Found::default()
        }))
    }

    /// Takes in a record, unless it is committed, or behind a gap.
    fn take(&mut self, record: &Record) {
        let Some(found) = self.found(record.stream, record.epoch) else { return };
        let committed = record.end() < found.next
            || (record.end() == found.next && (!record.bytes.is_empty() || found.eof || found.was_eof));
        if found.damaged || committed {
            return;
        }
        let meta = RecordMeta::decode(&record.meta);
        match meta {
            Ok(meta) if record.start == found.next => {
                found.next = record.end();
                found.bytes.push(record.bytes.clone());
                found.eof |= record.eof;
                found.metas.push((meta, record.eof));
                // It continues where the last one ended: nothing of this stream was in between.
                found.suspect = false;
            }
            _ => {
                tracing::error!(stream = %record.stream, at = %found.next, record = %record.start, "a gap in a stream");
                found.damaged = true;
            }
        }
    }

    /// Takes note of what a lost object held.
    fn lost(&mut self, held: Option<&[Extent]>) {
        let Some(held) = held else {
            let view = self.view;
            for id in view.open_in(self.session) {
                let Some(epoch) = view.stream(id).map(|stream| stream.epoch) else { continue };
                if let Some(found) = self.found(id, epoch) {
                    found.suspect = true;
                }
            }
            return;
        };
        for extent in held {
            if let Some(found) = self.found(extent.stream, extent.epoch)
                && (extent.end > found.next || (extent.eof && !found.was_eof && !found.eof))
            {
                found.damaged = true;
            }
        }
    }
}
