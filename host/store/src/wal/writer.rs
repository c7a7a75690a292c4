//! The handle of a running log: memory, order of submission, trimming. `flusher.rs` is the task behind
//! it.

use super::counters::{WalCounters, WalCountersSnapshot};
use super::flusher;
use super::folder::FolderLog;
use super::log::Log;
use super::objects::ObjectLog;
use super::{Extent, Record, Sink, WalError, WalOptions};
use crate::Store;
use crate::counters::add;
use headwater_metadata::{Session, WalSeq};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};

/// Handle of a running write-ahead log. Cheap to clone; when the last one is dropped, the log ends
/// without waiting for anything.
#[derive(Clone)]
pub struct Wal {
    shared: Arc<Shared>,
    _last: Arc<Last>,
}

/// Memory reserved for one record.
pub struct Permit {
    _memory: OwnedSemaphorePermit,
}

/// Resolves when the record and everything before it is durable, with the number of its object; in
/// the order of the log. Dropping it changes nothing for the record.
pub struct Ticket {
    answer: oneshot::Receiver<Result<WalSeq, WalError>>,
}

/// The other end of a ticket, or of a proof.
pub(super) type Answer = oneshot::Sender<Result<WalSeq, WalError>>;

/// What the handle and the task share.
pub(super) struct Shared {
    pub log: Box<dyn Log>,
    pub session: Session,
    pub nonce: u128,
    pub options: WalOptions,
    pub sink: Arc<dyn Sink>,
    pub counters: WalCounters,
    pub queue: Mutex<Queue>,
    /// Something was put in the queue.
    pub wake: Notify,
    pub memory: Arc<Semaphore>,
    /// Every number below is durable.
    pub durable: AtomicU64,
    pub ended: watch::Sender<Option<WalError>>,
    /// Durable objects that are not trimmed, oldest first.
    pub ledger: Mutex<VecDeque<Durable>>,
    /// Every number below is deleted.
    deleted: tokio::sync::Mutex<u64>,
}

/// What waits for its object.
#[derive(Default)]
pub(super) struct Queue {
    pub records: VecDeque<Waiting>,
    pub provers: Vec<Answer>,
    pub closing: bool,
    pub abandoned: bool,
    pub ended: Option<WalError>,
}

/// A record that waits.
pub(super) struct Waiting {
    pub record: Record,
    pub answer: Answer,
    pub permit: Permit,
}

/// A durable object.
pub(super) struct Durable {
    pub seq: WalSeq,
    pub bytes: u64,
    pub extents: Vec<Extent>,
}

struct Last {
    shared: Arc<Shared>,
}

impl Drop for Last {
    fn drop(&mut self) {
        self.shared.queue.lock().abandoned = true;
        self.shared.wake.notify_one();
    }
}

impl Future for Ticket {
    type Output = Result<WalSeq, WalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(answer)
    }
}

fn answer(received: Result<Result<WalSeq, WalError>, oneshot::error::RecvError>) -> Result<WalSeq, WalError> {
    received.unwrap_or_else(|_| Err(WalError::Failed("its task is gone".into())))
}

impl Wal {
    /// Starts the log of a session at number 0, in the form that `Store::prepare_log` gave it (objects
    /// without). Once in a session.
    pub fn start(
        store: &Store,
        session: Session,
        nonce: u128,
        options: WalOptions,
        sink: Arc<dyn Sink>,
    ) -> Wal {
        let log: Box<dyn Log> = match store.take_folder(session) {
            Some((folder, path)) => Box::new(FolderLog::new(store, session, folder, path)),
            None => Box::new(ObjectLog { store: store.clone(), session, nonce }),
        };
        let shared = Arc::new(Shared {
            log,
            session,
            nonce,
            memory: Arc::new(Semaphore::new(options.memory_bytes)),
            options,
            sink,
            counters: WalCounters::default(),
            queue: Mutex::default(),
            wake: Notify::new(),
            durable: AtomicU64::new(0),
            ended: watch::Sender::new(None),
            ledger: Mutex::default(),
            deleted: tokio::sync::Mutex::default(),
        });
        tokio::spawn(flusher::run(shared.clone()));
        Wal { _last: Arc::new(Last { shared: shared.clone() }), shared }
    }

    /// Whose log it is.
    pub fn session(&self) -> Session {
        self.shared.session
    }

