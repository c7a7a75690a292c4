//! Registers streams. A first body is in a data object before the stream is registered, so that it is
//! created, filled and closed in one command; the loser of a race takes its object away again.
//! `fork.rs` settles what a fork begins with.

use super::Inner;
use super::api::{Create, Created, Info, StreamError};
use super::counters::count;
use super::expiry;
use super::fork::inherited;
use super::tail::media_type;
use headwater_env::fail_point;
use headwater_metadata::{
    Answer, Command, CreateStream, ForkOf, ObjectKey, Outcome, Position, Rejection, Run, StreamEpoch,
    StreamId,
};
use headwater_raft::ProposeError;
use headwater_store::collect;
use headwater_store::object::{self, Writer};
use std::sync::Arc;

impl Inner {
    pub(super) async fn create(self: &Arc<Self>, create: Create) -> Result<Created, StreamError> {
        if create.body.len() as u64 > self.options.append_limit {
            return Err(StreamError::TooLarge { limit: self.options.append_limit });
        }
        let until = self.deadline();
        loop {
            self.check()?;
            let existing = self.log.view().stream_by_name(&create.name).map(|stream| stream.id);
            let id = match existing {
                Some(id) => id,
                None => {
                    let registered = match &create.fork {
                        Some(from) => self.register_fork(&create, from, until).await?,
                        None => self.register(&create, None).await?,
                    };
                    match registered {
                        Registered::New(info) => {
                            count(&self.counters.creates);
                            return Ok(Created::New(info));
                        }
                        Registered::Taken(id) => id,
                        Registered::Refused(why) => {
                            tracing::warn!(name = %create.name, %why, "creating was refused");
                            return Err(StreamError::unavailable("the stream could not be created"));
                        }
                    }
                }
            };
            match self.existing(id, &create).await {
                // Gone in the meantime, or at its end: the name is free.
                Err(StreamError::NotFound) if !self.left(until).is_zero() => {
                    if self.log.view().stream_by_name(&create.name).is_some_and(|s| s.id == id && !s.deleted)
                    {
                        match self.delete_expired(id).await {
                            // Somebody else deleted it first.
                            Ok(()) | Err(StreamError::NotFound) => {}
                            Err(error) => return Err(error),
                        }
                    }
                }
                other => return other.map(Created::Existing),
            }
        }
    }

    /// Proposes the stream. A fork's content type and expiry are settled by now.
    pub(super) async fn register(
        &self,
        create: &Create,
        fork: Option<ForkOf>,
    ) -> Result<Registered, StreamError> {
        let begin = fork.map_or(Position(0), |fork| fork.at);
        let body = match create.body.is_empty() {
            true => None,
            false => Some(self.store_body(create, begin).await?),
        };
        let object = body.map(|run| run.object);
        let command = Command::CreateStream(CreateStream {
            name: create.name.clone(),
            content_type: create.content_type.clone(),
            expiry: create.expiry,
            now_ms: self.env.clock.wall_ms(),
            eof: create.eof,
            body,
            fork,
        });
        match self.log.propose(command).await {
            Ok(Outcome::Applied(Answer::Stream(id))) => Ok(Registered::New(self.new_info(id, create, begin))),
            Ok(Outcome::Redundant(Answer::Stream(id)) | Outcome::Rejected(Rejection::NameTaken(id))) => {
                self.drop_object(object).await;
                Ok(Registered::Taken(id))
            }
            Ok(outcome) => {
                self.drop_object(object).await;
                match outcome {
                    Outcome::Rejected(Rejection::NotRegistered { .. }) => Err(StreamError::Fenced),
                    Outcome::Rejected(why) => Ok(Registered::Refused(why)),
                    outcome => {
                        tracing::warn!(name = %create.name, ?outcome, "an answer that belongs to no create");
                        Err(StreamError::unavailable("the stream could not be created"))
                    }
                }
            }
            Err(error) => {
                if let ProposeError::Unavailable(_) | ProposeError::TooLarge { .. } = error {
                    self.drop_object(object).await;
                }
                Err(super::owner::propose_error(error))
            }
        }
    }

    /// Writes the first content. It belongs to no stream yet; readers do not look at whose it is.
    async fn store_body(&self, create: &Create, begin: Position) -> Result<Run, StreamError> {
        let mut writer = Writer::new();
        writer.add(StreamId(0), StreamEpoch(0), begin, [create.body.clone()], None, create.eof);
        let object = writer.finish(&self.keys);
        let put = self.env.timeout(self.options.wait, object::put(&self.store, &object)).await;
        match put {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(StreamError::Store(error.to_string().into())),
            None => return Err(StreamError::unavailable("the store does not answer")),
        }
        count(&self.counters.create_objects);
        fail_point!("create.object_put");
        object.runs.first().and_then(|run| run.run).ok_or(StreamError::EmptyBody)
    }

    /// Takes back an object that no command can refer to any more.
    async fn drop_object(&self, object: Option<ObjectKey>) {
        if let Some(key) = object {
            collect::delete(&self.store, &[key]).await;
        }
    }

    /// The stream that has the name, if it is configured as asked.
    async fn existing(self: &Arc<Self>, id: StreamId, create: &Create) -> Result<Info, StreamError> {
        let info = self.info(id).await?;
        let differs = |what| Err(StreamError::ConfigMismatch { what });
        let view = self.log.view();
        let there = view.stream(id).ok_or(StreamError::NotFound)?;
        let (content_type, expiry) = match (&create.fork, there.fork) {
            (None, None) => (&create.content_type, create.expiry),
            (Some(from), Some(fork)) => {
                let Some(source) = view.stream(fork.source).filter(|it| it.name == from.source) else {
                    return differs("Stream-Forked-From");
                };
                if !self.is_fork_point(&view, there, fork.at, from).await? {
                    return differs("Stream-Fork-Offset or Stream-Fork-Sub-Offset");
                }
                inherited(create, from, source)
            }
            _ => return differs("Stream-Forked-From"),
        };
        if media_type(&info.content_type) != media_type(content_type) {
            return differs("Content-Type");
        }
        if info.expiry != expiry {
            return differs("Stream-TTL or Stream-Expires-At");
        }
        if info.eof != create.eof {
            return differs("Stream-Closed");
        }
        Ok(info)
    }

    fn new_info(&self, id: StreamId, create: &Create, begin: Position) -> Info {
        let now = self.env.clock.wall_ms();
        Info {
            id,
            name: create.name.clone(),
            content_type: create.content_type.clone(),
            expiry: create.expiry,
            expires_ms: expiry::expires_ms(create.expiry, now),
            start: self.start_of(id),
            tail: Position(begin.0 + create.body.len() as u64),
            eof: create.eof,
        }
    }
}

/// What became of a proposal.
pub(super) enum Registered {
    /// The stream is new.
    New(Info),
    /// This stream has the name.
    Taken(StreamId),
    /// Nothing was registered.
    Refused(Rejection),
}
