//! The path of a replica. Clients learn it from `/addresses` and send it back with every request, so
//! that it tells which container and range the client means.
//!
//! ```text
//! /apps/orrery/services/<container's rid, or master>/partitions/<range, or M>/replicas/<n><p or s>
//! ```
//!
//! There is one server. It has two paths, one of a primary and one of a secondary: with fewer, clients
//! ask for addresses again before every read of the stronger consistency levels, and with more they
//! read twice.

/// Replicas of a partition, as the answer lists them.
pub(crate) const REPLICAS: u32 = 2;
/// The partition that holds everything but items.
pub(crate) const MASTER_RANGE: &str = "M";
const MASTER_SERVICE: &str = "master";

/// The roles of the replicas, in the order of their numbers.
const ROLES: [(&str, bool); REPLICAS as usize] = [("1p", true), ("2s", false)];

/// The paths of the replicas of a range, each with whether it is the primary's.
pub(crate) fn paths(
    container: Option<&str>,
    range: &str,
) -> impl Iterator<Item = (std::string::String, bool)> {
    let service = container.unwrap_or(MASTER_SERVICE).trim_end_matches('=');
    ROLES.into_iter().map(move |(replica, is_primary)| {
        let path =
            format!("/apps/orrery/services/{service}/partitions/{range}/replicas/{replica}/");
        (path, is_primary)
    })
}

/// The range that a path names; `None` if it is the master's or no path of ours.
pub(crate) fn range(path: &str) -> Option<u32> {
    let (_, rest) = path.split_once("/partitions/")?;
    rest.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_its_range() {
        for (path, is_primary) in paths(Some("AAAAB4AAABY="), "17") {
            assert_eq!(range(&path), Some(17));
            assert_eq!(range(path.trim_end_matches('/')), Some(17));
            assert!(path.contains("/AAAAB4AAABY/") && !path.contains('='), "{path}");
            assert_eq!(is_primary, path.ends_with("p/"));
        }
        assert_eq!(paths(None, MASTER_RANGE).count(), 2);
    }

    #[test]
    fn other_paths_name_no_range() {
        let (master, _) = paths(None, MASTER_RANGE).next().expect("there are two");
        for path in [&*master, "", "/", "/partitions/", "/partitions/x/", "/partitions/-1/", "17"] {
            assert_eq!(range(path), None, "{path}");
        }
    }
}
