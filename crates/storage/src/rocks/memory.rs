//! How much memory this process may use: what its control group allows, or what the machine has.

use std::fs;

/// Where a control group says what it allows, in both of its versions.
const GROUP_LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// The bytes, as far as the system tells.
pub fn available_bytes() -> Option<u64> {
    let group =
        GROUP_LIMITS.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text));
    group.chain(machine).min()
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_its_memory_in_kilobytes() {
        let text = "MemTotal:       24682416 kB\nMemFree:        13352480 kB\n";
        assert_eq!(total_bytes(text), Some(24_682_416 * 1024));
        assert_eq!(total_bytes("MemFree: 1 kB"), None);
        assert_eq!(total_bytes("MemTotal: many"), None);
    }
}
