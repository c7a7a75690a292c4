//! The binary `headwater`. Everything is in `host/node`; start there at `cli/mod.rs`.

fn main() -> std::process::ExitCode {
    headwater_node::cli::main()
}
