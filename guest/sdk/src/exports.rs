//! The exports of the world, only for `wasm32`: the types of `wit/policy.wit` from and to those of the SDK.

#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "policy",
        pub_export_macro: true,
        export_macro_name: "export_world",
        default_bindings_module: "headwater_policy_sdk::exports::bindings",
    });
}

use crate::{Decision, Description, Label, Operation, Ownership};
use bindings::exports::headwater::policy::{about, placement, routing};

/// Implements the three interfaces for a type by way of a [`crate::Policy`].
#[doc(hidden)]
#[macro_export]
macro_rules! __implement_exports {
    ($exported:ty, $policy:ty) => {
        use $crate::exports::bindings::exports::headwater::policy::{about, placement, routing};

        impl about::Guest for $exported {
            fn describe() -> about::Description {
                <$policy as $crate::Policy>::describe().into()
            }
        }

        impl placement::Guest for $exported {
            fn place(
                subject: placement::Subject,
                candidates: ::std::vec::Vec<placement::Candidate>,
            ) -> ::core::option::Option<u64> {
                let candidates: ::std::vec::Vec<$crate::Candidate> =
                    candidates.into_iter().map(::core::convert::Into::into).collect();
                <$policy as $crate::Policy>::place(&subject.into(), &candidates)
            }
        }

        impl routing::Guest for $exported {
            fn route(
                here: u64,
                operation: routing::Operation,
                ownership: routing::Ownership,
            ) -> routing::Decision {
                <$policy as $crate::Policy>::route(here, operation.into(), ownership.into()).into()
            }
        }
    };
}

fn labels(from: Vec<placement::Label>) -> Vec<Label> {
    from.into_iter().map(|label| Label { key: label.key, value: label.value }).collect()
}

impl From<placement::Candidate> for crate::Candidate {
    fn from(from: placement::Candidate) -> Self {
        crate::Candidate {
            id: from.id,
            slots: from.slots,
            assigned: from.assigned,
            labels: labels(from.labels),
        }
    }
}

impl From<placement::Subject> for crate::Subject {
    fn from(from: placement::Subject) -> Self {
        crate::Subject {
            id: from.id,
            name: from.name,
            content_type: from.content_type,
            proposer: from.proposer,
            proposer_labels: labels(from.proposer_labels),
        }
    }
}

impl From<routing::Operation> for Operation {
    fn from(from: routing::Operation) -> Self {
        match from {
            routing::Operation::Create => Operation::Create,
            routing::Operation::Append => Operation::Append,
            routing::Operation::Read => Operation::Read,
            routing::Operation::Tail => Operation::Tail,
            routing::Operation::Inspect => Operation::Inspect,
            routing::Operation::Delete => Operation::Delete,
        }
    }
}

impl From<routing::Ownership> for Ownership {
    fn from(from: routing::Ownership) -> Self {
        match from {
            routing::Ownership::Unregistered => Ownership::Unregistered,
            routing::Ownership::Unplaced => Ownership::Unplaced,
            routing::Ownership::Placed(node) => Ownership::Placed(node),
            routing::Ownership::Opened(node) => Ownership::Opened(node),
            routing::Ownership::Transferring(transfer) => {
                Ownership::Transferring { source: transfer.source, target: transfer.target }
            }
            routing::Ownership::Closed(node) => Ownership::Closed(node),
        }
    }
}

impl From<Decision> for routing::Decision {
    fn from(from: Decision) -> Self {
        match from {
            Decision::ServeHere => routing::Decision::ServeHere,
            Decision::Redirect(node) => routing::Decision::Redirect(node),
            Decision::Forward(node) => routing::Decision::Forward(node),
        }
    }
}

impl From<Description> for about::Description {
    fn from(from: Description) -> Self {
        about::Description {
            name: from.name,
            version: from.version,
            summary: from.summary,
            needs: if from.needs_labels { about::Needs::LABELS } else { about::Needs::empty() },
        }
    }
}
