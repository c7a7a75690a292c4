// The official suite, imported as a library: run from its own package, vitest finds no tests in it.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const baseUrl = process.env.HEADWATER_URL
if (!baseUrl) throw new Error("HEADWATER_URL is not set: run `cargo test --release --test conformance`")

// Only the limits of the tests that wait for a long-poll; how long it waits is the server's affair.
runConformanceTests({ baseUrl, longPollTimeoutMs: 20_000 })
