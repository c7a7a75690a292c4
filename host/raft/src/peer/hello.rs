//! Telling the own address, learning the others', and joining: one message, at every start, to every
//! address that is known or named, until each was reached. A leader that hears from a member outside
//! the membership makes it a learner.

use crate::core::Core;
use crate::error::PeerError;
use crate::peer::pool::Lane;
use crate::status::Peer;
use crate::types::MemberInfo;
use crate::wire;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A member introduces itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub me: Peer,
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// Everything that the other knows, itself included.
    pub book: Vec<Peer>,
    /// The one who says hello is in the membership, as the other knows it.
    pub member: bool,
    /// Why it is not, when the other is the leader.
    pub trouble: Option<String>,
}

const ASK: Duration = Duration::from_secs(5);

/// Takes in a hello.
pub(crate) async fn greet(core: &Arc<Core>, hello: Hello) -> Result<Welcome, String> {
    let (member, node) = (hello.me.member, hello.me.node);
    core.book.learn([hello.me]).await;
    let mut trouble = None;
    if core.is_leader() && !core.has_member(member) {
        tracing::info!(member, %node, "a new member joins as a learner");
        match core.raft.add_learner(member, MemberInfo { node }, false).await {
            Ok(_) => crate::counters::count(&core.counters.membership_changes),
            Err(error) => trouble = Some(error.to_string()),
        }
    }
    Ok(Welcome { book: core.book.all(), member: core.has_member(member), trouble })
}

/// What came of one round of hellos.
#[derive(Default)]
pub(crate) struct Round {
    /// Why this member was refused, by the last that did.
    pub refused: Option<String>,
    /// Why nobody took it in, as far as somebody answered or failed.
    pub trouble: Option<String>,
    /// Somebody says that this member is in the membership.
    pub member: bool,
    reached: BTreeSet<String>,
    missed: bool,
}

/// Says hello to everybody once.
pub(crate) async fn round(core: &Arc<Core>, already: &BTreeSet<String>) -> Round {
    let addresses: BTreeSet<String> = core
        .book
        .all()
        .into_iter()
        .filter(|peer| peer.member != core.me.member)
        .map(|peer| peer.address)
        .chain(core.options.join.iter().cloned())
        .filter(|address| *address != core.address && !already.contains(address))
        .collect();
    let hello = Hello { me: core.my_peer() };
    let asked = addresses.into_iter().map(|address| {
        let message = wire::message(&hello);
        async move {
            let answer = core.pool.ask_at(&address, None, Lane::Control, "/hello", message, ASK).await;
            (address, answer)
        }
    });
    let mut round = Round::default();
    for (address, answer) in join_all(asked).await {
        let welcome = match answer {
            Ok(bytes) => wire::read_message::<Result<Welcome, String>>(&bytes).and_then(|answer| answer),
            Err(PeerError::Refused { peer, why }) => {
                round.refused = Some(format!("{peer}: {why}"));
                continue;
            }
            Err(error) => Err(error.to_string()),
        };
        match welcome {
            Ok(welcome) => {
                round.member |= welcome.member;
                round.trouble = welcome.trouble.or(round.trouble.take());
                core.book.learn(welcome.book).await;
                round.reached.insert(address);
            }
            Err(why) => {
                round.missed = true;
                round.trouble = Some(why);
            }
        }
    }
    round
}

/// Says hello until everybody was reached, and again when the book changes or the leader is lost.
pub(crate) async fn keep_saying(core: Arc<Core>) {
    let mut told = BTreeSet::new();
    let mut changes = core.book.changes();
    let mut pause = Duration::from_millis(200);
    loop {
        let lost = core.leader().is_none();
        if lost || !core.has_member(core.me.member) {
            told.clear();
        }
        changes.mark_unchanged();
        let round = round(&core, &told).await;
        if let Some(why) = round.refused {
            tracing::warn!(%why, "a peer refuses this node");
        }
        told.extend(round.reached);
        core.book.forget_succeeded(|member| core.has_member(member)).await;
        let settled = !round.missed && !lost && core.has_member(core.me.member);
        pause = if settled { Duration::from_secs(5) } else { (pause * 2).min(Duration::from_secs(3)) };
        let mut stop = core.stop.subscribe();
        tokio::select! {
            biased;
            () = core.env.clock.sleep(pause) => {}
            _ = changes.changed() => pause = Duration::from_millis(200),
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}
