//! Bad policies, for tests: well-typed components that misbehave at one entry, made from text in memory.
//!
//! A policy that always misbehaves is refused when it is pushed. One that must be provoked passes, which
//! is what a test of a running cluster needs: see [`When::Provoked`].

use crate::Workspace;
use anyhow::{Context, Result};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Where it misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// When an instance is made.
    Start,
    /// When the host asks for memory to put arguments in.
    Realloc,
    /// In `describe`.
    Describe,
    /// After `describe`, when the host gives its result back.
    DescribeReturn,
    /// In `place`.
    Place,
    /// In `route`.
    Route,
}

/// What it does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// What a panic becomes.
    Panic,
    /// Divides by zero.
    Divide,
    /// Reads beyond its memory.
    OutOfBounds,
    /// Never returns.
    Loop,
    /// Calls itself without end.
    Recurse,
    /// Takes all memory that it gets, writes to it, and fails.
    Memory,
    /// Answers with a value that its type does not have.
    BadResult,
    /// Answers with an address that it does not have.
    BadPointer,
    /// Names this node: as the owner, or as the target of a redirect.
    Names(u64),
    /// Leaves the choice to the host (placement only).
    NoAnswer,
}

/// When it does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Each time.
    Always,
    /// In `place` for streams whose name begins with `/boom`; in `route` on nodes from 3 on. Otherwise it
    /// is a good policy: the first candidate takes everything, requests go to the owner.
    Provoked,
}

/// A component that misbehaves.
pub fn hostile(entry: Entry, deed: Deed, when: When) -> Result<Vec<u8>> {
    component(&world()?, &module(entry, deed, when))
}

/// A component of the world in this text, with this core module. For what [`hostile`] does not cover.
pub fn component(wit: &str, module: &str) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("policy.wit", wit)?;
    let world = resolve.select_world(&[package], Some("policy"))?;
    let mut module = wat::parse_str(module)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
    crate::encode(&module)
}

/// The text of `wit/policy.wit`.
pub fn world() -> Result<String> {
    let path = Workspace::default().root().join("wit/policy.wit");
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The text of a core module for [`hostile`].
pub fn module(entry: Entry, deed: Deed, when: When) -> String {
    let at = |this: Entry, provoked: &str| match (this == entry, when) {
        (false, _) => String::new(),
        (true, When::Always) => code(this, deed),
        (true, When::Provoked) => format!("(if {provoked} (then {}))", code(this, deed)),
    };
    // Parameters of the entries, flattened: see the canonical ABI.
    let boom = "(i32.and (i32.ge_u (local.get 2) (i32.const 5)) (i32.and
        (i32.eq (i32.load align=1 (local.get 1)) (i32.const 0x6f6f622f))
        (i32.eq (i32.load8_u offset=4 (local.get 1)) (i32.const 0x6d))))";
    let (start, realloc) = (at(Entry::Start, "(i32.const 0)"), at(Entry::Realloc, "(i32.const 0)"));
    let (describe, describe_return) =
        (at(Entry::Describe, "(i32.const 0)"), at(Entry::DescribeReturn, "(i32.const 0)"));
    let place = at(Entry::Place, boom);
    let route = at(Entry::Route, "(i64.ge_u (local.get 0) (i64.const 3))");
    format!(
        r#"(module
  (memory (export "memory") 1)
  (global $heap (mut i32) (i32.const 4096))
  (data (i32.const 64) "hostile1.0.0Misbehaves.")
  (func $start {start})
  (start $start)
  (func $recurse (param i64) (result i64)
    (i64.add (call $recurse (i64.add (local.get 0) (i64.const 1))) (local.get 0)))
  (func $eat (local $at i32)
    (loop $more
      (local.set $at (memory.grow (i32.const 16)))
      (if (i32.ne (local.get $at) (i32.const -1)) (then
        (i32.store (i32.shl (local.get $at) (i32.const 16)) (i32.const 1))
        (br $more))))
    unreachable)
  (func (export "cabi_realloc") (param $old i32) (param i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    {realloc}
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (block $fits (loop $more
      (br_if $fits (i32.le_u (global.get $heap) (i32.shl (memory.size) (i32.const 16))))
      (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))
      (br $more)))
    (local.get $at))
  (func (export "headwater:policy/about@0.1.0#describe") (result i32)
    {describe}
    (i32.store (i32.const 1024) (i32.const 64)) (i32.store (i32.const 1028) (i32.const 7))
    (i32.store (i32.const 1032) (i32.const 71)) (i32.store (i32.const 1036) (i32.const 5))
    (i32.store (i32.const 1040) (i32.const 76)) (i32.store (i32.const 1044) (i32.const 11))
    (i32.store8 (i32.const 1048) (i32.const 0))
    (i32.const 1024))
  (func (export "cabi_post_headwater:policy/about@0.1.0#describe") (param i32) {describe_return})
  (func (export "headwater:policy/placement@0.1.0#place")
    (param i64 i32 i32 i32 i32 i64 i32 i32 i32 i32) (result i32)
    {place}
    (i32.store8 (i32.const 1024) (i32.ne (local.get 9) (i32.const 0)))
    (if (local.get 9) (then (i64.store (i32.const 1032) (i64.load (local.get 8)))))
    (i32.const 1024))
  (func (export "headwater:policy/routing@0.1.0#route") (param i64 i32 i32 i64 i64) (result i32)
    (local $owner i64)
    {route}
    (local.set $owner (local.get 0))
    (if (i32.or (i32.eq (local.get 2) (i32.const 2)) (i32.eq (local.get 2) (i32.const 3)))
      (then (local.set $owner (local.get 3))))
    (if (i32.eq (local.get 2) (i32.const 4)) (then (local.set $owner (local.get 4))))
    (i32.store8 (i32.const 1024) (i64.ne (local.get $owner) (local.get 0)))
    (i64.store (i32.const 1032) (local.get $owner))
    (i32.const 1024)))"#
    )
}

fn code(entry: Entry, deed: Deed) -> String {
    let returns = |tag: u32, payload: u64| {
        format!(
            "(i32.store8 (i32.const 1024) (i32.const {tag})) (i64.store (i32.const 1032) (i64.const {payload}))
             (return (i32.const 1024))"
        )
    };
    match deed {
        Deed::Panic => "unreachable".to_owned(),
        Deed::Divide => "(drop (i32.div_u (i32.const 1) (i32.const 0)))".to_owned(),
        Deed::OutOfBounds => "(drop (i32.load (i32.const -16)))".to_owned(),
        Deed::Loop => "(loop $for_ever (br $for_ever))".to_owned(),
        Deed::Recurse => "(drop (call $recurse (i64.const 0)))".to_owned(),
        Deed::Memory => "(call $eat)".to_owned(),
        Deed::BadPointer => match entry {
            Entry::Start | Entry::DescribeReturn => "unreachable".to_owned(),
            _ => "(return (i32.const -64))".to_owned(),
        },
        Deed::BadResult => match entry {
            Entry::Start | Entry::DescribeReturn => "unreachable".to_owned(),
            // A name of two gigabytes.
            Entry::Describe => "(i32.store (i32.const 1024) (i32.const 64))
                (i32.store (i32.const 1028) (i32.const 0x7fffffff)) (return (i32.const 1024))"
                .to_owned(),
            _ => returns(200, 0),
        },
        Deed::Names(node) => returns(1, node),
        Deed::NoAnswer => returns(0, 0),
    }
}
