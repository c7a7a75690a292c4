//! May this component become a policy of the cluster? Asked once, when it is pushed.
//!
//! It must be a component that exports the world and imports nothing, and it must stand a battery of
//! inputs (`battery.rs`) on an engine with a quarter of every limit, so that no policy in use comes near
//! one. That is a help for people who write policies, not a wall: a policy that gets past this and fails
//! later only falls back.

use crate::battery;
use crate::bindings::{self, PolicyPre};
use crate::engine::{self, Guest, Limits, MAX_COMPONENT_BYTES, cause_of};
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

/// What a policy says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it does, in a sentence.
    pub summary: String,
    /// It wants to see the nodes' labels.
    pub needs_labels: bool,
}

/// What the check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the policy says of itself.
    pub description: Description,
    /// Size of the component in bytes.
    pub size: usize,
    /// Most fuel that a placement of the battery used.
    pub place_fuel: u64,
    /// Most fuel that a route of the battery used.
    pub route_fuel: u64,
}

/// Why a component is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too large.
    #[error("the component has {0} bytes, the limit is {MAX_COMPONENT_BYTES}")]
    TooLarge(usize),
    /// A core module.
    #[error("this is a core WebAssembly module, not a component: wrap it (`cargo build-policies` does)")]
    CoreModule,
    /// Not WebAssembly, or damaged.
    #[error("this is not a WebAssembly component that can be compiled: {0}")]
    Malformed(String),
    /// It imports something.
    #[error("a policy imports nothing, but this component imports: {}", .0.join(", "))]
    Imports(Vec<String>),
    /// Made for another version of the world.
    #[error("this component exports {offered}, this host runs {wanted}")]
    OtherVersion {
        /// What the component exports.
        offered: String,
        /// What the host wants.
        wanted: String,
    },
    /// An export is missing or has another type.
    #[error("this component does not export the world headwater:policy/policy: {0}")]
    Exports(String),
    /// `describe` fails or says something that cannot be shown.
    #[error("the description is not acceptable: {0}")]
    Description(String),
    /// It failed on the battery of inputs.
    #[error("{0}")]
    Battery(String),
}

/// Checks a component as it is pushed, for a cluster of this many nodes. Blocks: it compiles.
pub fn check(component: &[u8], nodes: usize) -> Result<Report, Refused> {
    looks_like_a_component(component)?;
    let (strict, standard) = (load(component, Limits::STRICT)?, load(component, Limits::STANDARD)?);
    let description = describe(&strict)?;
    let used =
        battery::stand(&strict, &standard, nodes, description.needs_labels).map_err(Refused::Battery)?;
    Ok(Report {
        description,
        size: component.len(),
        place_fuel: used.place_fuel,
        route_fuel: used.route_fuel,
    })
}

/// What can be said before anything is compiled.
fn looks_like_a_component(component: &[u8]) -> Result<(), Refused> {
    if component.len() > MAX_COMPONENT_BYTES {
        return Err(Refused::TooLarge(component.len()));
    }
    match component.get(..8) {
        Some(b"\0asm\x01\0\0\0") => Err(Refused::CoreModule),
        Some(b"\0asm\x0d\0\x01\0") => Ok(()),
        _ => Err(Refused::Malformed("it does not begin like one".to_owned())),
    }
}

/// A component ready to run under the limits that a cluster gives it, and what it says of itself. Without
/// the battery: for trying things out.
pub(crate) fn load_for_trial(component: &[u8]) -> Result<(PolicyPre<Guest>, Description), Refused> {
    looks_like_a_component(component)?;
    let pre = load(component, Limits::STANDARD)?;
    let description = describe(&pre)?;
    Ok((pre, description))
}

fn load(component: &[u8], limits: Limits) -> Result<PolicyPre<Guest>, Refused> {
    let engine = engine::placement(limits).map_err(|error| Refused::Malformed(error.to_string()))?;
    let component =
        Component::new(&engine, component).map_err(|error| Refused::Malformed(format!("{error:#}")))?;
    imports_nothing(&engine, &component)?;
    let exports = |error: wasmtime::Error| {
        other_version(&engine, &component).unwrap_or_else(|| Refused::Exports(format!("{error:#}")))
    };
    let linker = Linker::new(&engine);
    let pre = linker.instantiate_pre(&component).and_then(PolicyPre::new).map_err(exports)?;
    // Types are compared when an instance is made.
    let mut store = Guest::store(&engine, limits.memory, limits.place_fuel);
    match pre.instantiate(&mut store) {
        Ok(_) => Ok(pre),
        Err(error) if error.is::<wasmtime::Trap>() => {
            Err(Refused::Battery(format!("it fails when it is started: {}", cause_of(&error).as_str())))
        }
        Err(error) => Err(exports(error)),
    }
}

fn imports_nothing(engine: &Engine, component: &Component) -> Result<(), Refused> {
    let kind = component.component_type();
    let imports: Vec<_> = kind.imports(engine).map(|(name, _)| name.to_owned()).collect();
    if imports.is_empty() { Ok(()) } else { Err(Refused::Imports(imports)) }
}

/// The component exports our interfaces, of another version.
fn other_version(engine: &Engine, component: &Component) -> Option<Refused> {
    let kind = component.component_type();
    let ours = format!("{}/", bindings::PACKAGE);
    let version =
        |name: &str| name.starts_with(&ours).then(|| name.rsplit_once('@').map(|(_, v)| v.to_owned()));
    let offered =
        kind.exports(engine).find_map(|(name, _)| version(name))?.unwrap_or("no version".to_owned());
    let named = |version: &str| format!("{}@{version}", bindings::PACKAGE);
    (offered != bindings::VERSION)
        .then(|| Refused::OtherVersion { offered: named(&offered), wanted: named(bindings::VERSION) })
}

fn describe(pre: &PolicyPre<Guest>) -> Result<Description, Refused> {
    let mut store = Guest::store(pre.engine(), Limits::STRICT.memory, Limits::STRICT.place_fuel);
    let said = pre
        .instantiate(&mut store)
        .and_then(|policy| policy.headwater_policy_about().call_describe(&mut store))
        .map_err(|error| Refused::Description(format!("describe failed: {}", cause_of(&error).as_str())))?;
    let word = |text: &str, most: usize| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        !text.is_empty() && text.len() <= most && text.chars().all(allowed)
    };
    if !word(&said.name, 64) {
        return Err(Refused::Description("the name must be 1 to 64 of letters, digits, - _ . +".to_owned()));
    }
    if !word(&said.version, 32) {
        return Err(Refused::Description(
            "the version must be 1 to 32 of letters, digits, - _ . +".to_owned(),
        ));
    }
    if said.summary.len() > 500 || said.summary.chars().any(char::is_control) {
        return Err(Refused::Description("the summary must be one line of up to 500 bytes".to_owned()));
    }
    Ok(Description {
        name: said.name,
        version: said.version,
        summary: said.summary,
        needs_labels: said.needs.contains(bindings::about::Needs::LABELS),
    })
}
