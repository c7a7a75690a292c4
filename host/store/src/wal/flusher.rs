//! The task of a log: groups what waits into objects, has several on their way, acknowledges in order.
//!
//! There is no timer: whatever arrived while the allowed number of objects was on its way goes into
//! the next one. When an object at number N ends the session, everything from N on is refused, and
//! what is below N may still be acknowledged, because it is before any seal.

use super::format::{self, extents};
use super::writer::{Answer, Durable, Permit, Shared};
use super::{Extent, Record, WalError};
use crate::counters::{add, raise};
use headwater_env::fail_point;
use headwater_metadata::WalSeq;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::{AbortHandle, JoinSet};

/// An object on its way.
struct Flight {
    seq: WalSeq,
    records: Arc<[Record]>,
    extents: Arc<[Extent]>,
    answers: Vec<Answer>,
    provers: Vec<Answer>,
    _memory: Vec<Permit>,
    done: bool,
    task: AbortHandle,
}

struct Flusher {
    shared: Arc<Shared>,
    next: WalSeq,
    flights: VecDeque<Flight>,
    uploads: JoinSet<(WalSeq, Result<(), WalError>)>,
    /// Extents of the newest object.
    newest: Option<Arc<[Extent]>>,
    over: bool,
}

/// Runs until the session is over, or the log is shut down or abandoned.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut flusher = Flusher {
        shared: shared.clone(),
        next: WalSeq(0),
        flights: VecDeque::new(),
        uploads: JoinSet::new(),
        newest: None,
        over: false,
    };
    let in_flight = match shared.log.overlaps() {
        true => shared.options.in_flight.unwrap_or_else(|| shared.log.in_flight()).max(1),
        false => 1,
    };
    loop {
        while !flusher.over && flusher.flights.len() < in_flight && flusher.launch() {}
        let (idle, closing, abandoned) = {
            let queue = shared.queue.lock();
            flusher.over |= queue.ended.is_some();
            (queue.records.is_empty() && queue.provers.is_empty(), queue.closing, queue.abandoned)
        };
        if abandoned || flusher.over && flusher.flights.is_empty() {
            break;
        }
        if closing && idle && flusher.flights.is_empty() {
            break;
        }
        tokio::select! {
            biased;
            Some(joined) = flusher.uploads.join_next() => flusher.landed(joined),
            () = shared.wake.notified() => {}
        }
    }
    // Dropping the flusher aborts what is still on its way.
}

impl Flusher {
    /// Begins the next object, if anything waits for one.
    fn launch(&mut self) -> bool {
        let (mut records, mut answers, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = 0;
        let provers = {
            let mut queue = self.shared.queue.lock();
            while let Some(first) = queue.records.front() {
                let size = first.record.size();
                if bytes > 0 && bytes + size > self.shared.options.object_bytes {
                    break;
                }
                bytes += size;
                if let Some(waiting) = queue.records.pop_front() {
                    records.push(waiting.record);
                    answers.push(waiting.answer);
                    memory.push(waiting.permit);
                }
            }
            std::mem::take(&mut queue.provers)
        };
        if records.is_empty() && provers.is_empty() {
            return false;
        }
        let seq = self.next;
        self.next = WalSeq(seq.0 + 1);
        let records: Arc<[Record]> = records.into();
        let extents: Arc<[Extent]> = extents(&records).into();
        let before = self.newest.replace(extents.clone());
        let (shared, group) = (self.shared.clone(), records.clone());
        let task = self.uploads.spawn(async move {
            let parts = format::encode(shared.session, shared.nonce, seq, before.as_deref(), &group);
            fail_point!("store.wal.before_put");
            let written = shared.log.write(seq, parts).await;
            fail_point!("store.wal.after_put");
            (seq, written)
        });
        let counters = &self.shared.counters;
        add(&counters.overlapping, u64::from(!self.flights.is_empty()));
        self.flights.push_back(Flight {
            seq,
            records,
            extents,
            answers,
            provers,
            _memory: memory,
            done: false,
            task,
        });
        raise(&counters.in_flight_max, self.flights.len() as u64);
        true
    }

    /// An upload has ended.
    fn landed(&mut self, joined: Result<(WalSeq, Result<(), WalError>), tokio::task::JoinError>) {
        match joined {
            Ok((seq, Ok(()))) => {
                if let Some(flight) = self.flights.iter_mut().find(|flight| flight.seq == seq) {
                    flight.done = true;
                }
                self.acknowledge();
            }
            Ok((seq, Err(error))) => self.end(seq, error),
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                // Which one is unknown: none that is not acknowledged can be trusted.
                let first = self.flights.front().map_or(self.next, |flight| flight.seq);
                self.end(first, WalError::Failed(format!("an upload panicked: {error}").into()));
            }
        }
    }

    /// Acknowledges what is stored together with everything before it.
    fn acknowledge(&mut self) {
        while self.flights.front().is_some_and(|flight| flight.done) {
            let Some(flight) = self.flights.pop_front() else { return };
            let counters = &self.shared.counters;
            let bytes = flight.records.iter().map(|record| record.bytes.len() as u64).sum();
            add(&counters.objects, 1);
            add(&counters.records, flight.records.len() as u64);
            add(&counters.bytes, bytes);
            add(&counters.empty, u64::from(flight.records.is_empty()));
            add(&counters.proofs, flight.provers.len() as u64);
            raise(&counters.largest_group, flight.records.len() as u64);
            self.shared.sink.durable(flight.seq, &flight.records);
            let durable = Durable { seq: flight.seq, bytes, extents: flight.extents.to_vec() };
            self.shared.ledger.lock().push_back(durable);
            self.shared.durable.store(flight.seq.0 + 1, Ordering::Release);
            for answer in flight.answers.into_iter().chain(flight.provers) {
                // Nobody may be waiting any more.
                let _ = answer.send(Ok(flight.seq));
            }
        }
    }

    /// The session is over from this number on.
    fn end(&mut self, from: WalSeq, error: WalError) {
        self.over = true;
        while self.flights.back().is_some_and(|flight| flight.seq >= from) {
            let Some(flight) = self.flights.pop_back() else { break };
            flight.task.abort();
            refuse(&self.shared, flight.answers.into_iter().chain(flight.provers), &error);
        }
        finish(&self.shared, error);
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        let closed = {
            let queue = self.shared.queue.lock();
            queue.closing || queue.abandoned
        };
        let error = if closed { WalError::Shutdown } else { WalError::Failed("its task ended".into()) };
        for flight in self.flights.drain(..) {
            refuse(&self.shared, flight.answers.into_iter().chain(flight.provers), &error);
        }
        finish(&self.shared, error);
    }
}

/// Takes nothing more, with the first reason that there was.
pub(super) fn finish(shared: &Shared, error: WalError) {
    let (waiting, provers, error) = {
        let mut queue = shared.queue.lock();
        let error = queue.ended.get_or_insert(error).clone();
        (std::mem::take(&mut queue.records), std::mem::take(&mut queue.provers), error)
    };
    refuse(shared, waiting.into_iter().map(|waiting| waiting.answer).chain(provers), &error);
    shared.memory.close();
    shared.ended.send_if_modified(|ended| {
        let first = ended.is_none();
        ended.get_or_insert(error);
        first
    });
}

fn refuse(shared: &Shared, answers: impl Iterator<Item = Answer>, error: &WalError) {
    for answer in answers {
        add(&shared.counters.refused, 1);
        // Nobody may be waiting any more.
        let _ = answer.send(Err(error.clone()));
    }
}
