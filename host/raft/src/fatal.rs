//! Why the member has stopped: set once, seen by everybody.

use crate::error::Fatal;
use std::sync::Arc;
use tokio::sync::watch;

/// Holds the first reason to stop.
#[derive(Clone)]
pub(crate) struct FatalCell {
    sender: Arc<watch::Sender<Option<Fatal>>>,
}

impl FatalCell {
    pub(crate) fn new() -> FatalCell {
        FatalCell { sender: Arc::new(watch::Sender::new(None)) }
    }

    /// Records a reason; the first one stays.
    pub(crate) fn report(&self, fatal: Fatal) {
        self.sender.send_if_modified(|current| match current {
            None => {
                *current = Some(fatal);
                true
            }
            Some(_) => false,
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Fatal>> {
        self.sender.subscribe()
    }

    pub(crate) fn get(&self) -> Option<Fatal> {
        self.sender.borrow().clone()
    }
}
