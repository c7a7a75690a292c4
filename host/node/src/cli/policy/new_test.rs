// Starts the compiler; nothing of the product runs here.
#![allow(clippy::disallowed_methods)]

use super::*;
use headwater_guest_build::{Toolchain, Workspace, build_outside};
use headwater_policy::{Trial, check, scenario};

#[test]
fn names() {
    for right in ["a", "spread", "by-zone-2"] {
        assert!(is_name(right), "{right}");
    }
    for wrong in ["", "-a", "a-", "2a", "Spread", "a_b", "a b", "../a", &"a".repeat(65)] {
        assert!(!is_name(wrong), "{wrong}");
    }
}

#[test]
fn everything_is_filled_in_and_the_scenario_is_one() {
    let git = Sdk::Git("https://example.org/headwater".to_owned());
    for sdk in [Sdk::Checkout("/src/headwater".into()), git] {
        let files = contents("spread", &sdk);
        for (path, text) in &files {
            for hole in ["{name}", "{sdk}", "{build}", "{checkout}"] {
                assert!(!text.contains(hole), "{path} has {hole}");
            }
        }
        let find = |name| files.iter().find(|(path, _)| *path == name).map(|(_, text)| text.as_str());
        let scenario = find("scenarios/basic.toml").expect("a scenario");
        headwater_policy::scenario::Scenario::parse(scenario).expect("a scenario");
        let manifest = find("Cargo.toml").expect("a manifest");
        match sdk {
            Sdk::Checkout(_) => {
                assert!(manifest.contains("{ path = \"/src/headwater/guest/sdk\" }"), "{manifest}");
                assert!(find(ALIAS.0).is_some_and(|alias| alias.contains("/src/headwater/Cargo.toml")));
            }
            Sdk::Git(_) => {
                assert!(manifest.contains("{ git = \"https://example.org/headwater\" }"), "{manifest}");
                assert_eq!(find(ALIAS.0), None);
            }
        }
    }
}

#[tokio::test]
async fn a_folder_with_something_in_it_stays_as_it_is() {
    let env = Env::real();
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("spread");
    let args = NewArgs {
        name: "spread".to_owned(),
        dir: Some(dir.clone()),
        sdk: Some("https://example.org/headwater".to_owned()),
    };
    run(&args, &env, true).expect("written");
    let decide = dir.join("src/decide.rs");
    env.disk.write_atomic(&decide, b"mine").expect("written");
    assert!(run(&args, &env, true).is_err());
    assert_eq!(env.disk.read(&decide).expect("there"), b"mine");
}

/// The crate builds, and decides what its scenario says. Needs the Wasm target, and the lock file of the
/// repository instead of a network.
#[test]
fn what_is_written_builds_and_decides_as_its_scenario_says() {
    let toolchain = Toolchain::detect().expect("rustc");
    if !toolchain.has_target() {
        eprintln!("not built, the target wasm32-unknown-unknown is not installed");
        return;
    }
    let root = Workspace::default().root().to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("by-slots");
    let args = NewArgs {
        name: "by-slots".to_owned(),
        dir: Some(dir.clone()),
        sdk: Some(root.display().to_string()),
    };
    run(&args, &Env::real(), true).expect("written");
    std::fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).expect("copied");
    // What it depends on is the same in each run: built once.
    let target = format!("[build]\ntarget-dir = {:?}\n", root.join("target/template"));
    std::fs::write(dir.join(ALIAS.0), target).expect("written");

    let built = build_outside(&dir, &toolchain).expect("builds");
    assert_eq!(built.name, "by-slots");
    let text = String::from_utf8_lossy(&built.component);
    assert!(!text.contains(&root.display().to_string()), "it contains a path of this machine");
    assert_eq!(check(&built.component, 3).expect("accepted").description.name, "by-slots");
    let file = std::fs::read_to_string(dir.join("scenarios/basic.toml")).expect("a scenario");
    let scenario = scenario::Scenario::parse(&file).expect("a scenario");
    let policy = Trial::load(&built.component).expect("loads");
    for outcome in scenario::run(&policy, &scenario).expect("runs") {
        assert!(outcome.passed(), "{outcome:?}");
    }
}
