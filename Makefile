# The two doors for everybody: `make run` and `make test`. They install what is missing and call cargo;
# `cargo xtask --help` has the rest. Nothing is decided here.
.PHONY: help run test bench

help: ## Say what can be made
	@grep -E '^[a-z]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+): .*## (.*)/  make \1	\2/'

run: ## Build and start the server at localhost:8081; ARGS="..." replaces its arguments
	@scripts/setup.sh run
	@cargo xtask explorer --if-possible
	cargo run --release --package orrery -- $(ARGS)

test: ## Everything: lints, house rules, all tests, the web page in a browser, the official SDKs, the examples
	@scripts/setup.sh test
	cargo xtask lint
	cargo test --workspace
	cargo xtask explorer --test
	cargo xtask conformance all --profile short
	cargo xtask examples

bench: ## Measure this machine; see bench/RESULTS.md
	@scripts/setup.sh run
	cargo xtask bench
