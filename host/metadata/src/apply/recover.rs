//! The end of an ended session: `RecoverSession`.
//!
//! It comes in parts of bounded size, from any registered session, perhaps from two at once. Each stream is
//! judged alone: what is no longer open in that session at that epoch was let go by somebody else.

use super::open_close::let_go;
use super::{Apply, Done, Verdict};
use crate::command::{Answer, Recovered, Rejection};
use crate::model::*;

impl Apply<'_> {
    pub(super) fn recover_session(&mut self, session: Session, streams: &[Recovered], last: bool) -> Verdict {
        let retired = self.state.retired(session).ok_or(Rejection::NotRetired(session))?;
        if retired.recovered {
            return Ok(Done::Redundant(Answer::Refused(Vec::new())));
        }
        let owner = match retired.keeps_streams() {
            true => Ownership::Placed(session.node),
            false => Ownership::Closed(session.node),
        };
        // A clone costs a few reference counts; it is what a rejected last part goes back to.
        let before = last.then(|| self.state.clone());
        let mut skipped = Vec::new();
        for found in streams {
            if let Err(why) = self.recover_stream(session, owner, found) {
                skipped.push((found.run.stream, why));
            }
        }
        let Some(before) = before else {
            let nothing = skipped.len() == streams.len();
            let answer = Answer::Refused(skipped);
            return Ok(if nothing { Done::Redundant(answer) } else { Done::Applied(answer) });
        };
        let open = self.state.open_count(session);
        if open > 0 {
            *self.state = before;
            return Err(Rejection::StillOpen(open));
        }
        self.finish(session);
        Ok(Done::Applied(Answer::Refused(skipped)))
    }

    fn recover_stream(
        &mut self,
        session: Session,
        owner: Ownership,
        found: &Recovered,
    ) -> Result<(), Rejection> {
        let stream = self.stream_at(found.run.stream, found.run.epoch)?;
        if stream.ownership != Ownership::Opened(session) {
            return Err(Rejection::NotOpen(session));
        }
        self.check_commit(stream, &found.run)?;
        self.add_run(&found.run);
        self.state.change_stream(found.run.stream, |stream| {
            let_go(stream, owner);
            stream.damaged |= found.damaged;
            stream.touched_ms = stream.touched_ms.max(found.now_ms);
        });
        Ok(())
    }

    /// Marks the session recovered. Its answers were kept for a proposer that is no more.
    fn finish(&mut self, session: Session) {
        if let Some(mut retired) = self.state.retired(session).cloned() {
            retired.recovered = true;
            retired.progress.last = None;
            self.state.put_retired(retired);
        }
    }
}
