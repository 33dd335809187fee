//! `cargo xtask simulate scale`: how many creates and reads a layout of machines takes, from measured service times. A create
//! is simulated event by event: clients that wait, a queue for each shard, groups, the processors of the primary, its log. Reads
//! and nodes follow from processor time alone.
//!
//! ```text
//! client ──▶ node ──▶ queue of a shard ──▶ group of up to 64 ──▶ processor ──▶ log ──▶ sync of standby ──▶ client
//! ```

use clap::Subcommand;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Subcommand)]
pub(crate) enum Simulate {
    /// Rows of `docs/scale.md`: machines, creates, reads and what is busy first
    Scale,
}

/// Measured service times, in microseconds, and sizes in bytes.
struct Service {
    /// Processor time of `PostgreSQL` for a create in a group of one, ten and fifty.
    create_us: [f64; 3],
    read_us: f64,
    /// Processor time of a node.
    node_create_us: f64,
    node_read_us: f64,
    /// Log of a create when its pages were written since the last checkpoint, and when they were not.
    log_warm: f64,
    log_cold: f64,
    /// A sync of the log, and the answer of the standby.
    sync_us: f64,
    /// Bytes that an item of 1 KB takes, with what updates leave behind.
    item_bytes: f64,
}

const MEASURED: Service = Service {
    create_us: [600.0, 240.0, 200.0],
    read_us: 29.0,
    node_create_us: 150.0,
    node_read_us: 60.0,
    log_warm: 10_500.0,
    log_cold: 80_000.0,
    sync_us: 1_000.0,
    item_bytes: 6_600.0 * 1.7,
};

/// A machine: what of its processors may be busy, its log and its disk.
const CORES_USED: f64 = 16.0 * 0.6;
const LOG_BYTES_PER_S: f64 = 500e6;
const DISK_BYTES: f64 = 4e12 * 0.7;
const GROUP_MAX: usize = 64;
const SHARDS: usize = 64;
const CLIENTS: usize = 2_000;
const SIMULATED_US: f64 = 2e6;

/// Groups of `PostgreSQL`, the machines with nodes, and whether a node shares the machine of its primary.
#[derive(Clone, Copy)]
struct Layout {
    machines: usize,
    groups: usize,
    node_machines: f64,
    is_shared: bool,
}

const LAYOUTS: [Layout; 6] = [
    Layout { machines: 1, groups: 1, node_machines: 1.0, is_shared: true },
    Layout { machines: 3, groups: 1, node_machines: 3.0, is_shared: true },
    Layout { machines: 10, groups: 1, node_machines: 7.0, is_shared: false },
    Layout { machines: 30, groups: 7, node_machines: 9.0, is_shared: false },
    Layout { machines: 100, groups: 25, node_machines: 25.0, is_shared: false },
    Layout { machines: 1_000, groups: 250, node_machines: 250.0, is_shared: false },
];

/// Processor time of a create in a group of some size: between what was measured, and level beyond it.
fn create_us(service: &Service, group: usize) -> f64 {
    let [alone, ten, fifty] = service.create_us;
    #[expect(clippy::cast_precision_loss, reason = "a group is small")]
    let group = group as f64;
    // A fixed part for each group and one for each create fit all three within some percent.
    let each = (50.0 * fifty - alone) / 49.0;
    let fixed = alone - each;
    (fixed / group + each).max(fifty).min(alone.max(ten))
}

/// What the simulation of creates finds.
#[derive(Clone, Copy, Debug)]
struct Creates {
    per_s: f64,
    group: f64,
    processor_busy: f64,
    log_busy: f64,
}

/// A number that orders events; times are not negative.
fn at(time_us: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a time")]
    let ns = (time_us * 1000.0) as u64;
    ns
}

