//! Which settings are refused, and in which words.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Wrapper {
    #[command(flatten)]
    serve: ServeArgs,
}

fn parse(flags: &[&str]) -> Result<ServeConfig, String> {
    let base = ["x", "--node-id", "1", "--data", "/d", "--store", "file:///s"];
    let parsed = Wrapper::try_parse_from(base.iter().chain(flags)).map_err(|e| e.to_string())?;
    parsed.serve.config().map_err(|e| e.to_string())
}

#[test]
fn defaults_are_a_local_node() {
    let config = parse(&[]).unwrap();
    assert_eq!(config.advertise_for(config.listen).unwrap(), "http://127.0.0.1:4437");
    assert_eq!(config.advertise_peer_for(config.peer).unwrap(), "127.0.0.1:4637");
    assert_eq!((config.slots, config.voters, config.evict_after), (1, 3, Duration::from_secs(5)));
}

#[test]
fn rte_03_wildcards_are_refused_before_anything_is_bound() {
    for listen in ["0.0.0.0:4437", "[::]:4437", ":4437", "0.0.0.0:0"] {
        let why = parse(&["--listen", listen]).unwrap_err();
        assert!(why.contains("--advertise http://HOST:"), "{why}");
    }
    for url in ["http://0.0.0.0:4437", "http://[::]:4437", "http://:4437", "http://h:1/p"] {
        assert!(parse(&["--advertise", url]).is_err(), "{url}");
    }
    let config = parse(&["--listen", "0.0.0.0:4437", "--advertise", "http://n1:4437"]).unwrap();
    assert_eq!(config.advertise_for(config.listen).unwrap(), "http://n1:4437");
}

#[test]
fn rte_03_port_zero_becomes_the_real_port() {
    let config = parse(&["--listen", "127.0.0.1:0"]).unwrap();
    let bound = "127.0.0.1:41234".parse().unwrap();
    assert_eq!(config.advertise_for(bound).unwrap(), "http://127.0.0.1:41234");
}

#[test]
fn settings_that_do_not_go_together_are_refused_in_words() {
    for (flags, word) in [
        (&["--evict-after", "500ms"][..], "--evict-after"),
        (&["--voters", "2"], "odd"),
        (&["--voters", "0"], "odd"),
        (&["--max-open", "0"], "--max-open"),
        (&["--label", "zone=a", "--label", "zone=b"], "twice"),
        (&["--peer", "0.0.0.0:1", "--advertise-peer", "n1:1"], "--cluster-secret-file"),
        (&["--peer", "0.0.0.0:1"], "--advertise-peer"),
        (&["--admin", "0.0.0.0:1"], "--admin-token-file"),
        (&["--store", "memory://", "--join", "n2:1"], "memory://"),
    ] {
        let flags: Vec<&str> = match flags {
            ["--store", store, rest @ ..] => {
                let full = [&["x", "--node-id", "1", "--data", "/d", "--store", store][..], rest].concat();
                let why = Wrapper::try_parse_from(full).unwrap().serve.config().unwrap_err();
                assert!(why.0.contains(word), "{why}");
                continue;
            }
            other => other.to_vec(),
        };
        let why = parse(&flags).unwrap_err();
        assert!(why.contains(word), "{flags:?}: {why}");
    }
}

#[test]
fn the_settings_can_be_shown() {
    let config = parse(&["--label", "zone=a,rack=2", "--idle-close", "90s"]).unwrap();
    let shown = serde_json::to_value(&config).unwrap();
    assert_eq!(shown["labels"]["rack"], "2");
    assert_eq!(shown["idle_close"], "90s");
    assert_eq!(shown["node"], 1);
}
