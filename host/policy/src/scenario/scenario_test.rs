use super::*;
use crate::trial::Trial;

fn builtin() -> Trial {
    Trial::load(crate::builtin().1).expect("loads")
}

fn outcomes(text: &str) -> Vec<Outcome> {
    run(&builtin(), &Scenario::parse(text).expect("a scenario")).expect("runs")
}

fn differs(expected: &str, found: &str) -> Line {
    Line::Differs { expected: expected.to_owned(), found: found.to_owned() }
}

fn same(text: &str) -> Line {
    Line::Same { same: text.to_owned() }
}

const NODES: &str = r#"
    [[nodes]]
    id = 1
    slots = 4
    assigned = 7
    labels = { zone = "a" }
    [[nodes]]
    id = 2
    [[nodes]]
    id = 3
    draining = true
"#;

#[test]
fn what_is_as_expected_passes() {
    let cases = r#"
        [[place]]
        name = "the emptier one"
        stream = "/a"
        expect = 2
        [[place]]
        name = "one of two"
        stream = "/a"
        expect = [1, 2]
        [[place]]
        name = "by weight"
        stream = "/a/{n}"
        count = 103
        expect = { 1 = 81, 2 = 22 }
        [[place]]
        name = "nobody"
        stream = "/a"
        nodes = []
        expect = "none"
        [[route]]
        name = "to the owner"
        here = 1
        operation = "append"
        ownership = { opened = 2 }
        expect = { redirect = 2 }
        [[route]]
        name = "on its way"
        here = 2
        operation = "tail"
        ownership = { transferring = [1, 2] }
        expect = "here"
    "#;
    let outcomes = outcomes(&format!("policy = \"least-ratio\"\n{NODES}{cases}"));
    assert_eq!(outcomes.len(), 6);
    for outcome in outcomes {
        assert!(outcome.passed(), "{outcome:?}");
    }
}

#[test]
fn differences_read_well() {
    let cases = r#"
        [[place]]
        name = "the fuller one"
        stream = "/a"
        proposer = 3
        expect = 1
        [[place]]
        name = "evenly"
        stream = "/a/{n}"
        count = 13
        expect = { 1 = 10, 2 = 3 }
        within = 1
        [[place]]
        name = "it fails"
        stream = "/a"
        expect = 2
        fallback = "trap"
        [[route]]
        name = "relayed"
        here = 1
        operation = "read"
        ownership = { placed = 2 }
        expect = { forward = 2 }
    "#;
    let outcomes = outcomes(&format!("policy = \"other\"\n{NODES}{cases}"));
    assert_eq!(outcomes[0].lines, [differs("other", "least-ratio")]);
    assert_eq!(outcomes[1].lines, [differs("node 1", "node 2")]);
    assert_eq!(
        outcomes[1].asked,
        "nodes 1 (4 slots, 7 streams, zone=a), 2, 3 (draining) \
         for /a, asked for at node 3"
    );
    assert_eq!(outcomes[2].lines, [same("node 1: 9"), same("node 2: 4")]);
    assert_eq!(
        outcomes[3].lines,
        [same("node 2"), differs("the native rule decided: trap", "the policy decided")]
    );
    assert_eq!(outcomes[4].lines, [differs("forward to node 2", "redirect to node 2")]);
    assert_eq!(outcomes[4].asked, "Read at node 1 of a stream that is placed on node 2");
}

#[test]
fn toml_and_json_are_one_format() {
    let toml = Scenario::parse(
        "[[nodes]]\nid = 1\n[[place]]\nname = \"x\"\nstream = \"/a\"\ncount = 2\nexpect = { 1 = 2 }\n\
         [[route]]\nname = \"y\"\nhere = 1\noperation = \"create\"\nownership = \"unplaced\"\nexpect = \"here\"",
    );
    let json = Scenario::parse(
        r#" {"nodes": [{"id": 1}], "place": [{"name": "x", "stream": "/a", "count": 2, "expect": {"1": 2}}],
            "route": [{"name": "y", "here": 1, "operation": "create", "ownership": "unplaced", "expect": "here"}]}"#,
    );
    assert_eq!(toml.expect("toml"), json.expect("json"));
}

#[test]
fn what_means_nothing_is_refused() {
    let place = |rest: &str| format!("[[nodes]]\nid = 1\n[[place]]\nname = \"x\"\nstream = \"/a\"\n{rest}");
    let cases = [
        ("", "nothing to test"),
        ("[[nodes]]\nid = 1\nslot = 2", "unknown field `slot`"),
        ("[[nodes]]\nid = -1", "invalid value"),
        (&place("expect = 2"), "node 2, which is none of its nodes"),
        (&place("expect = []"), "one of no nodes"),
        (&place("expect = \"nobody\""), "the only word is \"none\""),
        (&place("expect = 1.5"), "expected a node's id, a list of ids"),
        (&place("expect = { 1 = 2 }"), "it places 1 and expects 2"),
        (&place("expect = { one = 1 }"), "\"one\" is no node's id"),
        (&place("expect = 1\ncount = 0"), "places nothing"),
        (&place("expect = 1\nfallback = \"sleep\""), "no fallback has the cause \"sleep\""),
        (&place("expect = 1\nnodes = [{ id = 1 }, { id = 1 }]"), "node 1 is there twice"),
        ("{\"place\": 1}", "invalid type"),
    ];
    for (text, expected) in cases {
        let error = Scenario::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}
