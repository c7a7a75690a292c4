//! A moment on the clocks that count suspend. Of the boot-time clock and the wall clock, whichever says
//! that more has passed is believed: a paused virtual machine shows on the wall clock alone.

use headwater_env::Env;
use std::time::Duration;

/// When something was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    boot: Duration,
    wall_ms: u64,
    monotonic: Duration,
}

impl Moment {
    pub(crate) fn now(env: &Env) -> Moment {
        let clock = &env.clock;
        Moment { boot: clock.boot(), wall_ms: clock.wall_ms(), monotonic: clock.monotonic() }
    }

    /// How much has passed until `now`.
    pub(crate) fn passed(&self, now: &Moment) -> Duration {
        let boot = now.boot.saturating_sub(self.boot);
        boot.max(Duration::from_millis(now.wall_ms.saturating_sub(self.wall_ms)))
    }

    /// How much of what has passed until `now` the monotonic clock missed: time asleep, or a wall
    /// clock that was set forward.
    pub(crate) fn slept(&self, now: &Moment) -> Duration {
        self.passed(now).saturating_sub(now.monotonic.saturating_sub(self.monotonic))
    }

    /// The monotonic clock then.
    pub(crate) fn monotonic(&self) -> Duration {
        self.monotonic
    }
}
