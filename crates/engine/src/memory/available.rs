//! How much memory may be taken: what the machine has left, and what control groups leave of it.
//!
//! Pages of files that the system holds in memory count as available: it drops them when something else needs room. A
//! mapped model consists of such pages.
//!
//! Source: Linux, `Documentation/filesystems/proc.rst` (`MemAvailable`), `admin-guide/cgroup-v2.rst` (`memory.max`,
//! `memory.current`, `memory.stat`) and `admin-guide/cgroup-v1/memory.rst`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Who says how much there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryBound {
    /// The machine has no more.
    Machine,
    /// A control group (a container's limit, a service's limit) allows no more.
    ControlGroup(PathBuf),
    /// The user allows no more.
    Asked,
}

/// Memory that may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// How much. In bytes.
    pub bytes: u64,
    /// Who says so.
    pub bound: MemoryBound,
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryBound::Machine => f.write_str("available on this machine"),
            MemoryBound::ControlGroup(path) => {
                write!(f, "left by the limit of control group {}", path.display())
            }
            MemoryBound::Asked => f.write_str("allowed by --memory"),
        }
    }
}

impl AvailableMemory {
    /// As much as the user allows.
    pub fn asked(bytes: u64) -> AvailableMemory {
        AvailableMemory { bytes, bound: MemoryBound::Asked }
    }

    /// What the system says now; `None` where it does not say (it is asked on Linux alone).
    pub fn now() -> Option<AvailableMemory> {
        AvailableMemory::under(Path::new("/"))
    }

    /// As [`AvailableMemory::now`], of a system whose files lie under `root`.
    fn under(root: &Path) -> Option<AvailableMemory> {
        let machine = of_machine(root).map(|bytes| AvailableMemory { bytes, bound: MemoryBound::Machine });
        machine.into_iter().chain(of_groups(root)).min_by_key(|available| available.bytes)
    }
}

fn of_machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The names of one version's files.
struct Version {
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    files: [&'static str; 2],
}

const FIRST: Version = Version {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};
const SECOND: Version = Version {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    files: ["inactive_file", "active_file"],
};

/// What each group that the process is in leaves, the groups around it included.
fn of_groups(root: &Path) -> Vec<AvailableMemory> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let version = match controllers {
            "" => &SECOND,
            list if list.split(',').any(|name| name == "memory") => &FIRST,
            _ => continue,
        };
        let mount = root.join(version.mount);
        // Seen from inside a container the path may be the host's; the mount itself is then the container's group.
        for inner in Path::new(path.trim_start_matches('/')).ancestors() {
            let bound = || MemoryBound::ControlGroup(Path::new("/").join(inner));
            let left = left_in(&mount.join(inner), version);
            found.extend(left.map(|bytes| AvailableMemory { bytes, bound: bound() }));
        }
    }
    found
}

/// What a group's limit leaves; `None` when it has none. The first version says "none" by a number beyond any memory.
fn left_in(group: &Path, version: &Version) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = number(version.limit).filter(|&limit| limit < 1 << 60)?;
    let usage = number(version.usage)?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let pages_of_files = stat.lines().filter_map(|line| line.split_once(' ')).filter_map(|(name, value)| {
        version.files.contains(&name).then(|| value.trim().parse::<u64>().ok()).flatten()
    });
    let kept = usage.saturating_sub(pages_of_files.sum());
    Some(limit.saturating_sub(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> Option<AvailableMemory> {
        let root = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        AvailableMemory::under(root.path())
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:  8000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n");

    #[test]
    fn what_the_machine_has() {
        assert_eq!(system(&[]), None);
        assert_eq!(system(&[("proc/meminfo", "MemAvailable: many kB")]), None);
        let found = system(&[MEMINFO]).expect("it says");
        assert_eq!(found, AvailableMemory { bytes: 4000 * 1024, bound: MemoryBound::Machine });
    }

    #[test]
    fn what_groups_of_the_second_version_leave() {
        let group = |limit, extra: &[(&'static str, &'static str)]| {
            let files = [
                MEMINFO,
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/memory.max", "max\n"),
                ("sys/fs/cgroup/a/memory.current", "1\n"),
                ("sys/fs/cgroup/a/b/memory.max", limit),
                ("sys/fs/cgroup/a/b/memory.current", "1000000\n"),
                ("sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 300000\nactive_file 100000\n"),
            ];
            system(&[&files[..], extra].concat()).expect("it says")
        };
        let inner = MemoryBound::ControlGroup("/a/b".into());
        assert_eq!(group("2000000\n", &[]), AvailableMemory { bytes: 1_400_000, bound: inner });
        assert_eq!(group("max\n", &[]).bound, MemoryBound::Machine);
        assert_eq!(group("500000\n", &[]).bytes, 0);
        let outer = group("2000000\n", &[("sys/fs/cgroup/a/memory.max", "1000\n")]);
        assert_eq!(outer, AvailableMemory { bytes: 999, bound: MemoryBound::ControlGroup("/a".into()) });
        // In a container the root of the mount is the group, whatever its path says.
        let contained = system(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/host/path\n"),
            ("sys/fs/cgroup/memory.max", "3000\n"),
            ("sys/fs/cgroup/memory.current", "1000\n"),
        ]);
        assert_eq!(contained.expect("it says").bytes, 2000);
    }

    #[test]
    fn what_groups_of_the_first_version_leave() {
        let group = |limit| {
            system(&[
                MEMINFO,
                ("proc/self/cgroup", "9:cpu:/x\n4:hugetlb,memory:/a\n0::/\n"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", limit),
                ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1000000\n"),
                ("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 400000\n"),
            ])
            .expect("it says")
        };
        assert_eq!(group("2000000\n").bytes, 1_400_000);
        assert_eq!(group("9223372036854771712\n").bound, MemoryBound::Machine);
    }
}
