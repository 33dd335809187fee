# The two doors for everybody: `make run` and `make test`. They install what is missing and call cargo;
# `cargo xtask --help` has the rest. Nothing is decided here.
.PHONY: help run test bench

# Tests of the engine and of killed servers that `make test` runs once more on PostgreSQL; without the names, all run.
POSTGRES_TESTS = batch:: transaction:: reopen:: erasure:: path_numbers:: prefixes:: row_ids:: restrict:: interleavings:: \
	split_merge_beside:: unique_derived:: distributed:: three_nodes several_engines_shared:: kill::acknowledged isolation::transactions

help: ## Say what can be made
	@grep -E '^[a-z]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+): .*## (.*)/  make \1	\2/'

run: ## Build and start the server at localhost:8081; ARGS="..." replaces its arguments
	@scripts/setup.sh run
	@cargo xtask explorer --if-possible
	@echo "run: compiling Orrery; the first time that takes some minutes, later ones compile what has changed"
	cargo run --profile quick --package orrery -- $(ARGS)

test: ## Everything: lints, house rules, all tests, the web page in a browser, the official SDKs, the examples, the walk-through
	@scripts/setup.sh test
	cargo xtask lint
	cargo test --workspace
	ORRERY_STORE=postgres cargo test --workspace --test it -- $(POSTGRES_TESTS)
	ORRERY_NODES=3 cargo test --workspace --test it -- isolation::nodes three_nodes
	cargo xtask explorer --test
	cargo xtask conformance all --profile short
	cargo xtask examples
	cargo xtask docs --test

bench: ## Measure this machine; see bench/RESULTS.md
	@scripts/setup.sh run
	cargo xtask bench
