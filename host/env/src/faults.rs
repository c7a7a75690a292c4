//! Fail points and clock offsets, for tests alone: compiled only with the feature `faults`.
//!
//! A fail point is a name in the code. The environment variable `HEADWATER_FAULTS` gives each one an
//! action when the process starts (`name=action;name=action`), and [`set`] does it at run time (the
//! admin listener offers that to the harness).
//! Actions: `pause` (wait until the action is changed), `exit` (end the process as a kill does),
//! `error` (the code there fails as it says), `sleep:MS`. A suffix `*N` lets it act N times only.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

/// What a fail point does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Waits until the action is changed.
    Pause,
    /// Ends the process at once, without any clean-up.
    Exit,
    /// The code there fails.
    Error,
    /// Waits.
    Sleep(Duration),
}

struct Armed {
    action: Action,
    left: Option<u64>,
}

#[derive(Default)]
struct Points {
    armed: BTreeMap<String, Armed>,
    hits: BTreeMap<String, u64>,
}

fn points() -> &'static Mutex<Points> {
    static POINTS: OnceLock<Mutex<Points>> = OnceLock::new();
    POINTS.get_or_init(|| {
        let mut points = Points::default();
        let spec = std::env::var("HEADWATER_FAULTS").unwrap_or_default();
        for (name, action) in spec.split(';').filter_map(|part| part.split_once('=')) {
            if let Some(armed) = parse(action) {
                points.armed.insert(name.to_owned(), armed);
            }
        }
        Mutex::new(points)
    })
}

fn parse(text: &str) -> Option<Armed> {
    let (text, left) = match text.split_once('*') {
        Some((text, count)) => (text, Some(count.parse().ok()?)),
        None => (text, None),
    };
    let action = match text {
        "pause" => Action::Pause,
        "exit" => Action::Exit,
        "error" => Action::Error,
        _ => Action::Sleep(Duration::from_millis(text.strip_prefix("sleep:")?.parse().ok()?)),
    };
    Some(Armed { action, left })
}

/// Gives the fail point an action, or none (`off`). False when the text is not an action.
pub fn set(name: &str, action: &str) -> bool {
    let mut points = points().lock();
    if action == "off" {
        points.armed.remove(name);
        return true;
    }
    match parse(action) {
        Some(armed) => {
            points.armed.insert(name.to_owned(), armed);
            true
        }
        None => false,
    }
}

/// How often each fail point was passed, armed or not.
pub fn hits() -> BTreeMap<String, u64> {
    points().lock().hits.clone()
}

fn pass(name: &str) -> Option<Action> {
    let mut points = points().lock();
    *points.hits.entry(name.to_owned()).or_default() += 1;
    let armed = points.armed.get_mut(name)?;
    let action = armed.action.clone();
    if action == Action::Pause {
        return Some(action);
    }
    match &mut armed.left {
        Some(0) => return None,
        Some(left) => *left -= 1,
        None => {}
    }
    Some(action)
}

/// Passes a fail point in async code. True when the code there shall fail.
pub async fn point(name: &str) -> bool {
    match pass(name) {
        None => false,
        Some(Action::Error) => true,
        Some(Action::Exit) => exit(name),
        Some(Action::Sleep(duration)) => {
            tokio::time::sleep(duration).await;
            false
        }
        Some(Action::Pause) => {
            while matches!(points().lock().armed.get(name), Some(Armed { action: Action::Pause, .. })) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            false
        }
    }
}

/// Passes a fail point in code that blocks. True when the code there shall fail.
pub fn point_blocking(name: &str) -> bool {
    match pass(name) {
        None => false,
        Some(Action::Error) => true,
        Some(Action::Exit) => exit(name),
        Some(Action::Sleep(duration)) => {
            std::thread::sleep(duration);
            false
        }
        Some(Action::Pause) => {
            while matches!(points().lock().armed.get(name), Some(Armed { action: Action::Pause, .. })) {
                std::thread::sleep(Duration::from_millis(5));
            }
            false
        }
    }
}

fn exit(name: &str) -> ! {
    tracing::warn!(point = name, "fail point ends the process");
    std::process::abort()
}

/// Milliseconds that the wall clock of this process is off.
pub(crate) fn clock_offset_ms() -> i64 {
    std::env::var("HEADWATER_FAULT_CLOCK_OFFSET_MS").ok().and_then(|v| v.parse().ok()).unwrap_or(0)
}