/// Creates of one primary whose clients wait for each answer. `processor` is how much of the machine it may use; each create
/// takes `extra_us` of it for the node that shares the machine.
fn simulate_creates(service: &Service, log_bytes: f64, processor: f64, extra_us: f64) -> Creates {
    let mut waiting = [0_usize; SHARDS];
    let mut is_busy = [false; SHARDS];
    for client in 0..CLIENTS {
        waiting[client % SHARDS] += 1;
    }
    // A shard is done at a time, with a group.
    let mut events: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
    let (mut processor_free, mut log_free) = (0.0_f64, 0.0_f64);
    let (mut done, mut groups, mut processor_us, mut log_us) = (0_usize, 0_usize, 0.0, 0.0);
    let (mut now_us, mut next_shard) = (0.0, 0);
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    while now_us < SIMULATED_US {
        for shard in 0..SHARDS {
            if is_busy[shard] || waiting[shard] == 0 {
                continue;
            }
            let group = waiting[shard].min(GROUP_MAX);
            waiting[shard] -= group;
            is_busy[shard] = true;
            let work = group as f64 * (create_us(service, group) + extra_us) / processor;
            let bytes_us = group as f64 * log_bytes / LOG_BYTES_PER_S * 1e6;
            processor_free = processor_free.max(now_us) + work;
            log_free = log_free.max(processor_free) + bytes_us;
            processor_us += work;
            log_us += bytes_us;
            events.push(Reverse((at(log_free + service.sync_us), shard, group)));
        }
        let Some(Reverse((time, shard, group))) = events.pop() else { break };
        now_us = time as f64 / 1000.0;
        is_busy[shard] = false;
        done += group;
        groups += 1;
        for _ in 0..group {
            waiting[next_shard % SHARDS] += 1;
            next_shard += 7;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    Creates {
        per_s: done as f64 / now_us * 1e6,
        group: done as f64 / groups.max(1) as f64,
        processor_busy: processor_us / now_us,
        log_busy: log_us / now_us,
    }
}

/// One row of the table.
struct Row {
    machines: usize,
    cold: f64,
    warm: f64,
    reads: f64,
    group: f64,
    terabytes: f64,
    first: &'static str,
}

fn row(service: &Service, layout: Layout) -> Row {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let (groups, machines) = (layout.groups as f64, layout.machines as f64);
    // Nodes beside the primary take of its processor; elsewhere they have machines of their own.
    let share = if layout.is_shared { 1.0 / machines } else { 0.0 };
    let extra_us = service.node_create_us * share;
    let creates = |log| simulate_creates(service, log, CORES_USED, extra_us);
    let (cold, warm) = (creates(service.log_cold), creates(service.log_warm));
    let by_nodes = layout.node_machines * CORES_USED * 1e6 / service.node_create_us;
    let (cold_all, warm_all) = (cold.per_s * groups, (warm.per_s * groups).min(by_nodes));
    let of_primary = CORES_USED * 1e6 / (service.read_us + service.node_read_us * share) * groups;
    let of_nodes = layout.node_machines * CORES_USED * 1e6 / service.node_read_us;
    let first = if warm_all >= by_nodes {
        "processors of the nodes"
    } else if warm.log_busy > warm.processor_busy {
        "log of the primaries"
    } else {
        "processors of the primaries"
    };
    Row {
        machines: layout.machines,
        cold: cold_all,
        warm: warm_all,
        reads: of_primary.min(of_nodes),
        group: warm.group,
        terabytes: DISK_BYTES / service.item_bytes * 1000.0 * groups / 1e12,
        first,
    }
}

pub(crate) fn run(simulate: &Simulate) {
    let Simulate::Scale = simulate;
    println!(
        "| Machines | Creates/s cold | warm | in a group | Point reads/s | Items of 1 KB, TB | Busy first when warm |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---|");
    for layout in LAYOUTS {
        let Row { machines, cold, warm, reads, group, terabytes, first } = row(&MEASURED, layout);
        println!(
            "| {machines} | {:.0} k | {:.0} k | {group:.0} | {:.0} k | {terabytes:.2} | {first} |",
            cold / 1e3,
            warm / 1e3,
            reads / 1e3
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64, percent: f64) {
        let off = (found - expected).abs() / expected * 100.0;
        assert!(off <= percent, "{found} is {off:.0} % off {expected}");
    }

    #[test]
    fn a_create_costs_what_was_measured_in_groups_of_one_ten_and_fifty() {
        for (group, expected) in [(1, 600.0), (10, 240.0), (50, 200.0)] {
            is_near(create_us(&MEASURED, group), expected, 10.0);
        }
        assert!(create_us(&MEASURED, 64) <= create_us(&MEASURED, 5));
    }

    #[test]
    fn creates_are_bounded_by_the_resource_that_is_busy_first() {
        let warm = simulate_creates(&MEASURED, MEASURED.log_warm, CORES_USED, 0.0);
        assert!(warm.group > 10.0 && warm.processor_busy > 0.95, "{warm:?}");
        is_near(warm.per_s, CORES_USED * 1e6 / create_us(&MEASURED, 31), 10.0);
        let cold = simulate_creates(&MEASURED, MEASURED.log_cold, CORES_USED, 0.0);
        assert!(cold.log_busy > 0.95, "{cold:?}");
        is_near(cold.per_s, LOG_BYTES_PER_S / MEASURED.log_cold, 5.0);
    }

    /// The rows of the capacity model that measurements stand behind.
    #[test]
    fn one_and_ten_machines_do_what_the_model_says() {
        let [one, _, ten, ..] = LAYOUTS.map(|layout| row(&MEASURED, layout));
        is_near(one.cold, 6_000.0, 30.0);
        is_near(one.warm, 20_000.0, 40.0);
        is_near(ten.cold, 6_000.0, 30.0);
        is_near(ten.warm, 38_000.0, 30.0);
        is_near(ten.reads, 330_000.0, 10.0);
        is_near(ten.terabytes, 0.25, 10.0);
    }
}
