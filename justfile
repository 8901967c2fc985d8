# Every task of the project. `just` alone lists them.

set shell := ["bash", "-euo", "pipefail", "-c"]

# list the tasks
default:
    @just --list --unsorted

# what a contributor runs before a commit: format, lint, all tests
check: fmt-check lint test

# format the code
fmt:
    cargo fmt

# fail if the code is not formatted
fmt-check:
    cargo fmt --check

# clippy, warnings are errors
lint:
    cargo clippy --all-targets -- -D warnings

# the one test command; names what it had to skip
test *ARGS:
    scripts/test {{ ARGS }}

# the same, where a skip is a failure
test-all:
    scripts/test --all

# a real Kubernetes control plane with Karpenter, for tests: build, up, down, status
control-plane *ARGS:
    scripts/control-plane {{ ARGS }}

# the operator under real Karpenter, to watch with kubectl: every node of three pools drifts; stays up until interrupted
karpenter-demo STORY="every-node-drifts":
    scripts/control-plane build
    TPO_REQUIRE_ALL=1 TPO_STAY=1 cargo test --test karpenter -- --exact {{ STORY }}

# every story under real Karpenter, with a leader killed at each of ten steps (docs/testing.md has the figures)
karpenter-faults:
    scripts/control-plane build
    TPO_REQUIRE_ALL=1 TPO_EVERY_STEP=1 cargo test --test karpenter

# what the operator asks of its servers, counted; built with the tests' dependencies. `-- --json 10x1000` narrows it
bench *ARGS:
    cargo bench --profile dev --bench api_load {{ ARGS }}

# show the operator at work in a simulated world
simulate *ARGS:
    cargo run --release -- simulate {{ ARGS }}

# licences and duplicate crates (needs `cargo install cargo-deny --locked`)
deny:
    @command -v cargo-deny >/dev/null || { echo "cargo-deny is not installed: cargo install cargo-deny --locked" >&2; exit 2; }
    cargo deny --all-features check bans licenses sources

# the API documentation of this crate
doc:
    cargo doc --no-deps --document-private-items --open
