//! How many threads suit this machine: its physical performance cores.
//!
//! One thread keeps the vector units of a core busy, so a second one on the same core (SMT) gains nothing, and a slow core
//! of a hybrid processor is what the fast ones would wait for at the end of every product.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::path::Path;

/// Numbers of processors in the files read here are below this; a larger one makes a file unusable.
const MAX_CPUS: u32 = 1 << 16;

/// Which files tell the speed of a processor, and how many percent of the fastest one's a performance core has at least.
///
/// `cpu_capacity`, which ARM systems have, is work per time: small cores have 15 to 55 % of it, middle ones 60 % and more.
/// A clock frequency alone understates the difference: efficiency cores reach 65 to 80 % of it with half the vector units,
/// and the performance cores of one processor differ by some percent.
const SPEEDS: [(&str, u64); 2] = [("cpu_capacity", 60), ("cpufreq/cpuinfo_max_freq", 80)];

/// The number of threads to compute with unless told otherwise.
///
/// On Linux these are the physical performance cores the process may run on, at most as many as
/// [`std::thread::available_parallelism`] says (which knows the CPU quota of a container). Performance cores are those
/// that a hybrid Intel processor calls so, else those with at least 60 % of the largest `cpu_capacity`, else those with
/// at least 80 % of the largest maximal frequency, else all. Where the system does not say, it is
/// [`std::thread::available_parallelism`].
pub fn default_threads() -> usize {
    let available = std::thread::available_parallelism().map_or(1, NonZero::get);
    performance_cores(Path::new("/")).map_or(available, |n_cores| n_cores.clamp(1, available))
}

/// The physical performance cores this process may run on, read from `proc` and `sys` under `root`. `None` when
/// something of it is not there or is not understood.
fn performance_cores(root: &Path) -> Option<usize> {
    let cpus = root.join("sys/devices/system/cpu");
    let allowed = allowed(root)?;
    let usable = read_list(&cpus.join("online"))?.intersection(&allowed).copied().collect();
    let mut cores: BTreeSet<u32> = BTreeSet::new();
    for cpu in fast(root, usable) {
        let topology = cpus.join(format!("cpu{cpu}/topology"));
        // The same list under its name since Linux 5.3 and before.
        let siblings =
            ["core_cpus_list", "thread_siblings_list"].iter().find_map(|name| read_list(&topology.join(name)));
        let siblings = siblings.filter(|siblings| siblings.contains(&cpu))?;
        cores.extend(siblings.first());
    }
    Some(cores.len()).filter(|n_cores| *n_cores > 0)
}