    /// Reserves memory for a record of `size` (`Record::size`). Waits while the log is behind; the
    /// caller bounds the wait. Taken before the stream's lock.
    pub async fn reserve(&self, size: usize) -> Result<Permit, WalError> {
        let limit = self.shared.options.memory_bytes;
        let wanted = u32::try_from(size).ok().filter(|_| size <= limit);
        let wanted = wanted.ok_or(WalError::TooLarge { size, limit })?;
        match self.shared.memory.clone().acquire_many_owned(wanted).await {
            Ok(memory) => Ok(Permit { _memory: memory }),
            Err(_) => Err(self.shared.ended.borrow().clone().unwrap_or(WalError::Shutdown)),
        }
    }

    /// Puts the record at the end of the log. Never waits.
    pub fn submit(&self, permit: Permit, record: Record) -> Ticket {
        let (send, receive) = oneshot::channel();
        let mut queue = self.shared.queue.lock();
        match &queue.ended {
            Some(end) => drop(send.send(Err(end.clone()))),
            None if queue.closing => drop(send.send(Err(WalError::Shutdown))),
            None => queue.records.push_back(Waiting { record, answer: send, permit }),
        }
        drop(queue);
        self.shared.wake.notify_one();
        Ticket { answer: receive }
    }

    /// The first number that is not known to be durable: everything below is.
    pub fn durable(&self) -> WalSeq {
        WalSeq(self.shared.durable.load(Ordering::Acquire))
    }

    /// The number up to which all durable objects are covered by what is (or is about to be)
    /// committed, as `covered` says for each stream in them, asked from the oldest on.
    pub fn trim_point(&self, mut covered: impl FnMut(&Extent) -> bool) -> WalSeq {
        let ledger = self.shared.ledger.lock();
        let first = ledger.iter().find(|object| !object.extents.iter().all(&mut covered));
        first.map_or_else(|| self.durable(), |object| object.seq)
    }

    /// Objects (or files) and bytes from the last trim on: what a recovery would replay.
    pub fn backlog(&self) -> (u64, u64) {
        let ledger = self.shared.ledger.lock();
        let bytes = ledger.iter().map(|group| group.bytes).sum();
        (self.shared.log.pieces(ledger.len() as u64), bytes)
    }

    /// Deletes the objects below a trim point *that has been applied*. What fails is tried again at
    /// the next call.
    pub async fn delete_below(&self, trim: WalSeq) {
        {
            let mut ledger = self.shared.ledger.lock();
            while ledger.front().is_some_and(|object| object.seq < trim) {
                ledger.pop_front();
            }
        }
        let mut deleted = self.shared.deleted.lock().await;
        if *deleted < trim.0 && self.shared.log.delete(WalSeq(*deleted), trim).await {
            *deleted = trim.0;
        }
    }

    /// Proves that the log is not sealed: a look at the folder begun after this call; or an object begun
    /// after it (empty, if no record waits), acknowledged in the order of the log, which serves all who
    /// asked before it began.
    pub async fn prove(&self) -> Result<(), WalError> {
        let (send, receive) = oneshot::channel();
        let check = self.shared.log.check();
        {
            let mut queue = self.shared.queue.lock();
            match &queue.ended {
                Some(end) => return Err(end.clone()),
                None if queue.closing => return Err(WalError::Shutdown),
                None if check.is_some() => {}
                None => queue.provers.push(send),
            }
        }
        if let Some(check) = check {
            let checked = check.await;
            if let Err(error @ WalError::Fenced { .. }) = &checked {
                flusher::finish(&self.shared, error.clone());
                self.shared.wake.notify_one();
            }
            add(&self.shared.counters.proofs, u64::from(checked.is_ok()));
            return checked;
        }
        self.shared.wake.notify_one();
        answer(receive.await).map(|_| ())
    }

    /// Set once the log takes nothing more, with the reason.
    pub fn ended(&self) -> watch::Receiver<Option<WalError>> {
        self.shared.ended.subscribe()
    }

    /// Writes what was submitted and ends the log.
    pub async fn shutdown(&self) {
        self.shared.queue.lock().closing = true;
        self.shared.wake.notify_one();
        // The sender lives as long as this handle.
        let _ = self.ended().wait_for(Option::is_some).await;
    }

    /// What it did so far.
    pub fn counters(&self) -> WalCountersSnapshot {
        self.shared.counters.snapshot()
    }
}
