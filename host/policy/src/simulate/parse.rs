//! Nodes and events as they are written on a command line: `a:4:zone=eu,b` and `join:c:2`, `leave:a`,
//! `drain:b`, `slots:b:3`.

use super::{Event, Named};
use crate::trial::Node;

/// A text that describes no node or no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unclear(String);

const NODE: &str = "a node is NAME, NAME:SLOTS or NAME:SLOTS:LABEL=VALUE...";
const EVENT: &str = "an event is join:NODE, leave:NAME, drain:NAME or slots:NAME:SLOTS";

/// Reads nodes with commas between. A name of digits is the node's id; others get the lowest ids that are
/// free, in order, so they must be read together.
pub fn parse_nodes(text: &str) -> Result<Vec<Named>, Unclear> {
    let mut nodes = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        nodes.push(parse_node(part.trim())?);
    }
    if nodes.is_empty() {
        return Err(Unclear("there is no node: simulate at least one".to_owned()));
    }
    number(&mut nodes, &[]);
    Ok(nodes)
}

/// Reads an event. A node that joins gets an id that neither these nodes nor earlier events have.
pub fn parse_event(text: &str, nodes: &[Named], earlier: &[Event]) -> Result<Event, Unclear> {
    let unclear = || Unclear(format!("{text:?} is no event: {EVENT}"));
    let (verb, rest) = text.split_once(':').ok_or_else(unclear)?;
    if rest.is_empty() {
        return Err(unclear());
    }
    match verb {
        "join" => {
            let joined = earlier.iter().filter_map(|event| match event {
                Event::Join(named) => Some(named.clone()),
                _ => None,
            });
            let taken: Vec<Named> = nodes.iter().cloned().chain(joined).collect();
            let mut node = [parse_node(rest)?];
            // A node that was there and comes back is the same node.
            match taken.iter().find(|known| known.name == node[0].name) {
                Some(known) => node[0].node.id = known.node.id,
                None => number(&mut node, &taken),
            }
            let [named] = node;
            Ok(Event::Join(named))
        }
        "leave" => Ok(Event::Leave(rest.to_owned())),
        "drain" => Ok(Event::Drain(rest.to_owned())),
        "slots" => {
            let (name, slots) = rest.split_once(':').ok_or_else(unclear)?;
            Ok(Event::Slots(name.to_owned(), slots.parse().map_err(|_| unclear())?))
        }
        _ => Err(unclear()),
    }
}

/// A node with id 0 unless its name is one.
fn parse_node(text: &str) -> Result<Named, Unclear> {
    let unclear = || Unclear(format!("{text:?} is no node: {NODE}"));
    let mut parts = text.split(':');
    let name = parts.next().filter(|name| !name.is_empty() && !name.contains('=')).ok_or_else(unclear)?;
    let mut node = Node::new(name.parse().unwrap_or(0), 1);
    for (at, part) in parts.enumerate() {
        match part.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                node.labels.insert(key.to_owned(), value.to_owned());
            }
            None if at == 0 => node.slots = part.parse().map_err(|_| unclear())?,
            _ => return Err(unclear()),
        }
    }
    Ok(Named { name: name.to_owned(), node })
}

/// Gives ids to the nodes whose names are none.
fn number(nodes: &mut [Named], taken: &[Named]) {
    let is_id = |named: &Named| named.name.parse::<u64>().is_ok();
    let mut used: Vec<u64> =
        taken.iter().chain(nodes.iter().filter(|n| is_id(n))).map(|n| n.node.id).collect();
    for named in nodes.iter_mut().filter(|named| !is_id(named)) {
        named.node.id = (1..).find(|id| !used.contains(id)).unwrap_or_default();
        used.push(named.node.id);
    }
}