/// The processors this process may run on.
fn allowed(root: &Path) -> Option<BTreeSet<u32>> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// Those of `usable` that belong to performance cores.
fn fast(root: &Path, usable: BTreeSet<u32>) -> BTreeSet<u32> {
    // Only there when the processor is a hybrid. A process kept on its other cores uses those.
    if let Some(performance) = read_list(&root.join("sys/devices/cpu_core/cpus")) {
        let fast: BTreeSet<_> = usable.intersection(&performance).copied().collect();
        return if fast.is_empty() { usable } else { fast };
    }
    for (file, percent) in SPEEDS {
        let speed = |cpu: u32| -> Option<u64> {
            let path = root.join(format!("sys/devices/system/cpu/cpu{cpu}/{file}"));
            fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        // Every processor has one or they cannot be compared.
        let speeds: Option<Vec<_>> = usable.iter().map(|cpu| Some((*cpu, speed(*cpu)?))).collect();
        if let Some(speeds) = speeds {
            let largest = speeds.iter().map(|(_, speed)| *speed).max().unwrap_or(0);
            let is_fast = |speed: u64| speed.saturating_mul(100) >= largest.saturating_mul(percent);
            return speeds.into_iter().filter(|(_, speed)| is_fast(*speed)).map(|(cpu, _)| cpu).collect();
        }
    }
    usable
}

fn read_list(path: &Path) -> Option<BTreeSet<u32>> {
    list(&fs::read_to_string(path).ok()?)
}

/// Numbers written as Linux does: `0-3,8`.
fn list(text: &str) -> Option<BTreeSet<u32>> {
    let mut numbers = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MAX_CPUS {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A made-up machine: files under a folder.
    struct Machine(tempfile::TempDir);

    impl Machine {
        /// `allowed` processors of `online` ones; `cores` lists the processors of each core.
        fn new(online: &str, allowed: &str, cores: &[&str]) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.write("sys/devices/system/cpu/online", online);
            machine.write("proc/self/status", &format!("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\n"));
            for siblings in cores {
                for cpu in list(siblings).unwrap() {
                    machine.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"), siblings);
                }
            }
            machine
        }

        fn path(&self, file: &str) -> PathBuf {
            self.0.path().join(file)
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }

        /// Gives the first processors these values, in a file of each.
        fn each(self, file: &str, values: &[&str]) -> Self {
            for (cpu, value) in values.iter().enumerate() {
                self.write(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"), value);
            }
            self
        }

        fn cores(&self) -> Option<usize> {
            performance_cores(self.0.path())
        }
    }

    #[test]
    fn two_threads_of_a_core_count_once() {
        let smt = ["0,4", "1,5", "2,6", "3,7"];
        assert_eq!(Machine::new("0-7", "0-7", &smt).cores(), Some(4));
        // As far as the process may use them.
        assert_eq!(Machine::new("0-7", "0,4-5", &smt).cores(), Some(2));
        assert_eq!(Machine::new("0-3", "0-127", &smt).cores(), Some(4));
        assert_eq!(Machine::new("0", "0", &["0"]).cores(), Some(1));
    }

    #[test]
    fn the_older_name_of_the_list_is_read_too() {
        let machine = Machine::new("0-3", "0-3", &[]);
        let machine = machine.each("topology/thread_siblings_list", &["0-1", "0-1", "2-3", "2-3"]);
        assert_eq!(machine.cores(), Some(2));
    }

    #[test]
    fn efficiency_cores_do_not_count() {
        let hybrid = ["0-1", "2-3", "4", "5", "6", "7"];
        let machine = Machine::new("0-7", "0-7", &hybrid);
        assert_eq!(machine.cores(), Some(6), "nothing tells them apart");
        let frequencies = ["5000000", "5000000", "4900000", "4900000", "3800000", "3800000", "3800000", "3800000"];
        let machine = machine.each("cpufreq/cpuinfo_max_freq", &frequencies);
        assert_eq!(machine.cores(), Some(2));
        // The processor's own word goes before frequencies that are close.
        let machine = machine.each("cpufreq/cpuinfo_max_freq", &["4600000"; 8]);
        assert_eq!(machine.cores(), Some(6));
        machine.write("sys/devices/cpu_core/cpus", "0-3");
        assert_eq!(machine.cores(), Some(2));
        // A process on efficiency cores only uses what it has.
        let machine = Machine::new("0-7", "5-7", &hybrid);
        machine.write("sys/devices/cpu_core/cpus", "0-3");
        assert_eq!(machine.cores(), Some(3));
    }

    #[test]
    fn capacity_goes_before_frequency() {
        let singles = ["0", "1", "2", "3", "4", "5", "6", "7"];
        let capacities = ["250", "250", "250", "250", "700", "700", "700", "1024"];
        let machine = Machine::new("0-7", "0-7", &singles).each("cpu_capacity", &capacities);
        let machine = machine.each("cpufreq/cpuinfo_max_freq", &["2000000"; 8]);
        assert_eq!(machine.cores(), Some(4));
        // One processor without it, and it says nothing.
        fs::remove_file(machine.path("sys/devices/system/cpu/cpu3/cpu_capacity")).unwrap();
        assert_eq!(machine.cores(), Some(8));
    }

    #[test]
    fn what_is_missing_or_garbage_is_no_answer() {
        assert_eq!(performance_cores(tempfile::tempdir().unwrap().path()), None);
        let whole = || Machine::new("0-1", "0-1", &["0", "1"]);
        assert_eq!(whole().cores(), Some(2));
        let broken: [(&str, &[&str]); 3] = [
            ("sys/devices/system/cpu/online", &["", "x", "0-", "0-99999999", "7"]),
            ("proc/self/status", &["", "Cpus_allowed_list:\t", "Cpus_allowed_list:\t0x1"]),
            ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", &["", "-1", "0", "\u{fffd}", "1,a"]),
        ];
        for (file, texts) in broken {
            for text in texts {
                let machine = whole();
                machine.write(file, text);
                assert_eq!(machine.cores(), None, "{file}: {text:?}");
            }
            let machine = whole();
            fs::remove_file(machine.path(file)).unwrap();
            assert_eq!(machine.cores(), None, "no {file}");
        }
        // Speeds that are none are not compared.
        let machine = whole().each("cpufreq/cpuinfo_max_freq", &["fast", "<unknown>"]);
        assert_eq!(machine.cores(), Some(2));
        let machine = whole().each("cpu_capacity", &["0", "0"]);
        assert_eq!(machine.cores(), Some(2));
    }

    #[test]
    fn lists_of_processors() {
        let numbers = |text| list(text).map(|numbers| numbers.into_iter().collect::<Vec<_>>());
        assert_eq!(numbers("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(numbers("\n"), Some(vec![]));
        assert_eq!(numbers("3-1"), Some(vec![]));
        for text in ["a", "1-", "-", "1-2-3", "4294967296", "65536"] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }

    #[test]
    fn there_is_a_default_here() {
        let available = std::thread::available_parallelism().map_or(1, NonZero::get);
        let n_threads = default_threads();
        println!("{n_threads} threads of {available} processors");
        assert!((1..=available).contains(&n_threads));
    }
}
